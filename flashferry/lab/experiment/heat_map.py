"""The sweep as a heat map: a field per place, coloured by what `auto` misses of the best sender, with the figure in it.

The darker the field the more is missed, so that it also reads in black and white; a ring marks where `auto` sends more
than 5 % again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from flashferry.lab.experiment.chart import svg_file
from flashferry.lab.experiment.sweep import SACKS, WINDOWS, Place, Regret

STEPS = (0.05, 0.1, 0.2, 0.4)
"""Where the next colour begins; the first is that of what counts as the best."""
_NAMES = ("to 5 %", "to 10 %", "to 20 %", "to 40 %", "above")
_FIELD, _DOWN, _LEFT, _TOP, _GAP = 108, 34, 176, 116, 10
HEAT_STYLE = "\n" + Path(__file__).with_name("heat_map.css").read_text(encoding="utf-8")


def heat_map_svg(found: Sequence[Regret]) -> str:
    """Return the heat map as an SVG file: a row per loss and round trip, a column per SACK and window."""
    rows = sorted({(regret.place.loss_ratio, regret.place.rtt_s) for regret in found})
    height = _TOP + sum(_steps(rows)) + 62
    width = _LEFT + 6 * _FIELD + _GAP + 24
    near = sum(regret.share <= STEPS[0] for regret in found)
    title = "What auto misses of the best sender's goodput, in percent"
    label = f"{title}: at most 5 at {near} of {len(found)} places"
    parts = (f'<text class="t" x="16" y="30">{escape(title)}</text>', *_heads(), *_body(found, rows))
    return svg_file(width, height, label, (*parts, *_legend(height - 34)), kind="heat", style=HEAT_STYLE)


def _steps(rows: Sequence[tuple[float, float]]) -> list[int]:
    """Return how far down each row reaches: losses stand apart."""
    follows = [after[0] != row[0] for row, after in itertools.pairwise(rows)]
    return [_DOWN + (_GAP if ends else 0) for ends in (*follows, False)] if rows else []


def _heads() -> Iterator[str]:
    yield f'<text class="n" x="16" y="{_TOP - 12}">loss</text>'
    yield f'<text class="n e" x="{_LEFT - 14}" y="{_TOP - 12}">round trip</text>'
    for sack in SACKS:
        over = _across(sack, 0)
        yield f'<text class="m" x="{over + 1.5 * _FIELD:g}" y="{_TOP - 40}">{"SACK" if sack else "no SACK"}</text>'
        for number, window in enumerate(WINDOWS):
            middle = _across(sack, number) + _FIELD // 2
            yield f'<text class="n m" x="{middle}" y="{_TOP - 12}">window {window}</text>'


def _body(found: Sequence[Regret], rows: Sequence[tuple[float, float]]) -> Iterator[str]:
    at = {regret.place: regret for regret in found}
    down, shown = _TOP, None
    for (loss, rtt_s), step in zip(rows, _steps(rows), strict=True):
        if loss != shown:
            yield f'<text x="16" y="{down + 22}">{loss * 100:g} %</text>'
            shown = loss
        yield f'<text class="e" x="{_LEFT - 14}" y="{down + 22}">{rtt_s * 1e3:g} ms</text>'
        for sack in SACKS:
            for number, window in enumerate(WINDOWS):
                place = Place(loss_ratio=loss, rtt_s=rtt_s, sack=sack, window=window)
                yield _field(at.get(place), _across(sack, number), down)
        down += step


def _field(regret: Regret | None, over: int, down: int) -> str:
    box = f'x="{over + 1}" y="{down + 1}" width="{_FIELD - 2}" height="{_DOWN - 2}" rx="3"'
    if regret is None:
        return f'<rect class="none" {box}/>'
    step = sum(regret.share > limit for limit in STEPS)
    ring = f'<rect class="ring" {box}/>' if regret.wastes else ""
    figure = f"{max(0.0, regret.share) * 100:.0f}"
    middle = f'x="{over + _FIELD // 2}" y="{down + 22}"'
    return f'<rect class="h{step}" {box}/>{ring}<text class="f f{step}" {middle}>{figure}</text>'


def _across(sack: bool, number: int) -> int:
    return _LEFT + (0 if sack else len(WINDOWS) * _FIELD + _GAP) + number * _FIELD


def _legend(down: int) -> Iterator[str]:
    over = 16
    for step, name in enumerate(_NAMES):
        yield f'<rect class="h{step}" x="{over}" y="{down}" width="26" height="18" rx="3"/>'
        yield f'<text class="n" x="{over + 34}" y="{down + 14}">{name}</text>'
        over += 106
    yield f'<rect class="ring" x="{over}" y="{down}" width="26" height="18" rx="3"/>'
    yield f'<text class="n" x="{over + 34}" y="{down + 14}">auto sends more than 5 % again</text>'
