"""The service as a process: begun, ended, and refusing to begin, each in a sentence and with nothing lost."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from contextlib import closing, suppress

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.service.serving import serve
from flashferry.service.settings import LogSettings, ServiceSettings
from flashferry.store.service.database import FILE, SCHEMA_VERSION, ServiceDatabase
from tests.component.service.processes import SERVICE, STREAMING, refused, running
from tests.patience import PATIENCE_S, until


def refusal(state, listen="127.0.0.1:0"):
    """Return in what sentence a service refuses to begin, and that it says what to do."""
    address, _, port = listen.rpartition(":")
    with pytest.raises(ConfigInvalid) as caught:
        serve(state, ServiceSettings(address=address, port=int(port)), report=str)
    assert caught.value.hint
    return str(caught.value)


def asked(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def without_cut_looks(text):
    """Return what a service printed, less the notice of a periodic task that its end cut on a slow machine."""
    said = " was interrupted; what it had not stored"
    return "".join(line for line in text.splitlines(keepends=True) if said not in line)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
def test_it_answers_and_ends(tmp_path, number):
    """Ready with an empty state folder; a signal ends it with 0 and no further word."""
    with running(tmp_path / "state") as service:
        assert asked(f"{service.url}/readyz")["status"] == "ready"
        assert without_cut_looks(service.end(number)) == ""
        assert service.process.returncode == 0


def test_who_starts_it_without_an_admin_is_told(tmp_path):
    """Else nobody could sign in, and nobody would know why; who has roles from outside needs none."""
    command = [*SERVICE, "--state-dir", tmp_path / "state", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert "the service has no admin" in process.stderr.readline()
            assert "the service has no inventory, so jobs on devices are refused" in process.stderr.readline()
        finally:
            process.kill()


def test_who_starts_it_with_an_inventory_that_is_not_there_is_told(tmp_path):
    """It starts nevertheless: the inventory may come later."""
    (tmp_path / "service.toml").write_text('[runs]\ninventory = "/nowhere/fleet"\n')
    (tmp_path / "service.toml").chmod(0o600)
    with running(tmp_path / "state", "--config", tmp_path / "service.toml") as service:
        assert "the inventory /nowhere/fleet does not exist" in service.said


@pytest.mark.soak
def test_it_answers_by_tls(tmp_path):
    """With certificate and key of the configuration; in clear text nothing is answered."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 5 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    words = [*made.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S)
    key.chmod(0o600)
    config = tmp_path / "service.toml"
    config.write_text('[listen]\ncertificate = "cert.pem"\nkey = "key.pem"\n')
    with running(tmp_path / "state", "--config", config) as service:
        assert service.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=certificate)
        with urllib.request.urlopen(f"{service.url}/healthz", timeout=PATIENCE_S, context=trusted) as answer:
            assert json.load(answer) == {"status": "ok"}
        with pytest.raises((urllib.error.URLError, OSError)):
            asked(service.url.replace("https:", "http:"))


def test_a_stream_does_not_hold_its_end(tmp_path):
    """A client that reads on for ever is cut off at SIGTERM, without a trace in the log."""

    def read_on(stream):
        with suppress(OSError, http.client.HTTPException):
            while stream.readline():
                pass

    with running(tmp_path, command=(sys.executable, "-c", STREAMING, "service")) as service:
        with urllib.request.urlopen(f"{service.url}/stream", timeout=PATIENCE_S) as stream:
            assert stream.readline() == b": here\n"
            reading = threading.Thread(target=read_on, args=(stream,))
            reading.start()
            assert without_cut_looks(service.end()) == ""
            reading.join(PATIENCE_S)
            assert not reading.is_alive()
        assert service.process.returncode == 0


def test_a_port_in_use_is_told(tmp_path):
    """In one sentence, before the state folder is touched."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        where = f"127.0.0.1:{other.getsockname()[1]}"
        said = refused("--state-dir", tmp_path / "state", "--listen", where)
    assert "Address already in use" in said
    assert not (tmp_path / "state").exists()


def test_a_socket_is_handed_down(tmp_path):
    """One that somebody else has bound and listens on is served, as from a socket unit; any other file is refused."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, number = listener.getsockname()[1], listener.fileno()
        command = [*SERVICE, "--state-dir", tmp_path / "state", "--listen", f"fd:{number}"]
        with subprocess.Popen(command, pass_fds=[number], stderr=subprocess.PIPE, text=True) as process:
            listener.close()
            try:
                assert asked(f"http://127.0.0.1:{port}/healthz") == {"status": "ok"}
                process.terminate()
                assert process.wait(PATIENCE_S) == 0
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (socket.socket, "one that is not listening"),
        (lambda: socket.socket(type=socket.SOCK_DGRAM), "a socket of another kind"),
        (lambda: socket.create_server(("0.0.0.0", 0)), "expected a certificate"),
        (tempfile.TemporaryFile, "none: Socket operation on non-socket"),
    ],
)
def test_what_is_handed_down_is_looked_at(tmp_path, made, found):
    """A file, a socket of another kind or not listened on, and one that others reach without TLS, in one sentence."""
    with made() as handed, pytest.raises(ConfigInvalid, match=found):
        serve(tmp_path / "state", ServiceSettings(), report=print, handed=os.dup(handed.fileno()))
    assert not (tmp_path / "state").exists()


