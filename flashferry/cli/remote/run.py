"""`flashferry --service URL run list|show|follow|pause|...`: the service's runs, looked at and steered."""

from __future__ import annotations

from typing import Annotated

import typer

from flashferry.cli.options.shared import JsonOption
from flashferry.cli.remote.connect import RemoteApp, connect
from flashferry.cli.remote.journal import LastOption, no_run, run_named, status_of
from flashferry.cli.remote.options import WhyOption
from flashferry.cli.remote.plans import roster_of_plan
from flashferry.cli.terminal.output import finish, here
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.service.client.client import ServiceClient
from flashferry.store.control import ControlRequest, may_approve
from flashferry.store.reader import LATEST_RUNS

app = RemoteApp(help="Look at a run of the service, and steer it.")
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, the beginning or end of it, or 'latest'.")
]


@app.command("list")
def list_runs(ctx: typer.Context, last: LastOption = LATEST_RUNS, json: JsonOption = False) -> None:
    """List the latest runs, the newest first."""
    from flashferry.cli.view.run_tables import print_runs

    with connect(ctx) as client:
        found = status_of(client, last)
    without = no_run(client.url)
    finish("run-list", ExitCode.OK, {"runs": found.runs}, as_json=json, human=lambda: print_runs(found.runs, without))


@app.command("show")
def show_run(ctx: typer.Context, run: RunArgument, json: JsonOption = False) -> None:
    """Show where a run and each of its devices stand."""
    from flashferry.cli.run import run_summary
    from flashferry.cli.view.run_tables import print_run_state

    with connect(ctx) as client:
        run_id = run_named(client, run)
        told = client.run(run_id)
        found = told.stored(client.devices(run_id))
    result: dict[str, object] = {"run": run_summary(found), "control": told.control}
    finish("run", ExitCode.OK, result, as_json=json, human=lambda: print_run_state(found, told.control))


@app.command("follow")
def follow_run(ctx: typer.Context, run: RunArgument, json: JsonOption = False) -> None:
    """Look on at a run of the service until it ends, as 'stage' does; exits as the run does."""
    from flashferry.cli.remote.stage import follow

    with connect(ctx) as client:
        told = client.run(run_named(client, run))
        jobs = [job for job in told.jobs if job.kind in ("stage", "resume")]
        if not jobs:
            raise ConfigInvalid(
                f"run {told.run_id}: expected a staging that the service began, found another",
                hint=here(f"'flashferry run show {told.run_id}' tells how it stands"),
            )
        follow(client, jobs[-1], roster_of_plan(client, told.plan_digest), as_json=json)


@app.command("pause")
def pause(ctx: typer.Context, run: RunArgument, reason: WhyOption = "", json: JsonOption = False) -> None:
    """Let no further device begin; those under way go on to their end."""
    with connect(ctx) as client:
        _steer(client, run, "pause", reason, json, "pauses: devices under way go on, no other begins")


@app.command("continue")
def continue_run(ctx: typer.Context, run: RunArgument, reason: WhyOption = "", json: JsonOption = False) -> None:
    """Go on with a run that is paused."""
    with connect(ctx) as client:
        _steer(client, run, "continue", reason, json, "goes on")


@app.command("stop")
def stop(ctx: typer.Context, run: RunArgument, reason: WhyOption = "", json: JsonOption = False) -> None:
    """End what is under way, restore every device and report."""
    with connect(ctx) as client:
        _steer(client, run, "stop", reason, json, "stops: what is under way is ended, every device is restored")


@app.command("approve")
def approve(
    ctx: typer.Context,
    run: RunArgument,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", min=0, help="Up to this wave (default: the one that waits, or the next)."),
    ] = None,
    reason: WhyOption = "",
    json: JsonOption = False,
) -> None:
    """Let the next wave of a run begin; this takes an approver who did not make its plan."""
    with connect(ctx) as client:
        run_id = run_named(client, run)
        told = client.run(run_id)
        number = may_approve(told.stored(client.devices(run_id)), told.control, wave)
        client.approve_wave(run_id, number, digest=told.plan_digest or "", comment=reason)
        control = client.run(run_id).control
    still = f", but is paused: 'flashferry run continue {run_id}' goes on" if control.paused else ""
    _tell(run_id, control, f"may begin with wave {number}{still}", as_json=json)


def _steer(client: ServiceClient, run: str, what: str, reason: str, as_json: bool, words: str) -> None:
    """Have a run told something, print that, and leave.

    Raises:
        ConfigInvalid: No reason is given.
    """
    if not reason.strip():
        raise ConfigInvalid(
            "--reason: expected a few words, found none",
            hint="Say why: it stands in the service's audit and at the run",
        )
    run_id = run_named(client, run)
    _tell(run_id, client.steer(run_id, what, reason), words, as_json=as_json)


def _tell(run_id: str, control: ControlRequest, words: str, *, as_json: bool) -> None:
    from flashferry.cli.view.layout import line

    result: dict[str, object] = {"run_id": run_id, "control": control}
    finish("run-control", ExitCode.OK, result, as_json=as_json, human=lambda: line(f"run {run_id}", words))
