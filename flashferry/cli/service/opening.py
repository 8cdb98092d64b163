"""The service's tables opened for a command, by whoever runs it; and passwords, which no command line holds."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry import api
from flashferry.cli.service.serve import read_settings
from flashferry.core.errors import ConfigInvalid

if TYPE_CHECKING:
    from flashferry.service.principal import Actor
    from flashferry.service.service import Service

PASSWORD_VARIABLE = "FLASHFERRY_USER_PASSWORD"  # noqa: S105 -- the name of a variable
"""Holds the password of who is entered; it never stands in the command line, which everybody on the host can read."""


@contextmanager
def opened(
    config: Path | None, state_dir: Path | None, *, is_beginning: bool = False
) -> Iterator[tuple[Service, Actor]]:
    """Yield the service, and who runs the command: the user of this host, as the audit has him.

    What the service refuses is told as every wrong input is.

    Args:
        config: The configuration; None: that in the state folder, where it is there.
        state_dir: The state folder; None: where the command line has it.
        is_beginning: Whether the tables are made where there are none; else that is refused, and nothing is made.

    Raises:
        ConfigInvalid: The configuration or the tables cannot be used, or the service refused what was asked.
    """
    from flashferry.service.errors import ServiceError
    from flashferry.service.principal import Actor, Via
    from flashferry.service.service import Service
    from flashferry.store.service.database import ServiceDatabase

    state = api.state_folder(state_dir)
    settings = read_settings(config, state)
    if not is_beginning:
        _check_started(state)
    service = Service(state=state, settings=settings, database=ServiceDatabase(state))
    try:
        yield service, Actor(name=user_of_host(), via=Via.COMMAND_LINE)
    except ServiceError as error:
        raise ConfigInvalid(error.sentence, hint=error.hint) from None


def _check_started(state: Path) -> None:
    from flashferry.store.service.schema import FILE

    if not os.path.lexists(state / FILE):
        raise ConfigInvalid(
            f"state folder {state}: expected the service's database, found none",
            hint="'flashferry service init' begins a service; or give the --state-dir of one that is there",
        )


def user_of_host() -> str:
    """Return who runs this, as the host knows him; who came by `sudo` is named too."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    behind = os.environ.get("SUDO_USER", "")
    return f"{name} ({behind})" if behind and behind != name else name


def given_password(name: str) -> str | None:
    """Return the password that is to be somebody's, from the environment or typed twice; None: one is made up.

    Raises:
        ConfigInvalid: What was typed was not the same twice.
    """
    # Taken out, so that no process started from here inherits it.
    if (password := os.environ.pop(PASSWORD_VARIABLE, None)) is not None:
        return password
    if not sys.stdin.isatty():
        return None
    password = getpass.getpass(f"Password of {name} (nothing: one is made up): ")
    if not password:
        return None
    if getpass.getpass("Once more: ") != password:
        raise ConfigInvalid("expected the same password twice, found two", hint="Begin again; nothing was changed")
    return password
