"""What the product's own JSON documents come to for a night: copies, failures, and whose fault they are. Pure."""

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
from typing import Any, Literal, Protocol

from flashferry.core.errors import Kind
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Restored
from flashferry.nightly.backend import PlannedNode
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.night import Fault, NightCopy, NightFault, NightFigure
from flashferry.nightly.settings import NodeLogin

Document = Mapping[str, Any]

"""A JSON document of the product, as `json.loads` returns it."""

_UNRESTORED = frozenset({Restored.INCOMPLETE.value, Restored.FOREIGN_CHANGE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What the product says went wrong with a router.

    Attributes:
        host: The router.
        outcome: Its outcome, by the product's word.
        kind: The kind of its failure; empty where it names none.
        reason: Why, in words.
        hint: What the product advises; may be empty.
        is_unrestored: Whether its configuration is not proven to be what it was.
    """

    host: str
    outcome: str
    kind: str
    reason: str
    hint: str
    is_unrestored: bool


def devices_of(document: Document) -> tuple[Document, ...]:
    """Return the devices of a document of any verb over a fleet; none of one that reports an error."""
    run = document.get("run")
    found = (run if isinstance(run, dict) else document).get("devices", ())
    return tuple(one for one in found if isinstance(one, dict))


def troubles(document: Document) -> tuple[Trouble, ...]:
    """Return what went wrong, router by router."""
    return tuple(_troubles(document))


def _troubles(document: Document) -> Iterator[Trouble]:
    for device in devices_of(document):
        failure = device.get("failure") or device.get("restore_failure") or {}
        is_unrestored = device.get("restored") in _UNRESTORED
        outcome = str(device.get("outcome") or ("failed" if failure or is_unrestored else "done"))
        if outcome in GOOD_OUTCOMES and not is_unrestored:
            continue
        yield Trouble(
            host=str(device.get("host", "")),
            outcome=outcome,
            kind=str(failure.get("kind") or ""),
            reason=str(failure.get("reason") or device.get("restored") or outcome),
            hint=str(failure.get("hint") or ""),
            is_unrestored=is_unrestored,
        )


_DEVICE_KINDS = frozenset({Kind.DEVICE_REFUSED.value, Kind.LOGIN_REFUSED.value, Kind.POLICY_VIOLATION.value})


def check_ended_well(step: str, exit_code: int, document: Document, said: str) -> None:
    """Check that a verb of the product ended as it must.

    Args:
        step: The night's step.
        exit_code: Its exit code; below zero: ended by that signal.
        document: Its JSON document; empty where it printed none.
        said: What it said on standard error, for where there is no document.

    Raises:
        NightFault: It did not: `Fault.DEVICE` where devices are refused, else `Fault.PRODUCT`.
    """
    if exit_code == ExitCode.OK:
        return
    found = troubles(document)
    first = found[0] if found else None
    is_device = exit_code == ExitCode.REFUSED or (
        exit_code == ExitCode.DEVICES_FAILED and bool(found) and all(one.kind in _DEVICE_KINDS for one in found)
    )
    more = f", and {counted(len(found) - 1, 'router')} more" if len(found) > 1 else ""
    reason = f"{first.reason}{more}" if first else str(document.get("error") or "") or _last_line(said)
    advice = "" if first is None else f"{first.hint.rstrip('.')}. " if first.hint else ""
    raise NightFault(
        f"'flashferry {step}' ended with {_code(exit_code)}: {reason}",
        fault=Fault.DEVICE if is_device else Fault.PRODUCT,
        step=step,
        hint=f"{advice}The step's report and events are in the night's folder",
        host=first.host if first else None,
        is_unrestored=exit_code == ExitCode.RESTORE_INCOMPLETE or any(one.is_unrestored for one in found),
    )


def _code(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")[:300]


def copies_of_probe(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightCopy, ...]:
    """Return the timed copies of a speed test, untuned and tuned; one that was too short to carry a rate is none."""
    return tuple(_probed(document, nodes))


def _probed(document: Document, nodes: Mapping[str, PlannedNode]) -> Iterator[NightCopy]:
    for device in devices_of(document):
        node, probe = nodes.get(str(device.get("host"))), device.get("probe")
        if node is None or not probe:
            continue
        gain = (probe.get("worth") or {}).get("gain")
        for name in ("as_is", "tuned"):
            arm = probe.get(name)
            if arm and not arm.get("too_short"):
                is_tuned = name == "tuned"
                yield NightCopy(
                    **named(node),
                    transport=str(device.get("transport") or ""),
                    verb="probe",
                    is_tuned=is_tuned,
                    rate_bytes_per_s=float(arm["steady_bytes_per_s"]),
                    duration_s=float(arm["duration_s"]),
                    verdict=_verdict(arm),
                    gain=float(gain) if is_tuned and gain is not None else None,
                    cap_bytes_per_s=_cap(arm),
                )


def copies_of_stage(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightCopy, ...]:
    """Return the copies to flash of a run that were delivered."""
    return tuple(
        NightCopy(
            **named(node),
            transport=str(device.get("transport") or ""),
            verb="stage",
            is_tuned=bool(device.get("tune")),
            rate_bytes_per_s=float(transfer["rate_bytes_per_s"]),
            duration_s=float(transfer["duration_s"]),
            verdict=_verdict(transfer),
            cap_bytes_per_s=_cap(transfer),
        )
        for device in devices_of(document)
        if (node := nodes.get(str(device.get("host")))) is not None
        and device.get("outcome") == Outcome.DONE.value
        and (transfer := device.get("transfer"))
    )


_TIMED: tuple[Literal["connect", "verify"], ...] = ("connect", "verify")

"""Steps of the product whose seconds nights are compared by."""


def figures_of(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightFigure, ...]:
    """Return what a run's routers took to be logged in to and to hash the image, in seconds."""
    return tuple(
        NightFigure(**named(node), what=what, value=float(seconds[what]))
        for device in devices_of(document)
        if (node := nodes.get(str(device.get("host")))) is not None
        and device.get("outcome") == Outcome.DONE.value
        and (seconds := device.get("seconds_by_step"))
        for what in _TIMED
        if what in seconds
    )


def _cap(measured: Document) -> float | None:
    """Return what our server held a copy to, or None."""
    sender = measured.get("sender") or {}
    found = [one for one in (sender.get("cap_bytes_per_s"), sender.get("pace_bytes_per_s")) if one]
    return float(min(found)) if found else None


def named(node: PlannedNode) -> dict[str, Any]:
    """Return a router by the fields of `flashferry.nightly.night.MeasuredNode`."""
    return {
        "node": node.label,
        "node_definition": node.node_definition,
        "image_definition": node.image_definition,
        "condition": node.condition_name,
    }


def _verdict(measured: Document) -> str:
    return str((measured.get("verdict") or {}).get("kind") or "")


POLL_S = 0.1

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
            if not deadline.pause(POLL_S):
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
        time.sleep(POLL_S)


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
