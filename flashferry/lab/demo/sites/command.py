"""`flashferry lab sites-demo`: its exit code, and its end, whenever that comes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import typer

from flashferry.cli.sites.agent import check_installed
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import say
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.lab.demo.sites.ground import Ground


def sites_demo() -> None:
    """Show sites: a centre, two depots with agents, neighbours, each line carrying an image once, and a line cut."""
    check_installed()
    from flashferry.lab.demo.sites.ground import WORLD, opened
    from flashferry.lab.errors import LabError
    from flashferry.lab.world_file import load_world

    hurry = threading.Event()

    def told(first: bool) -> None:
        if first:
            say("ending all of it; routers under way are put back, unless Ctrl-C comes again")
        else:
            hurry.set()

    try:
        with stop_on_signals(tell=told) as stop, opened(load_world(WORLD), stop, hurry) as ground:
            code = _played(ground)
    except LabError as error:
        say(f"error: {error}")
        code = ExitCode.USAGE
    raise typer.Exit(int(code))


def _played(ground: Ground) -> ExitCode:
    """Play the demo; return its exit code."""
    from flashferry.lab.demo.sites.programs import Broken
    from flashferry.lab.demo.sites.story import NotWell, Story

    try:
        wrong = Story(ground).play()
    except (Broken, NotWell) as error:
        if ground.programs.stop.is_set():
            return ExitCode.INTERRUPTED
        say(f"error: {error}")
        return ExitCode.INTERNAL
    return ExitCode.DEVICES_FAILED if wrong else ExitCode.OK
