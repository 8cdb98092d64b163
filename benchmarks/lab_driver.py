"""Devices of a lab driven by asyncssh, many at a time in one thread: configure, copy, read the result line."""

import asyncio
import contextlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from benchmarks.lab_peer import LOGIN
from flashferry.lab.world import DeviceAccess, World, in_core

_RESULT = re.compile(r"(\d+) bytes copied in ([\d.]+) secs? \((\d+) bytes/sec\)")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What the device's own result line says."""

    size_bytes: int
    seconds: float
    rate_bytes_per_s: int


class Session:
    """A session in privileged mode."""

    def __init__(self, process: "asyncssh.SSHClientProcess[str]", prompt: str) -> None:
        self._process = process
        self._prompt = re.compile(rf"{re.escape(prompt[:16])}[^\s#]*#$")

    async def run(self, line: str, *, timeout_s: float = 60.0) -> str:
        """Type a line and return what is shown up to the next prompt; questions are answered with Enter."""
        self._process.stdin.write(line + "\n")
        return await self.until_prompt(timeout_s)

    async def until_prompt(self, timeout_s: float = 60.0) -> str:
        """Return what is shown up to the next prompt."""
        shown = ""
        async with asyncio.timeout(timeout_s):
            while not self._prompt.search(shown):
                piece = await self._process.stdout.read(65536)
                if not piece:
                    raise ConnectionError(f"the device closed the session: {shown[-200:]}")
                shown += piece
                if re.search(r"\]\? $", shown):
                    self._process.stdin.write("\n")
        return shown

    async def configure(self, *lines: str) -> None:
        """Enter configuration lines."""
        for line in ("configure terminal", *lines, "end"):
            shown = await self.run(line)
            if "%" in shown:
                raise ValueError(f"{line}: {shown}")

    async def copy(self, url: str, target: str = "null:", *, timeout_s: float) -> Copied:
        """Copy a file and return the device's result."""
        shown = await self.run(f"copy {url} {target}", timeout_s=timeout_s)
        found = _RESULT.search(shown)
        if found is None:
            raise ValueError(f"no result line: {shown[-300:]}")
        return Copied(size_bytes=int(found[1]), seconds=float(found[2]), rate_bytes_per_s=int(found[3]))


@contextlib.asynccontextmanager
async def session(device: DeviceAccess) -> AsyncIterator[Session]:
    """Log in to a device."""
    async with (
        asyncssh.connect(
            device.address, device.port, username=device.username, password=device.password, known_hosts=None,
            config=None, client_keys=None, login_timeout=120,
        ) as connection,
        connection.create_process(term_type="vt100", term_size=(511, 1000)) as process,
    ):  # fmt: skip
        opened = Session(process, device.name)
        await opened.until_prompt()
        await opened.run("terminal length 0")
        yield opened


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
