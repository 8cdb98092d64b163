"""`flashferry lab service-demo` and `flashferry lab sites-demo`: the words of their command lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.service.serve import check_installed as check_service_installed
from flashferry.cli.sites.setup import check_installed as check_sites_installed

if TYPE_CHECKING:
    from flashferry.lab.demo.service.environment import Environment


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
            help="A new folder for the service's state, to inspect later (default: gone with the lab).",
        ),
    ] = None,
) -> None:
    """Show the service: twenty routers, a depot, two people, one plan approved and run, and the address to open."""
    check_service_installed()
    from flashferry.lab.demo.harness import play
    from flashferry.lab.demo.service.environment import WORLD, opened_environment
    from flashferry.lab.demo.service.scenario import Scenario
    from flashferry.lab.world_spec import load_world

    is_kept = sys.stdout.isatty() if wait is None else wait

    def played(environment: Environment) -> Sequence[str]:
        # Commands in this process are about the demo, whatever the operator's own shell says.
        os.environ["FLASHFERRY_STATE_DIR"] = str(environment.state)
        scenario = Scenario(environment)
        wrong = scenario.play()
        if is_kept:
            scenario.stay()
        return wrong

    play(partial(opened_environment, load_world(WORLD), folder), played)


def sites_demo() -> None:
    """Show sites: a centre, two depots with agents, neighbours, each line carrying an image once, and a line cut."""
    check_sites_installed()
    from flashferry.lab.demo.harness import play
    from flashferry.lab.demo.sites.environment import WORLD, opened
    from flashferry.lab.demo.sites.scenario import Scenario
    from flashferry.lab.world_spec import load_world

    play(partial(opened, load_world(WORLD)), lambda environment: Scenario(environment).play())
