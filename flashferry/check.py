"""`flashferry check`: look at devices without changing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.options import HostOption, InventoryOption, JsonOption, fleet
from flashferry.output import EventLines, finish
from flashferry.tables import print_checks
from staging.exit_codes import exit_code
from staging.fleet_check import check_fleet
from staging.images import wanted_image


def check(
    inventory: InventoryOption,
    host: HostOption = None,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="The image that the devices are to have.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Look at devices: platform, room, TCP lines, whether the image is there already. Changes nothing."""
    nornir = fleet(inventory, host)
    wanted = wanted_image(image) if image else None
    records = check_fleet(nornir, wanted, emit=EventLines())
    code = exit_code(record.outcome for record in records)
    finish("check", code, {"devices": records}, as_json=json, human=lambda: print_checks(records))
