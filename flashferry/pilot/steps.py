"""Steps of a pilot on one spare router, each after the operator's consent.

The last step kills a run in a separate process, and lets `recover` restore what it left. A device that is not proven
restored ends the pilot, with the command that finishes.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.checking import ProbeOptions, check, probe
from flashferry.api.fleet import open_fleet, record_sessions
from flashferry.api.fleet_options import state_folder
from flashferry.api.recovering import recover
from flashferry.api.runs import status
from flashferry.api.staging import stage
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.state_folder import scratch_folder
from flashferry.core.units import megabytes, rate
from flashferry.core.values import replace
from flashferry.devices.connection import ENABLE_SECRET
from flashferry.model.exit_codes import ExitCode, run_exit_code
from flashferry.model.policy import StagePolicy
from flashferry.model.states import Restored
from flashferry.monitor.events import Emit, silent
from flashferry.pilot.facts import Evidence, Finding
from flashferry.pilot.result_folder import make_folder, write_results
from flashferry.pilot.step_results import COPY_BYTES, PilotOptions, PilotResult, Status, Step, StepResult
from flashferry.planning.local_images import random_image
from flashferry.reports.words import failure_sentence
from inventory.selection import Selection
from inventory.transport_policy import AS_USUAL

if TYPE_CHECKING:
    from nornir.core import Nornir
    from nornir.core.inventory import Host

    from flashferry.api.fleet import Notify
    from flashferry.devices.credentials import Source
    from flashferry.model.record import DeviceRecord, Failure, RunReport
    from flashferry.pilot.step_results import PilotOptions

KILLED_COPY_S = 30.0
"""Intended duration of its copies: it must not end by itself before it is killed."""

_POLL_S = 0.1


def killed_run(options: PilotOptions, host: Host, scratch: Path, interrupted: Callable[[], bool]) -> str:
    """Start a tuned speed test in a separate process, kill it once its lines are set, and return its run id."""
    events = scratch / "kill.jsonl"
    words = ["--host", options.host, "--tuned", "--seconds", str(KILLED_COPY_S), "--json"]
    words += ["--events", str(events), "--transcript", str(scratch / "kill")]
    words += [
        "--inventory",
        str(options.fleet.inventory),
        "--state-dir",
        str(state_folder(options.fleet.state_dir)),
        *_options_of(options),
    ]
    with (scratch / "kill.json").open("wb") as out, (scratch / "kill.txt").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry", "probe", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=_environment(host),
            start_new_session=True,
        )
        try:
            while process.poll() is None and not _is_tuned(events):
                if interrupted():
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


def _options_of(options: PilotOptions) -> list[str]:
    """Return the command-line options for that run, equal to our own."""
    fleet, server = options.fleet, options.server
    given = {
        "--host-keys": fleet.host_keys.value if fleet.host_keys is not None else None,
        "--known-hosts": fleet.known_hosts,
        "--address": server.address,
        "--port": server.port,
        "--certificate": server.certificate,
        "--key": server.key,
        "--depot": server.depot,
        "--transport": None if options.transport == AS_USUAL else options.transport,
        **{f"--{name}-port": port for name, port in server.other_ports.items()},
    }
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    return [*words, *(["--at-depot"] if fleet.at_depot else [])]


def _environment(host: Host) -> dict[str, str]:
    """Return the environment for that run, with the router's login, which must not appear in a process list."""
    login = {
        "FLASHFERRY_USERNAME": host.username,
        "FLASHFERRY_PASSWORD": host.password,
        "FLASHFERRY_ENABLE_SECRET": host.get(ENABLE_SECRET),
    }
    kept = {name: value for name, value in os.environ.items() if name != "FLASHFERRY_SERVICE"}
    return kept | {name: str(value) for name, value in login.items() if value}


def _is_tuned(events: Path) -> bool:
    return any(one.get("step") == "tune" and one.get("status") == "done" for one in _events(events))


def _events(path: Path) -> Iterator[dict[str, object]]:
    """Yield the events of a file that may be incomplete or missing."""
    with suppress(FileNotFoundError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                if isinstance(found := json.loads(line), dict):
                    yield found


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
    make_folder(options.folder)
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

    def write(self, results: list[StepResult]) -> tuple[Finding, ...]:
        """Write the results of the steps so far; return the result of each fact."""
        host = self._nornir.inventory.hosts[self._options.host]
        return write_results(self._options, host, self._scratch, self._names, results, self._evidence)

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
        run_id = killed_run(
            self._options, self._nornir.inventory.hosts[self._options.host], self._scratch, self._interrupted
        )
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


def _failed(step: Step, failure: Failure | None, code: ExitCode) -> StepResult:
    words = failure_sentence(failure.step, failure.reason, failure.hint) if failure else code.meaning
    return StepResult(step=step, status=Status.FAILED, sentence=words, code=code)


def _reason(failure: Failure | None) -> str:
    return failure.reason if failure else "its configuration is not proven to be what it was"


def _proof(record: DeviceRecord) -> str:
    return "restored and proven" if record.restored is Restored.RESTORED else f"configuration {record.restored}"
