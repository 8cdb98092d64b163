"""A graph as inline SVG: no style attribute, so a strict content policy may stand; legible without colour.

How it looks is in `GRAPH_STYLE`, which a page puts into its own style sheet once; `standalone` brings it along.
Coordinates are whole numbers in a field of 640 x 340, and moves are relative: at 500 devices with four graphs each
every byte counts. Two of them stand side by side on a large screen, one fills that of a telephone, where a page makes
the letters larger (up to `LARGEST_LETTERS`): places leave room for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from flashferry.core.safe_quote import counted
from flashferry.reports.graphs import Graph, Line
from flashferry.reports.scales import Point

WIDTH, HEIGHT = 640, 340
"""Of the field; one more line of words below takes more height."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 34, 74, 70
_LINE, _EDGE = 26, 4
LARGEST_LETTERS = 22
"""Pixels of the field that letters may have without running into each other."""
_FEW = 12
"""Of a line with so few points each is marked."""
_LETTER = 12.4
"""How wide a letter of the largest size is on average; fonts differ."""

GRAPH_STYLE = """
svg.graph{display:block;width:100%;height:auto;font-family:inherit}
.graph text{fill:var(--ink,#1b1f24);font-size:17px}
.graph .t{font-size:18px;font-weight:600}
.graph .n{fill:var(--quiet,#57606a)}
.graph .u text{text-anchor:end}
.graph .v text{text-anchor:middle}
.graph path{fill:none;stroke-linejoin:round}
.graph .g{stroke:var(--rule,#d5d9de)}
.graph .x{stroke:var(--quiet,#57606a)}
.graph .a{stroke:var(--line-a,#0b4f9e);stroke-width:3.5}
.graph .b{stroke:var(--line-b,#b0480e);stroke-width:3;stroke-dasharray:12 6}
.graph .c{stroke:var(--line-c,#444);stroke-width:3;stroke-dasharray:2 5}
.graph .m{stroke-width:8;stroke-linecap:round;stroke-dasharray:none}
"""
"""Colours, dashes and letters; a page may set --ink, --quiet, --rule, --line-a, --line-b and --line-c for its own."""


def standalone(graph: Graph) -> str:
    """Return a graph as an SVG file of its own."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" width="{WIDTH}" height="{_height(graph)}"'
    style = f"<style>{GRAPH_STYLE}</style>"
    opening, _, rest = svg(graph).partition(">")
    return f"{opening.replace('<svg', head, 1)}>{style}{rest}\n"


def svg(graph: Graph, *, marks: str = "") -> str:
    """Return a graph as an `svg` element.

    Args:
        graph: The graph.
        marks: SVG of the caller's own, drawn above all lines; `place_of` returns where a point lies.
    """
    field = f"0 0 {WIDTH} {_height(graph)}"
    head = (
        f'<svg class="graph" viewBox="{field}" role="img" aria-label="{escape(graph.description)}">'
        f'<text class="t" x="{_EDGE}" y="22">{escape(graph.title)}, {escape(graph.up.unit)}</text>'
    )
    if not graph.lines:
        return f"{head}{_words(_foot(graph), HEIGHT // 2)}</svg>"
    return "".join(
        (head, *_axes(graph), *_legend(graph), *(_drawn(line, graph) for line in graph.lines), marks, "</svg>")
    )


def _axes(graph: Graph) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    rows = [(tick, _down(graph, tick * graph.up.divisor)) for tick in graph.up.ticks]
    columns = [(tick, _over(graph, tick * graph.across.divisor)) for tick in graph.across.ticks]
    columns = [(tick, over) for tick, over in columns if tick <= graph.across.end * (1 + 1e-9)]
    grid = "".join(f"M{_LEFT} {down}H{right}" for _, down in rows[1:])
    marks = "".join(f"M{over} {bottom}v6" for _, over in columns)
    yield f'<path class="g" d="{grid}"/><path class="x" d="M{_LEFT} {_TOP}V{bottom}H{right}{marks}"/>'
    beside = (f'<text x="{_LEFT - 8}" y="{down + 6}">{graph.up.label(tick)}</text>' for tick, down in rows)
    units = {columns[-1][0]: f" {graph.across.unit}".rstrip()}
    below = (
        f'<text x="{over}" y="{bottom + 28}">{graph.across.label(tick)}{units.get(tick, "")}</text>'
        for tick, over in columns
    )
    yield f'<g class="u">{"".join(beside)}</g><g class="v">{"".join(below)}</g>'
    yield _words(_foot(graph), HEIGHT - 10)


def _foot(graph: Graph) -> list[str]:
    """Return the words below a graph, in lines that fit whatever the size of the letters."""
    readings = counted(graph.readings, graph.reading) if graph.readings else f"no {graph.reading}s"
    lines: list[str] = []
    for part in (readings if graph.lines else f"not measured: {readings}", *filter(None, graph.note.split("; "))):
        if lines and len(lines[-1]) + len(part) + 2 <= (WIDTH - 2 * _EDGE) / _LETTER:
            lines[-1] += f"; {part}"
        else:
            lines.append(part)
    return lines


def _words(lines: list[str], down: int) -> str:
    return "".join(
        f'<text class="n" x="{_EDGE}" y="{down + place * _LINE}">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )


def _height(graph: Graph) -> int:
    return HEIGHT + _LINE * (len(_foot(graph)) - 1)


def _legend(graph: Graph) -> Iterator[str]:
    over = _LEFT
    for line in graph.lines:
        yield f'<path class="{line.stroke.value}" d="M{over} 48h36"/>'
        yield f'<text x="{over + 44}" y="54">{escape(line.label)}</text>'
        over += 64 + round(_LETTER * len(line.label))


def _drawn(line: Line, graph: Graph) -> str:
    places = [(_over(graph, at_s), _down(graph, value)) for at_s, value in line.points]
    stretches = _steps(places, line.gaps) if line.is_step else [places]
    path = f'<path class="{line.stroke.value}" d="{"".join(_moves(stretch) for stretch in stretches)}"/>'
    if len(line.points) > _FEW or line.is_step or len(line.points) == 2:
        return path
    dots = "".join(f"M{over} {down}h0" for over, down in places)
    return f'{path}<path class="{line.stroke.value} m" d="{dots}"/>'


def _steps(places: list[tuple[int, int]], gaps: frozenset[int]) -> list[list[tuple[int, int]]]:
    """Return the corners of a staircase: a place's height holds since the place before, the first's since the start."""
    stretches: list[list[tuple[int, int]]] = [[]]
    before = _LEFT
    for number, (over, down) in enumerate(places):
        if number in gaps:
            stretches.append([])
        else:
            stretches[-1] += [(before, down), (over, down)]
        before = over
    return [stretch for stretch in stretches if stretch]


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
