"""The product as a person runs it: `python -m flashferry VERB ... --json`, in processes of their own.

A night proves nothing about what it calls within its own process: a kill must be a kill, an exit code an exit code. The
routers' login goes by the environment, never on a command line; the controller's login is none of the product's
business, so its variables are left out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from flashferry.nightly.deadline import Deadline
from flashferry.nightly.settings import NodeLogin

LOOK_EVERY_S = 0.1
END_S = 20.0
"""How long a process that is asked to end may take to restore; the lab is removed after it in any case."""
SERVER_END_S, KILLED_S = 5.0, 2.0

_BEGIN = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1  # linux/prctl.h
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Has the product hear SIGTERM, and restore, where the night is killed with SIGKILL; then becomes the product."""

_KEPT = ("FLASHFERRY_ADDRESS", "FLASHFERRY_PORT", "FLASHFERRY_HTTP_PORT", "FLASHFERRY_HTTPS_PORT")
_KEPT_TOO = ("FLASHFERRY_SSH_PORT", "FLASHFERRY_CERTIFICATE", "FLASHFERRY_KEY")
_OTHERS = ("FLASHFERRY_", "CML_", "VIRL_", "VIRL2_")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductRun:
    """How a command of the product ended.

    Attributes:
        verb: Its verb.
        exit_code: Its exit code; below zero: ended by that signal.
        document: The JSON document that it printed; empty where it printed none.
        said: What it said on standard error.
        run_id: The run in its events; empty where there is none.
        is_late: Whether it was ended because its time was over.
    """

    verb: str
    exit_code: int
    document: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    run_id: str = ""
    is_late: bool = False


class Product(Protocol):
    """Runs commands of the product."""

    def run(self, name: str, verb: str, options: Sequence[str], *, deadline: Deadline) -> ProductRun:
        """Run a command to its end.

        Args:
            name: What its files are called.
            verb: The verb.
            options: Its options, without those about inventory, state, events and output.
            deadline: When it is ended, restoring its devices.
        """
        ...

    def killed(self, name: str, verb: str, options: Sequence[str], *, deadline: Deadline) -> ProductRun:
        """Run a command and kill it with SIGKILL as soon as bytes of a copy have arrived; arguments as of `run`.

        Its exit code is -9; another one says that it ended before that.
        """
        ...

    def files(self) -> Mapping[str, bytes]:
        """Return all output and events of commands so far, by the name of the file."""
        ...


class ProductProcesses:
    """Runs the product from this very installation.

    Args:
        folder: An empty folder: state, output and events go there.
        inventory: The folder of the lab's inventory.
        login: The routers' login.
        environment: The environment of this process.
    """

    def __init__(
        self, folder: Path, inventory: Path, login: NodeLogin, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._folder = folder
        self._inventory = inventory
        self._environment = product_environment(environment, login, folder / "state")
        self._output = folder / "output"
        self._output.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, verb: str, options: Sequence[str], *, deadline: Deadline) -> ProductRun:
        """Run a command to its end."""
        with self._started(name, verb, options) as process:
            is_over = self._wait(process, deadline, until=lambda: False)
        return self._ended(name, verb, process, is_late=not is_over)

    def killed(self, name: str, verb: str, options: Sequence[str], *, deadline: Deadline) -> ProductRun:
        """Run a command and kill it as soon as bytes of a copy have arrived."""
        events = self._path(name, "events.jsonl")
        with self._started(name, verb, options) as process:
            is_over = self._wait(process, deadline, until=lambda: is_copying(events))
            if process.poll() is None and is_over:
                process.kill()
                process.wait()
        return self._ended(name, verb, process, is_late=not is_over)

    def files(self) -> Mapping[str, bytes]:
        """Return output and events so far."""
        return {f"product/{path.name}": path.read_bytes() for path in sorted(self._output.iterdir())}

    def _path(self, name: str, kind: str) -> Path:
        return self._output / f"{name}.{kind}"

    @contextmanager
    def _started(self, name: str, verb: str, options: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-P", "-c", _BEGIN]
        command += ["-P", "-m", "flashferry", verb, "--inventory", str(self._inventory), *options]
        if verb in ("probe", "stage"):
            command += ["--events", str(self._path(name, "events.jsonl"))]
        with self._path(name, "json").open("wb") as out, self._path(name, "txt").open("wb") as err:
            process = subprocess.Popen(
                [*command, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                end(process)

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], deadline: Deadline, *, until: Callable[[], bool]) -> bool:
        """Wait for a process, or for something else; return whether that came in time."""
        while process.poll() is None and not until():
            if not deadline.pause(LOOK_EVERY_S):
                return False
        return True

    def _ended(self, name: str, verb: str, process: subprocess.Popen[bytes], *, is_late: bool) -> ProductRun:
        return ProductRun(
            verb=verb,
            exit_code=process.returncode,
            document=_document(self._path(name, "json")),
            said=self._path(name, "txt").read_text(encoding="utf-8", errors="replace"),
            run_id=next((one["run_id"] for one in _events(self._path(name, "events.jsonl")) if one.get("run_id")), ""),
            is_late=is_late,
        )


def end(process: subprocess.Popen[bytes], limit_s: float = END_S) -> None:
    """End a process and all that it started: asked first, so that it can restore, then killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(limit_s)
    # Its server ends by itself with it, if given a moment; what is left of its group by then is killed.
    with suppress(ProcessLookupError):
        _await_end(process, SERVER_END_S)
        os.killpg(process.pid, signal.SIGKILL)
        _await_end(process, KILLED_S)
    process.wait()


def _await_end(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """Wait until nothing is left of a process's group; ProcessLookupError says so."""
    ends_at_s = time.monotonic() + limit_s
    while time.monotonic() < ends_at_s:
        process.poll()
        os.killpg(process.pid, 0)
        time.sleep(LOOK_EVERY_S)


def product_environment(given: Mapping[str, str], login: NodeLogin, state: Path) -> dict[str, str]:
    """Return the environment of the product's processes: the routers' login, a state folder, and no other settings."""
    kept = {name: value for name, value in given.items() if not name.startswith(_OTHERS) or name in _KEPT + _KEPT_TOO}
    kept |= {
        "FLASHFERRY_STATE_DIR": str(state),
        "FLASHFERRY_USERNAME": login.username,
        "FLASHFERRY_PASSWORD": login.password,
    }
    return kept | ({"FLASHFERRY_ENABLE_SECRET": login.secret} if login.secret is not None else {})


def product_version() -> str:
    """Return flashferry's version; `unknown` where it is not installed."""
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "unknown"


def is_copying(events: Path) -> bool:
    """Return whether a file of events says that a device has acknowledged bytes of an image."""
    return any(
        one.get("step") == "pull" and ((one.get("progress") or {}).get("acked_bytes") or 0) > 0
        for one in _events(events)
    )


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a file that may still be written, or not be there yet."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        with suppress(ValueError):
            if isinstance(found := json.loads(line), dict):
                yield found


def _document(path: Path) -> Mapping[str, Any]:
    with suppress(ValueError, OSError):
        if isinstance(found := json.loads(path.read_text(encoding="utf-8")), dict):
            return found
    return {}
