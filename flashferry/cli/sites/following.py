"""`flashferry sites follow|report|listen`: follow runs at sites, drive them to their end, and report them."""

from __future__ import annotations

import time

import typer

from flashferry.cli.command_line import is_typed
from flashferry.cli.invocation import asker
from flashferry.cli.options.shared import (
    EventsOption,
    FormatOption,
    JsonOption,
    MetricsOption,
    ReportFileOption,
    StateOption,
)
from flashferry.cli.report import leave_with_report, report_asked
from flashferry.cli.sites.centre import RunArgument, SettingsOption, centre_of, ledger_of
from flashferry.cli.sites.staging import follow
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import say
from flashferry.core.units import counted
from flashferry.sites.centre.following import ALL_POLL_S, FleetFollower
from flashferry.sites.centre.merging import merged, report_of_sites
from flashferry.sites.centre.plans import run_in


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
    with stop_on_signals() as ending, centre_of(sites, state_dir) as centre:
        say(f"listens to the agents of {counted(len(centre.settings.sites), 'site')}")
        listener = FleetFollower(centre, asker(""), say)
        while not ending.is_set():
            listener.check()
            time.sleep(ALL_POLL_S)


def report_run(
    ctx: typer.Context,
    run: RunArgument,
    form: FormatOption = None,
    output: ReportFileOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Report a run of sites from the centre's ledger alone: one that ended or is under way. Asks no site."""
    asked = report_asked(form, output, None, json=json, is_typed=is_typed(ctx, "json"))
    ledger = ledger_of(state_dir)
    leave_with_report(report_of_sites(merged(ledger, run_in(ledger, run))), asked, checks=False)
