"""Runs of sites: started from a plan, driven to their end, and reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from flashferry.api.fleet import state_folder
from flashferry.cli.command_line import OUTPUT, App
from flashferry.cli.options.shared import (
    EventsOption,
    FormatOption,
    JsonOption,
    MetricsOption,
    ReportFileOption,
    StateOption,
    asker,
    is_typed,
)
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import command, finish, say
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode, run_exit_code
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.sites.centre.centre import Centre, open_centre, read_plan_file
from flashferry.sites.centre.settings import USUAL_NAME, CentreSettings, load_centre
from flashferry.sites.centre.sharing import left_out, owners_of, shares, staged_from_here
from flashferry.store.sites.database import SitesDatabase

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.cli.result import Watching
    from flashferry.model.record import RunReport
    from flashferry.sites.centre.centre import Centre
    from flashferry.store.sites.runs import SiteRun

SITES_VARIABLE = "FLASHFERRY_SITES"

SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--sites",
        envvar=SITES_VARIABLE,
        metavar="FILE",
        help=f"The centre's settings of sites (default: {USUAL_NAME} in the state folder).",
        rich_help_panel=OUTPUT,
    ),
]

SiteOption = Annotated[
    str | None, typer.Option("--site", metavar="NAME", help="This site alone (default: all that are not through).")
]

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, the beginning or end of it, or 'latest'.")
]


def settings_of(given: Path | None, state_dir: Path | None) -> CentreSettings:
    """Return the centre's settings.

    Raises:
        ConfigInvalid: They cannot be read, or are wrong.
    """
    return load_centre(given if given is not None else state_folder(state_dir) / USUAL_NAME)


@contextmanager
def centre_of(given: Path | None, state_dir: Path | None) -> Iterator[Centre]:
    """Open the centre for the time of a block; errors as in `open_centre`."""
    with open_centre(settings_of(given, state_dir), state_folder(state_dir)) as centre:
        yield centre


def ledger_of(state_dir: Path | None) -> SitesDatabase:
    """Return the ledger, to be read.

    Raises:
        ConfigInvalid: It cannot be used.
    """
    return SitesDatabase(state_folder(state_dir))


def register(app: App) -> None:
    """Enter the commands of this module."""
    app.command("follow")(follow_run)
    app.command("report")(report_run)


def follow_run(
    run: RunArgument = "latest",
    sites: SettingsOption = None,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Follow a run of sites until it ends, and drive it; Ctrl-C ends only the following."""
    with centre_of(sites, state_dir) as centre:
        found = centre.run_named(run)
        follow(centre, found, events=events, metrics=metrics, stops=False, as_json=json)


def listen(sites: SettingsOption = None, state_dir: StateOption = None) -> None:
    """Collect what agents report and drive all runs of sites, until Ctrl-C or SIGTERM, which ends no run."""
    from flashferry.sites.centre.following import ALL_POLL_S, FleetFollower

    with stop_on_signals() as ending, centre_of(sites, state_dir) as centre:
        say(f"listens to the agents of {counted(len(centre.settings.sites), 'site')}")
        listener = FleetFollower(centre, asker(""), say)
        while not ending.is_set():
            listener.check()
            time.sleep(ALL_POLL_S)


def follow(
    centre: Centre, run: SiteRun, *, events: Path | None, metrics: str | None, stops: bool, as_json: bool
) -> NoReturn:
    """Follow a run to its end, print what it came to, and leave with its exit code.

    Args:
        centre: Open.
        run: The run.
        events: The file that events go to, or None.
        metrics: The address of metrics, or None.
        stops: Whether the first Ctrl-C stops it and only the second leaves it alone; else the first one does that.
        as_json: Whether the result is for programs.
    """
    from flashferry.cli.view.live import watching
    from flashferry.sites.centre.following import Follower

    follower = Follower(centre, run, asker("stopped at the centre's terminal"))
    roster = follower.roster()
    with (
        watching(
            "restore",
            devices=len(roster.devices),
            roster=roster,
            events=events,
            metrics=metrics,
            silence=follower.silence,
            fetching=follower.fetching,
        ) as view,
        _signals(stops=stops) as (stop, left),
    ):
        is_over = follower.follow(view, stop.is_set, left.is_set)
    _leave(centre, run.run, as_json=as_json, is_over=is_over)


