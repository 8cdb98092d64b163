"""`flashferry report`: what a run came to, for people, programs, spreadsheets and CI servers."""

from __future__ import annotations

import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.api.reporting import write_report
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption, StateOption, is_typed
from flashferry.cli.terminal.output import printed, say
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.reports.build import read_report
from flashferry.reports.thresholds import THRESHOLDS, Status, Threshold, parse_threshold, worst
from flashferry.store.journal import state_directory

if TYPE_CHECKING:
    from flashferry.reports.model import Report

_HEAD_BYTES = 4096
"""The schema is the first thing in a plan."""


class Format(StrEnum):
    """The forms of a report."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    JUNIT = "junit"
    HTML = "html"


def report(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN|latest", help="The run; shortened where that is unique.")],
    form: Annotated[
        Format | None, typer.Option("--format", help="How to write it (default: table).", rich_help_panel=OUTPUT)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            envvar=OUTPUT_VARIABLE,
            metavar="FILE",
            help="Write to a file (default: standard output).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="NAME=VALUE",
            help=f"Hold every device against this; may be repeated. {', '.join(THRESHOLDS)}. Shown by junit and table.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Leave with 3 where an image, a configuration or a threshold is not as it must be, or nobody can tell "
            "(default: 0 once the report is written, whatever it says).",
        ),
    ] = False,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Report a run from the journal alone: one that ended, died or is under way. Touches no device."""
    form = _form(form, json=json, is_typed=is_typed(ctx, "json"))
    thresholds = tuple(parse_threshold(one) for one in threshold or ())
    if form is Format.HTML and output is None and sys.stdout.isatty():
        raise ConfigInvalid("--format html: a page on a terminal is of no use", hint="Give --output report.html")
    if output is not None:
        _check_is_no_plan(output)
    is_out = True
    found = read_report(state_directory(state_dir), run)
    if form is Format.TABLE and output is None:
        from flashferry.cli.view.report_table import print_report

        is_out = printed(lambda: print_report(found, thresholds))
    else:
        text = _written(found, form, thresholds)
        if output is None:
            is_out = printed(lambda: _write(text, form))
        else:
            write_report(text, output)
            say(f"run {found.run_id}: {form.value} report written to {output}, {len(text.encode()):,} bytes")
    code = ExitCode.DEVICES_FAILED if check and worst(found, thresholds) is not Status.PASSED else ExitCode.OK
    raise typer.Exit(int(code if is_out else code or ExitCode.INTERNAL))


def _check_is_no_plan(output: Path) -> None:
    """Look that no plan stands where the report is to go: the variable for the file is that of `plan`, too.

    Raises:
        ConfigInvalid: One does.
    """
    with suppress(OSError), output.open("rb") as file:
        if b'"flashferry.plan/' in file.read(_HEAD_BYTES):
            raise ConfigInvalid(
                f"--output {output}: a plan stands there; nothing was written",
                hint=f"Name another file with --output; {OUTPUT_VARIABLE} holds for plans and reports alike",
            )


def _write(text: str, form: Format) -> None:
    """Write a report to standard output; documents for programs are UTF-8, whatever a terminal can show."""
    if form is Format.TABLE or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(text)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())


def _form(given: Format | None, *, json: bool, is_typed: bool) -> Format:
    """Return the form asked for; `--json` is short for `--format json`, and a typed word outweighs the environment.

    Raises:
        ConfigInvalid: Two forms were typed.
    """
    if given is None:
        return Format.JSON if json else Format.TABLE
    if is_typed and given is not Format.JSON:
        raise ConfigInvalid(
            f"--json cannot be combined with --format {given}: it means --format json", hint="Leave one of them out"
        )
    return given


def _written(found: Report, form: Format, thresholds: tuple[Threshold, ...]) -> str:
    """Return a report as text; each form is imported only where it is asked for."""
    if form is Format.JSON:
        from flashferry.reports.as_json import report_json

        return report_json(found)
    if form is Format.CSV:
        from flashferry.reports.as_csv import report_csv

        return report_csv(found)
    if form is Format.JUNIT:
        from flashferry.reports.as_junit import report_junit

        return report_junit(found, thresholds)
    if form is Format.HTML:
        from flashferry.reports.as_html import report_html

        return report_html(found)
    from flashferry.cli.view.report_table import report_text

    return report_text(found, thresholds)
