"""`flashferry check`: look at devices without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.options.fleet import FleetOptions, fleet, fleet_options
from flashferry.cli.options.shared import (
    AddressOption,
    JsonOption,
    Md5Option,
    PortOption,
    Sha512Option,
    StateOption,
    is_typed,
)
from flashferry.cli.terminal.interrupt import looking
from flashferry.cli.terminal.output import EventLines, finish
from flashferry.cli.view.device_tables import print_check_notes, print_checks
from flashferry.core.errors import ConfigInvalid
from flashferry.images.digests import published
from flashferry.model.exit_codes import exit_code
from flashferry.planning.inspection import check_fleet
from flashferry.planning.local_images import wanted_image
from flashferry.run.connectivity import reach_fleet
from flashferry.run.context import DeviceOptions
from flashferry.run.run import RunOptions
from inventory.access import state_directory


@fleet_options
def check(
    ctx: typer.Context,
    which: FleetOptions,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="The image that the devices are to have.")
    ] = None,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    reach: Annotated[
        bool, typer.Option("--reach", help="Have each device fetch a tiny file to null: path, login, mode, SYN audit.")
    ] = False,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Look at devices: platform, room, TCP lines, whether the image is there already. Changes nothing."""
    if not reach and (is_typed(ctx, "server_address") or is_typed(ctx, "ftp_port")):
        raise ConfigInvalid("--address and --port are for --reach: without it no device comes to us")
    if image is None and (md5 is not None or sha512 is not None):
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image: give --image too")
    nornir, state = fleet(which), state_directory(state_dir)
    wanted = wanted_image(image, published(md5, sha512)) if image else None
    with looking("a check") as stop:
        if reach:
            options = RunOptions(verb="check", device=DeviceOptions(server_address=server_address), port=ftp_port)
            records = reach_fleet(nornir, wanted, options, state=state, emit=EventLines(), interrupted=stop.is_set)
        else:
            records = check_fleet(nornir, wanted, state=state, emit=EventLines(), interrupted=stop.is_set)
        code = exit_code((record.outcome for record in records), interrupted=stop.is_set())

    def human() -> None:
        print_checks(records)
        print_check_notes(records)

    finish("check", code, {"devices": records}, as_json=json, human=human)
