"""`flashferry lab service-demo`: the words of its command line, its exit code, and its end, whenever that comes."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.service.serve import check_installed
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import say
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.demo.service.ground import Ground


def service_demo(
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="Keep the service up at the end until Ctrl-C (default: on a terminal, and nowhere else).",
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="A new folder for the service's state, to look at later (default: gone with the lab).",
        ),
    ] = None,
) -> None:
    """Show the service: twenty routers, a depot, two people, one plan approved and run, and the address to open."""
    check_installed()
    from flashferry.lab.demo.service.ground import WORLD, opened
    from flashferry.lab.errors import LabError
    from flashferry.lab.world_file import load_world

    is_kept = sys.stdout.isatty() if wait is None else wait
    hurry = threading.Event()

    def told(first: bool) -> None:
        if first:
            say("ending all of it; routers under way are put back, unless Ctrl-C comes again")
        else:
            hurry.set()

    try:
        with stop_on_signals(tell=told) as stop, opened(load_world(WORLD), folder, stop, hurry) as ground:
            code = _played(ground, is_kept=is_kept)
    except LabError as error:
        say(f"error: {error}")
        code = ExitCode.USAGE
    raise typer.Exit(int(code))


def _played(ground: Ground, *, is_kept: bool) -> ExitCode:
    """Play the demo, and keep the service up behind it where that is wanted; return the exit code."""
    from flashferry.lab.demo.service.ground import Broken
    from flashferry.lab.demo.service.people import Refused, Unreachable
    from flashferry.lab.demo.service.story import ANNA, BEN, NotWell, Stopped, Story
    from flashferry.lab.demo.service.telling import print_address, tell

    # Commands in this process are about the demo, whatever the operator's own shell says.
    os.environ["FLASHFERRY_STATE_DIR"] = str(ground.state)
    try:
        wrong = Story(ground).play()
    except Stopped:
        return ExitCode.INTERRUPTED
    except (Broken, NotWell, Refused, Unreachable) as error:
        say(f"error: {ground.trouble() or error}")
        return ExitCode.INTERNAL
    tell()
    if is_kept and not ground.stop.is_set():
        print_address(ground, (ANNA, BEN), is_end=True)
        tell("It stays up until Ctrl-C, and then nothing is left.")
        while not ground.stop.wait(1.0):
            if trouble := ground.trouble():
                say(f"error: {trouble}")
                return ExitCode.INTERNAL
    return ExitCode.DEVICES_FAILED if wrong else ExitCode.OK
