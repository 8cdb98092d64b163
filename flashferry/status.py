"""`flashferry status`: what runs are alive, what they hold, what is left to recover, and how the last ones ended."""

from __future__ import annotations

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
    from staging.status import DeviceStatus

_STATES = {RunState.ALIVE: "bold", RunState.FINISHED: "", RunState.DIED: BAD}


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
    rows = (_row(run, device) for run in found.runs for device in run.devices)
    show(rows, wide_only=frozenset({"started", "verdict"}))
    for run in found.runs:
        for device in run.devices:
            if device.reason:
                line(device.host, f"{run.run_id}: {device.reason}", BAD)
    left = found.to_recover
    for run, device in left:
        line(device.host, f"run {run.run_id} left it {device.state} at {device.address}", BAD)
    console().print(
        f"{len(left)} to recover: run 'flashferry recover'" if left else "nothing to recover",
        style=BAD if left else GOOD,
    )


def _row(run: RunStatus, device: DeviceStatus) -> dict[str, str | Text]:
    return {
        "run": run.run_id,
        "verb": run.verb,
        "started": f"{run.started_at[:19].replace('T', ' ')} UTC",
        "run is": Text(run.state.value, style=_STATES[run.state]),
        "device": device.host,
        "result": device.outcome or device.state,
        "speed": rate(device.rate_bytes_per_s),
        "verdict": device.verdict or "-",
        "config": _configuration(run, device),
    }


def _configuration(run: RunStatus, device: DeviceStatus) -> Text:
    if device.is_held:
        return Text("in hand") if run.state is RunState.ALIVE else Text("to recover", style=BAD)
    return Text(device.restored or "-")
