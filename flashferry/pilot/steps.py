"""Steps of a pilot on one spare router, each after the operator's consent.

The last step kills a run in a separate process, and lets `recover` restore what it left. A device that is not proven
restored ends the pilot, with the command that finishes.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.checking import ProbeOptions, check, probe
from flashferry.api.fleet import open_fleet, record_sessions
from flashferry.api.fleet_options import FleetOptions, state_folder
from flashferry.api.recovering import recover
from flashferry.api.runs import status
from flashferry.api.staging import stage
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import sanitize
from flashferry.core.state_folder import scratch_folder
from flashferry.core.units import megabytes, rate
from flashferry.devices.connection import ENABLE_SECRET
from flashferry.model.exit_codes import ExitCode, run_exit_code
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.model.states import Restored
from flashferry.monitor.events import Emit, silent
from flashferry.pilot.anonymise import Anonymiser
from flashferry.pilot.capture_set import captures, device_name, transcript
from flashferry.pilot.exchanges import Session, read_session
from flashferry.pilot.facts import Evidence, Finding, judge
from flashferry.pilot.page import page
from flashferry.planning.local_images import random_image
from flashferry.reports.words import failure_sentence
from inventory.selection import Selection
from inventory.transport_policy import AS_USUAL

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.api.fleet import Notify
    from flashferry.devices.credentials import Source
    from flashferry.model.record import DeviceRecord, Failure, RunReport

COPY_BYTES = 1_000_000
"""Of the one copy to flash."""

KILLED_COPY_S = 30.0
"""What the copies of the run that is killed aim at: it must not end by itself before that."""

_POLL_S = 0.1


class Step(StrEnum):
    """Steps in order."""

    CHECK = "check"
    REACH = "reach"
    PROBE = "probe"
    TUNE = "tune"
    COPY = "copy"
    KILL = "kill"


ABOUT: Mapping[Step, str] = {
    Step.CHECK: "Log in and read platform, free space and configuration. Nothing is changed.",
    Step.REACH: "Have the router copy 16 kB from this host to null:. Nothing is changed, no flash is written.",
    Step.PROBE: "Time copies to null: with the router's own settings. No line is changed, unless the inventory names "
    "a source interface; no flash is written.",
    Step.TUNE: "Set 'ip tcp window-size', 'ip tcp selective-ack' and our mark, time copies to null:, take the "
    "lines back and compare the whole configuration. No flash is written, nothing is saved to startup-config.",
    Step.COPY: f"The same with one copy of {COPY_BYTES:,} random bytes to flash, hashed there. The file stays; the "
    "page names the command that deletes it.",
    Step.KILL: "Start a speed test in a process of its own, kill it once its lines are set, and have "
    "'flashferry recover' restore and prove. No flash is written.",
}
"""What each step does, for the one who consents."""


class Status(StrEnum):
    """Result of a step."""

    DONE = "done"
    DECLINED = "declined"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Result of a step.

    Attributes:
        step: The step.
        status: Its result; `incomplete`: the router is not proven restored.
        sentence: What was found, or why it failed.
        code: Its exit code.
    """

    step: Step
    status: Status
    sentence: str = ""
    code: ExitCode = ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOptions:
    """Router and destination of a pilot.

    Attributes:
        fleet: The inventory, and how to log in; its selection is ignored.
        host: The router's name in the inventory.
        folder: Folder for the result, new or empty.
        server: Where our server listens.
        transport: How the router copies.
    """

    fleet: FleetOptions
    host: str
    folder: Path
    server: ServerPlace = field(default_factory=ServerPlace)
    transport: str = AS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotResult:
    """Result of a pilot.

    Attributes:
        steps: Result of each step, in order.
        findings: Result of each fact; empty if no session was opened.
        folder: Folder of page, transcript and captures.
        exit_code: Exit code of the pilot.
    """

    steps: tuple[StepResult, ...]
    findings: tuple[Finding, ...]
    folder: Path
    exit_code: ExitCode