def _leave(centre: Centre, run_id: str, *, as_json: bool, is_over: bool) -> NoReturn:
    from flashferry.sites.centre.merging import merged, run_report

    report = run_report(merged(centre.ledger, centre.run_named(run_id)))
    code, meaning = run_exit_code(report), None
    if not is_over:
        say(f"run {run_id} continues at its sites; '{command(f'sites follow {run_id}')}' follows it again")
        code, meaning = ExitCode.INTERRUPTED, "interrupted by the operator; the run continues at its sites"
    finish(
        "stage",
        code,
        {"run": report},
        as_json=as_json,
        human=lambda: _print(report),
        meaning=meaning,
    )
    raise AssertionError("unreachable")


def _print(report: RunReport) -> None:
    from flashferry.cli.view.device_tables import print_run
    from flashferry.cli.view.layout import console

    # The journal of this host has nothing of it: what there is more to read is in the ledger.
    print_run(report, is_kept=False)
    console().print(f"report: {command(f'sites report {report.run_id}')}")


@contextmanager
def _signals(*, stops: bool) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Yield what the first and what the second Ctrl-C set; where nothing is stopped the first one leaves at once."""
    stop, left = threading.Event(), threading.Event()

    def leave(first: bool) -> None:
        if not first or not stops:
            left.set()

    with stop_on_signals(threading.Event() if not stops else stop, leave):
        yield stop, left


def report_run(
    ctx: typer.Context,
    run: RunArgument,
    form: FormatOption = None,
    output: ReportFileOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Report a run of sites from the centre's ledger alone: one that ended or is under way. Asks no site."""
    from flashferry.cli.report import leave_with_report, report_asked
    from flashferry.sites.centre.centre import run_in
    from flashferry.sites.centre.merging import merged, report_of_sites

    asked = report_asked(form, output, None, json=json, is_typed=is_typed(ctx, "json"))
    ledger = ledger_of(state_dir)
    leave_with_report(report_of_sites(merged(ledger, run_in(ledger, run))), asked, checks=False)


def stage_at_sites(
    sites: Path, plan: Path, state_dir: Path | None, to: Watching, *, without: Collection[str], as_json: bool
) -> NoReturn:
    """Give each site its part of a plan, follow it, report, and leave with the exit code.

    Args:
        sites: The centre's settings.
        plan: The plan's file.
        state_dir: The state folder, or None: where the command line has it.
        to: Where events go.
        without: Sites and devices that are left out.
        as_json: Whether the result is for programs.

    Raises:
        ConfigInvalid: Something given is wrong, or a site cannot be given its part; nothing was sent then.
        BrokerUnreachable: The broker cannot be reached; nothing was sent.
    """
    read = read_plan_file(plan)
    # Refused before anything is opened and sent.
    settings = load_centre(sites)
    left = left_out(read.plan, settings, without)
    staged = frozenset(one.host for one in read.plan.of(Action.STAGE)) - {one.host for one in left}
    found = shares(read.plan, settings, only=staged, called=str(plan))
    say(f"plan {plan}: SHA-256 {read.plan.digest}, made at {read.plan.created_at}")
    with centre_of(sites, state_dir) as centre:
        run = centre.begin(read, found, asker(""), left_out=[one.host for one in left])
        devices = sum(len(share.devices) for share in found)
        say(f"run {run}: {counted(devices, 'device')} given to {counted(len(found), 'site')}")
        _print_left_out(read.plan, settings, left, str(plan))
        follow(centre, centre.run_named(run), events=to.events, metrics=to.metrics, stops=True, as_json=as_json)


def _print_left_out(plan: FleetPlan, settings: CentreSettings, left: Sequence[PlannedDevice], called: str) -> None:
    """Print which devices a run leaves out, and the command that stages those at no site."""
    from flashferry.cli.view.layout import names

    staged = [one for one in left if one.action is Action.STAGE]
    if staged:
        say(f"left out: {counted(len(staged), 'device')}: {names([one.host for one in staged])}")
    if here := [one.host for one in staged if not owners_of(one, settings)]:
        say(f"'{staged_from_here(plan, here, called)}' stages those at no site from here")
    if plan.canaries and plan.canaries <= {one.host for one in left}:
        say("the plan's canaries are among them: no site waits for them")
