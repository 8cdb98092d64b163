"""The command line put together. A verb's file holds its options and a few lines; the work is in `flashferry.api`."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from flashferry.cli.command_line import (
    SERVICE_VARIABLE,
    App,
    InterruptedByOperator,
    UsageError,
    behind_options,
    service_named,
    told_in_our_words,
)
from flashferry.cli.terminal.ascii_fallback import fit_streams
from flashferry.cli.terminal.exception_hooks import guard, tell_trace
from flashferry.cli.terminal.output import here, print_error, remember_service, say, tell_programs, verb_given
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.extras import extra_hint
from flashferry.core.outside import keep_environment_secrets
from flashferry.model.exit_codes import ExitCode
from flashferry.nightly.faults import NightFault

COMMANDS = {
    "Staging": ("check", "probe", "plan", "stage", "recover", "ready", "activate", "clean"),
    "What runs do and did": ("status", "run", "history", "report"),
    "Images by hand": ("serve", "images"),
    "For a team": ("service", "sites"),
    "Nights on a lab": ("nightly",),
    "This host": ("init", "doctor", "depot", "state", "lab"),
}
"""Commands in the groups and the order of the help; a module of that name has a function of that name, or an `app`.
Those of the lab are the lab's own: `flashferry.lab.cli`."""

FAMILIES = frozenset({"run", "images", "service", "sites", "nightly", "depot", "state", "lab"})
"""Those with commands of their own: `app` in a module of that name."""

VERBS = tuple(name for names in COMMANDS.values() for name in names if name not in FAMILIES)
"""The others."""

CHANGING = frozenset({"probe", "stage", "recover", "activate", "clean"})
"""Those that change devices."""

_CODES = {
    Kind.JOURNAL_UNUSABLE: ExitCode.RESTORE_INCOMPLETE,
    Kind.SERVICE_REFUSED: ExitCode.USAGE,
    Kind.SERVICE_UNUSABLE: ExitCode.SERVICE,
    Kind.APPROVAL_WANTED: ExitCode.APPROVAL,
    Kind.INTERRUPTED: ExitCode.INTERRUPTED,
    Kind.SYNC_STOPPED: ExitCode.INTERRUPTED,
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
    Where they name a service, its commands stand in the place of those for this host.

    Raises:
        ConfigInvalid: The command is one for this host alone, and a service is named.
    """
    app = App(
        name="flashferry",
        help="Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing else behind.",
        pretty_exceptions_enable=False,
        add_completion=True,
    )
    app.callback()(options)
    named = next(iter(behind_options(arguments)), None)
    groups = {name: group for group, names in COMMANDS.items() for name in names}
    places = {name: f"flashferry.cli.{name}" for name in groups} | {"lab": "flashferry.lab.cli.app"}
    if service_named(arguments, os.environ):
        places = _at_a_service(named)
    for name, place in places.items():
        if named not in places or name == named:
            module = import_module(place)
            if name in FAMILIES:
                app.add_typer(module.app, name=name, rich_help_panel=groups[name])
            else:
                app.command(name, rich_help_panel=groups[name], **_kind_of(place))(getattr(module, name))
    return app


def _at_a_service(named: str | None) -> dict[str, str]:
    """Return the commands that a remote service carries out, and where each is.

    Raises:
        ConfigInvalid: What is needed for it is not installed, or the command is one for this host alone.
    """
    from flashferry.cli import remote

    if named in {name for names in COMMANDS.values() for name in names} - set(remote.VERBS):
        raise ConfigInvalid(
            f"'{named}' is for the host that it is typed on, and --service (or {SERVICE_VARIABLE}) names a service",
            hint=f"'flashferry --service= {named} ...' is for this host; a service takes {', '.join(remote.VERBS)}",
        )
    try:
        import_module("httpx")
    except ImportError:
        raise ConfigInvalid(
            "--service: expected the package httpx, which is not installed",
            hint=extra_hint("remote"),
        ) from None
    return {name: f"flashferry.cli.remote.{module}" for name, module in remote.VERBS.items()}


def _kind_of(place: str) -> dict[str, Any]:
    if not place.startswith("flashferry.cli.remote."):
        return {}
    from flashferry.cli.remote.connect import RemoteVerb

    return {"cls": RemoteVerb}


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"flashferry {version('flashferry')}")
        raise typer.Exit


def options(
    ctx: typer.Context,
    show_version: Annotated[  # noqa: ARG001 -- its callback tells it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    service: Annotated[
        str,
        typer.Option(
            "--service",
            envvar=SERVICE_VARIABLE,
            metavar="URL",
            callback=remember_service,
            help="Have a staging service carry the verb out; its token is in FLASHFERRY_SERVICE_TOKEN.",
        ),
    ] = "",
    service_ca: Annotated[
        Path | None,
        typer.Option(
            "--service-ca",
            envvar="FLASHFERRY_SERVICE_CA",
            metavar="FILE",
            help="Certificates of those who may vouch for it, PEM (default: those that this host trusts).",
        ),
    ] = None,
    service_token_file: Annotated[
        Path | None,
        typer.Option(
            "--service-token-file",
            envvar="FLASHFERRY_SERVICE_TOKEN_FILE",
            metavar="FILE",
            help="The file with its token, readable for its owner alone.",
        ),
    ] = None,
) -> None:
    """Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing behind."""
    if service.strip():
        from flashferry.cli.remote.connect import ServiceWords

        ctx.obj = ServiceWords(url=service, ca=service_ca, token_file=service_token_file)
    elif service_ca is not None or service_token_file is not None:
        _check_service_is_named(ctx)


def _check_service_is_named(ctx: typer.Context) -> None:
    """Refuse words about a service that is not named; what the environment says of one counts for nothing then.

    Raises:
        ConfigInvalid: They were typed.
    """
    from flashferry.cli.options.shared import is_typed

    if typed := [name for name in ("service_ca", "service_token_file") if is_typed(ctx, name)]:
        raise ConfigInvalid(
            f"--{typed[0].replace('_', '-')}: expected --service URL with it, found none",
            hint="Give it too, or leave both out",
        )


def _complain_of_words(error: Any) -> None:
    """Print what is wrong with the words of a command line, for people and, where they asked for it, for programs."""
    error = told_in_our_words(error)
    error.show()
    tell_programs(error.format_message(), ExitCode.USAGE)


def _tell_interrupted() -> None:
    """Tell that it was ended before or behind its work, while no more than words were on their way."""
    # From here on only the interpreter's own end follows; another Ctrl-C would have it print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    changes = verb_given() in CHANGING
    if service_named(sys.argv[1:], os.environ):
        say(here("interrupted; what the service has begun goes on there, 'flashferry status' tells where things stand"))
        tell_programs("interrupted by the operator", ExitCode.INTERRUPTED)
        return
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
        print_error(error, ExitCode.USAGE)
        sys.exit(ExitCode.USAGE)
    except NightFault as error:
        print_error(error, error.exit_code)
        sys.exit(error.exit_code)
    except FlashferryError as error:
        code = _CODES.get(error.kind, ExitCode.DEVICES_FAILED)
        print_error(error, code)
        sys.exit(code)
    except (KeyboardInterrupt, InterruptedByOperator):
        _tell_interrupted()
        sys.exit(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001 -- a fault of ours: its trace, but through the door
        tell_trace(error)
        sys.exit(ExitCode.INTERNAL)
