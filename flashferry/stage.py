"""`flashferry stage`: tune, copy, verify, restore."""

from __future__ import annotations

from typing import Annotated

import typer

from flashferry.dry_run import print_dry_run
from flashferry.fleet import FleetOptions, fleet, fleet_options
from flashferry.interrupt import graceful_interrupt
from flashferry.live import watching
from flashferry.options import AddressOption, ImageOption, JsonOption, PortOption, StateOption
from flashferry.output import EventLines, finish, say
from flashferry.tables import print_run
from flashferry.verify_options import Md5Option, Sha512Option, SignatureOption
from flashferry.watch_options import EventsOption, MetricsOption, roster_of
from inventory.errors import ConfigInvalid
from staging.context import DeviceOptions
from staging.dry_run import dry_run_fleet
from staging.exit_codes import exit_code, run_exit_code
from staging.journal import Journal, state_directory
from staging.published import published
from staging.recover import pending
from staging.run import RunOptions, checked_image, run_fleet
from staging.status import last_as_is
from tasks.tuning import EXTRAS


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
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--extra",
            metavar="NAME",
            help=f"Set this TCP option too for the time of the copy: {' or '.join(EXTRAS)}; may be repeated.",
        ),
    ] = None,
    remove_partial: Annotated[
        bool,
        typer.Option("--remove-partial", help="Remove what a broken copy of ours left on flash, and copy once more."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be sent to each device; change nothing.")
    ] = False,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    verify_signature: SignatureOption = False,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
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
            extras=_extras(extra, tune=not no_tune),
            remove_partial=remove_partial,
            verify_signature=verify_signature,
            server_address=server_address,
        ),
        port=ftp_port,
        vendor=published(md5, sha512),
    )
    if dry_run:
        with graceful_interrupt() as stop:
            records = dry_run_fleet(
                nornir,
                image,
                options,
                state_directory=state_directory(state_dir),
                emit=EventLines(),
                interrupted=stop.is_set,
            )
        code = exit_code((record.outcome for record in records), interrupted=stop.is_set())
        finish("dry-run", code, {"devices": records}, as_json=json, human=lambda: print_dry_run(records))
    roster = roster_of(nornir, image.stat().st_size)
    with Journal(state_directory(state_dir)) as journal:
        if left := pending(journal):
            names = ", ".join(device.host for device in left)
            say(f"warning: a dead run had {names} in its hands; run 'flashferry recover'")
        was = last_as_is(journal.directory)
        with (
            watching("restore", devices=len(roster.devices), roster=roster, events=events, metrics=metrics) as emit,
            graceful_interrupt(emit.say) as stop,
        ):
            report = run_fleet(nornir, image, options, journal=journal, emit=emit, interrupted=stop.is_set)
    finish("stage", run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_run(report, was))


def _extras(names: list[str] | None, *, tune: bool) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(names or ()))
    if unknown := [name for name in found if name not in EXTRAS]:
        raise ConfigInvalid(f"--extra: expected {' or '.join(EXTRAS)}, found {unknown[0]!r}")
    if found and not tune:
        raise ConfigInvalid("--no-tune cannot be combined with --extra: an extra is tuning")
    return found
