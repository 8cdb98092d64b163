"""A real Redis as the lab starts it: what it was told outlives it, and strangers are turned away."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from flashferry.lab import broker as module
from flashferry.lab.authority import Authority
from flashferry.lab.broker import Broker, missing_broker
from flashferry.lab.errors import LabError
from flashferry.lab.world import DepotSpec, DeviceSpec, SiteSpec, WorldSpec, in_core, in_depot, start_world
from tests.patience import PATIENCE_S, killed_at_end, until

pytestmark = pytest.mark.soak


def test_what_it_was_told_outlives_a_kill(redis_server: Broker) -> None:
    """After kill -9 it starts again at the same address with what it had answered for, and under another process."""
    first, url = redis_server.pid, redis_server.url
    assert redis_server.ask("RPUSH", "site-a", "order") == b":1\r\n"
    redis_server.kill9()
    assert not redis_server.is_running
    with pytest.raises(OSError, match="refused"):
        redis_server.ask("PING")
    redis_server.start()
    assert redis_server.ask("LRANGE", "site-a", "0", "-1") == b"*1\r\n$5\r\norder\r\n"
    assert redis_server.pid != first
    assert redis_server.url == url


def test_nobody_without_the_password_is_served(redis_server: Broker) -> None:
    """The password is asked for; it is in no command line, and in a file for its owner's eyes only."""
    with socket.create_connection((redis_server.address, redis_server.port)) as stranger:
        stranger.sendall(b"PING\r\n")
        assert stranger.recv(99).startswith(b"-NOAUTH")
    assert redis_server.password not in Path(f"/proc/{redis_server.pid}/cmdline").read_text()
    assert redis_server.password not in repr(redis_server)
    assert (redis_server.folder / "redis.conf").stat().st_mode & 0o077 == 0


def test_with_certificates_it_knows_its_clients(new_redis_server: Callable[..., Broker], tmp_path: Path) -> None:
    """Neither clear text nor TLS without a certificate, or with a stranger's, is answered; its own client is."""
    server = new_redis_server(tls=True)
    assert server.ask("PING") == b"+PONG\r\n"
    assert server.url.startswith("rediss://")
    assert not _is_answered(server, None)
    context = ssl.create_default_context(cafile=str(server.tls.ca))
    assert not _is_answered(server, context)
    stranger = Authority("Stranger").issue_client(tmp_path, "stranger")
    context.load_cert_chain(stranger.certificate, stranger.key)
    assert not _is_answered(server, context)
    context.load_cert_chain(server.tls.client.certificate, server.tls.client.key)
    assert _is_answered(server, context)


def _is_answered(server: Broker, context: ssl.SSLContext | None) -> bool:
    """Tell whether a client gets an answer, be it that it needs a password."""
    try:
        with socket.create_connection((server.address, server.port), PATIENCE_S) as plain:
            if context is None:
                plain.sendall(b"PING\r\n")
                return plain.recv(99) != b""
            with context.wrap_socket(plain, server_hostname=server.address) as connection:
                # TLS 1.3: the client hears that it was refused with its first read.
                connection.sendall(b"PING\r\n")
                return connection.recv(99) != b""
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_wrong_authority_is_found_out(new_redis_server: Callable[..., Broker], tmp_path: Path) -> None:
    """Who trusts somebody else does not talk to it."""
    server = new_redis_server(tls=True)
    (tmp_path / "other.pem").write_text(Authority("Other").pem)
    context = ssl.create_default_context(cafile=str(tmp_path / "other.pem"))
    with (
        socket.create_connection((server.address, server.port), PATIENCE_S) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
        context.wrap_socket(plain, server_hostname=server.address),
    ):
        pass


@pytest.mark.lab
def test_it_runs_in_a_worlds_core(new_redis_server: Callable[..., Broker]) -> None:
    """In front of the WAN: a depot reaches it over its site's link, a cut keeps it away, and this host never does."""
    site = SiteSpec(name="s", profile="lan", devices=(DeviceSpec(name="r1"),), depot=DepotSpec())
    with start_world(WorldSpec(sites=(site,))) as world:
        server = new_redis_server(world=world, tls=True)
        assert (server.address, server.port) == (world.server_address, 6379)
        for where in (in_core(world), in_depot(world, "s")):
            with where, socket.create_connection((server.address, server.port), PATIENCE_S):
                pass
        world.cut("s")
        with in_depot(world, "s"), pytest.raises(TimeoutError):
            socket.create_connection((server.address, server.port), 1)
        assert server.ask("PING") == b"+PONG\r\n"


def test_what_is_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_server: Broker) -> None:
    """Started twice, killed when it is not there, a port that is taken, no program: each in a sentence."""
    with pytest.raises(LabError, match="runs already"):
        redis_server.start()
    other = Broker(folder=tmp_path / "other", port=redis_server.port)
    with pytest.raises(LabError, match=rf"127\.0\.0\.1:{other.port} did not start: .*listen"):
        other.start()
    with pytest.raises(LabError, match="does not run; start it"):
        other.kill9()
    monkeypatch.setattr(module, "PROGRAM", "no-such-server")
    assert "install the distribution's package" in missing_broker()
    with pytest.raises(LabError, match="no-such-server is not installed"):
        other.start()


def test_a_killed_owner_takes_its_broker_along(tmp_path: Path, redis_server: Broker) -> None:
    """After kill -9 of who started it, it ends."""
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from flashferry.lab.broker import Broker
        broker = Broker(folder=Path({str(tmp_path / "owned")!r}))
        broker.start()
        print(broker.pid, flush=True)
        time.sleep(600)
    """)
    with killed_at_end(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    until(lambda: not _is_alive(pid), "the end of the broker")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
