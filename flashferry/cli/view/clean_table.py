"""Cleaning for people: what would go, before the question; then what went, a row per file."""

from __future__ import annotations

from collections.abc import Collection
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, console, line, print_error, show
from flashferry.core.safe_quote import counted
from flashferry.model.states import Outcome

if TYPE_CHECKING:
    from flashferry.api.cleaning import CleanResult
    from flashferry.run.clean import CleanRecord
    from tasks.clean import CleanLook, OldFile


def to_be_deleted(host: str, look: CleanLook) -> tuple[str, ...]:
    """Return what stands above the question about a device: each file with date, size, and why it may go."""
    return (
        f"{host}: {counted(len(look.files), 'file')} could go from {look.file_system}, {_room(look.free_bytes)}",
        *(text for one in look.files for text in _about_file(one)),
    )


def _about_file(file: OldFile) -> tuple[str, ...]:
    head = f"  {file.path}  {file.size_bytes:,} bytes  {file.modified or 'no date'}"
    indent, width = " " * 4, console(stderr=True).width
    return head, *wrap(file.reason, max(width, 40), initial_indent=indent, subsequent_indent=indent)


def print_clean(found: CleanResult, *, asked: Collection[str] = ()) -> None:
    """Print what became of each file, then what is to be said of each device.

    Args:
        found: What became of them.
        asked: Names of the files that were asked about; empty: any.
    """
    files = [_row(record, file) for record in found.devices if record.look for file in record.look.files]
    if files:
        show(files, wide_only=frozenset({"modified"}))
    for record in found.devices:
        _about(record, asked)
    gone = [file for record in found.devices for file in record.deleted]
    told = f"{counted(len(gone), 'file')} deleted, {sum(file.size_bytes for file in gone):,} bytes"
    console().print(told if gone else "nothing was deleted", style=GOOD if not found.exit_code else BAD)


def _about(record: CleanRecord, asked: Collection[str]) -> None:
    look = record.look
    if look is not None and look.reason:
        line(record.host, f"which files could go cannot be told: {look.reason}", "yellow")
    elif look is not None and not look.files and asked:
        line(record.host, f"of {', '.join(sorted(asked))} nothing is on {look.file_system}")
    elif look is not None and not look.files:
        line(record.host, f"no image on {look.file_system} is older than what runs and named by nothing")
    for file in look.files if look is not None and not record.deleted else ():
        line(record.host, f"{file.path} may go: {file.reason}")
    if look is not None and look.note:
        line(record.host, look.note, "yellow")
    if record.deleted and look is not None:
        line(record.host, f"{look.file_system} {_room(record.free_bytes_after)}, {_room(look.free_bytes)} before")
    if record.outcome is Outcome.NOT_BEGUN:
        line(record.host, "nobody said yes: nothing was deleted")
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


def _room(free: int | None) -> str:
    return "room not told" if free is None else f"{free:,} bytes free"
