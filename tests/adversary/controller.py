"""The product as its users have it: the command `flashferry`, with an inventory and a state directory of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.adversary.finding import Ending, Held
from tests.adversary.router.world import SSH_PORT, Access
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
LONGEST_COMMAND_S = 180.0
"""With the limits of `limits.py` no wait, nor all waits of a command in a row, comes to this."""


class Zygote:
    """The process that forks commands."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "zygote.sock"
        command = [sys.executable, "-P", "-m", "tests.adversary.zygote", str(self._socket)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "FLASHFERRY_PLAIN": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, env=environment, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote did not start"
        self.missing_limits: list[str] = json.loads(line)

    def close(self) -> None:
        """End it, and all that it forked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()

    def start(self, job: dict[str, Any]) -> Process:
        """Have a command run."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._socket))
        connection.sendall(json.dumps(job).encode() + b"\n")
        stream = connection.makefile("rb")
        return Process(int(stream.readline()), connection)


class Process:
    """A command that was started."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.was_killed = False
        self._connection = connection
        self._lock = threading.Lock()

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            self.was_killed = self.was_killed or number == signal.SIGKILL

    def wait(self, limit_s: float) -> tuple[Ending, int | None]:
        """Wait for its end; one that does not come to it in time is killed."""
        with self._connection:
            if not select.select([self._connection], (), (), limit_s)[0]:
                self.signal(signal.SIGKILL)
                return Ending.HUNG, None
            text = self._connection.recv(16).decode().strip()
        return (Ending.ENDED, int(text)) if text else (Ending.KILLED, None)


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and theirs."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for word in path.read_text(encoding="ascii").split():
                yield int(word)
                yield from descendants(int(word))


def surroundings(pid: int) -> bytes:
    """Return what a process list shows of a command, and the environments of its children."""
    shown = [_read(Path(f"/proc/{pid}/cmdline"))]
    for child in descendants(pid):
        shown += [_read(Path(f"/proc/{child}/{name}")) for name in ("cmdline", "environ")]
    return b"\n".join(shown)


def _read(path: Path) -> bytes:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """One controller: its folder holds inventory, state and outputs."""

    name: str
    folder: Path
    access: Access = field(repr=False)
    by_environment: bool
    source_interface: str

    @property
    def state(self) -> Path:
        """Return its state directory."""
        return self.folder / "state"

    def settle(self) -> None:
        """Write the inventory."""
        inventory = self.folder / "inventory"
        inventory.mkdir(parents=True)
        access = self.access
        host: dict[str, Any] = {"hostname": access.address, "port": SSH_PORT, "platform": "ios"}
        data: dict[str, Any] = {}
        if self.source_interface:
            data["source_interface"] = self.source_interface
        if not self.by_environment:
            host |= {"username": access.username, "password": access.password}
            data["enable_secret"] = access.enable_secret
        # JSON is YAML.
        (inventory / "hosts.yaml").write_text(json.dumps({"r1": host | {"data": data}}), encoding="utf-8")

    def environment(self) -> dict[str, str]:
        """Return what its commands find in their environment."""
        found = {"FLASHFERRY_STATE_DIR": str(self.state)}
        if self.by_environment:
            found |= {
                "FLASHFERRY_USERNAME": self.access.username,
                "FLASHFERRY_PASSWORD": self.access.password,
                "FLASHFERRY_ENABLE_SECRET": self.access.enable_secret,
            }
        return found

    def job(self, number: int, arguments: list[str]) -> dict[str, Any]:
        """Return a command as the zygote takes it."""
        return {
            "arguments": arguments,
            "environment": self.environment(),
            "folder": str(self.folder),
            "stdout": str(self.folder / f"{number}.stdout"),
            "stderr": str(self.folder / f"{number}.stderr"),
        }

    def held(self) -> tuple[Held, ...]:
        """Return the devices that its journal holds: those that `recover` would know."""
        path = self.state / "journal.sqlite3"
        if not path.exists():
            return ()
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT host, identity FROM devices WHERE touched = 1").fetchall()
        return tuple(Held(host=str(host), identity=str(identity or "")) for host, identity in rows)

    def last_run(self) -> str:
        """Return the newest run of its journal; empty where there is none."""
        path = self.state / "journal.sqlite3"
        if not path.exists():
            return ""
        with contextlib.closing(sqlite3.connect(path)) as database:
            row = database.execute("SELECT run_id FROM runs ORDER BY rowid DESC LIMIT 1").fetchone()
        return str(row[0]) if row else ""
