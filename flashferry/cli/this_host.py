"""Backend that carries out verbs on this host, by `flashferry.api`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flashferry import api
from flashferry.cli.invocation import origin
from flashferry.cli.options.fleet import fleet, prompt
from flashferry.cli.result import Result, Watching, devices_result
from flashferry.cli.terminal.interrupt import graceful_interrupt, reading_only, stop_on_signals
from flashferry.cli.terminal.output import EventLines, print_error, say
from flashferry.cli.terminal.questions import wave_approval
from flashferry.cli.transport_options import asked_transport, probe_options
from flashferry.cli.view.layout import names
from flashferry.cli.view.live import watching
from flashferry.cli.view.plan_table import PlanProgress, next_lines
from flashferry.core.units import counted
from flashferry.core.values import replace
from flashferry.devices.errors import Interrupted, RestoreIncomplete
from flashferry.model.plan_file import plan_document
from flashferry.store.status import last_as_is
from inventory.transport_policy import NAMES

if TYPE_CHECKING:
    from flashferry.api import FleetOptions, ServerPlace, StageJob
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.model.fleet_plan import FleetPlan
    from flashferry.model.policy import Chosen
    from flashferry.model.record import RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.run.recover import RecoveryRecord
    from flashferry.store.journal import Journal


@dataclass(frozen=True, slots=True)
class Staging:
    """`flashferry stage` on this host.

    Attributes:
        state: The state folder; None: the default.
        which: The devices.
        chosen: Settings given on the command line.
        server: Where our server listens.
        to: Where events go.
    """

    state: Path | None
    which: FleetOptions
    chosen: Chosen
    server: ServerPlace
    to: Watching

    def carry_out(self, asked: StageAsked) -> Result[object]:
        """Stage, resume or rehearse a run."""
        if asked.resume is not None:
            return self._resume(asked.resume)
        job = self._job(asked)
        pace = api.pace_notices(job, self.state)
        if asked.dry_run:
            for text in pace:
                say(text)
            return self._dry_run(job)
        with api.journal_in(self.state, origin(self.to.events)) as journal:
            return _run(job, journal, self.to, (*pace, *api.dead_run_notices(journal)))

    def _job(self, asked: StageAsked) -> StageJob:
        """Return the run to stage, resume or rehearse."""
        if asked.plan is None:
            assert asked.image is not None
            policy = api.StagePolicy.without_plan(self.chosen)
            return api.job_for_image(
                fleet(self.which), asked.image, policy, self.server, inventory=self.which.inventory, state=self.state
            )
        path = Path(asked.plan)
        found = api.load_plan(path)
        say(f"plan {path}: SHA-256 {found.digest}, made at {found.created_at}")
        policy = found.run_policy.changed(self.chosen)
        return api.job_for_plan(
            fleet(self.which),
            found,
            policy,
            self.server,
            path=path,
            inventory=self.which.inventory,
            is_part=self.which.has_selection,
        )

    def _resume(self, run: str) -> Result[object]:
        """Restore what the run left tuned, and continue it."""
        with api.journal_in(self.state, origin(self.to.events)) as journal:
            lines = EventLines()
            try:
                with graceful_interrupt(lines.say) as stop:
                    job = api.job_for_resume(
                        *(self.which, run, self.chosen, journal),
                        server=self.server,
                        ask=prompt(),
                        notify=say,
                        emit=lines,
                        interrupted=stop.is_set,
                    )
            except (RestoreIncomplete, Interrupted) as error:
                code = api.resume_failure_code(error, journal)
                print_error(error, code)
                raise typer.Exit(int(code)) from None
            return _run(job, journal, self.to, api.pace_notices(job, self.state))

    def _dry_run(self, job: StageJob) -> Result[object]:
        with reading_only("a dry run") as stop:
            found = api.dry_run(job, state=self.state, emit=EventLines(), interrupted=stop.is_set)
        return devices_result("dry-run", found.exit_code, found.devices)


def _run(job: StageJob, journal: Journal, to: Watching, first: Sequence[str]) -> Result[object]:
    """Run a job. With events on standard error, notices go through the run's view only."""
    roster = api.roster_of(job.devices, job.sizes_bytes)
    before = {by: last_as_is(journal.directory, by) for by in NAMES}
    count = len(roster.devices)
    with watching("restore", devices=count, roster=roster, events=to.events, metrics=to.metrics) as emit:
        for text in (*first, *_left_alone(job)):
            emit.say(text)
        # Nothing is changed yet, so an interrupt needs no notice about restoring.
        with stop_on_signals() as stop:
            api.wait_for_window(job.window, emit=emit, interrupted=stop.is_set)
        with graceful_interrupt(emit.say) as stop:
            api.transcripts_reported_by(job.nornir, emit.say)
            report = api.carry_out(
                job, state=journal, emit=emit, interrupted=stop.is_set, approve=wave_approval(emit.say)
            )
    # An earlier speed counts only for the same transport.
    rates = {one.host: rate for one in report.devices if (rate := before.get(one.transport, {}).get(one.host))}
    code = api.run_exit_code(report)
    return Result(verb="stage", code=code, content={"run": report}, value=lambda: report, before_bytes_per_s=rates)


