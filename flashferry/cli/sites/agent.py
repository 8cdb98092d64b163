"""`flashferry sites agent`: work for a site until a signal ends it; runs under way then restore their devices."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.core.log_file import logging_to
from flashferry.model.exit_codes import ExitCode


def agent(
    config: Annotated[
        Path,
        typer.Option(
            "--config", envvar="FLASHFERRY_AGENT_CONFIG", metavar="FILE", help="The agent's configuration, agent.toml."
        ),
    ],
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            envvar="FLASHFERRY_AGENT_LOG",
            metavar="FILE",
            help="Keep what happens in a file; without one, warnings go to standard error.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Work for a site until Ctrl-C or SIGTERM: take signed orders, carry them out, tell what became of them."""
    check_installed()
    from flashferry.sites.agent.agent import run_agent
    from flashferry.sites.settings import load_agent_settings

    settings = load_agent_settings(config)
    with stop_on_signals(announce=_print_ending) as ending, logging_to(log_file):
        run_agent(settings, ending, report=say)


def check_installed() -> None:
    """Refuse where the extra `sites` is missing.

    Raises:
        ConfigInvalid: It is.
    """
    if missing := [name for name in ("celery", "redis") if find_spec(name) is None]:
        raise ConfigInvalid(
            f"sites: expected the package {missing[0]}, which is not installed",
            hint=extra_hint("sites"),
        )


def _print_ending(first: bool) -> None:
    if first:
        say("ending: runs under way restore their devices first; once more, and they are left to do so by themselves")
        return
    say("ended at once: runs under way are processes of their own, and go on; the next agent finds them")
    os._exit(ExitCode.INTERRUPTED)
