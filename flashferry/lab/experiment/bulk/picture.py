"""The graph of a series: rate and cost of each method, and what was published of it, on axes of powers of ten.

The style and the marks are those of the first chart (`flashferry.lab.experiment.chart`): a diamond is published, a
square is measured here, a line through it spans its runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from flashferry.depot.probing.figures import Row
from flashferry.lab.experiment.bulk.play import Played
from flashferry.lab.experiment.bulk.studies import Series
from flashferry.lab.experiment.bulk.tables import published_of
from flashferry.lab.experiment.chart import CHART_STYLE

_WIDTH, _LEFT, _MIDDLE, _RIGHT = 960, 240, 640, 940
_LINE, _HEAD, _GAP = 26, 62, 30
_RATES, _COSTS = (3e6, 2e9), (0.5, 120.0)
_RATE_TICKS, _COST_TICKS = (3, 10, 30, 100, 300, 1000), (1, 3, 10, 30, 100)


def picture(series: Sequence[Series], played: Played, titles: dict[str, str]) -> str:
    """Return the graphs of some series as one SVG file, one below the other; those without figures are left out."""
    parts: list[str] = []
    down = 10
    for one in series:
        rows = sorted((row for row in played.rows.get(one.name, ()) if row.rate), key=lambda row: row.cost or 0.0)
        if rows:
            parts += _panel(one, rows, titles.get(one.name, one.name), down)
            down += _HEAD + len(rows) * _LINE + _GAP
    height = down + 34
    label = escape("Rates and processor time per GB of bulk copies, beside published rates")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="system-ui,sans-serif" role="img" aria-label="{label}">'
        f'<style>{CHART_STYLE}</style><rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>'
    )
    return "".join((head, *parts, *_legend(height - 16), "</svg>\n"))


def _panel(series: Series, rows: Sequence[Row], title: str, down: int) -> Iterator[str]:
    bottom = down + _HEAD + len(rows) * _LINE
    yield f'<text class="t" x="16" y="{down + 20}">{escape(title)}</text>'
    yield f'<text class="n" x="{_LEFT}" y="{down + 40}">MB/s</text>'
    yield f'<text class="n" x="{_MIDDLE + 20}" y="{down + 40}">CPU s/GB, both ends</text>'
    for tick in _RATE_TICKS:
        yield from _tick(_over_rate(tick * 1e6), f"{tick:g}", down + _HEAD - 8, bottom)
    for tick in _COST_TICKS:
        yield from _tick(_over_cost(tick), f"{tick:g}", down + _HEAD - 8, bottom)
    common = set.intersection(*(set(row.key.split(" ")) for row in rows))
    for number, row in enumerate(rows):
        yield from _row(series, row, _name(row.key, common), down + _HEAD + number * _LINE + _LINE // 2)


def _tick(over: float, text: str, top: int, bottom: int) -> Iterator[str]:
    yield f'<path class="g" d="M{over} {top}V{bottom}"/><text class="n m" x="{over}" y="{bottom + 15}">{text}</text>'


def _row(series: Series, row: Row, name: str, middle: int) -> Iterator[str]:
    assert row.rate is not None
    yield f'<text class="a" x="{_LEFT - 14}" y="{middle + 5}">{escape(name)}</text>'
    least, most = _over_rate(row.rate.least), _over_rate(row.rate.most)
    yield f'<path class="o" d="M{least} {middle}H{most}"/>{_square("o", _over_rate(row.rate.median), middle)}'
    if (theirs := published_of(series, row.key)) is not None:
        over = _over_rate(theirs * 1e6)
        yield f'<path class="p" d="M{over} {middle - 7}l7 7l-7 7l-7 -7z"/>'
    if row.cost is not None:
        over = _over_cost(row.cost)
        yield f'{_square("v", over, middle)}<text class="n" x="{over + 12}" y="{middle + 5}">{row.cost:.1f}</text>'


def _square(kind: str, over: float, middle: int) -> str:
    return f'<rect class="{kind}" x="{over - 5:g}" y="{middle - 5}" width="10" height="10"/>'


def _legend(down: int) -> Iterator[str]:
    yield f'<path class="p" d="M24 {down - 12}l7 7l-7 7l-7 -7z"/>{_said(40, down, "published, in its MB/s")}'
    yield f"{_square('o', 216, down - 5)}{_said(232, down, 'here, in 10^6 B/s; the line spans its runs')}"
    yield f"{_square('v', 556, down - 5)}{_said(572, down, 'processor time here; logarithmic axes')}"


def _said(over: int, down: int, text: str) -> str:
    return f'<text class="n" x="{over}" y="{down}">{text}</text>'


def _name(key: str, common: set[str]) -> str:
    """Return a method's name without what all of its panel have."""
    words = [word for word in key.split(" ") if word not in common]
    name = " ".join(words) or key
    for long, short in (
        ("@openssh.com", ""), ("chacha20-poly1305", "chacha20"), ("scp -O ", ""), ("compressed", "-C"), ("data=", ""),
        (" bs=65536", ""), ("bs=", "blocks of "),
    ):  # fmt: skip
        name = name.replace(long, short)
    return name


def _over_rate(bytes_per_s: float) -> int:
    return _LEFT + round(_share(bytes_per_s, *_RATES) * (_MIDDLE - 20 - _LEFT))


def _over_cost(cost: float) -> int:
    return _MIDDLE + 20 + round(_share(cost, *_COSTS) * (_RIGHT - 50 - _MIDDLE - 20))


def _share(value: float, least: float, most: float) -> float:
    return min(1.0, math.log(max(value, least) / least) / math.log(most / least))
