"""`flashferry run list|show|pause|continue|approve|stop`: look at a run, and steer it from another terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption, ReasonOption, RunsOption, StateOption, asker
from flashferry.cli.terminal.output import finish
from flashferry.model.exit_codes import ExitCode
from flashferry.store.reader import LATEST_RUNS

if TYPE_CHECKING:
    from flashferry.api import Steered
    from flashferry.store.stored_run import StoredRun

app = App(help="Look at a run, and steer it from another terminal.")
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, the beginning or end of it, or 'latest'.")
]


@app.command("list")
def list_runs(runs: RunsOption = LATEST_RUNS, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """List the latest runs, the newest first. Reads the journal only."""
    from flashferry.cli.view.run_tables import print_runs

    found = api.status(runs, state=state_dir)
    finish("run-list", ExitCode.OK, {"runs": found.runs}, as_json=json, human=lambda: print_runs(found.runs))


@app.command("show")
def show_run(run: RunArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Show where a run and each of its devices stand. Reads the journal only."""
    from flashferry.cli.view.run_tables import print_run_state

    found, control = api.stored_run(run, state=state_dir)
    result: dict[str, object] = {"run": run_summary(found), "control": control}
    finish("run", ExitCode.OK, result, as_json=json, human=lambda: print_run_state(found, control))


@app.command("pause")
def pause(run: RunArgument, reason: ReasonOption = "", state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Let no further device begin; those under way go on to their end."""
    told = api.steer(run, paused=True, asker=asker(reason), state=state_dir)
    _tell(told, json, "pauses: devices under way go on, no other begins")


@app.command("continue")
def continue_run(
    run: RunArgument, reason: ReasonOption = "", state_dir: StateOption = None, json: JsonOption = False
) -> None:
    """Go on with a run that is paused."""
    _tell(api.steer(run, paused=False, asker=asker(reason), state=state_dir), json, "goes on")


@app.command("stop")
def stop(run: RunArgument, reason: ReasonOption = "", state_dir: StateOption = None, json: JsonOption = False) -> None:
    """End what is under way, restore every device and report, as Ctrl-C does at the run's own terminal."""
    words = "stops: what is under way is ended, every device is restored"
    _tell(api.steer(run, stopping=True, asker=asker(reason), state=state_dir), json, words)


@app.command("approve")
def approve(
    run: RunArgument,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", min=0, help="Up to this wave (default: the one that waits, or the next)."),
    ] = None,
    reason: ReasonOption = "",
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Let the next wave of a run begin."""
    told = api.approve(run, wave, asker=asker(reason), state=state_dir)
    still = f", but is paused: 'flashferry run continue {told.run_id}' goes on" if told.control.paused else ""
    _tell(told, json, f"may begin with wave {told.wave}{still}")


def _tell(told: Steered, as_json: bool, words: str) -> None:
    """Print what a run was told, and leave."""
    from flashferry.cli.view.layout import line

    result: dict[str, object] = {"run_id": told.run_id, "control": told.control}
    finish("run-control", ExitCode.OK, result, as_json=as_json, human=lambda: line(f"run {told.run_id}", words))


def run_summary(run: StoredRun) -> dict[str, object]:
    """Return a run without what its reports are for: the devices' whole records."""
    devices = [
        {"host": one.host, "site": one.site, "wave": one.wave, "image": one.image, "attempt": one.attempt}
        | {"state": one.state, "is_held": one.is_held, "outcome": one.record.get("outcome")}
        for one in run.devices
    ]
    head = {"run_id": run.run_id, "verb": run.verb, "state": run.state, "resumed": run.resumed}
    head |= {"started_at": run.started_at, "finished_at": run.finished_at, "devices": devices}
    origin = {"actor": run.actor, "job": run.job, "events": run.events, "plan_digest": run.plan_digest}
    return head | origin | {"wishes": run.wishes}
