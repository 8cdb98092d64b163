"""A Redis of the distribution's, for as long as a benchmark or a test lasts: killed and started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAM = "redis-server"
_STARTS_WITHIN_S = 15.0


def redis_is_here() -> bool:
    """Return whether the distribution's Redis is installed."""
    return shutil.which(PROGRAM) is not None


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class RedisServer:
    """One Redis that writes each change to its disk before it answers.

    Args:
        folder: Where it keeps its log of writes.
        port: Where it listens.
        address: The same; elsewhere than on loopback it asks nobody for a password.
    """

    def __init__(self, folder: Path, port: int, address: str = "127.0.0.1") -> None:
        self.folder, self.port, self.address = folder, port, address
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return how it is reached."""
        return f"redis://{self.address}:{self.port}/0"

    @property
    def pid(self) -> int:
        """Return its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers; what it had written before is there again."""
        words = ["--port", str(self.port), "--bind", self.address, "--protected-mode", "no", "--dir", str(self.folder)]
        words += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"]
        self._process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until_s = time.monotonic() + _STARTS_WITHIN_S
        while not self._answers():
            if time.monotonic() > until_s or self._process.poll() is not None:
                raise RuntimeError(f"{PROGRAM} did not start on port {self.port}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((self.address, self.port), timeout=1.0) as one:
            one.sendall(b"PING\r\n")
            return one.recv(16).startswith(b"+PONG")
        return False


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """Run a Redis for the time of a block."""
    server = RedisServer(folder, free_port())
    server.start()
    try:
        yield server
    finally:
        server.kill()
