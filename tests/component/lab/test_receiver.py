"""Copies whose process reads at its own pace, by the model of a receiver profile."""

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.standin.receiver import PUBLISHED, PacedReceiver, ReceiverFigures
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from tests.patience import PATIENCE_S

FIGURES = ReceiverFigures(buffer_bytes=16_384, reads_bytes_per_s=2e6, block_bytes=65_536, write_s=0.01)
CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the two ends of a TCP connection: the sender's and the receiver's."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        with theirs:
            yield theirs, ours


@pytest.mark.parametrize("window_bytes", [16_384, 2_500_000])
def test_a_file_comes_whole_whatever_the_buffer(ends: tuple[socket.socket, socket.socket], window_bytes: int) -> None:
    """Every byte is handed on once and in order, from a buffer in the kernel alone and from one beyond it."""
    sender, receiver = ends
    got = bytearray()

    def send() -> None:
        sender.sendall(CONTENT)
        sender.close()

    thread = threading.Thread(target=send)
    thread.start()
    PacedReceiver(receiver, window_bytes, FIGURES).receive(threading.Event(), got.extend, PATIENCE_S)
    thread.join()
    assert bytes(got) == CONTENT


def test_a_broken_connection_is_no_end_of_file(ends: tuple[socket.socket, socket.socket]) -> None:
    """A reset after the first bytes raises, so that a short file is not taken for a whole one."""
    sender, receiver = ends

    def took(_chunk: bytes) -> None:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sender.close()

    sender.sendall(b"x")
    with pytest.raises(ConnectionResetError):
        PacedReceiver(receiver, 16_384, FIGURES).receive(threading.Event(), took, PATIENCE_S)


def test_a_silent_server_is_given_up(ends: tuple[socket.socket, socket.socket]) -> None:
    """Without a byte the receiver's patience ends."""
    with pytest.raises(TimeoutError):
        PacedReceiver(ends[1], 16_384, FIGURES).receive(threading.Event(), lambda _: None, 0.01)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=(DeviceSpec(name="r1", receiver=PUBLISHED),))) as started:
        yield started


@pytest.mark.lab
def test_a_router_of_the_published_profile_has_the_file(connection: Any, ftp: Any, copy: Any, world: World) -> None:
    """A copy to flash goes through the model and leaves the very bytes."""
    content = ftp.add("image.bin", 300_000)
    shown = copy(connection, f"copy {ftp.url('image.bin')} flash:image.bin", (r"\]\? ", "\n"))
    assert "300000 bytes copied" in shown
    assert next(file for file in world.files("r1") if file.name == "image.bin").path.read_bytes() == content
