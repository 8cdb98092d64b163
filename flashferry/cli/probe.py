"""`flashferry probe`: measure how fast a device copies an image, before and after tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from flashferry.api import FleetOptions, ServerPlace
from flashferry.cli.backend import backend_of
from flashferry.cli.command_line import HERE, SERVER, Offered
from flashferry.cli.options.fleet import fleet_options
from flashferry.cli.options.server import TransportOption, server_options
from flashferry.cli.options.shared import (
    EventsOption,
    JsonOption,
    MetricsOption,
    ServiceReasonOption,
    StateOption,
    options_of,
)
from flashferry.cli.result import Watching, show
from flashferry.model.ssh_sweep import COPIES
from flashferry.tcp.speed_test_size import TARGET_S

if TYPE_CHECKING:
    pass

SWEEP = "SSH's ciphers"
"""Option group in the help."""


class ProbeAsked(Struct, frozen=True, kw_only=True):
    """Options of `flashferry probe`."""

    image: Annotated[
        Path | None,
        typer.Option("--image", metavar="FILE", help="The image that is to follow; only its size counts."),
        Offered(metavar="NAME", help="An image of the service's, by its name there."),
    ] = None
    image_mb: Annotated[
        float | None,
        typer.Option("--image-mb", min=0.1, max=100_000, metavar="MB", help="Or its size in MB (default: 500)."),
        HERE,
    ] = None
    as_is: Annotated[bool, typer.Option("--as-is", help="Only with the TCP settings as they are.")] = False
    tuned: Annotated[bool, typer.Option("--tuned", help="Only while tuned.")] = False
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="SECONDS", min=2, max=60, help="How long a copy should take; its size follows."
        ),
    ] = TARGET_S
    transport: TransportOption = None
    transports: Annotated[
        str | None,
        typer.Option(
            "--transports",
            metavar="all|NAMES",
            help="Compare: one copy by each transport that the inventory allows, or by these, tuned and restored; the "
            "fastest is what --transport auto takes from then on.",
            rich_help_panel=SERVER,
        ),
        HERE,
    ] = None
    ssh_sweep: Annotated[
        bool,
        typer.Option(
            "--ssh-sweep",
            help="Compare SSH's ciphers, then its MACs: our server offers the device one alone for each copy; of its "
            "configuration nothing is changed but its windows, which are restored.",
            rich_help_panel=SWEEP,
        ),
        HERE,
    ] = False
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
        HERE,
    ] = None
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Offer the fastest alone to devices of the same model from then on, where one is distinctly fastest.",
            rich_help_panel=SWEEP,
        ),
        HERE,
    ] = False
    reason: ServiceReasonOption = ""


@fleet_options
@server_options
@options_of(ProbeAsked)
def probe(
    ctx: typer.Context,
    which: FleetOptions,
    server: ServerPlace,
    asked: ProbeAsked,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Time copies to null: as the devices are, then tuned and restored at once. No flash is written."""
    from flashferry.cli.view.probe_table import print_probe  # imports rich and nornir

    with backend_of(ctx, state_dir) as backend:
        result = backend.probe(which, server, asked, Watching(events=events, metrics=metrics))
    show(result, print_probe, as_json=json)
