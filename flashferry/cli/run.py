"""`flashferry run list|show|pause|continue|approve|stop`: look at a run, and steer it from another terminal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption, RunsOption, StateOption
from flashferry.cli.status import BAD_OUTCOMES, standing, tally
from flashferry.cli.terminal.output import finish, here
from flashferry.cli.view.layout import BAD, GOOD, console, line, show
from flashferry.core.described import counted
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import Restored
from flashferry.store.control import control_request, may_approve
from flashferry.store.journal import Journal, state_directory
from flashferry.store.proofs import restore_source
from flashferry.store.reader import find_run
from flashferry.store.run_lock import is_run_alive
from flashferry.store.status import LATEST_RUNS, RunState, read_status
from flashferry.store.stored_run import read_run

if TYPE_CHECKING:
    from flashferry.store.control import ControlRequest
    from flashferry.store.status import RunStatus
    from flashferry.store.stored_run import StoredDevice, StoredRun

MANY = 20
"""A run of more devices has rows only for those that somebody has to look at."""
_CALM = 2
_NOT_AS_BEFORE = frozenset({Restored.INCOMPLETE.value, Restored.FOREIGN_CHANGE.value})

app = App(help="Look at a run, and steer it from another terminal.")
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, the beginning or end of it, or 'latest'.")
]


@app.command("list")
def list_runs(runs: RunsOption = LATEST_RUNS, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """List the latest runs, the newest first. Reads the journal only."""
    found = read_status(state_directory(state_dir), runs)
    finish("run-list", ExitCode.OK, {"runs": found.runs}, as_json=json, human=lambda: _print_list(found.runs))


@app.command("show")
def show_run(run: RunArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Show where a run and each of its devices stand. Reads the journal only."""
    directory = state_directory(state_dir)
    found, control = read_run(directory, run, with_transfers=False), control_request(directory, run)
    result: dict[str, object] = {"run": _summary(found), "control": control}
    finish("run", ExitCode.OK, result, as_json=json, human=lambda: _print_run(found, control))


@app.command("pause")
def pause(run: RunArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Let no further device begin; those under way go on to their end."""
    _steer(run, state_dir, json, "pauses: devices under way go on, no other begins", paused=True)


@app.command("continue")
def continue_run(run: RunArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Go on with a run that is paused."""
    _steer(run, state_dir, json, "goes on", paused=False)


@app.command("stop")
def stop(run: RunArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """End what is under way, restore every device and report, as Ctrl-C does at the run's own terminal."""
    _steer(run, state_dir, json, "stops: what is under way is ended, every device is restored", stopping=True)


@app.command("approve")
def approve(
    run: RunArgument,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", min=0, help="Up to this wave (default: the one that waits, or the next)."),
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Let the next wave of a run begin."""
    directory = state_directory(state_dir)
    run_id = _alive(directory, run)
    control = control_request(directory, run_id)
    number = may_approve(read_run(directory, run_id, with_transfers=False), control, wave)
    still = f", but is paused: 'flashferry run continue {run_id}' goes on" if control.paused else ""
    _steer(run, state_dir, json, f"may begin with wave {number}{still}", approved_wave=number)


def _steer(
    run: str,
    state_dir: Path | None,
    as_json: bool,
    words: str,
    *,
    paused: bool | None = None,
    stopping: bool | None = None,
    approved_wave: int | None = None,
) -> None:
    directory = state_directory(state_dir)
    run_id = _alive(directory, run)
    with Journal(directory) as journal:
        journal.set_control(run_id, paused=paused, stopping=stopping, approved_wave=approved_wave)
        control = journal.control(run_id)
    result: dict[str, object] = {"run_id": run_id, "control": control}
    finish("run-control", ExitCode.OK, result, as_json=as_json, human=lambda: line(f"run {run_id}", words))


def _alive(directory: Path, run: str) -> str:
    """Return the identifier of a run that is under way; asking for one that nobody knows makes no journal.

    Raises:
        ConfigInvalid: The run is unknown, or not alive.
    """
    run_id = find_run(directory, run)
    if not is_run_alive(directory, run_id):
        raise ConfigInvalid(
            f"run {run_id} is not alive: expected one that is under way",
            hint=f"Where it did not get through, 'flashferry stage --resume {run_id}' goes on with it",
        )
    return run_id


def _summary(run: StoredRun) -> dict[str, object]:
    """Return a run without what its reports are for: the devices' whole records."""
    devices = [
        {"host": one.host, "site": one.site, "wave": one.wave, "image": one.image, "attempt": one.attempt}
        | {"state": one.state, "is_held": one.is_held, "outcome": one.record.get("outcome")}
        for one in run.devices
    ]
    head = {"run_id": run.run_id, "verb": run.verb, "state": run.state, "resumed": run.resumed}
    return head | {"started_at": run.started_at, "finished_at": run.finished_at, "devices": devices}


def _print_list(runs: tuple[RunStatus, ...]) -> None:
    if not runs:
        console().print("the journal has no run yet")
    show((_list_row(run) for run in runs), wide_only=frozenset({"started"}))


def _list_row(run: RunStatus) -> dict[str, str | Text]:
    return {
        "run": run.run_id,
        "verb": run.verb,
        "started": f"{run.started_at[:19].replace('T', ' ')} UTC",
        "run is": standing(run),
        "devices": str(len(run.devices)),
        "of them": tally(run),
    }


def _print_run(run: StoredRun, control: ControlRequest) -> None:
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
    is_bad = device.record.get("outcome") in BAD_OUTCOMES or _restored(device) in _NOT_AS_BEFORE
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
