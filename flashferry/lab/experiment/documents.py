"""What the experiment puts into documents: sections of docs/evidence.md, and the README's one graph and one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flashferry.lab.experiment.cell import Measured, Sender
from flashferry.lab.experiment.chart import evidence_svg
from flashferry.lab.experiment.harness import markdown, put, write
from flashferry.lab.experiment.heat_map import heat_map_svg
from flashferry.lab.experiment.published import ARMS, SENDERS, Row
from flashferry.lab.experiment.study import Plan
from flashferry.lab.experiment.sweep import by_place, regrets
from flashferry.lab.experiment.tables import (
    AUTO,
    beside_published,
    conditions,
    gain_by_tuning,
    gains_table,
    held_to,
    in_words,
    mb,
    published_table,
    seeds_table,
    time_for_image,
    verdict_totals,
)

_CHART, _HEAT_MAP = "evidence.svg", "sweep.svg"
_GAINS = (
    "What tuning gains, each router tuned over the same router untuned, from the article and from each server here:"
)
_TALLIED = "Verdicts that name what the arm was built to be limited by:"


def published_text(rows: Sequence[Row], runs: Sequence[Measured], plan: Plan) -> str:
    """Return the section on the published experiment, made from `runs`.

    What each arm's verdict rests on, and what the clients offered, is in `report.html` in the plan's folder.
    """
    return "\n\n".join(
        (
            f"`{plan.command}`; {conditions(runs)}",
            published_table(rows),
            *_gains(rows),
            *_part("The article's server here, beside the article:", beside_published(rows)),
            *_part(_TALLIED, verdict_totals(rows)),
        )
    )


def _part(heading: str, text: str) -> tuple[str, ...]:
    """Return a part under its heading; neither where not all arms or servers were asked for, and none is left."""
    return (heading, text) if text else ()


def _gains(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what tuning gains, between markers of its own, so that it can be made anew from the table above it."""
    table = gains_table(rows)
    return (_GAINS, f"<!-- gains: begin -->\n{table}\n<!-- gains: end -->") if table else ()


def seeds_text(rows_by_loss: Mapping[float, Sequence[Row]], runs: Sequence[Measured], plan: Plan) -> str:
    """Return the section on many seeds."""
    found = (
        f"`{plan.command}`; {conditions(runs)}",
        seeds_table(rows_by_loss),
        _missed(held_to(rows_by_loss)),
    )
    return "\n\n".join(part for part in found if part)


def _missed(lines: str) -> str:
    """Return how many of the targets are met, and those that are missed."""
    every = lines.splitlines()
    missed = [line for line in every if line.endswith("**missed**.")]
    return "\n".join([f"{len(every) - len(missed)} of {len(every)} targets are met.", *missed]) if every else ""


def readme_text(rows: Sequence[Row], command: str, chart: str) -> str:
    """Return the README's graph and table.

    `chart`: Where the graph lies, seen from the README.
    """
    shown = "Speed of a copy per client: as published, from the article's server here, and from flashferry"
    made = (
        f"`{command}` made both (optimistic receiver profile). *By tuning*: the tuned router over the same router "
        "untuned, both from flashferry; an upper bound."
    )
    return f"![{shown}]({chart})\n\n{short_table(rows)}\n\n{made}"


def short_table(rows: Sequence[Row]) -> str:
    """Return a row per arm: published, the article's server here, ours, what either gains, and what limits each."""
    columns = (
        "client", "published MB/s", "the article's server here", "flashferry", "over that server", "by tuning",
        "500 MB take", "limits the article's server", "limits flashferry",
    )  # fmt: skip
    at = {(row.arm.name, row.sender): row for row in rows}
    return markdown(columns, (_short_row(arm.name, at, rows) for arm in ARMS if (arm.name, AUTO) in at))


def _short_row(arm: str, at: Mapping[tuple[str, Sender], Row], rows: Sequence[Row]) -> tuple[str, ...]:
    ours, base = at[arm, AUTO], at.get((arm, SENDERS[0]))
    return (
        arm,
        mb(ours.arm.published_bytes_per_s),
        mb(base.median_bytes_per_s) if base else "",
        mb(ours.median_bytes_per_s),
        f"{ours.ratio:.2f}x" if ours.ratio is not None else "",
        in_words(gain_by_tuning(rows, arm, AUTO)),
        time_for_image(ours.median_bytes_per_s),
        base.kinds[0][0] if base and base.kinds else "",
        ours.kinds[0][0] if ours.kinds else "",
    )


def document_published(docs: Path, rows: Sequence[Row], runs: Sequence[Measured], plan: Plan) -> list[Path]:
    """Put the section into a document, the graph beside it, and both into the README above it, if that has the markers.

    The README and the graph are left alone unless every arm has a figure from the article's server and from ours.
    Returns what was written. Raises LabError: the document lacks the markers, or cannot be written.
    """
    put(docs, "published", published_text(rows, runs, plan))
    here = {(row.arm.name, row.sender) for row in rows}
    if not all((arm.name, sender) in here for arm in ARMS for sender in (SENDERS[0], AUTO)):
        return [docs]
    return [docs, write_beside(docs, _CHART, evidence_svg(rows)), *put_in_readme(docs, rows, plan.command)]


def put_in_readme(docs: Path, rows: Sequence[Row], command: str) -> list[Path]:
    """Put the graph and the table into the README above a document, if that has the markers; return what was written.

    `docs`: The document, beside which the graph lies. Raises LabError: it cannot be written.
    """
    readme = docs.absolute().parent.parent / "README.md"
    if not readme.is_file() or "<!-- evidence: begin -->" not in readme.read_text(encoding="utf-8"):
        return []
    put(readme, "evidence", readme_text(rows, command, f"{docs.absolute().parent.name}/{_CHART}"))
    return [readme]


def document_sweep(docs: Path, text: str, runs: Sequence[Measured]) -> list[Path]:
    """Put the sweep's section into a document, with its heat map as a file beside it; return what was written.

    Raises LabError: the document lacks the markers, or cannot be written.
    """
    found = regrets(by_place(runs))
    put(docs, "sweep", f"![What auto misses of the best sender at each place, in percent]({_HEAT_MAP})\n\n{text}")
    return [docs, write_beside(docs, _HEAT_MAP, heat_map_svg(found))]


def write_beside(docs: Path, name: str, text: str) -> Path:
    """Write a file beside a document and return where it is. Raises LabError: it cannot be written."""
    return write(docs.parent / name, text)
