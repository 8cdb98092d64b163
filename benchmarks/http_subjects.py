"""The servers of HTTP and HTTPS under measurement, beside our own FTP: each alone in a process, on loopback."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.subjects import HOST, WITH_SBIN, Ours, Subject, SubjectProcess, free_port
from flashferry.fileserver import ListenerSettings
from flashferry.httpserver import http_listener, https_listener

NGINX = "nginx"


class OursByHttp(Ours):
    """flashferry's server by HTTP."""

    name = "flashferry http"
    scheme = "http"

    def listener(self) -> ListenerSettings:
        """Return what it listens with."""
        return http_listener(listen_address=HOST)


class OursByHttps(Ours):
    """The same by HTTPS."""

    name = "flashferry https"
    scheme = "https"

    def listener(self) -> ListenerSettings:
        """Return what it listens with."""
        certificate, key = certificate_in(self.directory.parent)
        return https_listener(listen_address=HOST, certificate=certificate, key=key)


class OursByFtp(Ours):
    """The same by FTP, for comparison."""

    name = "flashferry ftp"
    scheme = "ftp"


class Nginx(SubjectProcess):
    """nginx of the distribution with one worker and sendfile, under a configuration of its own, in the foreground."""

    name = "nginx http"
    scheme = "http"
    resting_descendants = 2

    def __init__(self, directory: Path) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="ferry-nginx-")
        scratch = Path(self._scratch.name)
        scratch.chmod(0o755)
        self.port = free_port()
        configuration = scratch / "nginx.conf"
        certificate, key = certificate_in(directory.parent)
        configuration.write_text(nginx_configuration(directory, scratch, self.port, self.scheme, certificate, key))
        super().__init__([str(shutil.which(NGINX, path=WITH_SBIN)), "-p", str(scratch), "-c", str(configuration)])
        self.await_port(NGINX)

    def close(self) -> None:
        """Stop it, and remove its configuration."""
        super().close()
        self._scratch.cleanup()


class NginxByHttps(Nginx):
    """The same by HTTPS."""

    name = "nginx https"
    scheme = "https"


def nginx_configuration(directory: Path, scratch: Path, port: int, scheme: str, certificate: Path, key: Path) -> str:
    """Return a configuration of nginx: one worker as we have one process, sendfile, no log."""
    tls = f"ssl_certificate {certificate}; ssl_certificate_key {key};" if scheme == "https" else ""
    return f"""
daemon off; worker_processes 1; pid {scratch}/pid; error_log /dev/null; user root;
events {{ worker_connections 4096; }}
http {{
  sendfile on; tcp_nopush on; access_log off; default_type application/octet-stream;
  client_body_temp_path {scratch}/b; proxy_temp_path {scratch}/p; fastcgi_temp_path {scratch}/f;
  uwsgi_temp_path {scratch}/u; scgi_temp_path {scratch}/s;
  server {{ listen {HOST}:{port}{" ssl" if scheme == "https" else ""}; root {directory}; {tls} }}
}}
"""


def certificate_in(folder: Path) -> tuple[Path, Path]:
    """Return the certificate and key of a folder; they are made there once."""
    found = folder / "bench.pem", folder / "bench.key"
    if not found[0].exists():
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", "/CN=bench"]
        command += ["-addext", f"subjectAltName=IP:{HOST}", "-out", str(found[0]), "-keyout", str(found[1])]
        subprocess.run(command, capture_output=True, check=True)
        found[1].chmod(0o600)
    return found


def available() -> "tuple[dict[str, Callable[[Path], Subject]], list[str]]":
    """Return the servers that can be measured here, and a notice for each that cannot."""
    makers: dict[str, Callable[[Path], Subject]] = {kind.name: kind for kind in (OursByHttp, OursByFtp)}
    by_tls: dict[str, Callable[[Path], Subject]] = {OursByHttps.name: OursByHttps}
    if shutil.which(NGINX, path=WITH_SBIN) is None:
        return {**makers, **by_tls}, ["nginx is not installed and was left out; install it (apt install nginx-light)"]
    return {**makers, Nginx.name: Nginx, **by_tls, NginxByHttps.name: NginxByHttps}, []


def nginx_version() -> str:
    """Return the version of nginx; empty where it is not installed."""
    path = shutil.which(NGINX, path=WITH_SBIN)
    if path is None:
        return ""
    shown = subprocess.run([path, "-v"], capture_output=True, text=True, timeout=5, check=False)
    return shown.stderr.strip().rpartition("/")[2]
