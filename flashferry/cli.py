"""The command line put together. A verb's file holds its options and a few lines; the work is in `staging`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from flashferry.last_words import guard, tell_trace
from flashferry.output import complain, say
from inventory.errors import ConfigInvalid, FlashferryError
from inventory.outside import keep_environment_secrets
from staging.exit_codes import ExitCode

VERBS = ("check", "probe", "plan", "stage", "recover", "status", "history", "report", "serve", "doctor")
"""Commands, in the order of the help; each is a function of its name in a module of its name."""

FAMILIES = ("run", "images", "lab")
"""Commands with commands of their own: `app` in a module of that name."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line that such arguments need.

    Where they name a command, no other is imported: one that talks to no device starts without what talks to devices.
    """
    app = typer.Typer(
        name="flashferry",
        help="Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing else behind.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(options)
    named = next((word for word in arguments if not word.startswith("-")), None)
    for name in (*VERBS, *FAMILIES):
        if named not in (*VERBS, *FAMILIES) or name == named:
            module = import_module(f"flashferry.{name}")
            if name in VERBS:
                app.command(name)(getattr(module, name))
            else:
                app.add_typer(module.app, name=name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"flashferry {version('flashferry')}")
        raise typer.Exit


def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing behind."""


def main() -> None:
    """Run a command; every expected failure is one sentence on standard error and an exit code."""
    keep_environment_secrets(os.environ)
    guard()
    try:
        build(sys.argv[1:])()
    except ConfigInvalid as error:
        complain(error, ExitCode.USAGE)
        sys.exit(ExitCode.USAGE)
    except FlashferryError as error:
        from staging.touched import JournalUnusable

        code = ExitCode.RESTORE_INCOMPLETE if isinstance(error, JournalUnusable) else ExitCode.DEVICES_FAILED
        complain(error, code)
        sys.exit(code)
    except KeyboardInterrupt:
        say("interrupted; nothing was changed")
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 -- a fault of ours: its trace, but through the door
        tell_trace(error)
        sys.exit(ExitCode.INTERNAL)
