"""A world of many routers with an eye on their flash, for benchmarks of whole runs."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from flashferry.lab.world import World

_STAMPS = ("! Last configuration change at", "! NVRAM config last updated")
_LOOK_S = 0.2
_TAKEN_BACK_S = 2.0
"""Within so long a device has dropped what a copy left that broke at its very end: all bytes there, and no 226 or no
session. Nobody else is as quick: a controller has to log in first, and to see the same size twice."""


def configurations(world: World) -> dict[str, tuple[str, ...]]:
    """Return running and startup configuration of every device, seen behind its back, without time stamps."""
    found = {}
    for device in world.devices:
        text = f"{world.running_config(device.name)}\n{world.startup_config(device.name)}"
        found[device.name] = tuple(line.rstrip() for line in text.splitlines() if not line.startswith(_STAMPS))
    return found


@dataclass(slots=True)
class _Seen:
    """What was last seen of a file, and how often it was whole."""

    path: Path
    size_bytes: int = 0
    whole: int = 0
    begun: int = 0
    taken_back: int = 0
    whole_since_s: float = 0.0


@dataclass(slots=True)
class FlashWatch:
    """Counts how often an image became whole on each device's flash, by looking at the files themselves.

    A copy that begins empties the file, and takes seconds: one that was missed would have had to fit in between two
    looks.

    Args:
        world: The world.
        image: The image.
        look_s: How long it waits between two looks; a copy takes longer.
    """

    world: World
    image: Path
    look_s: float = _LOOK_S
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        for device in self.world.devices:
            folder = self.world.files(device.name)[0].path.parent
            self._seen[device.name] = _Seen(folder / self.image.name)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def whole(self) -> dict[str, int]:
        """Return how often each device's file became whole and stayed."""
        return {name: seen.whole - seen.taken_back for name, seen in self._seen.items()}

    def taken_back(self) -> int:
        """Return how many whole files the devices themselves dropped, for the copy had broken behind the last byte."""
        return sum(seen.taken_back for seen in self._seen.values())

    def begun(self) -> int:
        """Return how many copies began on all devices together."""
        return sum(seen.begun for seen in self._seen.values())

    def stand(self) -> tuple[int, int]:
        """Return how many devices hold a part of the image now, and how many the whole."""
        whole_bytes = self.image.stat().st_size
        sizes = [seen.size_bytes for seen in self._seen.values()]
        return sum(0 < size < whole_bytes for size in sizes), sum(size == whole_bytes for size in sizes)

    def wrong(self) -> list[str]:
        """Return the devices whose file is not the image."""
        wanted = hashlib.sha512(self.image.read_bytes()).digest()
        return [
            name
            for name, seen in self._seen.items()
            if not seen.path.exists() or hashlib.sha512(seen.path.read_bytes()).digest() != wanted
        ]

    def _look(self) -> None:
        whole_bytes = self.image.stat().st_size
        while not self._stop.wait(self.look_s):
            for seen in self._seen.values():
                with contextlib.suppress(FileNotFoundError):
                    size = seen.path.stat().st_size
                    seen.begun += bool(size and (not seen.size_bytes or size < seen.size_bytes))
                    if size == whole_bytes and seen.size_bytes < whole_bytes:
                        seen.whole += 1
                        seen.whole_since_s = time.monotonic()
                    seen.size_bytes = size
                    continue
                if seen.size_bytes == whole_bytes and time.monotonic() - seen.whole_since_s < _TAKEN_BACK_S:
                    seen.taken_back += 1
                seen.size_bytes = 0


class Controller:
    """`flashferry` as its own process in front of a world, that can be killed with or without its server.

    Args:
        world: The world.
        folder: Where its state, its output and what it says are kept.
        arguments: Verb and options.
        inside_pid: A process in whose namespace it runs, such as a depot's; None for the world's core.
        environment: What it finds in its environment besides.
    """

    def __init__(
        self,
        world: World,
        folder: Path,
        *arguments: str,
        inside_pid: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(inside_pid or world.core_pid), "--"]
        self._out, self._errors = folder / "out.json", folder / "errors.log"
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*inside, sys.executable, "-P", "-m", "flashferry", *arguments, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env=os.environ | {"FLASHFERRY_STATE_DIR": str(folder / "state")} | dict(environment or {}),
            )

    def server_pid(self) -> int | None:
        """Return the process id of its FTP server, or None where it has none at present."""
        with contextlib.suppress(OSError):
            for word in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
                if b"flashferry.fileserver.process" in Path(f"/proc/{word}/cmdline").read_bytes():
                    return int(word)
        return next((pid for pid in self._children() if _is_server(pid)), None)

    def _children(self) -> list[int]:
        found = []
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(word) for word in path.read_text().split()]
        return found

    def kill(self, *, controller: bool, server: bool) -> None:
        """Kill one or both as `kill -9` does."""
        pid = self.server_pid()
        if controller:
            self.process.kill()
        if server and pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if controller:
            self.process.wait()

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end, for so long; tell whether it has ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def document(self) -> dict[str, Any] | None:
        """Return what it printed; None where that is nothing whole."""
        try:
            found: dict[str, Any] = json.loads(self._out.read_text())
        except ValueError:
            return None
        return found

    def said(self, most: int = 1500) -> str:
        """Return the end of what it said."""
        return (self._errors.read_text(errors="replace") + self._out.read_text(errors="replace"))[-most:]


def _is_server(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"flashferry.fileserver.process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def strays(world: World, *, patience_s: float = 10.0) -> list[str]:
    """Return what still runs of our servers in a world's core; the orphan of a killed controller gets some time."""
    namespace = Path(f"/proc/{world.core_pid}/ns/net").readlink()
    deadline_s = time.monotonic() + patience_s
    while True:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if "flashferry.fileserver.process" in line and (process / "ns/net").readlink() == namespace:
                    found.append(line.strip())
        if not found or time.monotonic() > deadline_s:
            return found
        time.sleep(0.2)
