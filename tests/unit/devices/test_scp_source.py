"""Sending a file to a device's SCP server: every answer is heeded, and its last byte is the delivery."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.devices.scp_source import ScpRefused, ScpSource, connected, path_on
from tests.patience import PATIENCE_S


class Channel:
    """Answers each thing that is sent with the next of its words."""

    def __init__(self, *words: bytes, window: int = 10**9) -> None:
        self.words, self.sent = list(words), bytearray()
        self.command = ""
        self.out_window_size = window

    def settimeout(self, seconds: float | None) -> None:
        pass

    def exec_command(self, command: str) -> None:
        self.command = command

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    sendall = send

    def recv(self, most: int) -> bytes:
        if not self.words:
            return b""
        word, rest = self.words[0][:most], self.words[0][most:]
        self.words = [rest, *self.words[1:]] if rest else self.words[1:]
        return word

    def recv_ready(self) -> bool:
        return bool(self.words)

    def recv_stderr_ready(self) -> bool:
        return False


def source_of(channel: Channel) -> ScpSource:
    transport = SimpleNamespace(open_session=lambda: channel)
    client = SimpleNamespace(get_transport=lambda: transport, close=lambda: None)
    return ScpSource(client=client, socket=None)


@pytest.fixture
def image(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "image.bin"
    path.write_bytes(b"x" * 100_000)
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_a_file_goes_over_as_scp_has_it(image: int) -> None:
    """The command, the line with mode, size and name, the bytes, and a byte of ours behind them."""
    channel = Channel(b"\0", b"\0", b"\0")
    source, counted = source_of(channel), []
    source.start("flash:/image.bin", limit_s=PATIENCE_S)
    source.announce("image.bin", 100_000)
    source.send(image, 100_000, counted.append, end_s=PATIENCE_S)
    assert channel.command == "scp -t flash:/image.bin"
    assert bytes(channel.sent) == b"C0644 100000 image.bin\n" + b"x" * 100_000 + b"\0"
    assert sum(counted) == 100_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((b"\1Administratively disabled.\n",), "Administratively disabled."),
        ((b"\2Privilege denied.\n",), "Privilege denied."),
        ((b"Administratively disabled.\n",), "Administratively disabled."),
        ((b"\1",), "no reason given"),
    ],
)
def test_a_server_that_says_no_is_quoted(words: tuple[bytes, ...], said: str) -> None:
    """With its byte or without, with a line or without: nothing was announced."""
    channel = Channel(*words)
    with pytest.raises(ScpRefused, match=said.replace(".", r"\.")):
        source_of(channel).start("flash:/image.bin", limit_s=PATIENCE_S)
    assert not channel.sent


def test_no_room_behind_the_last_byte_is_no_delivery(image: int) -> None:
    """The device's last word counts, not that all was sent."""
    source = source_of(Channel(b"\0", b"\0", b"\1No space left on device\n"))
    source.start("flash:/image.bin", limit_s=PATIENCE_S)
    source.announce("image.bin", 100_000)
    with pytest.raises(ScpRefused, match="No space left"):
        source.send(image, 100_000, lambda _: None, end_s=PATIENCE_S)


def test_a_channel_that_ends_without_a_word_is_no_delivery(image: int) -> None:
    """A close where the answer should be is a lost connection."""
    source = source_of(Channel(b"\0", b"\0"))
    source.start("flash:/image.bin", limit_s=PATIENCE_S)
    source.announce("image.bin", 100_000)
    with pytest.raises(EOFError):
        source.send(image, 100_000, lambda _: None, end_s=PATIENCE_S)


def test_a_file_that_shrank_is_not_filled_up(image: int) -> None:
    """Fewer bytes than were announced: nothing else is sent in their place, and the end byte is not."""
    channel = Channel(b"\0", b"\0", b"\0")
    source = source_of(channel)
    source.start("flash:/image.bin", limit_s=PATIENCE_S)
    source.announce("image.bin", 200_000)
    with pytest.raises(ValueError, match="shrank"):
        source.send(image, 200_000, lambda _: None, end_s=PATIENCE_S)
    assert not channel.sent.endswith(b"\0")


def test_what_waits_for_the_devices_window_is_told_apart_from_what_waits_for_the_socket() -> None:
    """Only where the window has no room left does anything wait in the channel; the largest window seen is kept."""
    channel = Channel(b"\0", window=8192)
    source = source_of(channel)
    assert source.channel() is None
    source.start("flash:/image.bin", limit_s=PATIENCE_S)
    source._waiting_bytes = 30_000
    assert source.channel().waiting_bytes == 0
    channel.out_window_size = 0
    seen = source.channel()
    assert (seen.waiting_bytes, seen.window_bytes) == (30_000, 8192)


@pytest.mark.parametrize(
    ("target", "path"), [("flash:a.bin", "flash:/a.bin"), ("bootflash:/a.bin", "bootflash:/a.bin")]
)
def test_a_target_is_named_as_scp_clients_name_it(target: str, path: str) -> None:
    """A slash behind the file system, once."""
    assert path_on(target) == path


def test_the_connection_is_prepared_before_it_opens_and_sends_at_once() -> None:
    """What began paced stays so; a small piece that waits for an acknowledgement would cost a quarter of the rate."""
    prepared: list[bool] = []

    def prepare(connection: socket.socket) -> None:
        with pytest.raises(OSError):  # noqa: PT011 -- it is not connected yet
            connection.getpeername()
        prepared.append(True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        options = {"hostname": place[0], "port": place[1], "timeout": 7.0}
        with connected(options, prepare) as connection:
            assert (connection.getpeername(), connection.gettimeout()) == (place, 7.0)
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert prepared == [True]


def test_nobody_at_the_port_is_told_as_the_kernel_tells_it() -> None:
    """The error has its number, by which it is put into words."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        connected({"hostname": "127.0.0.1", "port": port}, lambda _: None)