def _left_alone(job: StageJob) -> list[str]:
    """Return a sentence with how many devices a run leaves alone; the report has the reasons."""
    texts = []
    if excluded := job.request.excluded:
        hosts = names([device.host for device, _ in excluded])
        texts.append(f"the plan leaves {counted(len(excluded), 'device')} alone: {hosts}; the report says why")
    if job.not_chosen:
        others = counted(len(job.not_chosen), "device")
        texts.append(f"not chosen, so left alone: {others} of the plan: {names(job.not_chosen)}")
    if job.has_no_canary:
        texts.append("the plan's canaries are not among the chosen devices: no other one waits for them")
    return texts


class ThisHost:
    """Carries out verbs on this host.

    Args:
        state: The state folder; None: the default.
    """

    def __init__(self, state: Path | None) -> None:
        self._state = state

    def check(self, which: FleetOptions, server: ServerPlace, asked: CheckAsked) -> Result[tuple[CheckRecord, ...]]:
        """Check devices."""
        nornir = fleet(which)
        lines = EventLines()
        image = api.read_image(asked.image, md5=asked.md5, sha512=asked.sha512, emit=lines) if asked.image else None
        with reading_only("a check") as stop:
            found = api.check(
                nornir,
                image,
                reach=asked.reach,
                server=server,
                transport=asked_transport(asked.transport),
                state=self._state,
                emit=lines,
                interrupted=stop.is_set,
            )
        return devices_result("check", found.exit_code, found.devices)

    def probe(self, which: FleetOptions, server: ServerPlace, asked: ProbeAsked, to: Watching) -> Result[RunReport]:
        """Time copies to `null:`."""
        options = probe_options(asked, server)
        nornir = fleet(which)
        roster = api.roster_of(nornir)
        count = len(roster.devices)
        with (
            api.journal_in(self._state, origin(to.events)) as journal,
            watching("restore", devices=count, roster=roster, events=to.events, metrics=to.metrics) as emit,
            graceful_interrupt(emit.say) as stop,
        ):
            api.transcripts_reported_by(nornir, emit.say)
            report = api.probe(nornir, options, state=journal, emit=emit, interrupted=stop.is_set)
        code = api.run_exit_code(report)
        return Result(verb="probe", code=code, content={"run": report}, value=lambda: report)

    def plan(self, which: FleetOptions, chosen: dict[str, object], asked: PlanAsked) -> Result[FleetPlan]:
        """Make a plan."""
        now = datetime.now().astimezone()
        policy = api.StagePolicy().changed(chosen)
        starts_at, until = asked.span(policy.until, now)
        rules, folders = api.image_rules(which.folder, asked.images, has_image=asked.image is not None)
        request = api.PlanRequest(
            image=asked.image,
            rules=rules,
            folders=(*(asked.image_dir or ()), *folders),
            policy=replace(policy, until=until),
            starts_at=starts_at,
            state_directory=api.state_folder(self._state),
            depot=asked.depot or "auto",
        )
        nornir = fleet(which)
        progress = PlanProgress(len(nornir.inventory.hosts))
        with reading_only("a plan") as stop:
            found = api.plan(nornir, request, now=now, emit=progress, interrupted=stop.is_set)
        out = asked.out
        if out is not None and found.is_whole:
            api.save_plan(found.plan, out)
        elif out is not None:
            say(f"interrupted: {out} was not written: some devices were not checked")
        document = plan_document(found.plan)
        after = next_lines(found.plan, out, str(document["digest"]))
        return Result(verb="plan", code=found.exit_code, content=document, value=lambda: found.plan, after=after)

    def stage(
        self, which: FleetOptions, chosen: dict[str, object], server: ServerPlace, asked: StageAsked, to: Watching
    ) -> Result[object]:
        """Stage, resume or rehearse a run."""
        return Staging(self._state, which, chosen, server, to).carry_out(asked)

    def recover(self, which: FleetOptions, asked: RecoverAsked) -> Result[tuple[RecoveryRecord, ...]]:
        """Restore devices that killed runs left tuned."""
        if asked.gone:
            found = api.forget(asked.gone, state=self._state)
        else:
            with graceful_interrupt() as stop:
                found = api.recover(
                    which,
                    run=asked.run,
                    confirmed=asked.device_is or (),
                    accepted=asked.accepted or (),
                    state=self._state,
                    ask=prompt(),
                    emit=EventLines(),
                    interrupted=stop.is_set,
                    notify=say,
                )
        return devices_result("recover", found.exit_code, found.devices)
