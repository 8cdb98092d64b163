"""Write a report as CSV (RFC 4180): a row per device, units in the headings, no formulas.

Spreadsheets evaluate a cell that starts with `=`, `+`, `-`, `@`, their full-width forms, a tab or a line break, also
after blanks. A host name or device output may start so, and gets an apostrophe in front (OWASP, CSV injection). Numbers
are written as numbers; a value that was not measured is an empty cell.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from functools import partial

from flashferry.core.redaction import sanitize_record
from flashferry.reports.facts import FACTS, sentence_of
from flashferry.reports.model import DeviceReport, Report

Cell = str | int | float | None

_FORMULA = re.compile("\\s*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def _mb_s(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else round(bytes_per_s / 1e6, 6)


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _fact(name: str, device: DeviceReport) -> str | None:
    found = getattr(device, name)
    return None if found is None else sentence_of(found)


COLUMNS: dict[str, Callable[[DeviceReport], Cell]] = {
    "device": lambda one: one.host,
    "address": lambda one: one.address,
    "site": lambda one: one.site,
    "wave": lambda one: one.wave,
    "model": lambda one: one.model,
    "serial number": lambda one: one.serial_number,
    "release before": lambda one: one.release,
    "image": lambda one: one.image,
    "outcome": lambda one: one.label,
    "needs attention": lambda one: "yes" if one.needs_attention else "no",
    "failed step": lambda one: one.step,
    "reason": lambda one: one.reason,
    "what to do": lambda one: one.hint,
    "configuration": lambda one: one.restore.label,
    "hash proof": lambda one: one.hash_proof,
    "before tuning (MB/s)": lambda one: _mb_s(one.as_is.bytes_per_s if one.as_is else None),
    "before tuning, source": lambda one: one.as_is.source if one.as_is else None,
    "tuned (MB/s)": lambda one: _mb_s(one.tuned.bytes_per_s if one.tuned else None),
    "not tuned in this run (MB/s)": lambda one: _mb_s(one.untuned.bytes_per_s if one.untuned else None),
    "gain (times)": lambda one: _rounded(one.gain),
    "saved (s)": lambda one: _rounded(one.saved_s, 1),
    "link (MB/s of payload)": lambda one: _mb_s(one.link_bytes_per_s),
    "round trip (ms)": lambda one: _rounded(None if one.rtt_s is None else one.rtt_s * 1e3),
    "limited by": lambda one: one.verdict.kind if one.verdict else None,
    "limited for (share of time)": lambda one: _rounded(one.verdict.share if one.verdict else None),
    "verdict": lambda one: one.verdict.sentence if one.verdict else None,
    "acknowledged (bytes)": lambda one: sum(copy.acked_bytes or 0 for copy in one.transfers) if one.transfers else None,
    "copies": lambda one: len(one.transfers),
    "sent again (share)": lambda one: _rounded(one.transfers[-1].retransmitted_share if one.transfers else None, 6),
    "took (s)": lambda one: _rounded(one.total_s),
    "attempt": lambda one: one.attempt,
    "left on the device": lambda one: one.partial_file,
    "transport": lambda one: one.transport,
    **{kind.heading: partial(_fact, name) for name, kind in FACTS.items()},
}
"""Headings and their values."""


def report_csv(report: Report) -> str:
    """Return the report as CSV with CR LF line ends."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for device in sanitize_record(report).devices:
        writer.writerow([safe(column(device)) for column in COLUMNS.values()])
    return out.getvalue()


def safe(cell: Cell) -> Cell:
    """Return a cell that no spreadsheet evaluates as a formula."""
    if isinstance(cell, str) and _FORMULA.match(cell):
        return f"'{cell}"
    return "" if cell is None else cell
