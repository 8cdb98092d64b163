"""`flashferry recover`: restore what dead runs left tuned."""

from __future__ import annotations

from typing import Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.options.fleet import login_options, prompt
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import EventLines, finish, say
from flashferry.core.errors import ConfigInvalid


@login_options
def recover(
    which: FleetOptions,
    gone: Annotated[
        list[str] | None,
        typer.Option(
            "--forget",
            metavar="DEVICE",
            help="Restore nothing, but let go of this device: it is gone for good. Nothing is sent to it. RUN/DEVICE "
            "where several runs left one of that name. May be repeated.",
        ),
    ] = None,
    accepted: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="DEVICE",
            help="Take back what is ours on this device as always, then take it as it is: whatever still differs from "
            "the start is intended. The difference is shown, and the device is released. May be repeated.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="Only what this dead run left; its identifier, the beginning or end of it where that is unique, or "
            "'latest'. Devices of other runs are not touched.",
        ),
    ] = None,
    vouched: Annotated[
        list[str] | None,
        typer.Option(
            "--device-is",
            metavar="DEVICE",
            help="What answers at this device's address is the one that is meant, whatever it calls itself (another "
            "member of its stack, the router that took over its configuration), and its run is not alive elsewhere "
            "(this journal is a copy). May be repeated.",
        ),
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Find every device that a dead run left tuned, restore it and prove it."""
    from flashferry.cli.view.device_tables import print_recovery

    if gone and run is not None:
        raise ConfigInvalid(
            "--forget cannot be combined with --run: it names a device by itself",
            hint="Where several runs left one of that name: --forget RUN/DEVICE",
        )
    if gone and (vouched or accepted):
        other = "--device-is" if vouched else "--accept"
        raise ConfigInvalid(
            f"--forget cannot be combined with {other}: it sends nothing to a device, the other restores it",
            hint="Give one of them",
        )
    if gone:
        found = api.forget(gone, state=state_dir)
    else:
        with graceful_interrupt() as stop:
            found = api.recover(
                which,
                run=run,
                vouched=vouched or (),
                accepted=accepted or (),
                state=state_dir,
                ask=prompt(),
                emit=EventLines(),
                interrupted=stop.is_set,
                tell=say,
            )
    result: dict[str, object] = {"devices": found.devices}
    finish("recover", found.exit_code, result, as_json=json, human=lambda: print_recovery(found.devices))
