"""`flashferry status`: runs on this host and at sites, devices left to recover, the depot and its images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from flashferry.cli.backend import runs_of
from flashferry.cli.options.shared import CatalogueOption, DepotOption, JsonOption, RunsOption, StateOption
from flashferry.cli.terminal.output import finish, here
from flashferry.cli.view.layout import BAD, GOOD, alike, console, is_wide, line, names, rate, table
from flashferry.cli.view.run_tables import BAD_OUTCOMES, STATES, outcome_words, progress, state_text, tally
from flashferry.cli.view.sites_table import print_site_run_lines
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import GOOD_OUTCOMES, Outcome, RunState
from flashferry.store.reader import LATEST_RUNS
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashferry.cli.result import StatusPage
    from flashferry.depot.catalogue.folder import CatalogueSummary
    from flashferry.store.status import DeviceStatus, RunStatus, Status

_LEFT_OUT = frozenset({Outcome.INTERRUPTED.value, Outcome.NOT_STARTED.value})
_FEW = 5
"""Number of devices up to which all have a row; above, only those that need attention."""
_MOST = 20
"""Maximum number of their rows."""
_WIDE_ONLY = frozenset({"wave", "verdict"})

_Row = dict[str, str | Text]


def status(
    ctx: typer.Context,
    runs: RunsOption = LATEST_RUNS,
    depot: DepotOption = None,
    catalogue: CatalogueOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show runs, devices being staged and what is left to recover. Asks no device, and exits with 0 either way."""
    with runs_of(ctx, state_dir) as backend:
        found = backend.status(runs, depot or "auto", catalogue)
    meaning = found.meaning
    finish("status", ExitCode.OK, found.content, as_json=json, human=lambda: _print(found), meaning=meaning)


def _print(found: StatusPage) -> None:
    if found.without:
        console().print(found.without)
        return
    print_status(found.runs)
    if found.site_runs:
        print_site_run_lines(found.site_runs)
    if found.depot is not None and found.depot.view is not None:
        line("depot", f"at {found.depot.socket}: {found.depot.view.in_words}")
    elif found.depot is not None:
        line("depot", f"{found.depot.trouble}. {found.depot.hint}", BAD)
    if found.images is not None:
        line("catalogue", _in_words(found.images))
    for trouble in found.troubles:
        console().print(here(trouble), style=BAD)


def _in_words(images: CatalogueSummary) -> str:
    words = [f"{counted(len(images.proven), 'image')} proven"] if images.proven else []
    words += [
        f"{one.name} under way, {100 * one.verified_bytes // max(1, one.size_bytes)}% verified"
        for one in images.under_way[:_FEW]
    ]
    if images.under_way[_FEW:]:
        words.append(f"{len(images.under_way) - _FEW} more under way")
    if images.others:
        words.append(f"{counted(len(images.others), 'file')} without a valid proof ('flashferry depot list')")
    return f"{images.folder}: {'; '.join(words) or 'empty'}"


def print_status(found: Status) -> None:
    """Print each run with its devices, and what needs to be recovered."""
    if not found.runs and not found.lost:
        what = "the journal has no run" if found.has_journal else "no journal: nothing was staged or probed from here"
        console().print(f"{found.directory}: {what} yet")
        return
    # Left out if all devices have the same value.
    has_by = any(device.transport not in (None, USUAL) for run in found.runs for device in _with_row(run))
    rows = [[_status_row(run, device, has_by=has_by) for device in _with_row(run)] for run in found.runs]
    widths = _widths([row for of_run in rows for row in of_run])
    for number, (run, of_run) in enumerate(zip(found.runs, rows, strict=True)):
        if number:
            console().print()
        _print_status_of(run, of_run, widths)
    _print_left(found)


def _print_status_of(run: RunStatus, rows: list[_Row], widths: Mapping[str, int]) -> None:
    """Print a run, its devices, and the command for what needs attention."""
    count = len(run.devices)
    began = f"began {run.started_at[:19].replace('T', ' ')} UTC"
    devices = f"{counted(count, 'device')}: {tally(run)}" if count else "no device yet"
    line(run.run_id, f"{run.verb}, {state_text(run)}, {began}, {devices}", STATES[run.state])
    if rows:
        made = table(widths)
        made.pad_edge, made.padding = True, (0, 0, 0, 2)
        for column, width in zip(made.columns, widths.values(), strict=True):
            column.min_width = width
        for row in rows:
            made.add_row(*(row[key] for key in widths))
        console().print(made)
    more = _needing_attention(run)[_MOST:]
    if more and count > _FEW:
        text = f"  and {len(more)} more that need attention; 'flashferry run show {run.run_id}' has all"
        console().print(here(text))
    addresses = {device.host: device.address for device in run.devices}
    alike(((device.reason, device.host) for device in _with_row(run) if device.reason), BAD, addresses)
    _print_control(run)


