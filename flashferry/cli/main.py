"""The command line put together. A verb's file holds its options and a few lines; the work is in `flashferry.api`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from flashferry.cli.command_line import App, InterruptedByOperator, UsageError
from flashferry.cli.terminal.last_words import guard, tell_trace
from flashferry.cli.terminal.lookalikes import fit_streams
from flashferry.cli.terminal.output import complain, say, tell_programs, verb_given
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.outside import keep_environment_secrets
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.faults import NightFault

COMMANDS = {
    "Staging": ("check", "probe", "plan", "stage", "recover"),
    "What runs do and did": ("status", "run", "history", "report"),
    "Images by hand": ("serve", "images"),
    "For a team": ("service",),
    "Nights on a lab": ("nightly",),
    "This host": ("init", "doctor", "depot", "state", "lab", "completion", "man"),
}
"""Commands in the groups and the order of the help; a module of that name has a function of that name, or an `app`."""

FAMILIES = frozenset({"run", "images", "service", "nightly", "state", "lab"})
"""Those with commands of their own: `app` in a module of that name."""

VERBS = tuple(name for names in COMMANDS.values() for name in names if name not in FAMILIES)
"""The others."""

CHANGING = frozenset({"probe", "stage", "recover"})
"""Those that change devices."""

_CODES = {
    Kind.JOURNAL_UNUSABLE: ExitCode.RESTORE_INCOMPLETE,
    **dict.fromkeys(
        (
            Kind.CODEC_ERROR,
            Kind.SETTINGS_INVALID,
            Kind.SERVER_START_FAILED,
            Kind.SERVER_GONE,
            Kind.REQUEST_REFUSED,
            Kind.TICKET_UNKNOWN,
            Kind.CATALOGUE_INVALID,
            Kind.IMAGE_UNKNOWN,
            Kind.IMAGE_UNREADABLE,
        ),
        ExitCode.INTERNAL,
    ),
}
"""Exit codes of what should have been told as a device's failure or as wrong input, and was not."""


def build(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line that such arguments need.

    Where they name a command, no other is imported: one that talks to no device starts without what talks to devices.
    """
    app = App(
        name="flashferry",
        help="Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing else behind.",
        pretty_exceptions_enable=False,
    )
    app.callback()(options)
    named = next((word for word in arguments if not word.startswith("-")), None)
    everything = {name: group for group, names in COMMANDS.items() for name in names}
    for name, group in everything.items():
        if named not in everything or name == named:
            module = import_module(f"flashferry.cli.{name}")
            if name in FAMILIES:
                app.add_typer(module.app, name=name, rich_help_panel=group)
            else:
                app.command(name, rich_help_panel=group)(getattr(module, name))
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


def _complain_of_words(error: Any) -> None:
    """Print what is wrong with the words of a command line, for people and, where they asked for it, for programs."""
    error.show()
    tell_programs(error.format_message(), ExitCode.USAGE)


def _tell_interrupted() -> None:
    """Tell that it was ended before or behind its work, while no more than words were on their way."""
    # From here on only the interpreter's own end follows; another Ctrl-C would have it print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    changes = verb_given() in CHANGING
    say("interrupted; 'flashferry status' tells where things stand" if changes else "interrupted; nothing was changed")
    tell_programs("interrupted by the operator", ExitCode.INTERRUPTED)


def main() -> None:
    """Run a command; every expected failure is one sentence on standard error and an exit code."""
    keep_environment_secrets(os.environ)
    # It logs tracebacks of sessions that did not come about; our sentence tells of them.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    fit_streams()
    guard()
    try:
        # As a function of its own it would tell wrong options to people alone.
        sys.exit(build(sys.argv[1:])(standalone_mode=False))
    except UsageError as error:
        _complain_of_words(error)
        sys.exit(ExitCode.USAGE)
    except typer.Abort:
        # The end of the input, where a password or a yes was asked for.
        say("no answer, for the input is at its end")
        sys.exit(ExitCode.INTERNAL)
    except ConfigInvalid as error:
        complain(error, ExitCode.USAGE)
        sys.exit(ExitCode.USAGE)
    except NightFault as error:
        complain(error, error.exit_code)
        sys.exit(error.exit_code)
    except FlashferryError as error:
        code = _CODES.get(error.kind, ExitCode.DEVICES_FAILED)
        complain(error, code)
        sys.exit(code)
    except (KeyboardInterrupt, InterruptedByOperator):
        _tell_interrupted()
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 -- a fault of ours: its trace, but through the door
        tell_trace(error)
        sys.exit(ExitCode.INTERNAL)
