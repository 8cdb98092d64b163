"""Formats of a report."""

from __future__ import annotations

from enum import StrEnum


class ReportFormat(StrEnum):
    """Formats of a report; `table` is for a terminal, the others are produced by this module."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    JUNIT = "junit"
    HTML = "html"
