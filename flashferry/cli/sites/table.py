"""`flashferry sites list|runs|show`: list sites, agents and the state of runs at sites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.options.shared import JsonOption, RunsOption, StateOption
from flashferry.cli.sites.centre import RunArgument, SettingsOption, centre_of, ledger_of, settings_of
from flashferry.cli.terminal.output import finish, say
from flashferry.cli.view.sites_table import print_site_run, print_site_runs, print_sites
from flashferry.model.exit_codes import ExitCode
from flashferry.sites.broker import BrokerUnreachable
from flashferry.sites.centre.overview import overview, run_overview, run_overviews
from flashferry.sites.centre.plans import run_in
from flashferry.store.reader import LATEST_RUNS


def list_sites(
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Whether agents are asked to answer first (default: they are).")
    ] = True,
    sites: SettingsOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """List sites with their agents: release, clock, last contact, what the depot has. Agents are asked first."""
    settings = settings_of(sites, state_dir)
    if ask:
        _ask(sites, state_dir)
    found = overview(ledger_of(state_dir), settings)
    result: dict[str, object] = {"sites": found}
    finish("sites-list", ExitCode.OK, result, as_json=json, human=lambda: print_sites(found))


def _ask(sites: Path | None, state_dir: Path | None) -> None:
    with centre_of(sites, state_dir) as centre:
        try:
            centre.ask(tuple(centre.settings.sites))
        except BrokerUnreachable as error:
            say(f"{error}. What follows is what was known before")


def list_runs(runs: RunsOption = LATEST_RUNS, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """List the latest runs that were given to sites, the newest first. Reads the ledger only."""
    found = run_overviews(ledger_of(state_dir), most=runs)
    result: dict[str, object] = {"runs": found}
    finish("sites-runs", ExitCode.OK, result, as_json=json, human=lambda: print_site_runs(found))


def show_run(run: RunArgument = "latest", state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Show a run's state at each site, the outcomes of its devices, and who asked for what. Reads the ledger only."""
    ledger = ledger_of(state_dir)
    found = run_overview(ledger, run_in(ledger, run))
    finish("sites-run", ExitCode.OK, {"run": found}, as_json=json, human=lambda: print_site_run(found))
