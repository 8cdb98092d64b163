"""`flashferry probe`: how fast a device takes an image as it is and tuned, before anything is staged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.api.checking import ALL
from flashferry.cli.command_line import SERVER
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.server import TransportOption, asked, server_options
from flashferry.cli.options.shared import (
    EventsOption,
    JsonOption,
    MetricsOption,
    StateOption,
)
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import finish
from flashferry.core.errors import ConfigInvalid
from flashferry.tcp.probing import TARGET_S, TYPICAL_IMAGE_BYTES
from flashferry.transports.choice import check_asked


@fleet_options
@server_options
def probe(
    which: FleetOptions,
    server: api.ServerPlace,
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
    transport: TransportOption = None,
    transports: Annotated[
        str | None,
        typer.Option(
            "--transports",
            metavar="all|NAMES",
            help="Compare: one copy by each transport that the inventory allows, or by these, tuned and put back; the "
            "fastest is what --transport auto takes from then on.",
            rich_help_panel=SERVER,
        ),
    ] = None,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Time copies to null: as the devices are, then tuned and restored at once. No flash is written."""
    from flashferry.cli.view.live import watching
    from flashferry.cli.view.probe_table import print_probe

    options = api.ProbeOptions(
        as_is=as_is or not tuned,
        tuned=tuned or not as_is,
        image_bytes=_image_bytes(image, image_mb),
        seconds=seconds,
        server=server,
        transport=asked(transport),
        transports=_compared(transports, given={"--transport": transport, "--as-is": as_is}),
    )
    nornir = fleet(which)
    roster = api.roster_of(nornir)
    with (
        api.journal_in(state_dir) as journal,
        watching("restore", devices=len(roster.devices), roster=roster, events=events, metrics=metrics) as emit,
        graceful_interrupt(emit.say) as stop,
    ):
        api.transcripts_told_by(nornir, emit.say)
        report = api.probe(nornir, options, state=journal, emit=emit, interrupted=stop.is_set)
    finish("probe", api.run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_probe(report))


def _compared(transports: str | None, *, given: Mapping[str, object]) -> str:
    """Return which transports are to be compared; empty for none.

    Raises:
        ConfigInvalid: It is no transport, or something else stands there that means one alone.
    """
    if transports is None:
        return ""
    if other := next((name for name, value in given.items() if value), None):
        raise ConfigInvalid(
            f"--transports cannot be combined with {other}: it times a tuned copy by each", hint="Leave one of them out"
        )
    return transports if transports == ALL else check_asked(transports, option="--transports")


def _image_bytes(image: Path | None, image_mb: float | None) -> int:
    if image is not None and image_mb is not None:
        raise ConfigInvalid("--image and --image-mb both give a size", hint="Give one of them")
    if image is not None:
        return api.checked_image(image).stat().st_size
    return TYPICAL_IMAGE_BYTES if image_mb is None else round(image_mb * 1e6)
