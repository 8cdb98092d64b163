"""Runs of the journal for people: `run list`, `run show`, and the words shared with `status`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.terminal.output import here
from flashferry.cli.view.layout import BAD, STYLES, console, line, show
from flashferry.core.units import counted
from flashferry.model.states import Outcome, Phase, Restored, RunState, Tone, label_of, phase_of
from flashferry.model.waves import wave_label, wave_names
from flashferry.store.summaries import restore_source

if TYPE_CHECKING:
    from flashferry.store.control import ControlRequest
    from flashferry.store.control_requests import SteerRequest
    from flashferry.store.status import DeviceStatus, RunStatus
    from flashferry.store.stored_run import StoredDevice, StoredRun

STATES = {RunState.ALIVE: "bold", RunState.FINISHED: "", RunState.DIED: BAD}
BAD_OUTCOMES = frozenset(one.value for one in Outcome if not one.is_good and one is not Outcome.NOT_STARTED)

MANY = 20
"""Number of devices above which only those that need attention have a row."""
_CALM = 2
_NOT_AS_BEFORE = frozenset(one.label for one in Restored if one.tone is Tone.BAD)


def state_text(run: RunStatus) -> Text:
    """Return a run's state and the operators' requests, in colour."""
    words = [run.state.value]
    if run.state is RunState.ALIVE:
        words += ["stopping"] if run.is_stopping else ["paused"] if run.is_paused else []
        words += [f"wave {run.waiting_wave} waits"] if run.waiting_wave is not None else []
    return Text(", ".join(words), style=STATES[run.state])


def progress(device: DeviceStatus | StoredDevice) -> str:
    """Return a device's progress: the phase of its activation, or its state."""
    if device.activation is None:
        return device.state
    from flashferry.model.activation import Phase  # imports nornir, which `status` does without

    return "in hand" if device.activation == Phase.INTENDED else device.activation


def tally(run: RunStatus) -> str:
    """Return how many devices of a run have which outcome, the most frequent first."""
    is_alive = run.state is RunState.ALIVE
    counts = Counter(_tallied(device.outcome, device, is_alive=is_alive) for device in run.devices)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def outcome_words(outcome: str | None, device: DeviceStatus | StoredDevice, *, is_alive: bool) -> str:
    """Return a device's outcome, or its progress while its run is alive."""
    if outcome is not None:
        return label_of(outcome)
    phase = phase_of(None, device.state, is_alive=is_alive)
    return progress(device) if phase is Phase.IN_PROGRESS else phase.label


def _tallied(outcome: str | None, device: DeviceStatus | StoredDevice, *, is_alive: bool) -> str:
    """Return what a device counts as; an image that was there already counts as done."""
    return outcome_words(
        None if outcome is None else phase_of(outcome, device.state, is_alive=is_alive), device, is_alive=is_alive
    )


def print_runs(runs: tuple[RunStatus, ...], without: str = "the journal has no run yet") -> None:
    """Print a row per run, or the sentence `without` if there is none."""
    if not runs:
        console().print(without)
    show((_list_row(run) for run in runs), wide_only=frozenset({"started"}))


def _list_row(run: RunStatus) -> dict[str, str | Text]:
    return {
        "run": run.run_id,
        "verb": run.verb,
        "started": f"{run.started_at[:19].replace('T', ' ')} UTC",
        "run is": state_text(run),
        "devices": str(len(run.devices)),
        "of them": tally(run),
    }


def print_run_state(run: StoredRun, control: ControlRequest) -> None:
    """Print the state of a run and its devices, and the operators' requests."""
    console().print(
        f"run {run.run_id}: {run.verb}, {run.state.value}, began {run.started_at[:19].replace('T', ' ')} UTC"
        + (f", resumed {counted(run.resumed, 'time')}" if run.resumed else "")
        + (f", by {run.actor}" if run.actor else "")
    )
    if run.state is RunState.ALIVE:
        _print_control(run, control)
    _print_devices(run)
    for request in run.steer_requests:
        line(f"{request.at[:19].replace('T', ' ')} UTC", _request_line(request))
    for text in run.damaged:
        line("journal", text, BAD)


def _request_line(request: SteerRequest) -> str:
    """Return who asked what of a run, and why."""
    what = request.what if request.wave is None else f"{request.what} up to wave {request.wave}"
    return f"{request.actor or 'someone'} asked for: {what}" + (f" ({request.reason})" if request.reason else "")


def _print_devices(run: StoredRun) -> None:
    """Print a row per device; of many only those leased by a run or failed, these first."""
    shown = run.devices
    if len(run.devices) > MANY:
        shown = tuple(sorted((one for one in run.devices if _urgency(one) < _CALM), key=_urgency))
    show(_device_row(device, is_alive=run.state is RunState.ALIVE) for device in shown)
    if len(shown) == len(run.devices):
        return
    hosts = {device.host for device in shown}
    is_alive = run.state is RunState.ALIVE
    rest = [_tallied(_outcome(one), one, is_alive=is_alive) for one in run.devices if one.host not in hosts]
    text = ", ".join(f"{count} {word}" for word, count in Counter(rest).most_common())
    console().print(
        f"{'and ' if shown else ''}{counted(len(rest), 'device')}{' more' if shown else ''}: {text}; --json has all"
    )


def _urgency(device: StoredDevice) -> int:
    if device.is_held:
        return 1
    is_bad = _outcome(device) in BAD_OUTCOMES or _restored(device) in _NOT_AS_BEFORE
    return 0 if is_bad else _CALM


def _print_control(run: StoredRun, control: ControlRequest) -> None:
    if control.stopping:
        console().print("it stops: what is under way is ended, every device is restored", style=BAD)
    elif control.paused:
        console().print(here(f"it is paused: 'flashferry run continue {run.run_id}' continues it"), style=BAD)
    if control.waiting_wave is not None:
        wave = wave_label(control.waiting_wave, wave_names(run.request).get(control.waiting_wave, ""))
        words = f"wave {wave} waits for approval: 'flashferry run approve {run.run_id}'"
        console().print(here(words), style=BAD)


def _outcome(device: StoredDevice) -> str | None:
    found = device.record.get("outcome")
    return None if found is None else str(found)


def _device_row(device: StoredDevice, *, is_alive: bool) -> dict[str, str | Text]:
    outcome = _outcome(device)
    phase = phase_of(outcome, device.state, is_alive=is_alive)
    return {
        "device": device.host,
        "site": device.site or "-",
        "wave": str(device.wave) if device.wave >= 0 else "-",
        "attempt": str(device.attempt),
        "image": device.image or "-",
        "state": progress(device),
        "result": Text(outcome_words(outcome, device, is_alive=is_alive), style=STYLES[phase.tone])
        if phase.is_over
        else Text("-"),
        "config": Text("in hand") if device.is_held else Text(_restored(device)),
    }


def _restored(device: StoredDevice) -> str:
    return restore_source(device.record, device.attempts).label or "-"
