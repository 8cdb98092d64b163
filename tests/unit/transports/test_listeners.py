"""The port where none was given."""

from __future__ import annotations

import socket

import pytest

from flashferry.fileserver import FileServer, FileServerError, ServerSettings
from flashferry.fileserver.errors import ServerStartFailed
from flashferry.transports import listeners as module
from flashferry.transports import transport_named
from flashferry.transports.transport import ListenOptions


@pytest.mark.parametrize(
    ("taken", "port", "sentence"),
    [
        ((), 21, None),
        ((21,), 2121, "port 21 is not to be had, listening on 2121; "),
        ((21, 2121), 2122, "ports 21 and 2121 are not to be had, listening on 2122; "),
        ((21, 2121, 2122), 2123, "ports 21 and 2121 are not to be had, listening on 2123; "),
    ],
)
def test_the_first_free_port_is_taken_and_told(monkeypatch, taken, port, sentence):
    """Close to 2121, so that a firewall's rule can cover it; what old IOS may not take is told with it."""
    monkeypatch.setattr(module, "may_bind", lambda one: "in use" if one in taken else "")
    assert module.free_port() == port
    told = module.port_notice(port)
    assert told is None if sentence is None else told.startswith(sentence) and "old IOS may not take a port" in told


def test_where_all_are_taken_any_is_free(monkeypatch):
    """The last resort, told with the one that it became."""
    monkeypatch.setattr(module, "may_bind", lambda one: "in use")
    assert module.free_port() == 0
    assert module.port_notice(41234).startswith(
        "port 21 and those from 2121 to 2130 are not to be had, listening on 41234"
    )


@pytest.mark.parametrize(
    ("served", "taken", "message", "hint"),
    [
        (("ftp",), "ftp", "cannot listen on 127.0.0.1 port {}: Address", "Stop its owner or choose another port"),
        (("ftp", "http"), "ftp", "cannot listen on 127.0.0.1 port {} for FTP: Address", "with --port, such as 2121"),
        (("ftp", "http"), "http", "cannot listen on 127.0.0.1 port {} for HTTP: Address", "--http-port, such as 8080"),
        (("http",), "http", "cannot listen on 127.0.0.1 port {} for HTTP: Address", "--http-port, such as 8080"),
    ],
)
def test_a_port_in_use_says_for_what_it_was_and_how_to_give_another(tmp_path, served, taken, message, hint):
    """Where FTP alone is served there is nothing to tell apart."""
    (tmp_path / "x.bin").write_bytes(b"image")
    transports = tuple(map(transport_named, served))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = {one.listener_name: port if one.name == taken else 0 for one in transports}
        settings = ServerSettings(
            image_paths=(tmp_path,),
            listeners=module.listeners_at(transports, ListenOptions(address="127.0.0.1"), ports=ports),
        )
        with pytest.raises(FileServerError) as raised, FileServer(settings):
            pass
    found = module.listening_error(raised.value, transports)
    assert found.message.startswith(message.format(port))
    assert hint in found.hint


def test_a_right_that_is_missing_is_told_with_the_port_of_that_transport():
    """It said to use 2121, whatever was to be served."""
    error = ServerStartFailed("cannot listen on 0.0.0.0 port 80: Permission denied", hint="use 2121", needs_right=True)
    error.transports = ("http",)
    found = module.listening_error(error, map(transport_named, ("ftp", "http")))
    assert found.message == "cannot listen on 0.0.0.0 port 80 for HTTP: Permission denied"
    assert found.hint == (
        "Ports below 1024 take root or CAP_NET_BIND_SERVICE. Give another port with --http-port, such as 8080"
    )
