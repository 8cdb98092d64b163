"""`flashferry report`: the result of a run as text, JSON, CSV, JUnit or HTML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from flashferry import api
from flashferry.api.report_format import ReportFormat
from flashferry.cli.backend import runs_of
from flashferry.cli.command_line import is_typed
from flashferry.cli.options.shared import (
    OUTPUT_VARIABLE,
    CheckOption,
    FormatOption,
    JsonOption,
    ReportedRun,
    ReportFileOption,
    StateOption,
    ThresholdOption,
)
from flashferry.cli.terminal.output import printed, say
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.reports.model import Report
    from flashferry.reports.thresholds import Threshold


def report(
    ctx: typer.Context,
    run: ReportedRun,
    form: FormatOption = None,
    output: ReportFileOption = None,
    threshold: ThresholdOption = None,
    check: CheckOption = False,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Report a run from the journal alone: one that ended, was killed or is under way. Touches no device."""
    asked = report_asked(form, output, threshold, json=json, is_typed=is_typed(ctx, "json"))
    with runs_of(ctx, state_dir) as backend:
        found = backend.report(run)
    leave_with_report(found, asked, checks=check)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAsked:
    """Format and destination of a report.

    Attributes:
        form: The format.
        output: Destination file; None: standard output.
        thresholds: Limits that every device is checked against.
    """

    form: ReportFormat
    output: Path | None
    thresholds: tuple[Threshold, ...]


def report_asked(
    form: ReportFormat | None, output: Path | None, thresholds: Sequence[str] | None, *, json: bool, is_typed: bool
) -> ReportAsked:
    """Check the options of a report and return them as one value.

    Args:
        form: Value of `--format`.
        output: Value of `--output`.
        thresholds: Values of `--threshold`.
        json: Value of `--json`.
        is_typed: Whether the format was typed, rather than taken from the environment.

    Raises:
        ConfigInvalid: A threshold is invalid, two formats were typed, a page would go to a terminal, or a plan would
            be overwritten.
    """
    form = _form(form, json=json, is_typed=is_typed)
    if form is ReportFormat.HTML and output is None and sys.stdout.isatty():
        raise ConfigInvalid("--format html: a page cannot be shown on a terminal", hint="Give --output report.html")
    parsed = tuple(api.parse_threshold(one) for one in thresholds or ())
    if output is not None:
        api.check_is_no_plan(output, OUTPUT_VARIABLE)
    return ReportAsked(form=form, output=output, thresholds=parsed)


def leave_with_report(found: Report, asked: ReportAsked, *, checks: bool) -> NoReturn:
    """Write a report and exit; with `checks` the code says whether images, configurations and thresholds are right."""
    is_out, form, output = True, asked.form, asked.output
    if form is ReportFormat.TABLE and output is None:
        from flashferry.cli.view.report_table import print_report  # imports rich

        is_out = printed(lambda: print_report(found, asked.thresholds))
    else:
        text = _written(found, form, asked.thresholds)
        if output is None:
            is_out = printed(lambda: _write(text, form))
        else:
            api.write_report(text, output)
            say(f"run {found.run_id}: {form.value} report written to {output}, {len(text.encode()):,} bytes")
    code = api.report_exit_code(found, asked.thresholds) if checks else ExitCode.OK
    raise typer.Exit(int(code if is_out else code or ExitCode.INTERNAL))


def _write(text: str, form: ReportFormat) -> None:
    """Write a report to standard output; formats for programs always as UTF-8."""
    if form is ReportFormat.TABLE or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(text)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())


def _form(given: ReportFormat | None, *, json: bool, is_typed: bool) -> ReportFormat:
    """Return the format. `--json` means `--format json`; a typed option overrides the environment.

    Raises:
        ConfigInvalid: Two formats were typed.
    """
    if given is None:
        return ReportFormat.JSON if json else ReportFormat.TABLE
    if is_typed and given is not ReportFormat.JSON:
        raise ConfigInvalid(
            f"--json cannot be combined with --format {given}: it means --format json", hint="Leave one of them out"
        )
    return given


def _written(found: Report, form: ReportFormat, thresholds: tuple[Threshold, ...]) -> str:
    """Return a report as text; a table has a fixed width."""
    if form is not ReportFormat.TABLE:
        return api.report_text(found, form, thresholds)
    from flashferry.cli.view.report_table import report_text  # imports rich

    return report_text(found, thresholds)
