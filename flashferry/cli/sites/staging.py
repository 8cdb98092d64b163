"""Staging at sites: start a run from a plan, follow it to its end, and print its result."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from flashferry.cli.invocation import asker
from flashferry.cli.sites.centre import centre_of
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import command, finish, say
from flashferry.cli.view.device_tables import print_run
from flashferry.cli.view.layout import console, names
from flashferry.cli.view.live import watching
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode, run_exit_code
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.sites.centre.centre import Centre
from flashferry.sites.centre.following import Follower
from flashferry.sites.centre.merging import merged, run_report
from flashferry.sites.centre.plans import read_plan_file
from flashferry.sites.centre.settings import CentreSettings, load_centre
from flashferry.sites.centre.sharing import left_out, owners_of, shares, staged_from_here

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.cli.result import Watching
    from flashferry.model.record import RunReport
    from flashferry.sites.centre.centre import Centre
    from flashferry.store.sites.runs import SiteRun


def follow(
    centre: Centre, run: SiteRun, *, events: Path | None, metrics: str | None, stops: bool, as_json: bool
) -> NoReturn:
    """Follow a run to its end, print its result, and exit with its code.

    Args:
        centre: The open centre.
        run: The run.
        events: File for events, or None.
        metrics: Address that serves metrics, or None.
        stops: Whether the first Ctrl-C stops the run and the second leaves it; otherwise the first leaves it.
        as_json: Whether to print JSON.
    """
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
    # Runs at sites are in the ledger, not in the journal.
    print_run(report, is_kept=False)
    console().print(f"report: {command(f'sites report {report.run_id}')}")


@contextmanager
def _signals(*, stops: bool) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Yield the events set by the first and the second Ctrl-C. Without `stops`, the first one sets the second event."""
    stop, left = threading.Event(), threading.Event()

    def leave(first: bool) -> None:
        if not first or not stops:
            left.set()

    with stop_on_signals(threading.Event() if not stops else stop, leave):
        yield stop, left


def stage_at_sites(
    sites: Path, plan: Path, state_dir: Path | None, to: Watching, *, without: Collection[str], as_json: bool
) -> NoReturn:
    """Send each site its part of a plan, follow the run, report it, and exit with its code.

    Args:
        sites: File with the centre's settings.
        plan: File of the plan.
        state_dir: The state folder; None: the default.
        to: Where events go.
        without: Sites and devices to leave out.
        as_json: Whether to print JSON.

    Raises:
        ConfigInvalid: An argument is invalid, or a site cannot take its part; nothing was sent.
        BrokerUnreachable: The broker cannot be reached; nothing was sent.
    """
    read = read_plan_file(plan)
    # Check this before anything is opened or sent.
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
    """Print the devices that a run leaves out because they belong to no site, and the command that stages them."""
    staged = [one for one in left if one.action is Action.STAGE]
    if staged:
        say(f"left out: {counted(len(staged), 'device')}: {names([one.host for one in staged])}")
    if here := [one.host for one in staged if not owners_of(one, settings)]:
        say(f"'{staged_from_here(plan, here, called)}' stages those at no site from here")
    if plan.canaries and plan.canaries <= {one.host for one in left}:
        say("the plan's canaries are among them: no site waits for them")
