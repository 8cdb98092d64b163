"""`flashferry run list|show|follow|pause|continue|approve|stop`: show and steer a run from another terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.backend import runs_of
from flashferry.cli.command_line import App, only_at_service
from flashferry.cli.options.shared import JsonOption, ReasonOption, RunsOption, StateOption
from flashferry.cli.result import show
from flashferry.cli.terminal.output import finish
from flashferry.cli.view.layout import line
from flashferry.cli.view.run_tables import print_run_state, print_runs
from flashferry.model.exit_codes import ExitCode
from flashferry.store.control_requests import SteerKind
from flashferry.store.reader import LATEST_RUNS

if TYPE_CHECKING:
    from flashferry.api import Steered
    from flashferry.store.stored_run import StoredRun

app = App(help="Show a run, and steer it from another terminal.")
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, the beginning or end of it, or 'latest'.")
]


@app.command("list")
def list_runs(
    ctx: typer.Context, runs: RunsOption = LATEST_RUNS, state_dir: StateOption = None, json: JsonOption = False
) -> None:
    """List the latest runs, the newest first. Reads the journal only."""
    with runs_of(ctx, state_dir) as backend:
        found, without = backend.runs(runs), backend.nothing("run")
    finish("run-list", ExitCode.OK, {"runs": found}, as_json=json, human=lambda: print_runs(found, without))


@app.command("show")
def show_run(ctx: typer.Context, run: RunArgument, state_dir: StateOption = None, json: JsonOption = False) -> None:
    """Show where a run and each of its devices stand. Reads the journal only."""
    with runs_of(ctx, state_dir) as backend:
        found, control = backend.stored_run(run)
    result: dict[str, object] = {"run": run_summary(found), "control": control}
    finish("run", ExitCode.OK, result, as_json=json, human=lambda: print_run_state(found, control))


@app.command("follow")
@only_at_service
def follow_run(ctx: typer.Context, run: RunArgument, json: JsonOption = False) -> None:
    """Follow a run of the service until it ends, as 'stage' does; exits as the run does."""
    from flashferry.cli.remote.backend import at_service  # needs the extra `remote`
    from flashferry.cli.view.device_tables import print_run  # imports nornir

    with at_service(ctx.find_root().params) as service:
        result = service.follow(run)
    show(result, print_run, as_json=json)


@app.command("pause")
def pause(
    ctx: typer.Context,
    run: RunArgument,
    reason: ReasonOption = "",
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Start no further device; those under way run to their end."""
    with runs_of(ctx, state_dir) as backend:
        _print(backend.steer(run, SteerKind.PAUSE, reason), json, "pauses: running devices finish, no new ones start")


@app.command("continue")
def continue_run(
    ctx: typer.Context,
    run: RunArgument,
    reason: ReasonOption = "",
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Continue a run that is paused."""
    with runs_of(ctx, state_dir) as backend:
        _print(backend.steer(run, SteerKind.CONTINUE, reason), json, "continues")


@app.command("stop")
def stop(
    ctx: typer.Context,
    run: RunArgument,
    reason: ReasonOption = "",
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """End what is under way, restore every device and report, as Ctrl-C does at the run's own terminal."""
    words = "stops: what is under way is ended, every device is restored"
    with runs_of(ctx, state_dir) as backend:
        _print(backend.steer(run, SteerKind.STOP, reason), json, words)


@app.command("approve")
def approve(
    ctx: typer.Context,
    run: RunArgument,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", min=0, help="Up to this wave (default: the one that waits, or the next)."),
    ] = None,
    reason: ReasonOption = "",
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Approve the next wave of a run; at a service this takes an approver who did not make its plan."""
    with runs_of(ctx, state_dir) as backend:
        steered = backend.approve(run, wave, reason)
    still = (
        f", but is paused: 'flashferry run continue {steered.run_id}' continues it" if steered.control.paused else ""
    )
    _print(steered, json, f"may start wave {steered.wave}{still}")


def _print(steered: Steered, as_json: bool, words: str) -> None:
    """Print the request that was made for a run, and exit."""
    run_id = steered.run_id
    result: dict[str, object] = {"run_id": run_id, "control": steered.control}
    finish("run-control", ExitCode.OK, result, as_json=as_json, human=lambda: line(f"run {run_id}", words))


def run_summary(run: StoredRun) -> dict[str, object]:
    """Return a run without the full records of its devices."""
    devices = [
        {"host": one.host, "site": one.site, "wave": one.wave, "image": one.image, "attempt": one.attempt}
        | {"state": one.state, "is_held": one.is_held, "outcome": one.record.get("outcome")}
        for one in run.devices
    ]
    head = {"run_id": run.run_id, "verb": run.verb, "state": run.state, "resumed": run.resumed}
    head |= {"started_at": run.started_at, "finished_at": run.finished_at, "devices": devices}
    origin = {"actor": run.actor, "job": run.job, "events": run.events, "plan_digest": run.plan_digest}
    return head | origin | {"wishes": run.steer_requests}
