"""Cleaning for people: what would go, before the question; then what went, a row per file."""

from __future__ import annotations

from collections.abc import Collection
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from flashferry.cli.view.layout import BAD, GOOD, console, line, print_error, show
from flashferry.core.value_description import counted
from flashferry.model.states import Outcome

if TYPE_CHECKING:
    from flashferry.api.readiness import CleanResult
    from flashferry.run.clean import CleanRecord
    from tasks.clean import OldFile, RemovableImages


def to_be_deleted(host: str, found: RemovableImages) -> tuple[str, ...]:
    """Return what stands above the question about a device: each file with date, size, and why it may go."""
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
    if record.outcome is Outcome.NOT_BEGUN:
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
