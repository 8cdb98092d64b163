"""The command line put together. A verb's file holds its options and a few lines; the work is in `staging`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from flashferry import check, doctor, images, lab, probe, recover, serve, stage
from flashferry.output import complain, say
from inventory.errors import ConfigInvalid, FlashferryError
from staging.exit_codes import ExitCode
from staging.touched import JournalUnusable

app = typer.Typer(
    name="flashferry",
    help="Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing else behind.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("check")(check.check)
app.command("probe")(probe.probe)
app.command("stage")(stage.stage)
app.command("recover")(recover.recover)
app.command("serve")(serve.serve)
app.command("doctor")(doctor.doctor)
app.add_typer(images.app, name="images")
app.add_typer(lab.app, name="lab")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flashferry {version('flashferry')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing behind."""


def main() -> None:
    """Run a command; every expected failure is one sentence on standard error and an exit code."""
    try:
        app()
    except ConfigInvalid as error:
        complain(error, ExitCode.USAGE)
        sys.exit(ExitCode.USAGE)
    except JournalUnusable as error:
        complain(error, ExitCode.RESTORE_INCOMPLETE)
        sys.exit(ExitCode.RESTORE_INCOMPLETE)
    except FlashferryError as error:
        complain(error, ExitCode.DEVICES_FAILED)
        sys.exit(ExitCode.DEVICES_FAILED)
    except KeyboardInterrupt:
        say("interrupted; nothing was changed")
        sys.exit(ExitCode.INTERRUPTED)
