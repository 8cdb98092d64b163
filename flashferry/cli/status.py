"""`flashferry status`: what runs are alive, what they hold, what is left to recover, and how the last ones ended.

Runs of the journal, runs that were given to sites, the host's depot and its catalogue of images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from flashferry import api
from flashferry.cli.options.shared import CatalogueOption, DepotOption, JsonOption, RunsOption, StateOption
from flashferry.cli.terminal.output import finish, here
from flashferry.cli.view.layout import BAD, GOOD, alike, console, is_wide, line, names, rate, table
from flashferry.cli.view.run_tables import BAD_OUTCOMES, STATES, outcome_words, progress, standing, tally
from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import GOOD_OUTCOMES, Outcome
from flashferry.store.reader import LATEST_RUNS
from flashferry.store.run_lock import RunState
from flashferry.store.sites.schema import FILE
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from flashferry.api import DepotFound
    from flashferry.depot.catalogue.folder import CatalogueSummary
    from flashferry.sites.centre.overview import RunOverview
    from flashferry.store.status import DeviceStatus, RunStatus, Status

_LEFT_OUT = frozenset({Outcome.INTERRUPTED.value, Outcome.NOT_BEGUN.value})
_FEW = 5
"""A run of more devices has a row only for those that need attention: its line tells what became of all."""
_MOST = 20
"""Of them so many rows at most."""
_WIDE_ONLY = frozenset({"wave", "verdict"})

_Row = dict[str, str | Text]
_Found = TypeVar("_Found")


def status(
    runs: RunsOption = LATEST_RUNS,
    depot: DepotOption = None,
    catalogue: CatalogueOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show runs, devices in hand and what is left to recover. Asks no device, and exits with 0 either way."""
    found = api.status(runs, state=state_dir)
    there = api.look_for_depot(found.directory, depot or "auto")
    result, meaning = told_status(found)
    troubles = list[str]()
    site_runs = _unless_broken(lambda: _site_runs(found.directory, runs), troubles)
    images = _unless_broken(lambda: api.look_at_catalogue(found.directory, catalogue, there), troubles)
    result |= {name: value for name, value in (("depot", there), ("catalogue", images)) if value is not None}
    if site_runs:
        result["site_runs"] = site_runs
    if troubles:
        result["troubles"] = troubles

    def print_all() -> None:
        print_status(found)
        if site_runs:
            _print_site_runs(site_runs)
        _print_depot(there)
        if images is not None:
            line("catalogue", _in_words(images))
        for trouble in troubles:
            console().print(here(trouble), style=BAD)

    finish("status", ExitCode.OK, result, as_json=json, human=print_all, meaning=meaning)


def _unless_broken(read: Callable[[], _Found], troubles: list[str]) -> _Found | None:
    """Return what is read; None where it cannot be, with the reason added to troubles: all else is shown."""
    try:
        return read()
    except ConfigInvalid as error:
        troubles.append(f"{error.message}. {error.hint}" if error.hint else error.message)
        return None


def _site_runs(state: Path, most: int) -> tuple[RunOverview, ...]:
    """Return runs that were given to sites from here; none where this host is no centre of sites.

    Raises:
        ConfigInvalid: The ledger cannot be used.
    """
    if not (state / FILE).is_file():
        return ()
    from flashferry.sites.centre.overview import run_overviews
    from flashferry.store.sites.database import SitesDatabase

    return run_overviews(SitesDatabase(state), most=most, also_open=True)


def _print_site_runs(runs: tuple[RunOverview, ...]) -> None:
    from flashferry.cli.view.sites_table import print_site_run_lines

    print_site_run_lines(runs)


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


def told_status(found: Status) -> tuple[dict[str, object], str]:
    """Return what the document has, and what its exit code means."""
    left = [{"run_id": run.run_id, "host": device.host, "address": device.address} for run, device in found.to_recover]
    left += [{"run_id": one.run_id, "host": one.host, "address": one.address} for one in found.lost]
    what = counted(len(left), "device") if left else "nothing"
    result: dict[str, object] = {"status": found, "needs_recovery": bool(left), "to_recover": left}
    return result, f"the journal was read; {what} left to recover"


