"""The program: its list of commands, the options before the verb, and the exit codes of errors."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_group

from flashferry.cli.command_line import (
    SERVICE_VARIABLE,
    App,
    Family,
    InterruptedByOperator,
    UsageError,
    Verb,
    command_of,
    in_our_words,
    is_at_service,
    is_typed,
    service_named,
    words_from_verb,
)
from flashferry.cli.terminal.output import (
    GONE,
    here,
    print_error,
    remember_service,
    report_to_programs,
    say,
    verb_given,
)
from flashferry.cli.terminal.streams import fit_streams, guard, print_trace
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.extras import extra_hint
from flashferry.core.redaction import keep_environment_secrets
from flashferry.model.exit_codes import ExitCode

COMMANDS = {
    "Staging": {
        "init": "Write a first inventory.",
        "check": "Check devices: platform, space, TCP lines, image. Read-only.",
        "probe": "Time copies to null:, as devices are and tuned.",
        "plan": "Plan a run: images, waves, minutes, link load. Read-only.",
        "stage": "Have devices pull an image: tune, copy, verify, restore, prove.",
        "recover": "Restore what a run that was killed left tuned.",
        "ready": "Ask devices whether they are ready to boot their images.",
        "activate": "Restart ready devices into their images, after an approval.",
        "clean": "Delete old images, after a yes for each device.",
    },
    "Runs": {
        "status": "Show runs, devices being staged, and what is left to recover.",
        "run": "Show a run, and pause, continue, approve or stop it.",
        "report": "Report a run: table, HTML, CSV, JSON, JUnit.",
        "history": "Show how fast a device took its copies over time.",
    },
    "More": {
        "pilot": "Try one spare router, step by step, and keep what it shows.",
        "doctor": "Show what this host grants: ports, congestion control, buffers.",
        "docs": "Print a page of the documents.",
        "serve": "Serve images by one-time tickets until Ctrl-C.",
        "images": "List and hash a folder of images.",
        "depot": "Serve all runs of this host; look after its catalogue of images.",
        "state": "Back up, check, restore and prune the state folder.",
        "service": "Serve pages and an API for a team.",
        "sites": "Sites with an agent of their own.",
        "nightly": "Nights on a lab.",
        "lab": "The lab: stand-in devices behind emulated WAN links.",
    },
}
"""Commands in the groups and the order of the help, each with its summary. A module of that name has a function of that
name, or an `app`; those of the lab are the lab's own: `flashferry.lab.cli`."""

FAMILIES = frozenset({"run", "images", "service", "sites", "nightly", "depot", "state", "lab"})
"""Commands with subcommands: `app` in the module of that name."""

VERBS = tuple(name for names in COMMANDS.values() for name in names if name not in FAMILIES)
"""Commands without subcommands."""

AT_SERVICE = ("check", "probe", "plan", "stage", "recover", "status", "run", "history", "report")
"""Commands that a remote service can carry out."""

_HELP_WIDTH = 79

_HELP = frozenset({"--help", "-h", "--help-all", "--version"})

CHANGING = frozenset({"probe", "stage", "recover", "activate", "clean", "pilot"})
"""Commands that change devices."""

