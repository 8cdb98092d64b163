"""The matrix as a page of the documentation: a row per fault, a column per step, a sign or two per cell."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from flashferry.nightly.night import StepName
from tests.component.nightly.matrix.faults import FAULTS
from tests.component.nightly.matrix.player import Cell

PAGE = Path(__file__).parents[4] / "docs" / "nightly-faults.md"
BEGIN, END = "<!-- nights' faults: begin -->", "<!-- nights' faults: end -->"


def update_docs(letters: Mapping[str, str], wrong: Sequence[str], seconds: float) -> None:
    """Put the table into the page, between its marks."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{table(letters, wrong, seconds)}{END}{tail}", encoding="utf-8")


def table(letters: Mapping[str, str], wrong: Sequence[str], seconds: float) -> str:
    """Return conditions, table and deviations in Markdown."""
    steps = tuple(StepName)
    conditions = (
        f"{len(letters)} cells in {seconds:.0f} s, {len(wrong)} not as they must be. {datetime.now(UTC):%Y-%m-%d}, "
        f"flashferry {version('flashferry')}, virl2-client {version('virl2-client')}, Python "
        f"{platform.python_version()}, Linux {platform.release()} {platform.machine()}."
    )
    lines = [
        conditions,
        "",
        "| switches | how long | steps of the night, by sign |",
        "|---|---|---|",
    ]
    alike: dict[tuple[str, str], list[str]] = {}
    for fault in FAULTS:
        signs = [letters.get(Cell(fault=fault, step=step).name, "") for step in steps]
        shown = (
            f"`{fault.what}` ({fault.says.partition('refused ')[2]})"
            if fault.what.startswith("refuse_")
            else f"`{fault.what}`"
        )
        alike.setdefault((fault.span, _by_sign(steps, signs)), []).append(shown)
    lines += [f"| {', '.join(switches)} | {span} | {signs} |" for (span, signs), switches in alike.items()]
    lines += ["", *(f"- {sentence}" for sentence in wrong)]
    return "\n".join(lines).rstrip() + "\n"


def _by_sign(steps: Sequence[StepName], signs: Sequence[str]) -> str:
    """Return the steps in which a fault had an effect, by what came of it: `L: preflight to import; Cr: clean`."""
    runs: dict[str, list[str]] = {}
    for sign, run in itertools.groupby(zip(steps, signs, strict=True), key=lambda one: one[1]):
        own = [step for step, _ in run]
        if sign != "·":
            runs.setdefault(sign, []).append(own[0] if len(own) == 1 else f"{own[0]} to {own[-1]}")
    return "; ".join(f"{sign}: {', '.join(parts)}" for sign, parts in runs.items()) or "no effect in any"
