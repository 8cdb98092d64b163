"""`flashferry status`: what runs are alive, what they hold, what is left to recover, and how the last ones ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from flashferry.layout import BAD, GOOD, console, line, rate, show
from flashferry.options import JsonOption, StateOption
from flashferry.output import finish
from staging.exit_codes import ExitCode
from staging.journal import state_directory
from staging.status import LATEST_RUNS, RunState, RunStatus, Status, read_status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from staging.status import DeviceStatus

_STATES = {RunState.ALIVE: "bold", RunState.FINISHED: "", RunState.DIED: BAD}
_BAD_OUTCOMES = frozenset({"failed", "error", "refused", "interrupted"})
_FEW = 20
"""A run of more devices is told in one line, and those of them that need attention in the table."""


def status(
    runs: Annotated[int, typer.Option("--runs", min=1, max=1000, help="How many runs to show.")] = LATEST_RUNS,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Show runs, devices in hand and what is left to recover. Reads the journal only, and exits with 0 either way."""
    found = read_status(state_directory(state_dir), runs)
    left = [{"run_id": run.run_id, "host": device.host, "address": device.address} for run, device in found.to_recover]
    result: dict[str, object] = {"status": found, "to_recover": left}
    finish("status", ExitCode.OK, result, as_json=json, human=lambda: print_status(found))


def print_status(found: Status) -> None:
    """Print the runs, then what needs attention."""
    if not found.runs:
        what = "the journal has no run" if found.has_journal else "no journal: nothing was staged or probed from here"
        console().print(f"{found.directory}: {what} yet")
        return
    rows = (row for run in found.runs for row in _rows(run))
    show(rows, wide_only=frozenset({"started", "wave", "verdict"}))
    for run in found.runs:
        if len(run.devices) > _FEW:
            line(run.run_id, f"{run.verb}, {standing(run)}, {len(run.devices)} devices: {tally(run)}")
        for device in _told(run):
            if device.reason:
                line(device.host, f"{run.run_id}: {device.reason}", BAD)
        _print_wishes(run)
    left = found.to_recover
    for run, device in left:
        line(device.host, f"run {run.run_id} left it {device.state} at {device.address}", BAD)
    console().print(
        f"{len(left)} to recover: run 'flashferry recover'" if left else "nothing to recover",
        style=BAD if left else GOOD,
    )


def standing(run: RunStatus) -> Text:
    """Return where a run stands, and what is wanted of it, in colour."""
    words = [run.state.value]
    if run.state is RunState.ALIVE:
        words += ["stopping"] if run.is_stopping else ["paused"] if run.is_paused else []
        words += [f"wave {run.waiting_wave} waits"] if run.waiting_wave is not None else []
    return Text(", ".join(words), style=_STATES[run.state])


def tally(run: RunStatus) -> str:
    """Return how many devices of a run came to what, the most first."""
    counts = Counter(device.outcome or device.state for device in run.devices)
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def _told(run: RunStatus) -> tuple[DeviceStatus, ...]:
    """Return the devices that are worth a row: of a large run those that need attention, and a few at most."""
    if len(run.devices) <= _FEW:
        return run.devices
    return tuple(device for device in run.devices if device.is_held or device.outcome in _BAD_OUTCOMES)[:_FEW]


def _rows(run: RunStatus) -> Iterator[dict[str, str | Text]]:
    for device in _told(run):
        yield _cells(
            run,
            device=device.host,
            wave=str(device.wave),
            result=_result(device),
            speed=rate(device.rate_bytes_per_s),
            verdict=device.verdict or "-",
            config=_configuration(run, device),
        )


def _cells(run: RunStatus, *, device: str, **known: str | Text) -> dict[str, str | Text]:
    empty: dict[str, str | Text] = {
        "run": run.run_id,
        "verb": run.verb,
        "started": f"{run.started_at[:19].replace('T', ' ')} UTC",
        "run is": standing(run),
        "wave": "",
        "device": device,
        "result": "",
        "speed": "",
        "verdict": "",
        "config": "",
    }
    return empty | known


def _result(device: DeviceStatus) -> str:
    words = device.outcome or device.state
    return words if device.attempt == 1 else f"{words}, attempt {device.attempt}"


def _print_wishes(run: RunStatus) -> None:
    """Print what a run under way waits for, with the command that helps."""
    if run.state is not RunState.ALIVE:
        return
    if run.waiting_wave is not None:
        line(run.run_id, f"wave {run.waiting_wave} waits for 'flashferry run approve {run.run_id}'", BAD)
    if run.is_paused:
        line(run.run_id, f"paused; 'flashferry run continue {run.run_id}' goes on", BAD)


def _configuration(run: RunStatus, device: DeviceStatus) -> Text:
    if device.is_held:
        return Text("in hand") if run.state is RunState.ALIVE else Text("to recover", style=BAD)
    return Text(device.restored or "-")