def pilot(
    options: PilotOptions,
    consent: Callable[[Step], bool],
    *,
    ask: Source | None = None,
    notify: Notify | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> PilotResult:
    """Take one router through the steps, each after consent, and write the results to a folder.

    A step without consent is skipped. After a failed step, no other is started.

    Args:
        options: Router and destination.
        consent: Returns whether to take a step; called before each.
        ask: Last source of credentials; None: none.
        notify: Receives a notice when a transcript can no longer be written.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: the step in progress restores the router, no other is started.

    Raises:
        ConfigInvalid: The folder is not empty or cannot be written, the inventory is invalid or lacks the device, or a
            killed run still holds it; the device was not contacted.
    """
    _make_folder(options.folder)
    nornir = open_fleet(
        replace(options.fleet, selection=Selection(hosts=(options.host,)), transcript=None), ask=ask, notify=notify
    )
    if (run_id := _held_by(options)) is not None:
        raise ConfigInvalid(
            f"{options.host}: run {run_id} was killed and has not restored it yet",
            hint=f"{_recover_command(options)} restores it; then start the pilot",
        )
    with scratch_folder(state_folder(options.fleet.state_dir)) as scratch:
        work = _Pilot(options, nornir, scratch, notify or (lambda _text: None), emit, interrupted)
        results: list[StepResult] = []
        try:
            for step in Step:
                if interrupted() or any(one.code is not ExitCode.OK for one in results):
                    results.append(StepResult(step=step, status=Status.NOT_STARTED))
                elif consent(step):
                    results.append(work.taken(step))
                else:
                    results.append(StepResult(step=step, status=Status.DECLINED))
        finally:
            findings = work.write(results)
    return PilotResult(
        steps=tuple(results),
        findings=findings,
        folder=options.folder,
        exit_code=_code(results, interrupted=interrupted()),
    )


def _code(results: list[StepResult], *, interrupted: bool) -> ExitCode:
    worst = next((one.code for one in results if one.code is not ExitCode.OK), ExitCode.OK)
    if worst is not ExitCode.OK:
        return worst
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if all(one.status is Status.DONE for one in results) else ExitCode.UNFINISHED


def _make_folder(folder: Path) -> None:
    """Create the folder of the result.

    Raises:
        ConfigInvalid: It is not empty, or cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise ConfigInvalid(
            f"--output {folder}: expected a folder to write to: {error.strerror or error}", hint="Name another folder"
        ) from None
    if not is_empty:
        raise ConfigInvalid(
            f"--output {folder}: expected an empty folder, or one that is not there yet; found files in it",
            hint="Name another folder: a pilot overwrites nothing",
        )


def _held_by(options: PilotOptions) -> str | None:
    """Return the killed run that still holds the router, or None.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    found = status(1, state=options.fleet.state_dir)
    held = [run.run_id for run, device in found.to_recover if device.host == options.host]
    held += [one.run_id for one in found.lost if one.host == options.host]
    return held[0] if held else None


def _recover_command(options: PilotOptions) -> str:
    words = ["flashferry", "recover", "--inventory", str(options.fleet.inventory)]
    if options.fleet.state_dir is not None:
        words += ["--state-dir", str(options.fleet.state_dir)]
    return f"'{shlex.join(words)}'"


class _Pilot:
    """State of a pilot."""

    def __init__(
        self,
        options: PilotOptions,
        nornir: Nornir,
        scratch: Path,
        notify: Notify,
        emit: Emit,
        interrupted: Callable[[], bool],
    ) -> None:
        self._options, self._nornir, self._scratch = options, nornir, scratch
        self._notify, self._emit, self._interrupted = notify, emit, interrupted
        self._state = state_folder(options.fleet.state_dir)
        self._evidence = Evidence()
        self._names: list[str] = []

    def taken(self, step: Step) -> StepResult:
        """Take a step; errors are part of its result."""
        take = {
            Step.CHECK: self._check,
            Step.REACH: self._reach,
            Step.PROBE: self._probe,
            Step.TUNE: self._tune,
            Step.COPY: self._copy,
            Step.KILL: self._kill,
        }[step]
        try:
            with self._recorded(step):
                result = take()
        except FlashferryError as error:
            result = StepResult(step=step, status=Status.FAILED, sentence=str(error), code=ExitCode.DEVICES_FAILED)
        if result.status is not Status.INCOMPLETE and (run_id := _held_by(self._options)) is not None:
            why = f": {result.sentence}" if result.sentence else ""
            return self._incomplete(step, f"run {run_id} left it tuned{why}")
        return result

    @contextmanager
    def _recorded(self, name: str) -> Iterator[None]:
        """Record the sessions of a block."""
        self._names.append(name)
        transcripts = record_sessions(self._nornir, self._scratch / name, self._notify)
        try:
            yield
        finally:
            transcripts.close()

    def _check(self) -> StepResult:
        return self._checked(Step.CHECK, reach=False)

    def _reach(self) -> StepResult:
        return self._checked(Step.REACH, reach=True)

    def _checked(self, step: Step, *, reach: bool) -> StepResult:
        found = check(
            self._nornir,
            reach=reach,
            server=self._options.server,
            transport=self._options.transport,
            state=self._state,
            emit=self._emit,
            interrupted=self._interrupted,
        )
        (record,) = found.devices
        if found.exit_code is not ExitCode.OK or record.check is None:
            return _failed(step, record.failure, found.exit_code)
        if record.reach is not None:
            self._evidence = replace(self._evidence, syn_as_is=record.reach.syn)
            offered = record.reach.syn.describe() if record.reach.syn else "its SYN was not seen"
            return StepResult(
                step=step, status=Status.DONE, sentence=f"it fetches by {record.reach.transport}: {offered}"
            )
        free = record.check.free_bytes
        space = "free space unknown" if free is None else f"{megabytes(free)} free on {record.check.file_system}"
        model = f"{record.check.facts.model}, {record.check.version.release}"
        return StepResult(step=step, status=Status.DONE, sentence=f"{model}, {space}")

    def _probe(self) -> StepResult:
        report = self._timed(as_is=True)
        record = report.devices[0]
        arm = record.probe.as_is if record.probe else None
        return self._result(Step.PROBE, report, f"{rate(arm.server_bytes_per_s)} as it is" if arm else "")

    def _tune(self) -> StepResult:
        report = self._timed(as_is=False)
        record = report.devices[0]
        arm = record.probe.tuned if record.probe else None
        if arm is not None:
            self._evidence = replace(self._evidence, syn_tuned=arm.syn)
        words = f"{rate(arm.server_bytes_per_s)} tuned; {_proof(record)}" if arm else "nothing to tune"
        return self._result(Step.TUNE, report, words)

    def _timed(self, *, as_is: bool) -> RunReport:
        asked = ProbeOptions(
            as_is=as_is, tuned=not as_is, server=self._options.server, transport=self._options.transport
        )
        return probe(self._nornir, asked, state=self._state, emit=self._emit, interrupted=self._interrupted)

    def _copy(self) -> StepResult:
        name = f"flashferry-pilot-{os.urandom(4).hex()}.bin"
        policy = StagePolicy(transport=self._options.transport)
        with random_image(COPY_BYTES, self._state, name) as image:
            report = stage(
                self._nornir,
                image,
                policy,
                server=self._options.server,
                inventory=self._options.fleet.inventory,
                state=self._state,
                emit=self._emit,
                interrupted=self._interrupted,
            )
        proof = report.devices[0].verify
        words = ""
        if proof is not None:
            words = f"{proof.path} is there, its hash verified; {_proof(report.devices[0])}; "
            words += f"'delete /force {proof.path}' on the router deletes it"
        return self._result(Step.COPY, report, words)

    def _result(self, step: Step, report: RunReport, words: str) -> StepResult:
        record, code = report.devices[0], run_exit_code(report)
        if code is ExitCode.RESTORE_INCOMPLETE:
            return self._incomplete(step, _reason(record.restore_failure or record.failure))
        if code is not ExitCode.OK:
            return _failed(step, record.failure, code)
        return StepResult(step=step, status=Status.DONE, sentence=words)

    def _incomplete(self, step: Step, why: str) -> StepResult:
        return StepResult(
            step=step,
            status=Status.INCOMPLETE,
            sentence=f"{why}. {_recover_command(self._options)} finishes",
            code=ExitCode.RESTORE_INCOMPLETE,
        )

    def _kill(self) -> StepResult:
        """Kill a run once its lines are set on the router, and recover."""
        run_id = self._killed_run()
        if _held_by(self._options) != run_id:
            return StepResult(
                step=Step.KILL,
                status=Status.FAILED,
                sentence="the run ended before its lines were set, or there was nothing to tune: nothing was killed",
                code=ExitCode.DEVICES_FAILED,
            )
        self._notify(f"run {run_id} was killed on its way; it is recovered now")
        with self._recorded("recover"):
            found = recover(self._nornir, run=run_id, state=self._state, emit=self._emit, interrupted=self._interrupted)
        mine = [one for one in found.devices if one.host == self._options.host]
        if not mine:
            return self._incomplete(Step.KILL, "its recovery was interrupted")
        is_restored = mine[0].restored is Restored.RESTORED
        self._evidence = replace(self._evidence, was_restored=is_restored)
        if not is_restored:
            return self._incomplete(Step.KILL, _reason(mine[0].failure))
        return StepResult(
            step=Step.KILL,
            status=Status.DONE,
            sentence=f"run {mine[0].run_id} was killed; restored and proven by recover",
        )

    def _killed_run(self) -> str:
        """Start a tuned speed test in a separate process, kill it once its lines are set, and return its run id."""
        events = self._scratch / "kill.jsonl"
        words = ["--host", self._options.host, "--tuned", "--seconds", str(KILLED_COPY_S), "--json"]
        words += ["--events", str(events), "--transcript", str(self._scratch / "kill")]
        words += [
            "--inventory",
            str(self._options.fleet.inventory),
            "--state-dir",
            str(self._state),
            *self._options_of(),
        ]
        with (self._scratch / "kill.json").open("wb") as out, (self._scratch / "kill.txt").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "flashferry", "probe", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self._environment(),
                start_new_session=True,
            )
            try:
                while process.poll() is None and not _is_tuned(events):
                    if self._interrupted():
                        # The run restores the router itself.
                        process.send_signal(signal.SIGTERM)
                        process.wait()
                    time.sleep(_POLL_S)
            finally:
                # Kill the whole process group, as a power failure would.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return next((str(one["run_id"]) for one in _events(events) if one.get("run_id")), "")

    def _options_of(self) -> list[str]:
        """Return the command-line options for that run, equal to our own."""
        fleet, server = self._options.fleet, self._options.server
        given = {
            "--host-keys": fleet.host_keys.value if fleet.host_keys is not None else None,
            "--known-hosts": fleet.known_hosts,
            "--address": server.address,
            "--port": server.port,
            "--certificate": server.certificate,
            "--key": server.key,
            "--depot": server.depot,
            "--transport": None if self._options.transport == AS_USUAL else self._options.transport,
            **{f"--{name}-port": port for name, port in server.other_ports.items()},
        }
        words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return [*words, *(["--at-depot"] if fleet.at_depot else [])]

    def _environment(self) -> dict[str, str]:
        """Return the environment for that run, with the router's login, which must not appear in a process list."""
        host = self._nornir.inventory.hosts[self._options.host]
        login = {
            "FLASHFERRY_USERNAME": host.username,
            "FLASHFERRY_PASSWORD": host.password,
            "FLASHFERRY_ENABLE_SECRET": host.get(ENABLE_SECRET),
        }
        kept = {name: value for name, value in os.environ.items() if name != "FLASHFERRY_SERVICE"}
        return kept | {name: str(value) for name, value in login.items() if value}

    def write(self, results: list[StepResult]) -> tuple[Finding, ...]:
        """Write page, transcript and captures of the steps so far; return the result of each fact."""
        sessions = tuple(self._sessions())
        if not sessions:
            return ()
        host = self._nornir.inventory.hosts[self._options.host]
        anonymiser = Anonymiser(
            sessions,
            hosts=(self._options.host, str(host.hostname or ""), socket.gethostname()),
            users=(host.username or "",),
            words=(host.password or "", str(host.get(ENABLE_SECRET) or "")),
        )
        findings = judge(replace(self._evidence, sessions=sessions))
        files = {f"transcript/{one.name}.txt": transcript(one, anonymiser) for one in sessions}
        files |= {f"captures/{path}": text for path, text in captures(sessions, anonymiser).items()}
        files["pilot.md"] = page(
            device_name(sessions), results, findings, lambda text: anonymiser.text(self._without_paths(text))
        )
        for path, text in files.items():
            place = self._options.folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8", errors="backslashreplace")
        return tuple(replace(one, text=sanitize(anonymiser.text(one.text))) for one in findings)

    def _without_paths(self, text: str) -> str:
        """Return a sentence without paths of this host, which may contain the operator's names."""
        fleet = self._options.fleet
        places = {"INVENTORY": fleet.inventory, "STATE": self._state, "OUTPUT": self._options.folder}
        for name, place in places.items():
            text = text.replace(str(place), name)
        return text

    def _sessions(self) -> Iterator[Session]:
        number = 0
        for name in self._names:
            folder = self._scratch / name
            for file in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns) if folder.is_dir() else ():
                number += 1
                text = file.read_text(encoding="utf-8", errors="replace")
                yield read_session(f"{number:02d}-{name}", text.split("\n"))


def _failed(step: Step, failure: Failure | None, code: ExitCode) -> StepResult:
    words = failure_sentence(failure.step, failure.reason, failure.hint) if failure else code.meaning
    return StepResult(step=step, status=Status.FAILED, sentence=words, code=code)


def _reason(failure: Failure | None) -> str:
    return failure.reason if failure else "its configuration is not proven to be what it was"


def _proof(record: DeviceRecord) -> str:
    return "restored and proven" if record.restored is Restored.RESTORED else f"configuration {record.restored}"


def _is_tuned(events: Path) -> bool:
    return any(one.get("step") == "tune" and one.get("status") == "done" for one in _events(events))


def _events(path: Path) -> Iterator[dict[str, object]]:
    """Yield the events of a file that may be incomplete or missing."""
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                if isinstance(found := json.loads(line), dict):
                    yield found
