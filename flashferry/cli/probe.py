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
    origin,
)
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import finish
from flashferry.core.errors import ConfigInvalid
from flashferry.model.ssh_sweep import COPIES, SweepOptions
from flashferry.tcp.probing import TARGET_S, TYPICAL_IMAGE_BYTES
from flashferry.transports.choice import check_asked

SWEEP = "SSH's ciphers"
"""The panel of the options about them."""


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
    ssh_sweep: Annotated[
        bool,
        typer.Option(
            "--ssh-sweep",
            help="Compare SSH's ciphers, then its MACs: our server offers the device one alone for each copy; of its "
            "configuration nothing is changed but its windows, which are put back.",
            rich_help_panel=SWEEP,
        ),
    ] = False,
    sweep_copies: Annotated[
        int | None,
        typer.Option(
            "--sweep-copies",
            min=1,
            max=20,
            metavar="N",
            help=f"Copies by each cipher and MAC, in rounds of another order each (default: {COPIES}).",
            rich_help_panel=SWEEP,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Offer the fastest alone to devices of the same model from then on, where one is told apart.",
            rich_help_panel=SWEEP,
        ),
    ] = False,
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
        transports=_compared(transports, given={"--transport": transport, "--as-is": as_is, "--ssh-sweep": ssh_sweep}),
        ssh_sweep=_sweep(sweep_copies, is_asked=ssh_sweep, keeps=keep, as_is=as_is),
    )
    nornir = fleet(which)
    roster = api.roster_of(nornir)
    with (
        api.journal_in(state_dir, origin(events)) as journal,
        watching("restore", devices=len(roster.devices), roster=roster, events=events, metrics=metrics) as emit,
        graceful_interrupt(emit.say) as stop,
    ):
        api.transcripts_told_by(nornir, emit.say)
        report = api.probe(nornir, options, state=journal, emit=emit, interrupted=stop.is_set)
    finish("probe", api.run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_probe(report))


def _sweep(copies: int | None, *, is_asked: bool, keeps: bool, as_is: bool) -> SweepOptions | None:
    """Return how ciphers and MACs are to be compared; None where they are not.

    Raises:
        ConfigInvalid: What belongs to a sweep stands without one, or something that a sweep is not.
    """
    if is_asked and as_is:
        raise ConfigInvalid(
            "--ssh-sweep cannot be combined with --as-is: its copies are tuned as a run's", hint="Leave one of them out"
        )
    if is_asked:
        return SweepOptions(copies=copies or COPIES, keeps=keeps)
    if copies is not None or keeps:
        given = "--keep" if copies is None else "--sweep-copies"
        raise ConfigInvalid(f"{given}: expected --ssh-sweep with it, found none", hint="Give it too, or leave both out")
    return None


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