_SUMMARIES = {name: summary for names in COMMANDS.values() for name, summary in names.items()}
_PLACES = {name: f"flashferry.cli.{name}" for name in _SUMMARIES} | {"lab": "flashferry.lab.cli.app"}
_CODES = {
    Kind.JOURNAL_UNUSABLE: ExitCode.RESTORE_INCOMPLETE,
    Kind.SERVICE_REFUSED: ExitCode.USAGE,
    Kind.SERVICE_UNUSABLE: ExitCode.SERVICE,
    Kind.APPROVAL_NEEDED: ExitCode.APPROVAL,
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
"""Exit codes of errors that verbs do not handle themselves."""


class Program(Family):
    """Command group of the program. Each command's module is imported only when it is used, for the start time."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands available here, in help order."""
        return [name for name in _SUMMARIES if name in AT_SERVICE or not is_at_service(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of this name.

        Raises:
            ConfigInvalid: The command works only on this host, and a service is selected.
        """
        if cmd_name not in _SUMMARIES:
            return None
        if is_at_service(ctx):
            _check_at_service(cmd_name)
        if cmd_name not in self.commands:
            self.commands[cmd_name] = command_named(cmd_name)
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the program; with `--help-all` the options of every command too."""
        if ctx.meta.get("--help-all"):
            super().format_help(ctx, formatter)
            return
        names = self.list_commands(ctx)
        formatter.write("Usage: flashferry [--service URL] COMMAND ...   ('COMMAND --help': its options)\n")
        for group, commands in COMMANDS.items():
            found = [(name, commands[name]) for name in commands if name in names]
            if found and group != "More":
                with formatter.section(group):
                    formatter.write_dl([(f"{name:<8}", text) for name, text in found])
            elif found:
                more = f"Also: {', '.join(name for name, _ in found)}"
                formatter.write(f"\n{fill(more, _HELP_WIDTH, subsequent_indent=' ' * 6)}\n")
        formatter.write("Options: --service URL, --version, -h, --help; --help-all describes all of them\n")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in groups."""
        names = self.list_commands(ctx)
        for group, commands in COMMANDS.items():
            if rows := [(name, text) for name, text in commands.items() if name in names]:
                with formatter.section(group):
                    formatter.write_dl([(f"{name:<8}", text) for name, text in rows])


def command_named(name: str) -> Any:
    """Import and return a command."""
    module = import_module(_PLACES[name])
    if name in FAMILIES:
        found = get_group(module.app)
        found.name = name
        return found
    return command_of(name, getattr(module, name), getattr(module, "COMMAND", Verb))


def build() -> typer.Typer:
    """Return the command line."""
    app = App(
        name="flashferry",
        help="Ferries OS images to the flash of Cisco IOS and IOS-XE devices, fast, and leaves nothing else behind.",
        cls=Program,
        pretty_exceptions_enable=False,
        add_completion=True,
    )
    app.callback()(options)
    return app


def _check_at_service(name: str) -> None:
    """Check that a command can be carried out by a remote service.

    Raises:
        ConfigInvalid: It works only on this host, or the package for remote services is not installed.
    """
    if name not in AT_SERVICE:
        raise ConfigInvalid(
            f"'{name}' is for the host that it is typed on, and --service (or {SERVICE_VARIABLE}) names a service",
            hint=f"'flashferry --service= {name} ...' is for this host; a service takes {', '.join(AT_SERVICE)}",
        )
    if find_spec("httpx") is None:
        raise ConfigInvalid("--service: expected the package httpx, which is not installed", hint=extra_hint("remote"))


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # start time

        typer.echo(f"flashferry {version('flashferry')}")
        raise typer.Exit


def options(
    ctx: typer.Context,
    show_version: Annotated[  # noqa: ARG001 -- its callback prints it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    service: Annotated[
        str,
        typer.Option(
            "--service",
            envvar=SERVICE_VARIABLE,
            metavar="URL",
            callback=remember_service,
            is_eager=True,
            help="Have a staging service carry the verb out; its token is in FLASHFERRY_SERVICE_TOKEN.",
        ),
    ] = "",
    service_ca: Annotated[
        Path | None,
        typer.Option(
            "--service-ca",
            envvar="FLASHFERRY_SERVICE_CA",
            metavar="FILE",
            help="Certificates of the issuers to trust for it, PEM (default: those that this host trusts).",
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
    if not service.strip() and (service_ca is not None or service_token_file is not None):
        _check_service_is_named(ctx)


def _check_service_is_named(ctx: typer.Context) -> None:
    """Refuse options about the service if none is selected; values from the environment are ignored then.

    Raises:
        ConfigInvalid: Such an option was typed.
    """
    if typed := [name for name in ("service_ca", "service_token_file") if is_typed(ctx, name)]:
        raise ConfigInvalid(
            f"--{typed[0].replace('_', '-')}: expected --service URL with it, found none",
            hint="Give it too, or leave both out",
        )


def _print_usage_error(error: Any) -> None:
    """Print a usage error, and as JSON too if `--json` was given."""
    error = in_our_words(error)
    error.show()
    report_to_programs(error.format_message(), ExitCode.USAGE)


def _print_interrupted() -> None:
    """Print that the command was interrupted before or after its work."""
    # Only the interpreter's exit follows, where Ctrl-C would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if service_named(sys.argv[1:], os.environ):
        say(here("interrupted; what the service has started continues there, 'flashferry status' shows it"))
    elif verb_given() in CHANGING:
        say("interrupted; 'flashferry status' shows where things stand")
    else:
        say("interrupted; nothing was changed")
    report_to_programs("interrupted by the operator", ExitCode.INTERRUPTED)


def run(arguments: Sequence[str]) -> NoReturn:
    """Run a command and exit. Every expected failure is one sentence on standard error and an exit code."""
    keep_environment_secrets(os.environ)
    # paramiko logs tracebacks of failed sessions; our error message covers them.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    fit_streams()
    guard()
    try:
        named = next(iter(words_from_verb(arguments)), None)
        if service_named(arguments, os.environ) and named in _SUMMARIES:
            _check_at_service(str(named))
        # Called here: standalone mode would not report usage errors as JSON.
        sys.exit(build()(standalone_mode=False))
    except UsageError as error:
        _print_usage_error(error)
        sys.exit(ExitCode.USAGE)
    except typer.Abort:
        # Input ended at a question.
        say("no answer: the input is at its end")
        sys.exit(ExitCode.INTERNAL)
    except ConfigInvalid as error:
        print_error(error, ExitCode.USAGE)
        sys.exit(ExitCode.USAGE)
    except FlashferryError as error:
        # A nightly run's fault has its own exit code.
        code = getattr(error, "exit_code", None) or _CODES.get(error.kind, ExitCode.DEVICES_FAILED)
        print_error(error, code)
        sys.exit(code)
    except (KeyboardInterrupt, InterruptedByOperator):
        _print_interrupted()
        sys.exit(ExitCode.INTERRUPTED)
    except OSError as error:
        # Typer writes help itself, without `printed`.
        if not _HELP.intersection(arguments) or error.filename is not None:
            print_trace(error)
        elif error.errno not in GONE:
            say(f"error: the help could not be written to standard output: {error.strerror}")
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- for the interpreter's last flush
        sys.exit(ExitCode.INTERNAL)
    except Exception as error:  # noqa: BLE001 -- a fault of ours: its trace, masked like all output
        print_trace(error)
        sys.exit(ExitCode.INTERNAL)
