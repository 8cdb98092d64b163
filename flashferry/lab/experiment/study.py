"""A study from its cells to its files: run what is missing, then write table, CSV, JSON and page."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flashferry.lab.experiment import page
from flashferry.lab.experiment.cell import Cell, Ledger, Measured
from flashferry.lab.experiment.chart import evidence_svg
from flashferry.lab.experiment.harness import write
from flashferry.lab.experiment.pool import interleaved, play_all
from flashferry.lab.experiment.published import Row, by_loss, summed_up
from flashferry.lab.experiment.servers import vsftpd_path
from flashferry.lab.experiment.tables import (
    beside_host_bbr,
    beside_published,
    conditions,
    held_to,
    published_table,
    runs_csv,
    seeds_table,
    syn_table,
    tally,
)

SCHEMA = "flashferry.experiment/1"
_RATES = "<p>Rates in 10<sup>6</sup> bytes per second, by the client's own clock.</p>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a study is run.

    Attributes:
        folder: Where results are kept; what is there is not run again.
        links: How many links at once.
        minutes: No run starts after so many; None for no limit.
        command: What was typed, for the report.
    """

    folder: Path
    links: int
    minutes: float | None
    command: str


def run_missing(
    cells: Sequence[Cell], plan: Plan, *, log: Callable[[str], None], interrupted: Callable[[], bool]
) -> list[Measured]:
    """Run the cells that have no result yet and return those of all.

    Raises LabError: the lab cannot be built here, or the folder holds something else.
    """
    requested, notice = without_absent(cells)
    if notice:
        log(notice)
    ledger = Ledger(plan.folder / "results.jsonl")
    missing = ledger.missing(requested)
    if len(missing) < len(requested):
        log(f"{len(requested) - len(missing)} of {len(requested)} runs are in {plan.folder} already")
    started_s, done = time.monotonic(), 0

    def note(run: Measured) -> None:
        nonlocal done
        done += 1
        ledger.add(run)
        result = run.error or f"{run.rate_bytes_per_s / 1e6:.3f} MB/s in {run.seconds:.1f} s"
        log(f"{done} of {len(missing)}, {time.monotonic() - started_s:.0f} s: {run.cell.title}: {result}")

    if missing:
        until_s = None if plan.minutes is None else started_s + plan.minutes * 60
        play_all(interleaved(missing), links=plan.links, on_run=note, until_s=until_s, interrupted=interrupted)
    return ledger.of(requested)


def without_absent(cells: Sequence[Cell]) -> tuple[list[Cell], str]:
    """Leave out the arms whose server is not installed; return what is left and a notice."""
    if vsftpd_path() is not None:
        return list(cells), ""
    kept = [cell for cell in cells if cell.sender.program != "vsftpd"]
    if len(kept) == len(cells):
        return kept, ""
    return kept, "vsftpd is not installed, so its arms are left out; install it (apt install vsftpd) and run this again"


def write_published(runs: Sequence[Measured], plan: Plan) -> list[Row]:
    """Write report.json, runs.csv and report.html into the folder; return the rows."""
    rows = summed_up(runs)
    parts = [
        _RATES,
        f"<div class=figure>{evidence_svg(rows)}</div>",
        page.table(published_table(rows)),
        "<h2>The article's server here, beside the article</h2>",
        page.table(beside_published(rows)),
        "<h2>Ours beside the article's server with BBR for the whole host</h2>",
        page.table(beside_host_bbr(rows)),
        "<h2>Verdicts that name what the arm was built to be limited by</h2>",
        page.listed(tally(rows)),
        "<h2>What the clients offered</h2>",
        page.table(syn_table(rows)),
        page.graphs_by_arm(runs),
    ]
    _write(plan, runs, rows, "The published experiment, run again", parts)
    return rows


def write_seeds(runs: Sequence[Measured], plan: Plan) -> dict[float, list[Row]]:
    """Write report.json, runs.csv and report.html of many seeds into the folder; return the rows by loss."""
    rows_by_loss = by_loss(runs)
    parts = [
        _RATES,
        page.table(seeds_table(rows_by_loss)),
        page.listed(held_to(rows_by_loss)),
        *(
            f"<h2>{loss:.2%} loss</h2>"
            + page.graphs_by_arm([run for run in runs if run.cell.link.loss_ratio == loss], level=3)
            for loss in rows_by_loss
        ),
    ]
    _write(plan, runs, [row for rows in rows_by_loss.values() for row in rows], "Many seeds", parts)
    return rows_by_loss


def _write(plan: Plan, runs: Sequence[Measured], rows: Sequence[Row], title: str, parts: Sequence[str]) -> None:
    write(plan.folder / "runs.csv", runs_csv(runs))
    document = {
        "schema": SCHEMA,
        "command": plan.command,
        "conditions": conditions(runs),
        "rows": [row_json(row) for row in rows],
    }
    write(plan.folder / "report.json", json.dumps(document, indent=2) + "\n")
    html = page.page(title, [page.introduction(plan.command, conditions(runs)), *parts])
    write(plan.folder / "report.html", html)


def row_json(row: Row) -> dict[str, Any]:
    """Return a row as plain values, rates in bytes per second."""
    return asdict(row) | {
        "arm": row.arm.name,
        "sender": row.sender.name,
        "spread": row.spread,
        "is_near_published": row.is_near_published,
        "right_verdicts": row.right_verdicts,
    }
