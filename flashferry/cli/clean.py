"""`flashferry clean`: delete old images that nothing names, file by file, with a yes per device."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import EventLines, agreed, finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import counted

if TYPE_CHECKING:
    from tasks.clean import RemovableImages


@fleet_options
def clean(
    which: FleetOptions,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="NAME", help="Only the file of this name; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what could go; changes nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without a question per device.")] = False,
    at_a_time: Annotated[
        int, typer.Option("--at-a-time", metavar="N", min=1, max=1000, help="How many devices at the same time.")
    ] = 20,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Delete images that are older than what runs and that nothing names, after a yes for each device."""
    if strange := next((name for name in file or () if ":" in name or "/" in name), None):
        raise ConfigInvalid(
            f"--file {strange}: expected the name of a file alone",
            hint="Leave out the file system and the folder: only the flash that a device booted from is looked at",
        )
    if not (yes or dry_run or sys.stdin.isatty()):
        raise ConfigInvalid(
            "the question cannot be asked: standard input is no terminal",
            hint="Look with --dry-run first; --yes deletes without a question",
        )
    from flashferry.cli.view.clean_table import print_clean, to_be_deleted

    nornir = fleet(which)
    request = api.CleanRequest(files=tuple(file or ()), only_shown=dry_run, at_a_time=at_a_time)
    stop = threading.Event()

    def confirm(host: str, shown: RemovableImages) -> bool:
        question = f"delete {counted(len(shown.files), 'file')} from {host}?"
        return yes or agreed(to_be_deleted(host, shown), question, stop.is_set)

    with stop_on_signals(stop, _print_stopping):
        found = api.clean(nornir, request, confirm, state=state_dir, emit=EventLines(), interrupted=stop.is_set)
    finish(
        "clean",
        found.exit_code,
        {"devices": found.devices},
        as_json=json,
        human=lambda: print_clean(found, asked=file or ()),
    )


def _print_stopping(first: bool) -> None:
    say("interrupted: the file under way is ended, no other is started" if first else "still ending the file under way")
