"""Run the product's commands as processes, and read copies, figures and failures from their JSON documents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from flashferry.core.errors import Kind
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Restored
from flashferry.nightly.backend import Deadline, PlannedNode
from flashferry.nightly.night import Fault, NightCopy, NightFault, NightFigure, NodeLogin

Document = Mapping[str, Any]
"""A JSON document of the product."""

_UNRESTORED = frozenset({Restored.INCOMPLETE.value, Restored.FOREIGN_CHANGE.value})


class Trouble(Struct, frozen=True, kw_only=True):
    """A router's failure, as the product reports it."""

    host: str
    outcome: str
    kind: str
    reason: str
    hint: str
    is_unrestored: bool


def devices_of(document: Document) -> tuple[Document, ...]:
    """Return the devices of a document of any command over a fleet; none if it reports an error."""
    run = document.get("run")
    found = (run if isinstance(run, dict) else document).get("devices", ())
    return tuple(one for one in found if isinstance(one, dict))


def troubles(document: Document) -> Iterator[Trouble]:
    """Yield the failures, router by router."""
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


def check_ended_well(step: str, run: ProductRun) -> None:
    """Check that a command of the product ended in time and succeeded.

    Raises:
        NightFault: `DEVICE` if only devices refused, else `PRODUCT`.
    """
    if run.is_late:
        raise NightFault(
            f"'flashferry {run.verb}' did not end within the step's time and was ended",
            fault=Fault.PRODUCT,
            step=step,
            hint="Its events in the night's folder say what it waited for; 'limits' of the description give it more",
        )
    code = run.exit_code
    if code == ExitCode.OK:
        return
    found = tuple(troubles(run.document))
    first = found[0] if found else None
    is_device = code == ExitCode.REFUSED or (
        code == ExitCode.DEVICES_FAILED and bool(found) and all(one.kind in _DEVICE_KINDS for one in found)
    )
    more = f", and {counted(len(found) - 1, 'router')} more" if len(found) > 1 else ""
    reason = f"{first.reason}{more}" if first else str(run.document.get("error") or "") or _last_line(run.said)
    advice = f"{first.hint.rstrip('.')}. " if first and first.hint else ""
    raise NightFault(
        f"'flashferry {step}' ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}: {reason}",
        fault=Fault.DEVICE if is_device else Fault.PRODUCT,
        step=step,
        hint=f"{advice}The step's report and events are in the night's folder",
        host=first.host if first else None,
        is_unrestored=code == ExitCode.RESTORE_INCOMPLETE or any(one.is_unrestored for one in found),
    )


def _last_line(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")[:300]


def copies_of_probe(document: Document, nodes: Mapping[str, PlannedNode]) -> Iterator[NightCopy]:
    """Yield the timed copies of a probe, without those too short to measure a rate."""
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
    """Return a run's completed copies to flash."""
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
"""Steps of the product whose seconds are compared from night to night."""


def figures_of(document: Document, nodes: Mapping[str, PlannedNode]) -> tuple[NightFigure, ...]:
    """Return the seconds of each router's login and image hash."""
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
    """Return the rate limit or pacing rate of a copy; None: none."""
    sender = measured.get("sender") or {}
    found = [one for one in (sender.get("cap_bytes_per_s"), sender.get("pace_bytes_per_s")) if one]
    return float(min(found)) if found else None


def named(node: PlannedNode) -> dict[str, Any]:
    """Return a router as the fields of `MeasuredNode`."""
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
"""A process asked to end may restore for this long; the lab is removed afterwards in any case."""

SERVER_END_S, KILLED_S = 5.0, 2.0

_BEGIN = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1  # linux/prctl.h
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Send SIGTERM to the product if the night is killed, so that it restores; then execute the product."""

_KEPT = ("FLASHFERRY_ADDRESS", "FLASHFERRY_PORT", "FLASHFERRY_HTTP_PORT", "FLASHFERRY_HTTPS_PORT")
_KEPT_TOO = ("FLASHFERRY_SSH_PORT", "FLASHFERRY_CERTIFICATE", "FLASHFERRY_KEY")
_OTHERS = ("FLASHFERRY_", "CML_", "VIRL_", "VIRL2_")


class ProductRun(Struct, frozen=True, kw_only=True):
    """The result of a command.

    Attributes:
        exit_code: Exit code; negative: ended by that signal.
        document: JSON document; empty if none was printed.
        said: Standard error output.
        run_id: Run ID in its events; empty for none.
        is_late: Whether it was ended at its deadline.
    """

    verb: str
    exit_code: int
    document: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    run_id: str = ""
    is_late: bool = False


class ProductProcesses:
    """Run commands of this installation as processes."""

    def __init__(
        self, folder: Path, inventory: Path, login: NodeLogin, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._folder = folder
        self._inventory = inventory
        self._environment = product_environment(environment, login, folder / "state")
        self._output = folder / "output"
        self._output.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, verb: str, options: Sequence[str], *, deadline: Deadline) -> ProductRun:
        """Run a command to its end.

        Args:
            name: Base name of its output files.
            verb: The verb.
            options: Its options, without those for inventory, state, events and output.
            deadline: When to end it, with its devices restored.
        """
        with self._started(name, verb, options) as process:
            is_over = self._wait(process, deadline, until=lambda: False)
        return self._ended(name, verb, process, is_late=not is_over)

    def killed(self, name: str, verb: str, options: Sequence[str], *, deadline: Deadline) -> ProductRun:
        """Run a command and send SIGKILL as soon as a device has received bytes; arguments as of `run`.

        The exit code is -9; any other means that it ended before.
        """
        events = self._path(name, "events.jsonl")
        with self._started(name, verb, options) as process:
            is_over = self._wait(process, deadline, until=lambda: is_copying(events))
            if process.poll() is None and is_over:
                process.kill()
                process.wait()
        return self._ended(name, verb, process, is_late=not is_over)

    def files(self) -> Mapping[str, bytes]:
        """Return all output and events so far, by file name."""
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
        """Wait for a process, or for a condition; return False at the deadline."""
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
    """End a process and its group: SIGTERM first so that it can restore, then SIGKILL."""
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
    """Wait until the process group has ended. Raises `ProcessLookupError`: it has."""
    ends_at_s = time.monotonic() + limit_s
    while time.monotonic() < ends_at_s:
        process.poll()
        os.killpg(process.pid, 0)
        time.sleep(POLL_S)


def product_environment(given: Mapping[str, str], login: NodeLogin, state: Path) -> dict[str, str]:
    """Return the environment of the product: the routers' login, a state folder, and no other settings."""
    kept = {name: value for name, value in given.items() if not name.startswith(_OTHERS) or name in _KEPT + _KEPT_TOO}
    kept |= {
        "FLASHFERRY_STATE_DIR": str(state),
        "FLASHFERRY_USERNAME": login.username,
        "FLASHFERRY_PASSWORD": login.password,
    }
    return kept | ({"FLASHFERRY_ENABLE_SECRET": login.secret} if login.secret is not None else {})


def product_version() -> str:
    """Return flashferry's version; `unknown` if it is not installed."""
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "unknown"


def is_copying(events: Path) -> bool:
    """Return whether an event file shows that a device has acknowledged image bytes."""
    return any(
        one.get("step") == "pull" and ((one.get("progress") or {}).get("acked_bytes") or 0) > 0
        for one in _events(events)
    )


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a file that may be incomplete or missing."""
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
