"""`flashferry stage`: tune, copy, verify, restore."""

from __future__ import annotations

from typing import Annotated

import typer

from flashferry.fleet import FleetOptions, fleet, fleet_options
from flashferry.interrupt import graceful_interrupt
from flashferry.options import AddressOption, ImageOption, JsonOption, PortOption, StateOption
from flashferry.output import EventLines, finish, say
from flashferry.tables import print_run
from flashferry.verify_options import Md5Option, Sha512Option, SignatureOption
from staging.context import DeviceOptions
from staging.exit_codes import run_exit_code
from staging.journal import Journal, state_directory
from staging.published import published
from staging.recover import pending
from staging.run import RunOptions, checked_image, run_fleet


@fleet_options
def stage(
    which: FleetOptions,
    image: ImageOption,
    window_bytes: Annotated[
        int | None,
        typer.Option(
            "--window-bytes",
            min=16_384,
            max=1_073_741_823,
            help="TCP window to set (default: twice the bandwidth-delay product); above 65535 to be scaled.",
        ),
    ] = None,
    no_tune: Annotated[
        bool, typer.Option("--no-tune", help="Copy with the device's TCP settings as they are.")
    ] = False,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    verify_signature: SignatureOption = False,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Have devices pull an image: tune TCP, copy, verify the hash, put the configuration back, prove it."""
    nornir = fleet(which)
    checked_image(image)
    options = RunOptions(
        verb="stage",
        device=DeviceOptions(
            tune=not no_tune,
            window_bytes=window_bytes,
            verify_signature=verify_signature,
            server_address=server_address,
        ),
        port=ftp_port,
        vendor=published(md5, sha512),
    )
    with Journal(state_directory(state_dir)) as journal, graceful_interrupt() as stop:
        if left := pending(journal):
            names = ", ".join(device.host for device in left)
            say(f"warning: a dead run had {names} in its hands; run 'flashferry recover'")
        report = run_fleet(nornir, image, options, journal=journal, emit=EventLines(), interrupted=stop.is_set)
    finish("stage", run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_run(report))