@pytest.mark.soak
def test_one_service_has_a_state_folder(tmp_path):
    """A second one is refused, and the first goes on; killed, it leaves nothing that holds the next."""
    with running(tmp_path) as service:
        assert "another service is running in it" in refusal(tmp_path)
        assert "another service is running in it" in refusal(tmp_path, service.url.removeprefix("http://"))
        assert asked(f"{service.url}/healthz") == {"status": "ok"}
        service.process.kill()
    with running(tmp_path) as service:
        assert asked(f"{service.url}/healthz") == {"status": "ok"}


def test_a_database_of_a_newer_release_is_left_alone(tmp_path):
    """Told in one sentence; not a byte of it changes."""
    ServiceDatabase(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (tmp_path / FILE).read_bytes()
    said = refusal(tmp_path)
    told = f"was written by another flashferry: expected schema {SCHEMA_VERSION}, found schema {SCHEMA_VERSION + 1}"
    assert f"{told}. Start the flashferry that wrote it" in said
    assert (tmp_path / FILE).read_bytes() == before


def test_a_damaged_database_is_told(tmp_path):
    """What is no database is left as it is."""
    (tmp_path / FILE).write_text("no database, but long enough to be taken for one" * 100)
    assert "is damaged" in refusal(tmp_path)


def test_a_state_folder_that_cannot_be_used_is_told(tmp_path):
    """A file in its place, a folder that others may write, a link in the database's place."""
    (tmp_path / "file").write_text("")
    assert "cannot be used" in refusal(tmp_path / "file")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "chmod go-w" in refusal(tmp_path / "open")
    (tmp_path / "linked").mkdir(mode=0o700)
    (tmp_path / "linked" / FILE).symlink_to(tmp_path / "file")
    assert "found a link" in refusal(tmp_path / "linked")


def test_passwords_do_not_cross_a_network_by_an_oversight(tmp_path):
    """Beyond loopback it wants a certificate, or a proxy that is named."""
    assert "expected a certificate, or a proxy" in refusal(tmp_path, "0.0.0.0:0")


def test_its_log_is_rotated_while_it_serves(tmp_path):
    """Its owner's alone; the file that was moved away gets no further line, and no token is in either."""
    path, config = tmp_path / "service.log", tmp_path / "service.toml"
    config.write_text('[log]\nfile = "service.log"\nformat = "json"\naccess = true\n')

    def seen(name: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]

    with running(tmp_path / "state", "--config", config) as service:
        asked(f"{service.url}/healthz?token=ffy_s3cret")
        # Told once it is over, which is behind its last byte.
        until(lambda: "/healthz" in path.read_text(), "the line of the request")
        path.rename(tmp_path / "service.log.1")
        headers = {"Authorization": "Bearer ffy_s3cret", "Cookie": "__Host-flashferry=s3cret"}
        request = urllib.request.Request(f"{service.url}/ffy_s3cret/%0aforged", headers=headers)
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=PATIENCE_S)
        # On a busy machine a background look may be cut, which is reported.
        assert [
            line for line in service.end().splitlines() if " was interrupted; what it had not stored" not in line
        ] == []
    before = [(one["logger"], one.get("path"), one.get("status")) for one in seen("service.log.1")]
    assert ("flashferry.service.access", "/healthz", 200) in before
    assert seen("service.log.1")[0]["text"] == f"the service answers at {service.url}/"
    after = seen("service.log")
    assert ("/ffy_***/%0Aforged", 404) in [(one.get("path"), one.get("status")) for one in after]
    assert after[-1]["text"] == "the service has ended"
    assert "s3cret" not in path.read_text() + (tmp_path / "service.log.1").read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_opened_is_refused(tmp_path):
    """In a sentence, before the state folder is touched."""
    settings = ServiceSettings(port=0, log=LogSettings(file=tmp_path / "nowhere" / "service.log"))
    with pytest.raises(ConfigInvalid, match=r"service\.log: cannot be opened: No such file or directory") as caught:
        serve(tmp_path / "state", settings, report=str)
    assert caught.value.hint
    assert not (tmp_path / "state").exists()
