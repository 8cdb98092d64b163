"""`flashferry probe`: how fast a device takes an image as it is and tuned, before anything is staged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.options.fleet import FleetOptions, fleet, fleet_options, transcripts_told_by
from flashferry.cli.options.shared import AddressOption, JsonOption, PortOption, StateOption
from flashferry.cli.options.watch import EventsOption, MetricsOption, roster_of
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import finish
from flashferry.cli.view.live import watching
from flashferry.cli.view.probe_table import print_probe
from flashferry.core.errors import ConfigInvalid
from flashferry.images.files import checked_image
from flashferry.model.exit_codes import run_exit_code
from flashferry.run.context import DeviceOptions
from flashferry.run.probe import TYPICAL_IMAGE_BYTES, ProbeWish, probe_fleet
from flashferry.run.run import RunOptions
from flashferry.store.journal import Journal, state_directory
from flashferry.tcp.probing import TARGET_S


@fleet_options
def probe(
    which: FleetOptions,
    image: Annotated[
        Path | None, typer.Option("--image", metavar="FILE", help="The image that is to follow; only its size counts.")
    ] = None,
    image_mb: Annotated[
        float | None,
        typer.Option("--image-mb", min=0.1, max=100_000, metavar="MB", help="Or its size in MB (default: 500)."),
    ] = None,
    as_is: Annotated[bool, typer.Option("--as-is", help="Only with the TCP settings as they are.")] = False,
    tuned: Annotated[bool, typer.Option("--tuned", help="Only while tuned.")] = False,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="SECONDS", min=2, max=60, help="How long a copy should take; its size follows."
        ),
    ] = TARGET_S,
    server_address: AddressOption = None,
    ftp_port: PortOption = None,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Time copies to null: as the devices are, then tuned and restored at once. No flash is written."""
    wish = ProbeWish(
        as_is=as_is or not tuned,
        tuned=tuned or not as_is,
        image_bytes=_image_bytes(image, image_mb),
        target_s=seconds,
    )
    nornir = fleet(which)
    options = RunOptions(verb="probe", device=DeviceOptions(server_address=server_address), port=ftp_port)
    roster = roster_of(nornir)
    with (
        Journal(state_directory(state_dir)) as journal,
        watching("restore", devices=len(roster.devices), roster=roster, events=events, metrics=metrics) as emit,
        graceful_interrupt(emit.say) as stop,
    ):
        transcripts_told_by(nornir, emit.say)
        report = probe_fleet(nornir, wish, options, journal=journal, emit=emit, interrupted=stop.is_set)
    finish("probe", run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_probe(report))


def _image_bytes(image: Path | None, image_mb: float | None) -> int:
    if image is not None and image_mb is not None:
        raise ConfigInvalid("--image and --image-mb both give a size; give one")
    if image is not None:
        return checked_image(image).stat().st_size
    return TYPICAL_IMAGE_BYTES if image_mb is None else round(image_mb * 1e6)
