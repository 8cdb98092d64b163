"""Output that never blocks: what cannot be written stops nothing, and is reported once."""

from __future__ import annotations

import fcntl
import os
import threading

import pytest

from flashferry.cli.terminal import nonblocking_output as module
from flashferry.cli.terminal.nonblocking_output import NonblockingStream


@pytest.fixture
def was_reported() -> list[str]:
    return []


def test_what_is_written_arrives_in_order(was_reported):
    """All of it, and nothing is said."""
    reading, writing = os.pipe()
    sink = NonblockingStream(writing, "it", was_reported.append)
    lines = [b"line %d\n" % number for number in range(5000)]
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.extend(iter(lambda: os.read(reading, 65536), b"")))
    reader.start()
    for line in lines:
        sink.write(line)
    sink.finish()
    os.close(writing)
    reader.join()
    os.close(reading)
    assert b"".join(parts) == b"".join(lines)
    assert (sink.is_whole, was_reported) == (True, [])


def test_a_full_disk_is_told_once(was_reported):
    """However much is lost; the reader of the exit code learns of it too."""
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        sink = NonblockingStream(full.fileno(), "it", was_reported.append)
        for _ in range(100):
            sink.write(b"x\n")
        sink.finish()
    assert was_reported == ["it: No space left on device; copies go on, what is not written is left out"]
    assert not sink.is_whole


def test_a_reader_that_left_is_no_loss(was_reported):
    """As with `head`: it is reported, and nothing is missing that was asked for."""
    reading, writing = os.pipe()
    os.close(reading)
    sink = NonblockingStream(writing, "it", was_reported.append)
    for _ in range(100):
        sink.write(b"x\n")
    sink.finish()
    os.close(writing)
    assert was_reported == ["it: Broken pipe; copies go on, what is not written is left out"]
    assert sink.is_whole


def test_what_nobody_reads_is_bounded_and_told(was_reported, monkeypatch):
    """Neither writing nor finishing waits for a reader; the queue does not grow without end."""
    monkeypatch.setattr(module, "MOST_QUEUED_BYTES", 10_000)
    monkeypatch.setattr(module, "FLUSH_S", 0.1)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    sink = NonblockingStream(writing, "it", was_reported.append)
    for _ in range(1000):
        sink.write(b"x" * 1000)
    assert sink._queued_bytes <= 10_000
    sink.finish()
    assert was_reported == ["it: it is not read; copies go on, what is not written is left out"]
    assert not sink.is_whole
    os.close(reading)  # the writer ends: its pipe is broken
    sink._writer.join()
    os.close(writing)


def test_it_flows_again_when_there_is_room(was_reported, tmp_path, monkeypatch):
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
        sink = NonblockingStream(file.fileno(), "it", was_reported.append)
        sink.write(b"half a line\n")
        while not was_reported:
            pass
        full[0] = False
        sink.write(b"whole\n")
        sink.finish()
    assert path.read_bytes() == b"half \nwhole\n"
    assert was_reported[1:] == ["it is written again; what came in between is left out"]
