"""Verbs carried out on this host, by `flashferry.api`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flashferry import api
from flashferry.cli.result import Result, Watching, devices_result
from flashferry.cli.terminal.output import EventLines, say
from flashferry.cli.this_host_runs import RunsOfThisHost
from flashferry.core.value_description import counted

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


class ThisHost(RunsOfThisHost):
    """Carries verbs out on this host. What only some of its verbs need is imported by them: for the start time."""

    def check(self, which: FleetOptions, server: ServerPlace, asked: CheckAsked) -> Result[tuple[CheckRecord, ...]]:
        """Check devices."""
        from flashferry.cli.options.fleet import fleet
        from flashferry.cli.options.server import asked_transport
        from flashferry.cli.terminal.interrupt import reading_only

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
        from flashferry.cli.options.fleet import fleet
        from flashferry.cli.options.shared import origin
        from flashferry.cli.terminal.interrupt import graceful_interrupt
        from flashferry.cli.view.live import watching

        options = asked.options(server)
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
        from flashferry.cli.options.fleet import fleet
        from flashferry.cli.terminal.interrupt import reading_only
        from flashferry.cli.view.plan_table import PlanProgress, next_lines
        from flashferry.model.plan_file import plan_document

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
        from flashferry.cli.options.shared import origin

        if asked.resume is not None:
            return self._resume(which, asked.resume, chosen, server, to)
        job = self._job(which, chosen, server, asked)
        pace = api.pace_notices(job, self._state)
        if asked.dry_run:
            for text in pace:
                say(text)
            return self._dry_run(job)
        with api.journal_in(self._state, origin(to.events)) as journal:
            return _run(job, journal, to, (*pace, *api.dead_run_notices(journal)))

    def _job(self, which: FleetOptions, chosen: Chosen, server: ServerPlace, asked: StageAsked) -> StageJob:
        """Return what is to be done with which devices."""
        from flashferry.cli.options.fleet import fleet

        if asked.plan is None:
            assert asked.image is not None
            policy = api.StagePolicy.without_plan(chosen)
            return api.job_for_image(
                fleet(which), asked.image, policy, server, inventory=which.inventory, state=self._state
            )
        path = Path(asked.plan)
        found = api.load_plan(path)
        say(f"plan {path}: SHA-256 {found.digest}, made at {found.created_at}")
        policy = found.run_policy.changed(chosen)
        return api.job_for_plan(
            fleet(which), found, policy, server, path=path, inventory=which.inventory, is_part=which.has_selection
        )

    def _resume(
        self, which: FleetOptions, run: str, chosen: Chosen, server: ServerPlace, to: Watching
    ) -> Result[object]:
        """Restore what the run left tuned, and continue it."""
        from flashferry.cli.options.fleet import prompt
        from flashferry.cli.options.shared import origin
        from flashferry.cli.terminal.interrupt import graceful_interrupt
        from flashferry.cli.terminal.output import print_error
        from flashferry.devices.errors import Interrupted, RestoreIncomplete

        with api.journal_in(self._state, origin(to.events)) as journal:
            lines = EventLines()
            try:
                with graceful_interrupt(lines.say) as stop:
                    job = api.job_for_resume(
                        *(which, run, chosen, journal),
                        server=server,
                        ask=prompt(),
                        tell=say,
                        emit=lines,
                        interrupted=stop.is_set,
                    )
            except (RestoreIncomplete, Interrupted) as error:
                code = api.resume_failure_code(error, journal)
                print_error(error, code)
                raise typer.Exit(int(code)) from None
            return _run(job, journal, to, api.pace_notices(job, self._state))

    def _dry_run(self, job: StageJob) -> Result[object]:
        from flashferry.cli.terminal.interrupt import reading_only

        with reading_only("a dry run") as stop:
            found = api.dry_run(job, state=self._state, emit=EventLines(), interrupted=stop.is_set)
        return devices_result("dry-run", found.exit_code, found.devices)

    def recover(self, which: FleetOptions, asked: RecoverAsked) -> Result[tuple[RecoveryRecord, ...]]:
        """Restore what runs that were killed left tuned."""
        from flashferry.cli.options.fleet import prompt
        from flashferry.cli.terminal.interrupt import graceful_interrupt

        if asked.gone:
            found = api.forget(asked.gone, state=self._state)
        else:
            with graceful_interrupt() as stop:
                found = api.recover(
                    which,
                    run=asked.run,
                    vouched=asked.device_is or (),
                    accepted=asked.accepted or (),
                    state=self._state,
                    ask=prompt(),
                    emit=EventLines(),
                    interrupted=stop.is_set,
                    tell=say,
                )
        return devices_result("recover", found.exit_code, found.devices)


def _run(job: StageJob, journal: Journal, to: Watching, first: Sequence[str]) -> Result[object]:
    """Carry a run out.

    Notices go through the run's view: where events take the place of what is for people, no other line is printed.
    """
    from flashferry.cli.terminal.interrupt import graceful_interrupt, stop_on_signals
    from flashferry.cli.terminal.questions import wave_approval
    from flashferry.cli.view.live import watching
    from flashferry.store.status import last_as_is
    from inventory.transport_policy import NAMES

    roster = api.roster_of(job.devices, job.sizes_bytes)
    before = {by: last_as_is(journal.directory, by) for by in NAMES}
    count = len(roster.devices)
    with watching("restore", devices=count, roster=roster, events=to.events, metrics=to.metrics) as emit:
        for text in (*first, *_left_alone(job)):
            emit.say(text)
        # Nothing is changed yet, so there is nothing to restore, nor to say of it.
        with stop_on_signals() as stop:
            api.wait_for_window(job.window, emit=emit, interrupted=stop.is_set)
        with graceful_interrupt(emit.say) as stop:
            api.transcripts_reported_by(job.nornir, emit.say)
            report = api.carry_out(
                job, state=journal, emit=emit, interrupted=stop.is_set, approve=wave_approval(emit.say)
            )
    # By another transport an earlier speed says nothing of this copy.
    rates = {one.host: rate for one in report.devices if (rate := before.get(one.transport, {}).get(one.host))}
    code = api.run_exit_code(report)
    return Result(verb="stage", code=code, content={"run": report}, value=lambda: report, before_bytes_per_s=rates)


def _left_alone(job: StageJob) -> list[str]:
    """Return how many devices a run leaves alone; the report has the reasons."""
    from flashferry.cli.view.layout import names

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
