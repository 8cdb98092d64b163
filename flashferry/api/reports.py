"""Reports of runs: read them, format them, write them to files, check them against thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.api.report_format import ReportFormat
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_output
from flashferry.model.exit_codes import ExitCode
from flashferry.reports.as_csv import report_csv
from flashferry.reports.as_json import report_json
from flashferry.reports.build import read_report
from flashferry.reports.thresholds import Status, worst

if TYPE_CHECKING:
    from flashferry.reports.model import Report
    from flashferry.reports.thresholds import Threshold

_HEAD_BYTES = 4096
"""Enough to read a plan's schema, which comes first."""


def report(run: str = "latest", *, state: Path | str | None = None) -> Report:
    """Return the report of a run that has ended, was killed, or is under way. Contacts no device.

    Args:
        run: The run, by a unique beginning or end of its id, or `latest`.
        state: Folder of the journal, read only; None: the default.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    return read_report(state_folder(state), run)


def report_text(found: Report, form: ReportFormat, thresholds: Sequence[Threshold] = ()) -> str:
    """Return a report as text for programs or a browser.

    Args:
        found: The report.
        form: Any format but `table`.
        thresholds: Limits that `junit` checks every device against (`parse_threshold` parses `NAME=VALUE`).

    Raises:
        ValueError: The format is `table`, which depends on a terminal's width.
    """
    if form is ReportFormat.JSON:
        return report_json(found)
    if form is ReportFormat.CSV:
        return report_csv(found)
    if form is ReportFormat.JUNIT:
        from flashferry.reports.junit import report_junit  # imports nornir

        return report_junit(found, tuple(thresholds))
    if form is ReportFormat.HTML:
        from flashferry.reports.as_html import report_html  # imports jinja2

        return report_html(found)
    raise ValueError(f"report_text: expected json, csv, junit or html, found {form}")


def check_is_no_plan(output: Path, variable: str) -> None:
    """Check that a report would not overwrite a plan.

    Args:
        output: The report's file.
        variable: Environment variable that names the file, for the message.

    Raises:
        ConfigInvalid: The file is a plan.
    """
    with suppress(OSError), output.open("rb") as file:
        if b'"flashferry.plan/' in file.read(_HEAD_BYTES):
            raise ConfigInvalid(
                f"--output {output}: a plan stands there; nothing was written",
                hint=f"Name another file with --output; {variable} holds for plans and reports alike",
            )


def write_report(text: str, output: Path) -> None:
    """Write a report to a file atomically, readable by all users.

    Raises:
        ConfigInvalid: The file cannot be written.
    """
    write_output(output, text, option="--output")


def report_exit_code(found: Report, thresholds: Sequence[Threshold] = ()) -> ExitCode:
    """Return OK if images, configurations and thresholds are as required, otherwise DEVICES_FAILED."""
    return ExitCode.OK if worst(found, thresholds) is Status.PASSED else ExitCode.DEVICES_FAILED
