"""`flashferry check`: look at devices without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.policy import Md5Option, Sha512Option
from flashferry.cli.options.server import SERVER_PARAMETERS, TransportOption, asked, server_options
from flashferry.cli.options.shared import (
    JsonOption,
    StateOption,
    is_typed,
)
from flashferry.cli.terminal.interrupt import looking
from flashferry.cli.terminal.output import EventLines, finish
from flashferry.core.errors import ConfigInvalid


@fleet_options
@server_options
def check(
    ctx: typer.Context,
    which: FleetOptions,
    server: api.ServerPlace,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="The image that the devices are to have.")
    ] = None,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    reach: Annotated[
        bool, typer.Option("--reach", help="Have each device fetch a tiny file to null: path, login, mode, SYN audit.")
    ] = False,
    transport: TransportOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Look at devices: platform, room, TCP lines, whether the image is there already. Changes nothing."""
    from flashferry.cli.view.device_tables import print_check_notes, print_checks

    if not reach and (given := next((one for one in SERVER_PARAMETERS if is_typed(ctx, one)), None)) is not None:
        raise ConfigInvalid(
            f"{SERVER_PARAMETERS[given]} for --reach: without it no device comes to us",
            hint="Give --reach too, or leave them out",
        )
    if image is None and (md5 is not None or sha512 is not None):
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image", hint="Give --image too")
    nornir = fleet(which)
    wanted = api.read_image(image, md5=md5, sha512=sha512) if image else None
    with looking("a check") as stop:
        found = api.check(
            nornir,
            wanted,
            reach=reach,
            server=server,
            transport=asked(transport),
            state=state_dir,
            emit=EventLines(),
            interrupted=stop.is_set,
        )

    def human() -> None:
        print_checks(found.devices)
        print_check_notes(found.devices)

    finish("check", found.exit_code, {"devices": found.devices}, as_json=json, human=human)
