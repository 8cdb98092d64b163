"""Reports of runs: read, made into texts and files, and held against thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_output
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.reports.model import Report
    from flashferry.reports.thresholds import Threshold

_HEAD_BYTES = 4096

"""The schema is the first thing in a plan."""


class ReportFormat(StrEnum):
    """The forms of a report; `table` is for a terminal, the others are texts of this module."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    JUNIT = "junit"
    HTML = "html"


def report(run: str = "latest", *, state: Path | str | None = None) -> Report:
    """Return what a run came to: one that ended, died or is under way. Touches no device.

    Args:
        run: The run; its beginning or end where that is unique, or `latest`.
        state: Folder of the journal, read only; None: where the command line has it.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    from flashferry.reports.build import read_report

    return read_report(state_folder(state), run)


def report_text(found: Report, form: ReportFormat, thresholds: Sequence[Threshold] = ()) -> str:
    """Return a report as text for programs or a browser.

    Args:
        found: The report.
        form: Any form but `table`.
        thresholds: What `junit` holds every device against (`parse_threshold` reads one from `NAME=VALUE`).

    Raises:
        ValueError: The form is `table`, which is drawn for the width of a terminal.
    """
    if form is ReportFormat.JSON:
        from flashferry.reports.as_json import report_json

        return report_json(found)
    if form is ReportFormat.CSV:
        from flashferry.reports.as_csv import report_csv

        return report_csv(found)
    if form is ReportFormat.JUNIT:
        from flashferry.reports.junit import report_junit

        return report_junit(found, tuple(thresholds))
    if form is ReportFormat.HTML:
        from flashferry.reports.as_html import report_html

        return report_html(found)
    raise ValueError(f"report_text: expected json, csv, junit or html, found {form}")


def check_is_no_plan(output: Path, variable: str) -> None:
    """Look that no plan stands where a report is to go.

    Args:
        output: The file.
        variable: What names the file of plans and reports alike in the environment, for the sentence.

    Raises:
        ConfigInvalid: One does.
    """
    with suppress(OSError), output.open("rb") as file:
        if b'"flashferry.plan/' in file.read(_HEAD_BYTES):
            raise ConfigInvalid(
                f"--output {output}: a plan stands there; nothing was written",
                hint=f"Name another file with --output; {variable} holds for plans and reports alike",
            )


def write_report(text: str, output: Path) -> None:
    """Write a report to a file, whole or not at all; others may read it, for it is there to be handed on.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    write_output(output, text, option="--output")


def report_exit_code(found: Report, thresholds: Sequence[Threshold] = ()) -> ExitCode:
    """Return OK where images, configurations and thresholds are as they must be, else DEVICES_FAILED.

    Args:
        found: The report.
        thresholds: What every device is held against.
    """
    from flashferry.reports.thresholds import Status, worst

    return ExitCode.OK if worst(found, thresholds) is Status.PASSED else ExitCode.DEVICES_FAILED
