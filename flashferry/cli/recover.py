"""`flashferry recover`: restore devices that killed runs left tuned."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct

from flashferry.api.fleet_options import FleetOptions
from flashferry.cli.backend import backend_of
from flashferry.cli.command_line import HERE, Offered
from flashferry.cli.options.fleet import login_options
from flashferry.cli.options.shared import JsonOption, ServiceReasonOption, StateOption, options_of
from flashferry.cli.result import show
from flashferry.core.errors import ConfigInvalid


class RecoverAsked(Struct, frozen=True, kw_only=True):
    """Options of `flashferry recover`."""

    gone: Annotated[
        list[str] | None,
        typer.Option(
            "--forget",
            metavar="DEVICE",
            help="Restore nothing, but release this device: it is gone for good. Nothing is sent to it. RUN/DEVICE "
            "where several runs left one of that name. May be repeated.",
        ),
        HERE,
    ] = None
    accepted: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="DEVICE",
            help="Take back what is ours on this device as always, then take it as it is: whatever still differs from "
            "the start is intended. The difference is shown, and the device is released. May be repeated.",
        ),
        HERE,
    ] = None
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Only what this dead run left; its identifier, the beginning or end of it where that is unique, or "
            "'latest'. Devices of other runs are not touched.",
        ),
        Offered(help="Only what this dead run left; no device of another."),
    ] = None
    device_is: Annotated[
        list[str] | None,
        typer.Option(
            "--device-is",
            metavar="DEVICE",
            help="What answers at this device's address is the one that is meant, whatever it calls itself (another "
            "member of its stack, the router that took over its configuration), and its run is not alive elsewhere "
            "(this journal is a copy). May be repeated.",
        ),
        HERE,
    ] = None
    reason: ServiceReasonOption = ""


@login_options
@options_of(RecoverAsked)
def recover(
    ctx: typer.Context,
    which: FleetOptions,
    asked: RecoverAsked,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Find every device that a run left tuned when it was killed, restore it and prove it."""
    from flashferry.cli.view.device_tables import print_recovery  # imports rich and nornir

    if asked.gone and asked.run is not None:
        raise ConfigInvalid(
            "--forget cannot be combined with --run: it names a device by itself",
            hint="Where several runs left one of that name: --forget RUN/DEVICE",
        )
    if asked.gone and (asked.device_is or asked.accepted):
        other = "--device-is" if asked.device_is else "--accept"
        raise ConfigInvalid(
            f"--forget cannot be combined with {other}: it sends nothing to a device, the other restores it",
            hint="Give one of them",
        )
    with backend_of(ctx, state_dir) as backend:
        result = backend.recover(which, asked)
    show(result, print_recovery, as_json=json)
