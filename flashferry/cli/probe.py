"""`flashferry probe`: measure how fast a device takes an image, as it is and tuned, before anything is staged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.api.fleet import FleetOptions
from flashferry.cli.backend import backend_of
from flashferry.cli.command_line import HERE, SERVER, Offered
from flashferry.cli.options.fleet import fleet_options
from flashferry.cli.options.server import TransportOption, asked_transport, server_options
from flashferry.cli.options.shared import (
    EventsOption,
    JsonOption,
    MetricsOption,
    ServiceReasonOption,
    StateOption,
    options_of,
)
from flashferry.cli.result import Watching, show
from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import ServerPlace
from flashferry.model.probe_result import COPIES, SweepOptions
from flashferry.tcp.speed_test_size import TARGET_S, TYPICAL_IMAGE_BYTES

if TYPE_CHECKING:
    from flashferry.api import ProbeOptions

SWEEP = "SSH's ciphers"
"""The panel of the options about them."""
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAsked:
    """What a speed test is to find out."""

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

    def options(self, server: ServerPlace) -> ProbeOptions:
        """Return this as the options of a speed test from this host.

        Raises:
            ConfigInvalid: Two of them contradict each other, or a transport is none.
        """
        others = {"--transport": self.transport, "--as-is": self.as_is, "--ssh-sweep": self.ssh_sweep}
        return api.ProbeOptions(
            as_is=self.as_is or not self.tuned,
            tuned=self.tuned or not self.as_is,
            image_bytes=_image_bytes(self.image, self.image_mb),
            seconds=self.seconds,
            server=server,
            transport=asked_transport(self.transport),
            transports=_compared(self.transports, given=others),
            ssh_sweep=_sweep(self.sweep_copies, is_asked=self.ssh_sweep, keeps=self.keep, as_is=self.as_is),
        )


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
    from flashferry.cli.view.probe_table import print_probe

    with backend_of(ctx, state_dir) as backend:
        result = backend.probe(which, server, asked, Watching(events=events, metrics=metrics))
    show(result, print_probe, as_json=json)


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
    # Imported here: help needs no transport.
    from flashferry.transports.transport_selection import check_asked

    if transports is None:
        return ""
    if other := next((name for name, value in given.items() if value), None):
        raise ConfigInvalid(
            f"--transports cannot be combined with {other}: it times a tuned copy by each", hint="Leave one of them out"
        )
    return transports if transports == _ALL else check_asked(transports, option="--transports")


def _image_bytes(image: Path | None, image_mb: float | None) -> int:
    if image is not None and image_mb is not None:
        raise ConfigInvalid("--image and --image-mb both give a size", hint="Give one of them")
    if image is not None:
        return api.checked_image(image).stat().st_size
    return TYPICAL_IMAGE_BYTES if image_mb is None else round(image_mb * 1e6)
