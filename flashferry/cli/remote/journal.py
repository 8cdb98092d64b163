"""`flashferry --service URL status|history|report`: what the service's journal knows, in the local verbs' own words."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flashferry.cli.options.reports import CheckOption, FormatOption, ReportedRun, ReportFileOption, ThresholdOption
from flashferry.cli.options.shared import JsonOption, is_typed
from flashferry.cli.remote.connect import connect
from flashferry.cli.terminal.output import command, finish
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.service.client.answers import as_agreed
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.values import RemoteHistory
from flashferry.store.history import History
from flashferry.store.measurement import Measurement
from flashferry.store.reader import LATEST_RUNS, chosen
from flashferry.store.status import Status

LastOption = Annotated[int, typer.Option("--last", metavar="N", min=1, max=200, help="How many runs to show.")]


def status(ctx: typer.Context, last: LastOption = LATEST_RUNS, json: JsonOption = False) -> None:
    """Show the service's runs, devices in hand and what is left to recover; exits with 0 either way."""
    from flashferry.cli.status import print_status, told_status
    from flashferry.cli.view.run_tables import print_runs

    with connect(ctx) as client:
        found = status_of(client, last)
    result, meaning = told_status(found)
    document = {**to_json(found), "directory": client.url}
    human = (lambda: print_status(found)) if found.runs or found.lost else (lambda: print_runs((), no_run(client.url)))
    finish("status", ExitCode.OK, result | {"status": document}, as_json=json, human=human, meaning=meaning)


def status_of(client: ServiceClient, last: int) -> Status:
    """Return how the service's runs stand."""
    return as_agreed(Status, client.read("/status", {"last": last}).get("status"))


def run_named(client: ServiceClient, given: str) -> str:
    """Return the identifier of the run at the service that is meant.

    Raises:
        ConfigInvalid: None is, or more than one.
    """
    known = [run.run_id for run in reversed(client.runs())]
    if not known:
        hint = f"'{command('stage --plan FILE')}' begins one; runs of sites at which you have no role are not told"
        raise ConfigInvalid(no_run(client.url), hint=hint)
    try:
        return chosen(given, known)
    except ConfigInvalid as error:
        is_unknown = "could be" not in error.message
        newest = f"no run {given!r} at the service: the newest that you may see is {known[-1]}"
        hint = f"'{command('run list')}' has the latest"
        raise ConfigInvalid(newest if is_unknown else error.message, hint=hint) from None


def no_run(url: str, what: str = "run") -> str:
    """Return that a service has nothing of a kind, as far as one may see it."""
    return f"the service at {url} has no {what} that you may see yet"


def history(
    ctx: typer.Context,
    device: Annotated[str | None, typer.Argument(metavar="DEVICE", help="Its name in the service's inventory.")] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, max=2000, help="How many copies to show.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show how fast a device took its copies over time; without a device, the newest copy of each."""
    from flashferry.cli.history import print_device, print_newest

    with connect(ctx) as client:
        told = client.read("/history", {"device": device or "", "last": last})
    found = _history_in(told)
    if device is None:
        without = no_run(client.url, "copy")
        result: dict[str, object] = {"devices": [found.of(host)[-1] for host in found.hosts], "damaged": found.damaged}
        finish("history", ExitCode.OK, result, as_json=json, human=lambda: print_newest(found, without))
    one = as_agreed(RemoteHistory, told.get("device")).history()
    result = {name: getattr(one, name) for name in one.__slots__}
    finish("history", ExitCode.OK, result, as_json=json, human=lambda: print_device(one, found))


def _history_in(told: dict[str, Any]) -> History:
    copies = as_agreed(tuple[Measurement, ...], told.get("copies"))
    return History(copies, damaged=as_agreed(int, told.get("damaged", 0)))


def report(
    ctx: typer.Context,
    run: ReportedRun,
    form: FormatOption = None,
    output: ReportFileOption = None,
    threshold: ThresholdOption = None,
    check: CheckOption = False,
    json: JsonOption = False,
) -> None:
    """Report a run from the service's journal alone: one that ended, died or is under way. Touches no device."""
    from flashferry.cli.report import leave_with_report, wanted_report
    from flashferry.service.client.answers import report_in

    wanted = wanted_report(form, output, threshold, json=json, is_typed=is_typed(ctx, "json"))
    with connect(ctx) as client:
        found = report_in(client.report(run_named(client, run), "json"))
    leave_with_report(found, wanted, checks=check)
