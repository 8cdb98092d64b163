"""`flashferry sites follow|listen|report`: runs of sites driven by a terminal or a daemon, and reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from flashferry.cli.command_line import App
from flashferry.cli.options.reports import FormatOption, ReportFileOption
from flashferry.cli.options.shared import (
    EventsOption,
    JsonOption,
    MetricsOption,
    StateOption,
    asker,
    is_typed,
)
from flashferry.cli.sites.options import RunArgument, SettingsOption, centre_of, ledger_of
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import command, finish, say
from flashferry.core.safe_quote import counted
from flashferry.model.exit_codes import ExitCode, run_exit_code

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.model.record import RunReport
    from flashferry.sites.centre.centre import Centre
    from flashferry.store.sites.runs import SiteRun


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
    from flashferry.sites.centre.listener import LOOK_S, Listener

    with stop_on_signals() as ending, centre_of(sites, state_dir) as centre:
        say(f"listens to the agents of {counted(len(centre.settings.sites), 'site')}")
        listener = Listener(centre, asker(""), say)
        while not ending.is_set():
            listener.look()
            time.sleep(LOOK_S)


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
