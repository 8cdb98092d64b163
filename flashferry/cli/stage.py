"""`flashferry stage`: tune, copy, verify, restore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.command_line import TUNING
from flashferry.cli.options.fleet import fleet, fleet_options, prompt
from flashferry.cli.options.policy import policy_options
from flashferry.cli.options.server import server_options
from flashferry.cli.options.shared import EventsOption, JsonOption, MetricsOption, StateOption, origin
from flashferry.cli.terminal.interrupt import graceful_interrupt, looking, stop_on_signals
from flashferry.cli.terminal.output import EventLines, finish, print_error, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import counted
from flashferry.model.policy import Chosen, TuneMode, settings, settled_at_start
from inventory.selection import Selection
from inventory.transport_policy import NAMES

if TYPE_CHECKING:
    from flashferry.api import StageJob
    from flashferry.model.record import RunReport
    from flashferry.store.journal import Journal


@fleet_options
@policy_options(settings().values())
@server_options
def stage(
    which: FleetOptions,
    chosen: dict[str, object],
    server: api.ServerPlace,
    image: Annotated[Path | None, typer.Option("--image", metavar="FILE", help="The image file.")] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Carry out what 'flashferry plan --output' wrote.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a run that died or was stopped; recovers it first."),
    ] = None,
    no_tune: Annotated[
        bool,
        typer.Option("--no-tune", help="Copy with the device's TCP settings as they are.", rich_help_panel=TUNING),
    ] = False,
    sites: Annotated[
        Path | None,
        typer.Option(
            "--sites",
            metavar="FILE",
            help="Give each site its part of the plan: the centre's settings, whose agents carry it out.",
        ),
    ] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            metavar="NAME",
            help="With --sites: leave this site of the plan, or this device, out of the run; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be sent to each device; change nothing.")
    ] = False,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Have devices pull an image: tune TCP, copy, verify the hash, put the configuration back, prove it."""
    _check_one_job(image, plan, resume)
    _check_left_out(leave_out, sites)
    settled = _tuned(chosen, no_tune=no_tune)
    shown = _Shown(events=events, metrics=metrics, as_json=json)
    if sites is not None:
        from flashferry.cli.sites.following import Shown
        from flashferry.cli.sites.staging import stage_at_sites

        file = _check_for_sites(plan, which, settled, dry_run=dry_run)
        told = Shown(events=events, metrics=metrics, as_json=json)
        stage_at_sites(sites, file, state_dir, told, without=leave_out or ())
    if resume is not None:
        if dry_run or no_tune:
            raise settled_at_start("--dry-run" if dry_run else "--no-tune")
        _resume(which, resume, settled, server, state_dir, shown)
    job = _job(which, settled, server, state_dir, image=image, plan=plan)
    pace = api.pace_notices(job, state_dir)
    if dry_run:
        for text in pace:
            say(text)
        _dry_run(job, state_dir, as_json=json)
    with api.journal_in(state_dir, origin(events)) as journal:
        _run(job, journal, shown, (*pace, *api.dead_run_notices(journal)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """Who is told of a run, and how its result is printed."""

    events: Path | None
    metrics: str | None
    as_json: bool


def _job(
    which: FleetOptions,
    chosen: Chosen,
    server: api.ServerPlace,
    state_dir: Path | None,
    *,
    image: Path | None,
    plan: Path | None,
) -> StageJob:
    """Return what is to be done with which devices."""
    if plan is None:
        assert image is not None
        policy = api.StagePolicy.without_plan(chosen)
        return api.job_for_image(fleet(which), image, policy, server, inventory=which.inventory, state=state_dir)
    found = api.load_plan(plan)
    say(f"plan {plan}: SHA-256 {found.digest}, made at {found.created_at}")
    is_part = which.selection != Selection()
    policy = found.run_policy.changed(chosen)
    return api.job_for_plan(fleet(which), found, policy, server, path=plan, inventory=which.inventory, is_part=is_part)


def _run(job: StageJob, journal: Journal, shown: _Shown, first: Sequence[str]) -> None:
    """Do it, report, and leave with the exit code.

    What is to be said first goes the way of all that is said of the run: where events take the place of what is for
    people, nothing else may stand among them.
    """
    from flashferry.cli.terminal.questions import wave_approval
    from flashferry.cli.view.device_tables import print_run
    from flashferry.cli.view.live import watching
    from flashferry.store.status import last_as_is

    roster = api.roster_of(job.devices, job.sizes_bytes)
    was = {by: last_as_is(journal.directory, by) for by in NAMES}
    with watching(
        "restore", devices=len(roster.devices), roster=roster, events=shown.events, metrics=shown.metrics
    ) as emit:
        for text in (*first, *_excluded(job)):
            emit.say(text)
        # Nothing is changed yet, so there is nothing to restore, nor to say of it.
        with stop_on_signals() as stop:
            api.wait_for_window(job.window, emit=emit, interrupted=stop.is_set)
        with graceful_interrupt(emit.say) as stop:
            api.transcripts_told_by(job.nornir, emit.say)
            report = api.carry_out(
                job, state=journal, emit=emit, interrupted=stop.is_set, approve=wave_approval(emit.say)
            )
    code = api.run_exit_code(report)
    finish(
        "stage", code, {"run": report}, as_json=shown.as_json, human=lambda: print_run(report, _as_it_was(was, report))
    )


def _as_it_was(was: Mapping[str, Mapping[str, float]], report: RunReport) -> dict[str, float]:
    """Return by device its speed before tuning by the transport of its copy; by another one it is none of this."""
    return {one.host: rate for one in report.devices if (rate := was.get(one.transport, {}).get(one.host))}


def _excluded(job: StageJob) -> Iterator[str]:
    """Yield how many devices a plan does not have touched; why stands in the report."""
    from flashferry.cli.view.layout import names

    if excluded := job.request.excluded:
        count, hosts = len(excluded), names([device.host for device, _ in excluded])
        yield f"the plan leaves {counted(count, 'device')} alone: {hosts}; the report says why"
    if job.not_chosen:
        others = counted(len(job.not_chosen), "device")
        yield f"not chosen, so left alone: {others} of the plan: {names(job.not_chosen)}"
    if job.has_no_canary:
        yield "the plan's canaries are not among the chosen devices: no other one waits for them"


def _resume(
    which: FleetOptions,
    run: str,
    chosen: Chosen,
    server: api.ServerPlace,
    state_dir: Path | None,
    shown: _Shown,
) -> None:
    """Restore what the run left in its hands, go on with it, and leave with the exit code."""
    from flashferry.devices.errors import Interrupted, RestoreIncomplete

    with api.journal_in(state_dir, origin(shown.events)) as journal:
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
        _run(job, journal, shown, api.pace_notices(job, state_dir))


def _dry_run(job: StageJob, state_dir: Path | None, *, as_json: bool) -> None:
    """Print what would be sent, and leave with the exit code."""
    from flashferry.cli.view.device_tables import print_dry_run

    with looking("a dry run") as stop:
        found = api.dry_run(job, state=state_dir, emit=EventLines(), interrupted=stop.is_set)
    result: dict[str, object] = {"devices": found.devices}
    finish("dry-run", found.exit_code, result, as_json=as_json, human=lambda: print_dry_run(found.devices))


def _check_for_sites(plan: Path | None, which: FleetOptions, chosen: Chosen, *, dry_run: bool) -> Path:
    """Check that nothing is said to sites but a plan, and return its file.

    Raises:
        ConfigInvalid: There is no plan, or something is said that the plan and the sites' own settings say.
    """
    if plan is None or dry_run or which.selection != Selection() or chosen:
        what = "no plan" if plan is None else "a dry run" if dry_run else "more about devices, images, waves or tuning"
        raise ConfigInvalid(
            f"--sites: expected --plan FILE with it and nothing else that a plan says, found {what}",
            hint="Each site carries out its part of the plan as it stands, with its agent's own settings; --leave-out "
            "leaves sites or devices out",
        )
    return plan


def _check_left_out(names: list[str] | None, sites: Path | None) -> None:
    if names and sites is None:
        raise ConfigInvalid(
            "--leave-out: expected --sites FILE with it, found none",
            hint="From here --host, --group and --filter choose among the plan's devices",
        )


def _check_one_job(image: Path | None, plan: Path | None, resume: str | None) -> None:
    """Check that exactly one thing is to be done.

    Raises:
        ConfigInvalid: None is, or more than one.
    """
    words = (("--image", image), ("--plan", plan), ("--resume", resume))
    given = [name for name, value in words if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise ConfigInvalid(
            f"expected one of --image, --plan and --resume, found {found}",
            hint="Where rules say which device gets which image, make a plan: 'flashferry plan --output FILE'",
        )


def _tuned(chosen: Chosen, *, no_tune: bool) -> Chosen:
    """Return what was chosen, with `--no-tune` as the mode that it is.

    Raises:
        ConfigInvalid: Something else was chosen that is tuning.
    """
    tune = chosen.get("tune")
    if no_tune and tune not in (None, TuneMode.NEVER):
        raise ConfigInvalid(
            f"--no-tune cannot be combined with --tune {tune}: it means --tune never", hint="Leave one of them out"
        )
    if (no_tune or tune is TuneMode.NEVER) and "extra" in chosen:
        raise ConfigInvalid(
            "--no-tune cannot be combined with --extra: an extra is tuning", hint="Leave one of them out"
        )
    return {**chosen, "tune": TuneMode.NEVER} if no_tune else chosen
