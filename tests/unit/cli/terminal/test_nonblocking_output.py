"""Output behind its users' backs: what cannot be written stops nobody, and is told once."""

from __future__ import annotations

import fcntl
import os
import threading

import pytest

from flashferry.cli.terminal import nonblocking_output as outlet_module
from flashferry.cli.terminal.nonblocking_output import Outlet


@pytest.fixture
def told() -> list[str]:
    return []


def test_what_is_written_arrives_in_order(told):
    """All of it, and nothing is said."""
    reading, writing = os.pipe()
    outlet = Outlet(writing, "it", told.append)
    lines = [b"line %d\n" % number for number in range(5000)]
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.extend(iter(lambda: os.read(reading, 65536), b"")))
    reader.start()
    for line in lines:
        outlet.write(line)
    outlet.finish()
    os.close(writing)
    reader.join()
    os.close(reading)
    assert b"".join(parts) == b"".join(lines)
    assert (outlet.is_whole, told) == (True, [])


def test_a_full_disk_is_told_once(told):
    """However much is lost; the reader of the exit code learns of it too."""
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        outlet = Outlet(full.fileno(), "it", told.append)
        for _ in range(100):
            outlet.write(b"x\n")
        outlet.finish()
    assert told == ["it: No space left on device; copies go on, what is not written is left out"]
    assert not outlet.is_whole


def test_a_reader_that_left_is_no_loss(told):
    """As with `head`: it is told, and nothing is missing that anybody wanted."""
    reading, writing = os.pipe()
    os.close(reading)
    outlet = Outlet(writing, "it", told.append)
    for _ in range(100):
        outlet.write(b"x\n")
    outlet.finish()
    os.close(writing)
    assert told == ["it: Broken pipe; copies go on, what is not written is left out"]
    assert outlet.is_whole


def test_what_nobody_reads_is_bounded_and_told(told, monkeypatch):
    """Neither writing nor finishing waits for a reader; the queue does not grow without end."""
    monkeypatch.setattr(outlet_module, "MOST_QUEUED_BYTES", 10_000)
    monkeypatch.setattr(outlet_module, "LAST_WORDS_S", 0.1)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    outlet = Outlet(writing, "it", told.append)
    for _ in range(1000):
        outlet.write(b"x" * 1000)
    assert outlet._queued_bytes <= 10_000
    outlet.finish()
    assert told == ["it: nobody reads it; copies go on, what is not written is left out"]
    assert not outlet.is_whole
    os.close(reading)  # the writer ends: its pipe is broken
    outlet._writer.join()
    os.close(writing)


def test_it_flows_again_when_there_is_room(told, tmp_path, monkeypatch):
    """A line that was cut in the middle does not run into the next one."""
    path, full = tmp_path / "log", [True]
    real = os.write

    def write(descriptor: int, data: memoryview) -> int:
        if descriptor == file.fileno() and full[0] and bytes(data) != b"half ":
            if bytes(data).startswith(b"half "):
                return real(descriptor, data[:5])
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    with path.open("wb", buffering=0) as file:
        monkeypatch.setattr(os, "write", write)
        outlet = Outlet(file.fileno(), "it", told.append)
        outlet.write(b"half a line\n")
        while not told:
            pass
        full[0] = False
        outlet.write(b"whole\n")
        outlet.finish()
    assert path.read_bytes() == b"half \nwhole\n"
    assert told[1:] == ["it is written again; what came in between is left out"]
