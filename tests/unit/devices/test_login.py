"""Why no session came about: told in words and for programs, by what sockets really do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashferry.devices.errors import DeviceUnreachable
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.login import Cause, Login, open_driver, unreached
from flashferry.model.record import failure_of
from inventory.host_key_rules import HostKeyPolicy
from tests.patience import PATIENCE_S


def attempt(folder: Path, address: str, port: int, **options: object) -> DeviceUnreachable:
    """Return the error of a login that comes to nothing."""
    keys = HostKeys(path=folder / "known_hosts", policy=HostKeyPolicy.ACCEPT_NEW, device="r1")
    login = Login(
        name="r1",
        address=address,
        port=port,
        username="u",
        password="p",
        enable_secret=None,
        host_keys=keys,
        optional_args=dict(options),
    )
    with pytest.raises(DeviceUnreachable) as caught:
        open_driver(login)
    return caught.value


@contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """Yield the port of a server that says so much to each client and hangs up; None keeps silent and keeps it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                kept.append(client)
                if answer is not None:
                    client.sendall(answer)
                    client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in kept:
                one.close()


def test_a_refused_connection(tmp_path: Path) -> None:
    """Nobody listens there: the sentence says so, the hint what it may be, the failure's JSON has the cause."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = attempt(tmp_path, "127.0.0.1", port)
    assert error.message == f"no SSH session with 127.0.0.1 port {port} could be opened: the connection was refused"
    assert "all vty lines are in use" in str(error.hint)
    failure = failure_of("connect", error)
    assert (failure.kind, failure.cause) == ("DeviceUnreachable", "refused")


def test_a_name_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever words the system says it; nothing is asked of a network here."""

    def unknown(*_given: object, **_more: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "nom inconnu")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = attempt(tmp_path, "r1.example.net", 22)
    assert (error.cause, "could not be resolved" in error.message) == ("name not resolved", True)
    assert "DNS" in str(error.hint)


@pytest.mark.parametrize(("answer", "cause"), [(b"", "no ssh"), (b"hello\r\n" * 9, "no ssh")])
def test_a_port_that_is_no_ssh_server(tmp_path: Path, answer: bytes, cause: str) -> None:
    """Somebody else's port, or a router that has no line free and hangs up."""
    with listening(answer) as port:
        error = attempt(tmp_path, "127.0.0.1", port, banner_timeout=PATIENCE_S)
    assert error.cause == cause


def test_a_server_that_never_says_a_word(tmp_path: Path) -> None:
    """The port is open: that is no missing route and no firewall."""
    with listening(None) as port:
        assert attempt(tmp_path, "127.0.0.1", port, banner_timeout=1).cause == "no ssh"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (TimeoutError("timed out"), Cause.TIMEOUT),
        (OSError(113, "No route to host"), Cause.NO_ROUTE),
        (OSError(101, "Network is unreachable"), Cause.NO_ROUTE),
        (ConnectionResetError(104, "reset"), Cause.CLOSED),
        (EOFError(), Cause.CLOSED),
        (ValueError("something else"), Cause.UNKNOWN),
    ],
)
def test_the_cause_is_found_below_what_libraries_make_of_it(error: Exception, cause: Cause) -> None:
    """However deep it lies; what is not known is not named."""
    try:
        try:
            raise error
        except Exception:  # noqa: BLE001 -- any of them
            raise RuntimeError("TCP connection to device failed.")  # noqa: B904 -- as libraries do
    except RuntimeError as outer:
        found = unreached(outer)
    assert found.cause is cause
    assert bool(found.words) is (cause is not Cause.UNKNOWN)
    assert found.hint


def test_what_paramiko_gathers_of_all_addresses_is_looked_into() -> None:
    """It is one error with one per address in it."""
    from paramiko.ssh_exception import NoValidConnectionsError

    gathered = NoValidConnectionsError({("192.0.2.1", 22): ConnectionRefusedError(111, "refused")})
    assert unreached(gathered).cause is Cause.REFUSED
