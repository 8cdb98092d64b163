"""`flashferry depot`: the shared file server of this host; all runs use its port and the rate limits of their sites.

Without a subcommand it serves until a signal arrives. Subcommands manage the image catalogue, which the depots of other
sites can fetch from.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry import api
from flashferry.cli.command_line import OUTPUT, App, is_typed
from flashferry.cli.depot_images import list_held, verify
from flashferry.cli.depot_probe import probe
from flashferry.cli.depot_sync import sync
from flashferry.cli.options.server import listening_options
from flashferry.cli.options.shared import CatalogueOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import JSON_VARIABLE, print_json_line, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.log_file import logging_to
from flashferry.fileserver import ServerGone
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from flashferry.depot.daemon import Depot

POLL_EVERY_S = 0.5

_LOG = logging.getLogger("flashferry.depot")


class LogFormat(StrEnum):
    """Format of log lines."""

    TEXT = "text"
    JSON = "json"


@listening_options
def depot(
    ctx: typer.Context,
    listening: dict[str, Any],
    socket: Annotated[
        Path | None,
        typer.Option(
            "--socket",
            metavar="PATH",
            help="Socket by which runs come (default: depot.sock in the state folder; /run/flashferry/depot.sock is "
            "found by all runs of its user).",
        ),
    ] = None,
    drain_minutes: Annotated[
        float,
        typer.Option(
            "--drain-minutes", metavar="MINUTES", min=0.01, help="How long transfers get to finish at its end."
        ),
    ] = 60.0,
    catalogue: CatalogueOption = None,
    mirrors: Annotated[
        Path | None,
        typer.Option(
            "--mirrors",
            metavar="FILE",
            help="The sites whose depots may fetch images of the catalogue from here: logins, addresses, links.",
        ),
    ] = None,
    plans: Annotated[
        Path | None,
        typer.Option(
            "--plans",
            metavar="DIR",
            help="Folder of plans that they may fetch, plan-DIGEST.json each (default: plans in the catalogue).",
        ),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            envvar="FLASHFERRY_DEPOT_LOG",
            metavar="FILE",
            help="Keep what happens in a file, too; it may be rotated without a signal.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    log_format: Annotated[
        LogFormat,
        typer.Option("--log-format", help="Lines for people, or JSON objects, in that file.", rich_help_panel=OUTPUT),
    ] = LogFormat.TEXT,
    state_dir: StateOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            envvar=JSON_VARIABLE,
            help="Print what happens as JSON lines on standard output.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Serve all runs of this host until Ctrl-C: one port, and each site's cap and slots shared by all of them."""
    if ctx.invoked_subcommand is not None:
        _check_place(ctx)
        return
    options = api.DepotOptions(
        state=api.state_folder(state_dir),
        socket=socket,
        **listening,
        drain_s=drain_minutes * 60,
        catalogue=catalogue,
        plans=plans,
        mirrors=mirrors,
    )
    notify = partial(_print, as_json=as_json)
    log = nullcontext() if log_file is None else logging_to(log_file, is_json=log_format is LogFormat.JSON)
    with stop_on_signals() as stop, log, api.Depot(options, notify) as running:
        _print_ready(running, as_json=as_json)
        _until_over(running, stop, notify)
        if not running.server.ended_in_order:
            notify("ended", f"error: {running.server.gone}; what it was sending was cut. Start it again")
            raise typer.Exit(int(ExitCode.DEVICES_FAILED))


def _check_place(ctx: typer.Context) -> None:
    """Refuse options before a subcommand: each subcommand has its own.

    Raises:
        ConfigInvalid: There are such options.
    """
    if given := [name for name in ctx.params if is_typed(ctx, name)]:
        option = f"--{given[0].replace('_', '-')}"
        raise ConfigInvalid(
            f"{option}: expected after 'depot {ctx.invoked_subcommand}', found before it",
            hint=f"Write it after the command, as in 'flashferry depot {ctx.invoked_subcommand} {option} ...'",
        )


def _print_ready(running: Depot, *, as_json: bool) -> None:
    view = running.view()
    ports = ", ".join(f"{name} port {port}" for name, port in view.ports.items())
    _LOG.info("depot at %s: process %s, %s", running.options.at, view.pid, ports)
    if as_json:
        ready = {"event": "ready", "socket": str(running.options.at), "pid": view.pid, "ports": view.ports}
        print_json_line(ready)
        return
    say(f"depot at {running.options.at}: {ports}. Runs of this user find it by themselves, or by --depot")
    for notice in running.port_notices:
        say(notice)


def _until_over(running: Depot, stop: threading.Event, notify: Callable[[str, str], None]) -> None:
    """Print the depot's notices until it ends; the first stop request lets transfers finish, the second does not."""
    is_ending = False
    while running.wait(POLL_EVERY_S):
        for text in running.new_notices():
            notify("notice", text)
        if stop.is_set() and is_ending:
            running.close()
        elif stop.is_set():
            stop.clear()
            is_ending = True
            _go_down(running, notify)


def _go_down(running: Depot, notify: Callable[[str, str], None]) -> None:
    with suppress(ServerGone):
        count = running.drain()
        if count:
            notify("ending", f"nothing new; waiting for {count} running transfers, Ctrl-C again ends them")


def _print(event: str, text: str, *, as_json: bool) -> None:
    _LOG.info("%s", text)
    if as_json:
        print_json_line({"event": event, "text": text})
    else:
        say(text)


app = App(
    help="Serve all runs of this host until Ctrl-C; with a command: look after the catalogue of images.",
    no_args_is_help=False,
    invoke_without_command=True,
)
app.callback()(depot)
app.command("sync")(sync)
app.command("list")(list_held)
app.command("verify")(verify)
app.command("probe")(probe)
