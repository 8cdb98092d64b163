"""Devices of a lab driven by asyncssh, many at a time in one thread: configure, copy, read the result line."""

import asyncio
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.lab_peer import LOGIN
from flashferry.lab.world import World, in_core

_T = TypeVar("_T")


@contextlib.contextmanager
def peer(world: World, control: str) -> Iterator[tuple[Path, Callable[[str], str]]]:
    """Run an FTP server in the core; yield its folder and a function from file name to URL."""
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        command = ["-m", "benchmarks.lab_peer", str(world.core_pid), world.server_address, folder, control]
        with subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            try:
                yield Path(folder), lambda name: f"ftp://{LOGIN}@{world.server_address}:{port}/{name}"
            finally:
                server.kill()


def sparse(folder: Path, name: str, size_bytes: int) -> None:
    """Make a file of zeros that takes no room; nothing on the way compresses."""
    with (folder / name).open("wb") as file:
        file.truncate(size_bytes)


def in_core_loop(world: World, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end in a thread that is in the core, and return its result."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with in_core(world):
                results.append(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def head(title: str, *columns: str) -> None:
    """Print the head of a Markdown table."""
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def row(*cells: object) -> None:
    """Print a row of it."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def conditions() -> str:
    """Return what every table must say of the machine."""
    return (
        f"Linux {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )
