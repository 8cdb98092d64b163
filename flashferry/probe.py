"""`flashferry probe`: time a small copy to `null:`, which writes no flash."""

from __future__ import annotations

from typing import Annotated

import typer

from flashferry.interrupt import graceful_interrupt
from flashferry.options import AddressOption, HostOption, InventoryOption, JsonOption, PortOption, StateOption, fleet
from flashferry.output import EventLines, finish
from flashferry.tables import print_run
from staging.context import DeviceOptions
from staging.exit_codes import run_exit_code
from staging.images import random_image
from staging.journal import Journal, state_directory
from staging.run import RunOptions, run_fleet


def probe(
    inventory: InventoryOption,
    host: HostOption = None,
    size_mb: Annotated[float, typer.Option("--size-mb", min=0.01, max=1000, help="Size of the random file.")] = 2.0,
    tuned: Annotated[bool, typer.Option("--tuned", help="Tune for the time of the copy; restored at once.")] = False,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Time the copy of a random file to null: as the devices are, or tuned. No flash is written."""
    nornir = fleet(inventory, host)
    options = RunOptions(
        verb="probe",
        device=DeviceOptions(tune=tuned, to_null=True, server_address=server_address),
        port=ftp_port,
    )
    with (
        random_image(round(size_mb * 1e6)) as image,
        Journal(state_directory(state_dir)) as journal,
        graceful_interrupt() as stop,
    ):
        report = run_fleet(nornir, image, options, journal=journal, emit=EventLines(), interrupted=stop.is_set)
    finish("probe", run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_run(report))
