"""`flashferry check`: check devices without changing anything."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct

from flashferry.api import FleetOptions, ServerPlace
from flashferry.cli.backend import backend_of
from flashferry.cli.command_line import is_typed
from flashferry.cli.options.fleet import fleet_options
from flashferry.cli.options.policy import Md5Option, Sha512Option
from flashferry.cli.options.server import SERVER_PARAMETERS, TransportOption, server_options
from flashferry.cli.options.shared import (
    ImageFileOption,
    JsonOption,
    ServiceReasonOption,
    StateOption,
    options_of,
)
from flashferry.cli.result import show
from flashferry.core.errors import ConfigInvalid


class CheckAsked(Struct, frozen=True, kw_only=True):
    """Options of `flashferry check`."""

    image: ImageFileOption = None
    md5: Md5Option = None
    sha512: Sha512Option = None
    reach: Annotated[
        bool, typer.Option("--reach", help="Have each device fetch a tiny file to null: path, login, mode, SYN audit.")
    ] = False
    transport: TransportOption = None
    reason: ServiceReasonOption = ""


@fleet_options
@server_options
@options_of(CheckAsked)
def check(
    ctx: typer.Context,
    which: FleetOptions,
    server: ServerPlace,
    asked: CheckAsked,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Check devices: platform, free space, TCP lines, whether the image is there already. Changes nothing."""
    from flashferry.cli.view.device_tables import print_checks  # imports rich and nornir

    if not asked.reach and (given := next((one for one in SERVER_PARAMETERS if is_typed(ctx, one)), None)) is not None:
        raise ConfigInvalid(
            f"{SERVER_PARAMETERS[given]} for --reach: without it no device connects to us",
            hint="Give --reach too, or leave them out",
        )
    if asked.image is None and (asked.md5 is not None or asked.sha512 is not None):
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image", hint="Give --image too")
    with backend_of(ctx, state_dir) as backend:
        result = backend.check(which, server, asked)
    show(result, print_checks, as_json=json)
