"""`flashferry service init`: create the service's database and its first admin."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.service.serve import ConfigOption, given_password, opened
from flashferry.cli.terminal.output import command, echo, finish
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.service.bootstrap import Started
    from flashferry.service.settings import ServiceSettings


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What the first admin is called.", show_default=True)
    ] = "admin",
    config: ConfigOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Make the service's tables and its first admin, and print what to do next. A service that has one stays as it is.

    The password is asked for on a terminal, or taken from FLASHFERRY_USER_PASSWORD; else one is made up and shown once.
    """
    from flashferry.service.bootstrap import begin  # needs the extra `service`

    # A named file that does not exist will be written.
    to_read = config if config is not None and os.path.lexists(config) else None
    with opened(to_read, state_dir, is_beginning=True) as (service, actor):
        made = begin(service, actor, name=name, password=given_password(name), configuration=config)
    content: dict[str, object] = {
        "admin": made.admin,
        "password": made.password,
        "configuration": str(made.configuration),
        "is_configuration_new": made.is_configuration_new,
        "url": service.settings.base_url,
    }
    finish("service-init", ExitCode.OK, content, as_json=json, human=lambda: _print(made, service.settings, config))


def _print(made: Started, settings: ServiceSettings, config: Path | None) -> None:
    more = f" --config {shlex.quote(str(config))}" if config is not None else ""
    echo(f"The service has its first admin, {made.admin}.")
    if made.password is not None:
        echo(f"The password, shown this once: {made.password}")
    written = "is written" if made.is_configuration_new else "is there already"
    echo("Next:")
    echo(f"  1. {made.configuration} {written}: say in it where the inventory is and how the service is reached.")
    echo("     Logins of devices come from the inventory, or from a program: [runs] options in that file.")
    echo(f"  2. Start it: {command('service')}{more}")
    echo(f"  3. Sign in at {settings.base_url}/login and add people: operators who stage, approvers who approve.")
    echo(f"     Or here: {command('service user add NAME --role operator@SITE')}{more}")
    echo("  4. You cannot approve your own plan: a first run takes two people, an operator and an approver.")