def _widths(rows: list[_Row]) -> dict[str, int]:
    """Return each column's width, common to the tables of all runs."""
    kept = [key for key in (rows[0] if rows else ()) if is_wide() or key not in _WIDE_ONLY]
    return {key: max(len(key), *(len(row[key]) for row in rows)) for key in kept}


def _print_left(found: Status) -> None:
    left = (*found.to_recover, *found.lost)
    by_run: dict[str, list[str]] = {}
    for run, device in found.to_recover:
        applet = f", applet {device.applet}" if device.applet else ""
        by_run.setdefault(run.run_id, []).append(f"{device.host} ({progress(device)}, {device.address}{applet})")
    if left and found.runs:
        console().print()
    for one in found.lost:
        what = "it left a lock" if one.host == one.run_id else f"it held {one.host} ({one.address})"
        line(one.run_id, f"{what}, and the journal has no record of it: it was lost, damaged or replaced", BAD)
    for run_id, hosts in by_run.items():
        line(run_id, f"left tuned: {names(hosts)}", BAD)
    console().print(
        here(
            f"{counted(len(left), 'device')} to recover: run 'flashferry recover'; the exit code is 0 all the same, "
            "for status changes nothing"
        )
        if left
        else "nothing to recover",
        style=BAD if left else GOOD,
    )


def _with_row(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices to print: in a large run only some of those that need attention."""
    return run.devices if len(run.devices) <= _FEW else _needing_attention(run)[:_MOST]


def _needing_attention(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are leased by a run or that failed."""
    return tuple(device for device in run.devices if device.is_held or device.outcome in BAD_OUTCOMES)


def _status_row(run: RunStatus, device: DeviceStatus, *, has_by: bool) -> _Row:
    by: _Row = {"by": device.transport or "-"} if has_by else {}
    return {
        "device": device.host,
        "wave": str(device.wave) if device.wave >= 0 else "-",
        "result": _result(run, device),
        **by,
        "speed": rate(device.rate_bytes_per_s),
        "verdict": device.verdict or "-",
        "config": _configuration(run, device),
    }


def _result(run: RunStatus, device: DeviceStatus) -> str:
    words = outcome_words(device.outcome, device, is_alive=run.state is RunState.ALIVE)
    return words if device.attempt == 1 else f"{words}, attempt {device.attempt}"


def _print_control(run: RunStatus) -> None:
    """Print what a run waits for, with the command that continues it."""
    if run.state is not RunState.ALIVE:
        _print_resume(run)
        return
    if run.waiting_wave is not None:
        line(run.run_id, f"wave {run.waiting_wave} waits for 'flashferry run approve {run.run_id}'", BAD)
    if run.is_paused:
        line(run.run_id, f"paused; 'flashferry run continue {run.run_id}' goes on", BAD)


def _print_resume(run: RunStatus) -> None:
    """Print the command that resumes a staging run that did not end well."""
    if run.verb != "stage" or not run.devices:
        return
    is_open = (
        any(device.outcome not in GOOD_OUTCOMES for device in run.devices)
        if run.state is RunState.DIED
        else any(device.is_held or _was_not_started(device) for device in run.devices)
    )
    if is_open:
        first = "restores what it left and resumes it" if any(one.is_held for one in run.devices) else "resumes it"
        line(run.run_id, f"'flashferry stage --resume {run.run_id}' {first}", BAD)


def _was_not_started(device: DeviceStatus) -> bool:
    """Return whether a resume would stage this device."""
    return device.outcome in _LEFT_OUT and not device.is_left_by_plan


def _configuration(run: RunStatus, device: DeviceStatus) -> Text:
    if device.is_held:
        return Text("in hand") if run.state is RunState.ALIVE else Text("to recover", style=BAD)
    return Text(device.configuration or "-")
