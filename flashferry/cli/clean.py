"""`flashferry clean`: delete old images that are not in use, after a confirmation per device."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import EventLines, agreed, finish, say
from flashferry.cli.view.layout import BAD, GOOD, console, line, print_error, show
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.states import Outcome

if TYPE_CHECKING:
    from flashferry.api.readiness import CleanResult
    from flashferry.run.clean import CleanRecord
    from tasks.clean import OldFile, RemovableImages


def to_be_deleted(host: str, found: RemovableImages) -> tuple[str, ...]:
    """Return the lines above a device's question: each file with date, size, and why it may be deleted."""
    files, space = counted(len(found.files), "file"), _free_space(found.free_bytes)
    return (
        f"{host}: {files} could go from {found.file_system}, {space}",
        *(text for one in found.files for text in _about_file(one)),
    )


def _about_file(file: OldFile) -> tuple[str, ...]:
    head = f"  {file.path}  {file.size_bytes:,} bytes  {file.modified or 'no date'}"
    indent, width = " " * 4, console(stderr=True).width
    return head, *wrap(file.reason, max(width, 40), initial_indent=indent, subsequent_indent=indent)


def print_clean(found: CleanResult, *, asked: Collection[str] = ()) -> None:
    """Print the result of each file, then notes on each device.

    Args:
        found: The result.
        asked: File names given by the operator; empty: all.
    """
    files = [_row(record, file) for record in found.devices if record.look for file in record.look.files]
    if files:
        show(files, wide_only=frozenset({"modified"}))
    for record in found.devices:
        _about(record, asked)
    gone = [file for record in found.devices for file in record.deleted]
    text = f"{counted(len(gone), 'file')} deleted, {sum(file.size_bytes for file in gone):,} bytes"
    console().print(text if gone else "nothing was deleted", style=GOOD if not found.exit_code else BAD)


def _about(record: CleanRecord, asked: Collection[str]) -> None:
    found = record.look
    if found is not None and found.reason:
        line(record.host, f"which files could go is not known: {found.reason}", "yellow")
    elif found is not None and not found.files and asked:
        line(record.host, f"of {', '.join(sorted(asked))} nothing is on {found.file_system}")
    elif found is not None and not found.files:
        line(record.host, f"no image on {found.file_system} is older than what runs and named by nothing")
    for file in found.files if found is not None and not record.deleted else ():
        line(record.host, f"{file.path} may go: {file.reason}")
    if found is not None and found.note:
        line(record.host, found.note, "yellow")
    if record.deleted and found is not None:
        line(
            record.host,
            f"{found.file_system} {_free_space(record.free_bytes_after)}, {_free_space(found.free_bytes)} before",
        )
    if record.outcome is Outcome.NOT_STARTED:
        line(record.host, "not confirmed: nothing was deleted")
    print_error(record.host, record.failure)


def _row(record: CleanRecord, file: OldFile) -> dict[str, str | Text]:
    is_gone = file in record.deleted
    return {
        "device": record.host,
        "file": file.path,
        "bytes": f"{file.size_bytes:,}",
        "modified": file.modified or "-",
        "is": Text("deleted" if is_gone else "there", style=GOOD if is_gone else ""),
    }


def _free_space(free: int | None) -> str:
    return "free space not known" if free is None else f"{free:,} bytes free"


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
