"""Backend that carries out verbs on this host, by `flashferry.api`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry import api
from flashferry.cli.invocation import origin
from flashferry.cli.options.fleet import fleet, prompt
from flashferry.cli.result import Result, Watching, devices_result
from flashferry.cli.terminal.interrupt import graceful_interrupt, reading_only
from flashferry.cli.terminal.output import EventLines, say
from flashferry.cli.this_host_staging import Staging
from flashferry.cli.transport_options import asked_transport, probe_options
from flashferry.cli.view.live import watching
from flashferry.cli.view.plan_table import PlanProgress, next_lines
from flashferry.core.values import replace
from flashferry.model.plan_file import plan_document

if TYPE_CHECKING:
    from flashferry.api import FleetOptions, ServerPlace
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.model.fleet_plan import FleetPlan
    from flashferry.model.record import RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.run.recover import RecoveryRecord


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
