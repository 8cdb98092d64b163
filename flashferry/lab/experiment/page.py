"""The experiment as one HTML page: tables, and per arm and server the article's four graphs with the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from flashferry.lab.experiment.cell import Measured
from flashferry.lab.experiment.tables import EMULATED
from flashferry.reports.graphs import GRAPH_STYLE, Limit, svg, transfer_graphs

_STYLE = f"\n{Path(__file__).with_name('page.css').read_text(encoding='utf-8')}{GRAPH_STYLE}"


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole page; nothing in it is fetched from anywhere."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>{''.join(parts)}</html>\n"
    )


def introduction(command: str, conditions: str) -> str:
    """Return how the figures came about."""
    return (
        f"<p><code>{escape(command)}</code></p><p class=q>{escape(conditions)}</p><p class=q>{escape(EMULATED)}</p>"
    )  # fmt: skip


def table(markdown: str) -> str:
    """Return a Markdown table as HTML; cells that begin with a digit are set as figures."""
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines())
    cells = "".join(f"<th>{escape(cell)}" for cell in head)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}" for row in rows)
    return f"<table><tr>{cells}{body}</table>"


def listed(markdown: str) -> str:
    """Return a Markdown list of one level as HTML; stars are left out."""
    items = (line.removeprefix("- ").replace("**", "") for line in markdown.splitlines())
    return f"<ul>{''.join(f'<li>{escape(item)}' for item in items)}</ul>"


def run_section(run: Measured, *, level: int = 3) -> str:
    """Return a run: its rate, its verdict with the evidence, its graphs; under a heading of a level."""
    cell = run.cell
    verdict = run.judgement
    shown = ""
    if verdict is not None:
        evidence = "".join(f"<li>{escape(each)}" for each in verdict.evidence)
        shown = f"<p>{escape(verdict.sentence)} {escape(verdict.advice)}</p><ul class=q>{evidence}</ul>"
    limits = [Limit(label="link", bytes_per_s=cell.link.payload_bytes_per_s)]
    if cell.cap_bytes_per_s is not None:
        limits.insert(0, Limit(label="cap", bytes_per_s=float(cell.cap_bytes_per_s)))
    drawn = "".join(f"<div>{svg(graph)}</div>" for graph in transfer_graphs(run.samples, limits=limits))
    rate = f"{run.size_bytes / 1e6:.1f} MB in {run.seconds:.1f} s = {run.rate_bytes_per_s / 1e6:.3f} MB/s"
    return (
        f"<h{level}>{escape(cell.sender.name)}</h{level}><p>Seed {cell.seed}: {rate}, sent by {escape(run.control)}; "
        f"SYN: {escape(run.syn or 'not seen')}.</p>{shown}<div class=graphs>{drawn}</div>"
    )


def graphs_by_arm(runs: Sequence[Measured], *, level: int = 2) -> str:
    """Return of each arm and server the first run that has readings, as the article drew its first runs."""
    first: dict[str, dict[str, Measured]] = {}
    for run in runs:
        if run.samples:
            first.setdefault(run.cell.arm, {}).setdefault(run.cell.sender.name, run)
    return "".join(
        f"<h{level}>{escape(arm)}</h{level}>" + "".join(run_section(run, level=level + 1) for run in by_sender.values())
        for arm, by_sender in first.items()
    )


def _cell(text: str) -> str:
    return f"<td class=n>{escape(text)}" if text[:1].isdecimal() else f"<td>{escape(text)}"