def _print_depot(depot: DepotFound | None) -> None:
    if depot is not None and depot.view is not None:
        line("depot", f"at {depot.socket}: {depot.view.in_words}")
    elif depot is not None:
        line("depot", f"{depot.trouble}. {depot.hint}", BAD)


def print_status(found: Status) -> None:
    """Print each run with its devices, and what needs to be recovered."""
    if not found.runs and not found.lost:
        what = "the journal has no run" if found.has_journal else "no journal: nothing was staged or probed from here"
        console().print(f"{found.directory}: {what} yet")
        return
    # A column in which every device says the same tells nothing.
    has_by = any(device.transport not in (None, USUAL) for run in found.runs for device in _told(run))
    rows = [[_status_row(run, device, has_by=has_by) for device in _told(run)] for run in found.runs]
    widths = _widths([row for of_run in rows for row in of_run])
    for number, (run, of_run) in enumerate(zip(found.runs, rows, strict=True)):
        if number:
            console().print()
        _print_status_of(run, of_run, widths)
    _print_left(found)


def _print_status_of(run: RunStatus, rows: list[_Row], widths: Mapping[str, int]) -> None:
    """Print a run's line, its devices below, and what to do about it."""
    count = len(run.devices)
    began = f"began {run.started_at[:19].replace('T', ' ')} UTC"
    devices = f"{counted(count, 'device')}: {tally(run)}" if count else "no device yet"
    line(run.run_id, f"{run.verb}, {standing(run)}, {began}, {devices}", STATES[run.state])
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
    alike(((device.reason, device.host) for device in _told(run) if device.reason), BAD, addresses)
    _print_wanted(run)


def _widths(rows: list[_Row]) -> dict[str, int]:
    """Return the columns, with the width that each has in every run's table."""
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
        what = "it left a lock" if one.host == one.run_id else f"it had {one.host} ({one.address}) in its hands"
        line(one.run_id, f"{what}, and the journal does not know: it was lost, damaged or replaced", BAD)
    for run_id, hosts in by_run.items():
        line(run_id, f"left in its hands: {names(hosts)}", BAD)
    console().print(
        here(
            f"{counted(len(left), 'device')} to recover: run 'flashferry recover'; the exit code is 0 all the same, "
            "for status only looks"
        )
        if left
        else "nothing to recover",
        style=BAD if left else GOOD,
    )


def _told(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are worth a row: of a large run those that need attention, and not too many."""
    return run.devices if len(run.devices) <= _FEW else _needing_attention(run)[:_MOST]


def _needing_attention(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are in a run's hands or did not get through."""
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
        "config": _standing_of_configuration(run, device),
    }


def _result(run: RunStatus, device: DeviceStatus) -> str:
    words = outcome_words(device.outcome, device, is_alive=run.state is RunState.ALIVE)
    return words if device.attempt == 1 else f"{words}, attempt {device.attempt}"


def _print_wanted(run: RunStatus) -> None:
    """Print what a run waits for or lacks, with the command that helps."""
    if run.state is not RunState.ALIVE:
        _print_way_on(run)
        return
    if run.waiting_wave is not None:
        line(run.run_id, f"wave {run.waiting_wave} waits for 'flashferry run approve {run.run_id}'", BAD)
    if run.is_paused:
        line(run.run_id, f"paused; 'flashferry run continue {run.run_id}' goes on", BAD)


def _print_way_on(run: RunStatus) -> None:
    """Print how a staging run that did not get through goes on."""
    if run.verb != "stage" or not run.devices:
        return
    is_open = (
        any(device.outcome not in GOOD_OUTCOMES for device in run.devices)
        if run.state is RunState.DIED
        else any(device.is_held or _had_no_turn(device) for device in run.devices)
    )
    if is_open:
        first = "restores what it left and goes on" if any(one.is_held for one in run.devices) else "goes on"
        line(run.run_id, f"'flashferry stage --resume {run.run_id}' {first}", BAD)


def _had_no_turn(device: DeviceStatus) -> bool:
    """Return whether a resume would take a device up: one that a plan leaves as it is has ended where it began."""
    return device.outcome in _LEFT_OUT and not device.is_left_by_plan


def _standing_of_configuration(run: RunStatus, device: DeviceStatus) -> Text:
    if device.is_held:
        return Text("in hand") if run.state is RunState.ALIVE else Text("to recover", style=BAD)
    return Text(device.configuration or "-")
