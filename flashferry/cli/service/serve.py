"""`flashferry service`: serve pages and API until a signal arrives. Runs are separate processes and continue."""

from __future__ import annotations

import gc
import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from flashferry import api
from flashferry.cli.command_line import SERVER, is_typed
from flashferry.cli.options.shared import StateOption
from flashferry.cli.terminal.output import say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.service.configuration import USUAL_NAME, load_settings, parsed_listen
from flashferry.service.errors import ServiceError
from flashferry.service.principal import Actor, Via
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import FILE, ServiceDatabase

PACKAGES = ("fastapi", "uvicorn", "multipart", "argon2", "joserfc", "httpx")
"""Packages of the extra `service`, by import name."""

_FD = "fd:"

_OWN = ("config", "listen", "state_dir")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar="FLASHFERRY_SERVICE_CONFIG",
        metavar="FILE",
        help="The service's configuration (default: service.toml in the state folder, where it is there).",
        rich_help_panel=SERVER,
    ),
]


def serve(
    ctx: typer.Context,
    config: ConfigOption = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="[ADDRESS:]PORT|fd:N",
            help="Where to listen (default: as the configuration says, else 127.0.0.1:8020); fd:N is a socket that is "
            "listened on already, as systemd hands down fd:3.",
            rich_help_panel=SERVER,
        ),
    ] = None,
    state_dir: StateOption = None,
) -> None:
    """Serve pages and an API for a team until Ctrl-C or SIGTERM; runs continue by themselves."""
    check_installed()
    if ctx.invoked_subcommand is not None:
        _check_place(ctx)
        return
    # Imported modules are never freed; scanning them for garbage takes a tenth of the start time.
    gc.disable()
    from flashferry.service.serving import serve as serve_service  # needs the extra `service`

    gc.freeze()
    gc.enable()
    state = api.state_folder(state_dir)
    handed = _handed(listen)
    settings = _listening(read_settings(config, state), listen if handed is None else None)
    serve_service(state, settings, report=say, handed=handed)


def read_settings(config: Path | None, state: Path) -> ServiceSettings:
    """Read the configuration: the given file, else the one in the state folder, else defaults.

    Raises:
        ConfigInvalid: The given file does not exist, or the configuration is invalid.
    """
    usual = state / USUAL_NAME
    if config is None and not usual.exists():
        return ServiceSettings()
    return load_settings(config or usual)


def check_installed() -> None:
    """Check that the optional packages of the service are installed.

    Raises:
        ConfigInvalid: One is missing.
    """
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise ConfigInvalid(
            f"flashferry service: expected the packages of the extra 'service', found no {', '.join(missing)}",
            hint=extra_hint("service"),
        )


def _check_place(ctx: typer.Context) -> None:
    """Refuse options before a subcommand: each subcommand has its own.

    Raises:
        ConfigInvalid: There are such options.
    """
    if given := [name for name in _OWN if is_typed(ctx, name)]:
        option = f"--{given[0].replace('_', '-')}"
        raise ConfigInvalid(
            f"{option}: expected after 'service {ctx.invoked_subcommand}', found before it",
            hint=f"Write it after the command, as in 'flashferry service {ctx.invoked_subcommand} {option} ...'",
        )


def _handed(listen: str | None) -> int | None:
    """Return the descriptor of a listening socket inherited from the parent process (`fd:N`), or None."""
    number = (listen or "").removeprefix(_FD)
    # An invalid number is refused as an invalid address.
    return int(number) if listen is not None and listen.startswith(_FD) and number.isdecimal() else None


def _listening(settings: ServiceSettings, listen: str | None) -> ServiceSettings:
    """Return the settings with the address and port of the command line.

    Raises:
        ConfigInvalid: The text is not an address and port.
    """
    if listen is None:
        return settings

    address, port = parsed_listen(listen)
    return replace(settings, address=address or settings.address, port=port)


PASSWORD_VARIABLE = "FLASHFERRY_USER_PASSWORD"  # noqa: S105 -- the name of a variable
"""Variable for a user's new password; not an option, since any user can read command lines."""


@contextmanager
def opened(
    config: Path | None, state_dir: Path | None, *, is_beginning: bool = False
) -> Iterator[tuple[Service, Actor]]:
    """Open the service, and yield it with the user of this host as the audit's actor.

    Refusals by the service are raised as ConfigInvalid.

    Args:
        config: The configuration file; None: the one in the state folder, if it exists.
        state_dir: The state folder; None: the default.
        is_beginning: Whether to create missing tables; otherwise missing tables are an error.

    Raises:
        ConfigInvalid: The configuration or the database cannot be used, or the service refused the request.
    """
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
    if not os.path.lexists(state / FILE):
        raise ConfigInvalid(
            f"state folder {state}: expected the service's database, found none",
            hint="'flashferry service init' sets up a service; or give the --state-dir of one that is there",
        )


def user_of_host() -> str:
    """Return the user of this process; under `sudo` the invoking user too."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    sudo_user = os.environ.get("SUDO_USER", "")
    return f"{name} ({sudo_user})" if sudo_user and sudo_user != name else name


def given_password(name: str) -> str | None:
    """Return a new password for a user, from the environment or typed twice; None: it is to be generated.

    Raises:
        ConfigInvalid: The two typed passwords differ.
    """
    # Removed from the environment: child processes inherit it.
    if (password := os.environ.pop(PASSWORD_VARIABLE, None)) is not None:
        return password
    if not sys.stdin.isatty():
        return None
    password = getpass.getpass(f"Password of {name} (nothing: one is made up): ")
    if not password:
        return None
    if getpass.getpass("Once more: ") != password:
        raise ConfigInvalid("expected the same password twice, found two", hint="Start again; nothing was changed")
    return password
