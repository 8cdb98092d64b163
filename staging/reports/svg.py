"""A graph as inline SVG: no style attribute, so a strict content policy may stand; legible without colour.

Colours come from `GRAPH_STYLE`, which a page puts into its own style sheet; the attributes beside the classes are what
is seen where there is none. Coordinates are whole numbers in a field of 960 x 440, and moves are relative: at 500
devices with four graphs each every byte counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from staging.reports.graphs import Graph, Line, Stroke
from staging.reports.scales import Point

WIDTH, HEIGHT = 960, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 16, 96, 68
_FEW = 12
"""Of a line with so few points each is marked."""

_INK = {Stroke.SOLID: "#0b4f9e", Stroke.DASHED: "#b0480e", Stroke.DOTTED: "#444"}
_DASHES = {Stroke.SOLID: "", Stroke.DASHED: ' stroke-dasharray="18 9"', Stroke.DOTTED: ' stroke-dasharray="3 8"'}

GRAPH_STYLE = """
svg.graph{display:block;width:100%;height:auto;font-family:inherit}
.graph text{fill:var(--ink,#1b1f24);font-size:22px}
.graph .t{font-size:25px;font-weight:600}
.graph .n{fill:var(--quiet,#57606a)}
.graph .g{stroke:var(--rule,#d5d9de)}
.graph .x{stroke:var(--quiet,#57606a)}
.graph .a{stroke:var(--line-a,#0b4f9e)}
.graph .b{stroke:var(--line-b,#b0480e)}
.graph .c{stroke:var(--line-c,#444)}
.graph circle{stroke:none}
.graph circle.a{fill:var(--line-a,#0b4f9e)}
.graph circle.b{fill:var(--line-b,#b0480e)}
.graph circle.c{fill:var(--line-c,#444)}
"""


def svg(graph: Graph) -> str:
    """Return a graph as an `svg` element."""
    head = (
        f'<svg class="graph" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(graph.description)}">'
        f'<text class="t" x="6" y="26">{escape(graph.title)}, {escape(graph.up.unit)}</text>'
    )
    if not graph.lines:
        readings = "no readings" if not graph.readings else f"{graph.readings} readings"
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
    yield f'<path class="g" stroke="#d5d9de" d="{grid}"/>'
    yield f'<path class="x" stroke="#57606a" fill="none" d="M{_LEFT} {_TOP}V{bottom}H{right}{marks}"/>'
    for tick, down in rows:
        yield f'<text x="{_LEFT - 10}" y="{down + 8}" text-anchor="end">{graph.up.label(tick)}</text>'
    for tick, over in columns:
        yield f'<text x="{over}" y="{bottom + 32}" text-anchor="middle">{graph.across.label(tick)}</text>'
    foot = "; ".join(part for part in (f"{graph.readings} readings", graph.note) if part)
    yield f'<text class="n" x="{_LEFT}" y="{HEIGHT - 6}">{escape(foot)}</text>'
    yield f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{graph.across.unit}</text>'


def _legend(graph: Graph) -> Iterator[str]:
    over = _LEFT
    for line in graph.lines:
        yield f'<path {_pen(line.stroke)} d="M{over} 58h54"/>'
        yield f'<text x="{over + 64}" y="66">{escape(line.label)}</text>'
        over += 64 + 11 * len(line.label) + 34


def _drawn(line: Line, graph: Graph) -> str:
    places = [(_over(graph, at_s), _down(graph, value)) for at_s, value in line.points]
    if line.is_step:
        places = _steps(places)
    path = f'<path {_pen(line.stroke)} d="{_moves(places)}"/>'
    if len(line.points) > _FEW or line.is_step or len(line.points) == 2:
        return path
    ink = _INK[line.stroke]
    return path + "".join(
        f'<circle class="{line.stroke.value}" fill="{ink}" cx="{over}" cy="{down}" r="5"/>' for over, down in places
    )


def _pen(stroke: Stroke) -> str:
    width = 5 if stroke is Stroke.SOLID else 4
    ink = f'class="{stroke.value}" stroke="{_INK[stroke]}" stroke-width="{width}"'
    return f'{ink} fill="none" stroke-linejoin="round"{_DASHES[stroke]}'


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
