"""The README's one graph: each client of the article, as published, from the article's server here, and from ours.

A dot per figure on an axis of powers of ten, so that 0.08 and 5.8 MB/s can both be read; a line through it spans its
runs. Shapes differ as well as colours, and the paper is painted, so that it is legible on any page and printed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from flashferry.lab.experiment.published import FILE_BYTES, LINK, SENDERS, Row

_WIDTH, _LEFT, _RIGHT, _TOP = 960, 164, 120, 104
_LINE, _GAP, _FOOT = 24, 18, 58
_LEAST, _MOST = 0.05e6, 8e6
_LEAST_GAIN = 1.15
_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5)

CHART_STYLE = "\n" + Path(__file__).with_name("chart.css").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A figure of the chart; rates in bytes per second.

    `kind`: `p` published, `v` the article's server here, `o` ours. `beside`: What stands after the figure.
    """

    kind: str
    middle: float
    least: float
    most: float
    beside: str = ""


_NAMES = {"p": "published (2021)", "v": "the article's server here", "o": "flashferry here"}


def svg_file(
    width: int, height: int, label: str, parts: Iterable[str], *, kind: str = "chart", style: str = CHART_STYLE
) -> str:
    """Return a picture as an SVG file; `kind` is the class that its style is for, `label` what screen readers read."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui,sans-serif" role="img" aria-label="{escape(label)}">'
        f'<style>{style}</style><rect class="paper" width="{width}" height="{height}" rx="6"/>{"".join(parts)}</svg>\n'
    )


def evidence_svg(rows: Sequence[Row]) -> str:
    """Return the chart as an SVG file; arms without a figure are left out."""
    arms = {name: marks for name, marks in _by_arm(rows).items() if marks}
    bottom = _TOP + sum(len(marks) * _LINE + _GAP for marks in arms.values())
    height = bottom + _FOOT
    shown = "; ".join(f"{name}: {', '.join(f'{_NAMES[m.kind]} {_mb(m.middle)}' for m in arms[name])}" for name in arms)
    title = '<text class="t" x="16" y="30">Speed of a copy, MB/s: 50 Mbit/s, 100 ms, 0.01 % loss</text>'
    foot = "Medians; the line through a mark spans its runs. Emulated WAN and routers, real TCP. Logarithmic axis."
    foot = f'<text class="n" x="16" y="{height - 12}">{foot}</text>'
    return svg_file(_WIDTH, height, f"MB/s. {shown}", (title, *_legend(), *_axis(bottom), *_drawn(arms), foot))


def _by_arm(rows: Sequence[Row]) -> dict[str, list[Mark]]:
    found: dict[str, list[Mark]] = {}
    for row in rows:
        marks = found.setdefault(row.arm.name, [])
        if row.sender == SENDERS[0]:
            theirs = [FILE_BYTES / seconds for seconds in row.arm.seconds]
            marks.append(Mark(kind="p", middle=row.arm.published_bytes_per_s, least=min(theirs), most=max(theirs)))
            marks.append(_measured(row, "v"))
        elif row.sender == SENDERS[-1]:
            gain = row.median_bytes_per_s / row.arm.published_bytes_per_s
            marks.append(_measured(row, "o", f"{gain:.1f}x published" if gain >= _LEAST_GAIN else ""))
    return found


def _measured(row: Row, kind: str, beside: str = "") -> Mark:
    rates = (row.median_bytes_per_s, row.least_bytes_per_s, row.most_bytes_per_s)
    return Mark(kind=kind, middle=rates[0], least=rates[1], most=rates[2], beside=beside)


def _legend() -> Iterator[str]:
    over = 24
    for kind, name in _NAMES.items():
        yield f'{_shape(kind, over, 57)}<text x="{over + 16}" y="62">{name}</text>'
        over += 60 + round(8.4 * len(name))


def _axis(bottom: int) -> Iterator[str]:
    for tick in _TICKS:
        over = _over(tick * 1e6)
        yield f'<path class="g" d="M{over} {_TOP - 8}V{bottom}"/>'
        yield f'<text class="n m" x="{over}" y="{bottom + 18}">{tick:g}</text>'
    link = _over(LINK.payload_bytes_per_s)
    yield f'<path class="l" d="M{link} {_TOP - 8}V{bottom}"/><text class="n m" x="{link}" y="{_TOP - 14}">the link: '
    yield f"{_mb(LINK.payload_bytes_per_s)}</text>"


def _drawn(arms: dict[str, list[Mark]]) -> Iterator[str]:
    down = _TOP
    for name, marks in arms.items():
        middle = down + len(marks) * _LINE // 2
        yield f'<text class="a" x="{_LEFT - 14}" y="{middle + 5}">{escape(name)}</text>'
        for mark in marks:
            yield from _marked(mark, down + _LINE // 2)
            down += _LINE
        down += _GAP


def _marked(mark: Mark, down: int) -> Iterator[str]:
    over, right = _over(mark.middle), _over(mark.most)
    yield f'<path class="g" d="M{_LEFT} {down}H{over}"/>'
    yield f'<path class="{mark.kind}" d="M{_over(mark.least)} {down}H{right}"/>{_shape(mark.kind, over, down)}'
    gain = f'<tspan class="n q" dx="8">{mark.beside}</tspan>' if mark.beside else ""
    bold = ' class="s"' if mark.kind == "o" else ""
    if right + 170 > _WIDTH and gain:
        # At the right edge there is no room for both behind the mark.
        yield f'<text{bold} x="{right + 14}" y="{down + 5}">{_mb(mark.middle)}</text>'
        left = _over(mark.least) - 14
        yield f'<text class="n" text-anchor="end" x="{left}" y="{down + 5}">{mark.beside}</text>'
    else:
        yield f'<text{bold} x="{right + 14}" y="{down + 5}">{_mb(mark.middle)}{gain}</text>'


def _shape(kind: str, over: int, down: int) -> str:
    if kind == "p":
        return f'<path class="p" d="M{over} {down - 7}l7 7l-7 7l-7 -7z"/>'
    if kind == "v":
        return f'<circle class="v" cx="{over}" cy="{down}" r="5"/>'
    return f'<rect class="o" x="{over - 5}" y="{down - 5}" width="10" height="10"/>'


def _over(bytes_per_s: float) -> int:
    share = math.log(max(_LEAST, bytes_per_s) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + round(min(1.0, share) * (_WIDTH - _LEFT - _RIGHT))


def _mb(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e6:.3f}" if bytes_per_s < 1e6 else f"{bytes_per_s / 1e6:.2f}"
