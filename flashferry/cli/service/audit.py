"""`flashferry service audit verify|export`: verify the integrity of the audit log, and export entries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.command_line import App
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption, StateOption
from flashferry.cli.service.serve import ConfigOption, opened
from flashferry.cli.terminal.output import echo, finish, printed
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.service.audit import ExportForm, audit_filter, exported, parsed_head
from flashferry.service.audit import verify as verify_audit
from flashferry.store.service.audit import entries

if TYPE_CHECKING:
    from flashferry.service.audit import Verified

app = App(help="Look whether the audit is whole; export it.")


@app.command("verify")
def verify(
    heads: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="NUMBER:HASH",
            help="A head that was kept elsewhere, such as a daily one: that entry must be there. May be repeated.",
        ),
    ] = None,
    config: ConfigOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Check every entry: numbers without a gap, hashes, times. Exit code 3 if the audit is not complete."""
    known = [parsed_head(head) for head in heads or ()]
    with opened(config, state_dir) as (service, _), service.database.reading() as database:
        found = verify_audit(database, known)
    code = ExitCode.OK if found.is_whole else ExitCode.DEVICES_FAILED
    content: dict[str, object] = {
        "is_whole": found.is_whole,
        "entries": found.count,
        "head": str(found.head) if found.head is not None else None,
        "faults": list(found.faults),
    }
    finish("service-audit", code, content, as_json=json, human=lambda: _print_verified(found))


@app.command("export")
def export(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", envvar=OUTPUT_VARIABLE, metavar="FILE", help="A new file (default: standard output)."
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="jsonl|csv", help="In which form.")] = "jsonl",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="From this time on: 2026-11-22, or with a time after T.")
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Before this time.")] = "",
    actor: Annotated[str, typer.Option("--actor", metavar="NAME", help="Of whom.")] = "",
    action: Annotated[
        str, typer.Option("--action", metavar="ACTION", help="Which action, or a subject: plan is every plan.…")
    ] = "",
    object_: Annotated[
        str, typer.Option("--object", metavar="OBJECT", help="Of which object, or kind of objects: run is every run.")
    ] = "",
    config: ConfigOption = None,
    state_dir: StateOption = None,
) -> None:
    """Export entries, the oldest first: as JSON lines, exact, or as CSV for a spreadsheet."""
    if form not in set(ExportForm):
        raise ConfigInvalid(f"--format: expected jsonl or csv, found '{form}'", hint="Choose one of them")
    chosen = audit_filter(since=since, until=until, actor=actor, action=action, object_=object_)
    with opened(config, state_dir) as (service, _), service.database.reading() as database:
        lines = exported(entries(database, matching=chosen), ExportForm(form))
        if output is None:
            is_out = printed(lambda: _print(lines))
            raise typer.Exit(int(ExitCode.OK if is_out else ExitCode.INTERNAL))
        _write(output, lines)


def _print(lines: Iterator[str]) -> None:
    # JSON lines are ASCII, CSV cells are sanitized already; lines must be written unchanged.
    for line in lines:
        sys.stdout.write(line)


def _write(output: Path, lines: Iterator[str]) -> None:
    """Write an export to a new file. Raises `ConfigInvalid`: the file exists or cannot be written."""
    try:
        with output.open("x", encoding="utf-8", newline="") as file:
            output.chmod(0o600)
            file.writelines(lines)
    except FileExistsError:
        raise ConfigInvalid(f"{output}: expected no file, found one", hint="Name another file") from None
    except OSError as error:
        raise ConfigInvalid(
            f"{output}: cannot be written: {error.strerror}",
            hint="Check the folder, its permissions, and free disk space",
        ) from None


def _print_verified(found: Verified) -> None:
    if found.is_whole:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        echo(f"The audit is whole: {counted(found.count, 'entry', 'entries')}, verified {at}.")
    else:
        echo(f"THE AUDIT IS NOT WHOLE: {counted(found.count, 'entry', 'entries')}.")
        for fault in found.faults:
            echo(f"  {fault}")
    if found.head is not None:
        echo(f"Head, to be kept elsewhere: {found.head}")
