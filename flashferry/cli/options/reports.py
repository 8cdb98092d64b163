"""The options by which a report is wanted, once for all verbs that write one: of the journal, a service, sites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashferry.api.reporting import ReportFormat
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.shared import OUTPUT_VARIABLE
from flashferry.reports.thresholds import THRESHOLDS

ReportedRun = Annotated[str, typer.Argument(metavar="RUN|latest", help="The run; shortened where that is unique.")]
FormatOption = Annotated[
    ReportFormat | None, typer.Option("--format", help="How to write it (default: table).", rich_help_panel=OUTPUT)
]
ReportFileOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        envvar=OUTPUT_VARIABLE,
        metavar="FILE",
        help="Write to a file (default: standard output).",
        rich_help_panel=OUTPUT,
    ),
]
ThresholdOption = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        metavar="NAME=VALUE",
        help=f"Hold every device against this; may be repeated. {', '.join(THRESHOLDS)}. Shown by junit and table.",
    ),
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Leave with 3 where an image, a configuration or a threshold is not as it must be, or nobody can tell "
        "(default: 0 once the report is written, whatever it says).",
    ),
]
