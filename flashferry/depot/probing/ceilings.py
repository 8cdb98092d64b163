"""What a path and its ends carry at most, before any method is blamed: a bare TCP stream, and both disks.

The stream is sent by a few lines of Python that need nothing of ours at the other end: it listens once, for one
connection, sends or takes so many bytes of zeros, and is gone. No file is in it.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from flashferry.depot.probing.methods import Direction

STREAM = """
import socket,sys,time
role,host,port,size=sys.argv[1],sys.argv[2],int(sys.argv[3]),int(sys.argv[4])
if role[0]=='l':
    l=socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET); l.settimeout(20)
    l.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1); l.bind((host,port)); l.listen(1); s=l.accept()[0]
else:
    for i in range(100):
        try: s=socket.create_connection((host,port),10); break
        except ConnectionRefusedError: time.sleep(0.05)
    else: sys.exit(3)
s.settimeout(60); b=bytearray(1<<20); t=time.monotonic(); n=0
if role[1]=='s':
    while n<size: n+=s.send(memoryview(b)[:size-n])
    s.shutdown(1); s.recv(1)
else:
    while n<size:
        k=s.recv_into(b)
        if not k: break
        n+=k
print(n,time.monotonic()-t)
"""
"""Roles: `ls` listens and sends, `lr` listens and receives, `cs` and `cr` connect."""

_STREAM_S = 90.0
_BLOCK = 1 << 20
_CONNECTS = 3
_DD = re.compile(r"(\d+) bytes .*copied, ([0-9.e+-]+) s")
_LEAST_S = 1e-6


def stream_command(python: str, role: str, host: str, port: int, size_bytes: int) -> list[str]:
    """Return the command of one end of a bare stream."""
    return [python, "-c", STREAM, role, host, str(port), str(size_bytes)]


def bare_tcp(
    prefix: Sequence[str],
    start_far: Callable[[str], None],
    host: str,
    port: int,
    *,
    size_bytes: int,
    direction: Direction,
    far_python: str = "python3",
) -> float | None:
    """Return what a bare TCP stream carries, in bytes per second, by the receiver's clock; None: it came to nothing.

    Args:
        prefix: Words before the command here.
        start_far: Starts a command at the far end.
        host: The far end's address, as seen from here.
        port: A port there that is free, and open to here.
        size_bytes: How much is sent.
        direction: Whereto.
        far_python: Python there.
    """
    listens, connects = ("ls", "cr") if direction == "pull" else ("lr", "cs")
    anyone = "::" if ":" in host else "0.0.0.0"  # noqa: S104 -- one connection, zeros only
    start_far(shlex.join(stream_command(far_python, listens, anyone, port, size_bytes)))
    with suppress(subprocess.TimeoutExpired, OSError):
        words = [*prefix, *stream_command(sys.executable, connects, host, port, size_bytes)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_STREAM_S, check=False)
        count, took_s = done.stdout.split() or ("0", "0")
        if int(count) == size_bytes and float(took_s) > 0:
            return size_bytes / float(took_s)
    return None


def disk_here(folder: Path, size_bytes: int) -> tuple[float, float]:
    """Return what the disk here takes, written and flushed, and what it gives, in bytes per second.

    Raises:
        OSError: The folder cannot be written, or has no room.
    """
    path = folder / f".ferry-probe-disk-{os.getpid()}"
    try:
        wrote_s = _wrote_s(path, max(1, size_bytes // _BLOCK))
        read_s, count = _read_s(path)
        return count / max(wrote_s, _LEAST_S), count / max(read_s, _LEAST_S)
    finally:
        path.unlink(missing_ok=True)


def _wrote_s(path: Path, blocks: int) -> float:
    block, started_s = os.urandom(_BLOCK), time.monotonic()
    with path.open("wb") as out:
        for _ in range(blocks):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return time.monotonic() - started_s


def _read_s(path: Path) -> tuple[float, int]:
    with path.open("rb", buffering=0) as back:
        # What is clean in the cache is dropped, so that it comes from the disk again.
        os.posix_fadvise(back.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started_s, room, count = time.monotonic(), bytearray(_BLOCK), 0
        while got := back.readinto(room):
            count += got
        return time.monotonic() - started_s, count


def rate_by_dd(text: str) -> float | None:
    """Return bytes per second out of the last line of GNU `dd`, of its whole figures; None: there is none."""
    found = _DD.search(text)
    if found is None or float(found[2]) <= 0:
        return None
    return int(found[1]) / float(found[2])


def connect_s(host: str, port: int, *, limit_s: float = 5.0) -> float | None:
    """Return the least time of some TCP connects, which is about a round trip; None: the port is not reached so."""
    found = []
    for _ in range(_CONNECTS):
        started_s = time.monotonic()
        try:
            socket.create_connection((host, port), limit_s).close()
        except OSError:
            return None
        found.append(time.monotonic() - started_s)
    return min(found)
