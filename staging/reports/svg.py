"""A graph as inline SVG: no style attribute, so a strict content policy may stand; legible without colour.

How it looks is in `GRAPH_STYLE`, which a page puts into its own style sheet once; `standalone` brings it along.
Coordinates are whole numbers in a field of 960 x 440, and moves are relative: at 500 devices with four graphs each
every byte counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from inventory.described import counted
from staging.reports.graphs import Graph, Line
from staging.reports.scales import Point

WIDTH, HEIGHT = 960, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 16, 96, 68
_FEW = 12
"""Of a line with so few points each is marked."""
_LETTER = 13
"""How wide a letter is at the most; fonts differ."""

GRAPH_STYLE = """
svg.graph{display:block;width:100%;height:auto;font-family:inherit}
.graph text{fill:var(--ink,#1b1f24);font-size:22px}
.graph .t{font-size:25px;font-weight:600}
.graph .n{fill:var(--quiet,#57606a)}
.graph .u text{text-anchor:end}
.graph .v text{text-anchor:middle}
.graph path{fill:none;stroke-linejoin:round}
.graph .g{stroke:var(--rule,#d5d9de)}
.graph .x{stroke:var(--quiet,#57606a)}
.graph .a{stroke:var(--line-a,#0b4f9e);stroke-width:5}
.graph .b{stroke:var(--line-b,#b0480e);stroke-width:4;stroke-dasharray:18 9}
.graph .c{stroke:var(--line-c,#444);stroke-width:4;stroke-dasharray:3 8}
.graph .m{stroke-width:12;stroke-linecap:round;stroke-dasharray:none}
"""
"""Colours, dashes and letters; a page may set --ink, --quiet, --rule, --line-a, --line-b and --line-c for its own."""


def standalone(graph: Graph) -> str:
    """Return a graph as an SVG file of its own."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" width="{WIDTH}" height="{HEIGHT}"'
    style = f"<style>{GRAPH_STYLE}</style>"
    opening, _, rest = svg(graph).partition(">")
    return f"{opening.replace('<svg', head, 1)}>{style}{rest}\n"


def svg(graph: Graph) -> str:
    """Return a graph as an `svg` element."""
    head = (
        f'<svg class="graph" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(graph.description)}">'
        f'<text class="t" x="6" y="26">{escape(graph.title)}, {escape(graph.up.unit)}</text>'
    )
    if not graph.lines:
        readings = "no readings" if not graph.readings else counted(graph.readings, "reading")
        why = escape("; ".join(part for part in (f"not measured: {readings}", graph.note) if part))
        return f'{head}<text class="n" x="{_LEFT}" y="{HEIGHT // 2}">{why}</text></svg>'
    return "".join((head, *_axes(graph), *_legend(graph), *(_drawn(line, graph) for line in graph.lines), "</svg>"))


def _axes(graph: Graph) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    rows = [(tick, _down(graph, tick * graph.up.divisor)) for tick in graph.up.ticks]
    columns = [(tick, _over(graph, tick * graph.across.divisor)) for tick in graph.across.ticks]
    columns = [(tick, over) for tick, over in columns if tick <= graph.across.end * (1 + 1e-9)]
    grid = "".join(f"M{_LEFT} {down}H{right}" for _, down in rows[1:])
    marks = "".join(f"M{over} {bottom}v8" for _, over in columns)
    yield f'<path class="g" d="{grid}"/><path class="x" d="M{_LEFT} {_TOP}V{bottom}H{right}{marks}"/>'
    beside = (f'<text x="{_LEFT - 10}" y="{down + 8}">{graph.up.label(tick)}</text>' for tick, down in rows)
    units = {columns[-1][0]: f" {graph.across.unit}"}
    below = (
        f'<text x="{over}" y="{bottom + 32}">{graph.across.label(tick)}{units.get(tick, "")}</text>'
        for tick, over in columns
    )
    yield f'<g class="u">{"".join(beside)}</g><g class="v">{"".join(below)}</g>'
    foot = "; ".join(part for part in (counted(graph.readings, "reading"), graph.note) if part)
    yield f'<text class="n" x="{_LEFT}" y="{HEIGHT - 6}">{escape(foot)}</text>'


def _legend(graph: Graph) -> Iterator[str]:
    over = _LEFT
    for line in graph.lines:
        yield f'<path class="{line.stroke.value}" d="M{over} 58h54"/>'
        yield f'<text x="{over + 64}" y="66">{escape(line.label)}</text>'
        over += 64 + _LETTER * len(line.label) + 30


def _drawn(line: Line, graph: Graph) -> str:
    places = [(_over(graph, at_s), _down(graph, value)) for at_s, value in line.points]
    if line.is_step:
        places = _steps(places)
    path = f'<path class="{line.stroke.value}" d="{_moves(places)}"/>'
    if len(line.points) > _FEW or line.is_step or len(line.points) == 2:
        return path
    dots = "".join(f"M{over} {down}h0" for over, down in places)
    return f'{path}<path class="{line.stroke.value} m" d="{dots}"/>'


def _steps(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the corners of a staircase: a place's height holds since the place before, the first's since the start."""
    corners: list[tuple[int, int]] = []
    before = _LEFT
    for over, down in places:
        corners += [(before, down), (over, down)]
        before = over
    return corners


def _moves(places: list[tuple[int, int]]) -> str:
    """Return places as path data, each move relative to the one before; those that go nowhere are left out."""
    over, down = places[0]
    moves = [f"M{over} {down}"]
    for place in places[1:]:
        right, below = place[0] - over, place[1] - down
        if right and below:
            moves.append(f"l{right}{' ' if below > 0 else ''}{below}")
        elif right:
            moves.append(f"h{right}")
        elif below:
            moves.append(f"v{below}")
        over, down = place
    return "".join(moves)


def _over(graph: Graph, at_s: float) -> int:
    return _LEFT + round(graph.across.share(at_s) * (WIDTH - _LEFT - _RIGHT))


def _down(graph: Graph, value: float) -> int:
    return HEIGHT - _BOTTOM - round(graph.up.share(value) * (HEIGHT - _TOP - _BOTTOM))


def place_of(graph: Graph, point: Point) -> tuple[int, int]:
    """Return where a point of seconds and a value lies in the field: for those who mark something in a graph."""
    return _over(graph, point[0]), _down(graph, point[1])
