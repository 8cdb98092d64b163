"""`flashferry lab sites-demo`."""

from __future__ import annotations

from functools import partial

from flashferry.cli.sites.setup import check_installed


def sites_demo() -> None:
    """Show sites: a centre, two depots with agents, neighbours, each line carrying an image once, and a line cut."""
    check_installed()
    from flashferry.lab.demo.harness import play
    from flashferry.lab.demo.sites.environment import WORLD, opened
    from flashferry.lab.demo.sites.scenario import Scenario
    from flashferry.lab.world_spec import load_world

    play(partial(opened, load_world(WORLD)), lambda environment: Scenario(environment).play())
