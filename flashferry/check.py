"""`flashferry check`: look at devices without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.interrupt import graceful_interrupt
from flashferry.options import AddressOption, HostOption, InventoryOption, JsonOption, PortOption, fleet
from flashferry.output import EventLines, finish
from flashferry.tables import print_checks
from inventory.errors import ConfigInvalid
from staging.context import DeviceOptions
from staging.exit_codes import exit_code
from staging.fleet_check import check_fleet
from staging.images import wanted_image
from staging.reach import reach_fleet
from staging.run import RunOptions


def check(
    inventory: InventoryOption,
    host: HostOption = None,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="The image that the devices are to have.")
    ] = None,
    reach: Annotated[
        bool, typer.Option("--reach", help="Have each device fetch a tiny file to null: path, login, mode, SYN audit.")
    ] = False,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    json: JsonOption = False,
) -> None:
    """Look at devices: platform, room, TCP lines, whether the image is there already. Changes nothing."""
    if not reach and (server_address is not None or ftp_port is not None):
        raise ConfigInvalid("--server-address and --ftp-port are for --reach: without it no device comes to us")
    nornir = fleet(inventory, host)
    wanted = wanted_image(image) if image else None
    if reach:
        options = RunOptions(verb="check", device=DeviceOptions(server_address=server_address), port=ftp_port)
        with graceful_interrupt() as stop:
            records = reach_fleet(nornir, wanted, options, emit=EventLines(), interrupted=stop.is_set)
    else:
        records = check_fleet(nornir, wanted, emit=EventLines())
    code = exit_code(record.outcome for record in records)
    finish("check", code, {"devices": records}, as_json=json, human=lambda: print_checks(records))
