"""Runs for people, as the journal has them: `status`, and `run list` and `run show`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.terminal.output import here
from flashferry.cli.view.layout import BAD, GOOD, alike, console, is_wide, line, names, rate, show, table
from flashferry.core.described import counted
from flashferry.model.states import Restored, State
from flashferry.store.proofs import restore_source
from flashferry.store.status import RunState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashferry.store.control import ControlRequest
    from flashferry.store.status import DeviceStatus, RunStatus, Status
    from flashferry.store.stored_run import StoredDevice, StoredRun

_STATES = {RunState.ALIVE: "bold", RunState.FINISHED: "", RunState.DIED: BAD}
_GOOD_OUTCOMES = frozenset({"done", "already there"})
_BAD_OUTCOMES = frozenset({"failed", "error", "refused", "interrupted"})
_LEFT_OUT = frozenset({"interrupted", "not begun"})
_FEW = 5
"""A run of more devices has a row only for those that need attention: its line tells what became of all."""
_MOST = 20
"""Of them so many rows at most."""
_WIDE_ONLY = frozenset({"wave", "verdict"})

_Row = dict[str, str | Text]
MANY = 20
"""A run of more devices has rows only for those that somebody has to look at."""
_CALM = 2
_NOT_AS_BEFORE = frozenset({Restored.INCOMPLETE.value, Restored.FOREIGN_CHANGE.value})


def print_status(found: Status) -> None:
    """Print each run with its devices, and at the end what needs to be recovered."""
    if not found.runs and not found.lost:
        what = "the journal has no run" if found.has_journal else "no journal: nothing was staged or probed from here"
        console().print(f"{found.directory}: {what} yet")
        return
    rows = [[_status_row(run, device) for device in _told(run)] for run in found.runs]
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
    devices = f"{counted(count, 'device')}: {_tally(run)}" if count else "no device yet"
    line(run.run_id, f"{run.verb}, {_standing(run)}, {began}, {devices}", _STATES[run.state])
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
        by_run.setdefault(run.run_id, []).append(f"{device.host} ({device.state}, {device.address})")
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


def _standing(run: RunStatus) -> Text:
    """Return where a run stands, and what is wanted of it, in colour."""
    words = [run.state.value]
    if run.state is RunState.ALIVE:
        words += ["stopping"] if run.is_stopping else ["paused"] if run.is_paused else []
        words += [f"wave {run.waiting_wave} waits"] if run.waiting_wave is not None else []
    return Text(", ".join(words), style=_STATES[run.state])


def _tally(run: RunStatus) -> str:
    """Return how many devices of a run came to what, the most first."""
    counts = Counter(device.outcome or device.state for device in run.devices)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _told(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are worth a row: of a large run those that need attention, and not too many."""
    return run.devices if len(run.devices) <= _FEW else _needing_attention(run)[:_MOST]


def _needing_attention(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are in a run's hands or did not get through."""
    return tuple(device for device in run.devices if device.is_held or device.outcome in _BAD_OUTCOMES)


def _status_row(run: RunStatus, device: DeviceStatus) -> _Row:
    return {
        "device": device.host,
        "wave": str(device.wave) if device.wave >= 0 else "-",
        "result": _result(device),
        "speed": rate(device.rate_bytes_per_s),
        "verdict": device.verdict or "-",
        "config": _standing_of_configuration(run, device),
    }


def _result(device: DeviceStatus) -> str:
    words = device.outcome or device.state
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
        any(device.outcome not in _GOOD_OUTCOMES for device in run.devices)
        if run.state is RunState.DIED
        else any(device.is_held or _had_no_turn(device) for device in run.devices)
    )
    if is_open:
        first = "restores what it left and goes on" if any(one.is_held for one in run.devices) else "goes on"
        line(run.run_id, f"'flashferry stage --resume {run.run_id}' {first}", BAD)


def _had_no_turn(device: DeviceStatus) -> bool:
    """Return whether a resume would take a device up: one that a plan leaves as it is has ended where it began."""
    return device.outcome in _LEFT_OUT and device.state != State.DONE


def _standing_of_configuration(run: RunStatus, device: DeviceStatus) -> Text:
    if device.is_held:
        return Text("in hand") if run.state is RunState.ALIVE else Text("to recover", style=BAD)
    return Text(device.restored or "-")


def print_runs(runs: tuple[RunStatus, ...]) -> None:
    """Print a row per run."""
    if not runs:
        console().print("the journal has no run yet")
    show((_list_row(run) for run in runs), wide_only=frozenset({"started"}))


def _list_row(run: RunStatus) -> dict[str, str | Text]:
    return {
        "run": run.run_id,
        "verb": run.verb,
        "started": f"{run.started_at[:19].replace('T', ' ')} UTC",
        "run is": _standing(run),
        "devices": str(len(run.devices)),
        "of them": _tally(run),
    }


def print_run_state(run: StoredRun, control: ControlRequest) -> None:
    """Print where a run and each of its devices stand, and what operators want of it."""
    console().print(
        f"run {run.run_id}: {run.verb}, {run.state.value}, began {run.started_at[:19].replace('T', ' ')} UTC"
        + (f", resumed {counted(run.resumed, 'time')}" if run.resumed else "")
    )
    if run.state is RunState.ALIVE:
        _print_control(run, control)
    _print_devices(run)
    for text in run.damaged:
        line("journal", text, BAD)


def _print_devices(run: StoredRun) -> None:
    """Print a row per device; of many only for those that are in a run's hands or did not get through, these first."""
    shown = run.devices
    if len(run.devices) > MANY:
        shown = tuple(sorted((one for one in run.devices if _urgency(one) < _CALM), key=_urgency))
    show(_device_row(device) for device in shown)
    if len(shown) == len(run.devices):
        return
    hosts = {device.host for device in shown}
    rest = [str(one.record.get("outcome") or one.state) for one in run.devices if one.host not in hosts]
    told = ", ".join(f"{count} {word}" for word, count in Counter(rest).most_common())
    console().print(
        f"{'and ' if shown else ''}{counted(len(rest), 'device')}{' more' if shown else ''}: {told}; --json has all"
    )


def _urgency(device: StoredDevice) -> int:
    if device.is_held:
        return 1
    is_bad = device.record.get("outcome") in _BAD_OUTCOMES or _restored(device) in _NOT_AS_BEFORE
    return 0 if is_bad else _CALM


def _print_control(run: StoredRun, control: ControlRequest) -> None:
    if control.stopping:
        console().print("it stops: what is under way is ended, every device is restored", style=BAD)
    elif control.paused:
        console().print(here(f"it is paused: 'flashferry run continue {run.run_id}' goes on"), style=BAD)
    if control.waiting_wave is not None:
        words = f"wave {control.waiting_wave} waits for approval: 'flashferry run approve {run.run_id}'"
        console().print(here(words), style=BAD)


def _device_row(device: StoredDevice) -> dict[str, str | Text]:
    outcome = device.record.get("outcome")
    good = outcome in {"done", "already there"}
    return {
        "device": device.host,
        "site": device.site or "-",
        "wave": str(device.wave) if device.wave >= 0 else "-",
        "attempt": str(device.attempt),
        "image": device.image or "-",
        "state": device.state,
        "result": Text(str(outcome), style=GOOD if good else BAD) if outcome else Text("-"),
        "config": Text("in hand") if device.is_held else Text(_restored(device)),
    }


def _restored(device: StoredDevice) -> str:
    return restore_source(device.record, device.attempts).restored or "-"
