"""The four graphs: what is drawn, how finely, and what is said where there is little or nothing to draw."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.reports.graphs import (
    HEIGHT,
    LARGEST_LETTERS,
    WIDTH,
    Limit,
    evenly,
    place_of,
    rate_axis,
    recorded_limit,
    rtt_axis,
    seconds_axis,
    size_axis,
    standalone,
    svg,
    thinned,
    time_axis,
    transfer_graphs,
)
from flashferry.tcp.sample import Sample
from tests.some import some


def readings(count: int, *, every_s: float = 1.0, rate: int = 1_000_000, window: int | None = 500_000) -> list[Sample]:
    return [
        Sample(
            at_s=number * every_s,
            rtt_us=100_000 + (number % 3) * 1000,
            min_rtt_us=99_000,
            snd_mss_bytes=1460,
            snd_cwnd_segments=10,
            unacked_segments=5,
            bytes_acked=round(number * every_s * rate),
            snd_wnd_bytes=window,
        )
        for number in range(count)
    ]


def by_key(samples, **options):
    return {graph.key: graph for graph in transfer_graphs(samples, **options)}


@given(st.floats(min_value=1e-6, max_value=1e13))
def test_an_axis_holds_its_largest_value_with_few_round_ticks(largest):
    """Whatever is measured, the axis reaches it, no more than a step beyond, with at most eleven ticks."""
    for make in (rate_axis, size_axis, rtt_axis, seconds_axis):
        axis = make(largest)
        assert axis.end * axis.divisor >= largest * (1 - 1e-6)
        assert 2 <= len(axis.ticks) <= 11
        assert axis.share(largest) <= 1.0


@given(st.floats(min_value=1e-3, max_value=1e4))
def test_what_devices_take_is_drawn_in_seconds(largest_s):
    """As texts have it, however quick they are."""
    assert seconds_axis(largest_s).unit == "s"


@given(st.floats(min_value=1e-3, max_value=1e6))
def test_the_time_axis_ends_with_the_transfer(duration_s):
    """No empty room behind the last reading; minutes from three minutes on."""
    axis = time_axis(duration_s)
    assert axis.end * axis.divisor == pytest.approx(duration_s)
    assert axis.unit == ("min" if duration_s >= 180 else "s")


def test_ticks_are_labelled_without_false_figures():
    """A step of 0.5 has one decimal, a step of 2 none."""
    assert [rate_axis(2.4e6).label(tick) for tick in rate_axis(2.4e6).ticks] == [
        "0.0",
        "0.5",
        "1.0",
        "1.5",
        "2.0",
        "2.5",
    ]
    assert [rate_axis(8e6).label(tick) for tick in rate_axis(8e6).ticks] == ["0", "2", "4", "6", "8"]


@given(st.lists(st.floats(min_value=0, max_value=1e9), min_size=1, max_size=2000), st.integers(4, 200))
def test_thinning_keeps_ends_and_extremes(values, most):
    """A spike that lasts one reading is still there, and the line has no more points than allowed."""
    points = [(float(number), value) for number, value in enumerate(values)]
    kept = thinned(points, most)
    assert len(kept) <= most
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert max(value for _, value in kept) == max(values)
    assert list(kept) == sorted(kept)


@given(st.integers(1, 5000), st.integers(2, 150))
def test_even_thinning_keeps_first_and_last(count, most):
    """Of cumulative counters any choice loses nothing, as long as it has both ends."""
    kept = evenly(count, most)
    assert (kept[0], kept[-1]) == (0, count - 1)
    assert len(kept) == len(set(kept)) <= max(most, 1)


def test_the_rate_line_carries_every_byte_however_few_points_it_has():
    """The area under a thinned rate line is what was acknowledged."""
    samples = readings(3000, every_s=0.1, rate=2_000_000)
    (rate,) = by_key(samples, most_points=150)["rate"].lines
    assert len(rate.points) <= 150
    times = [0.0, *(at_s for at_s, _ in rate.points)]
    area = sum(value * (at - before) for (at, value), before in zip(rate.points, times, strict=False))
    assert area == pytest.approx(samples[-1].bytes_acked)


def test_the_window_stands_above_what_is_acknowledged():
    """The second line is the first plus the advertised window, at each reading."""
    done, above = by_key(readings(20))["acknowledged"].lines
    assert [top - low for (_, low), (_, top) in zip(done.points, above.points, strict=True)] == [500_000] * 20


def test_what_the_window_allows_is_window_over_round_trip():
    """500,000 bytes over 100 ms allow 5 MB/s."""
    allowed, rate = by_key(readings(20))["allowed"].lines
    assert allowed.points[0] == (0.0, 5_000_000.0)
    assert rate.points[0] == (1.0, 1_000_000.0)


def test_a_kernel_without_windows_is_told_not_drawn():
    """Where no window is known there is no line of one, and the graph says so."""
    graphs = by_key(readings(20, window=None))
    assert len(graphs["acknowledged"].lines) == 1
    assert graphs["allowed"].lines == ()
    assert "does not report the window" in svg(graphs["allowed"])


def test_a_far_limit_is_told_and_does_not_flatten_the_line():
    """A cap of five times the rate stands in the note; one near it is drawn."""
    far = by_key(readings(20), limits=[Limit(label="cap", bytes_per_s=5e6)])["rate"]
    near = by_key(readings(20), limits=[Limit(label="cap", bytes_per_s=1.2e6)])["rate"]
    assert [line.label for line in far.lines] == ["rate"]
    assert "cap at 5.00 MB/s" in far.note
    assert [line.label for line in near.lines] == ["rate", "cap"]


def capped(*caps: int | None) -> list[Sample]:
    """Readings of a copy under these caps, one per second; the first is of the moment before the cap is set."""
    found = readings(len(caps) + 1)
    return [
        found[0],
        *(replace(one, max_pacing_rate_bytes_per_s=cap) for one, cap in zip(found[1:], caps, strict=True)),
    ]


def corners(drawn: str, kind: str) -> list[tuple[int, int]]:
    """Return where the path of a line goes, of all its stretches."""
    (data,) = re.findall(rf'<path class="{kind}" d="([^"]*)"/></svg>', drawn)
    places: list[tuple[int, int]] = []
    for letter, first, second in re.findall(r"([Mlhv])(-?\d+)(?: ?(-?\d+))?", data):
        over, down = places[-1] if places and letter != "M" else (0, 0)
        places.append((over + int(first) * (letter in "Mlh"), down + int(first if letter == "v" else second or 0)))
    return places


def test_a_cap_that_changed_is_drawn_in_steps():
    """Alone, then one of two, then alone again: the line is where the cap was, at each time, and nowhere else."""
    samples = capped(*[1_800_000] * 6, *[900_000] * 6, *[1_800_000] * 6)
    limit = recorded_limit("cap", samples, 1_800_000.0)
    assert limit.steps == ((6.0, 1_800_000.0), (12.0, 900_000.0), (18.0, 1_800_000.0))
    graph = by_key(samples, limits=[limit])["rate"]
    cap = next(line for line in graph.lines if line.label == "cap")
    assert (cap.is_step, cap.values) == (True, (1_800_000.0, 900_000.0, 1_800_000.0))
    assert "cap: 0.9 MB/s to 1.8 MB/s" in graph.description
    high, low = place_of(graph, (6.0, 1_800_000.0)), place_of(graph, (6.0, 900_000.0))
    places = corners(svg(graph), "b")
    assert [high, low] == places[1:3]
    assert places[3] == place_of(graph, (12.0, 900_000.0))
    assert places[-1] == place_of(graph, (18.0, 1_800_000.0))


def test_a_cap_that_stayed_is_one_level():
    """Recorded in every reading, and the same: nothing to step; without records it is what held at the end."""
    assert recorded_limit("cap", capped(*[900_000] * 5), 900_000.0) == Limit(label="cap", bytes_per_s=900_000.0)
    assert recorded_limit("cap", readings(5), 900_000.0) == Limit(label="cap", bytes_per_s=900_000.0)
    assert recorded_limit("cap", readings(5), None) is None


def test_a_cap_that_was_lifted_leaves_a_gap():
    """Where there was no cap no line is drawn, also not at zero; behind the gap it begins anew."""
    samples = capped(*[900_000] * 4, *[None] * 4, *[1_200_000] * 4)
    graph = by_key(samples, limits=[recorded_limit("cap", samples, 1_200_000.0)])["rate"]
    cap = next(line for line in graph.lines if line.label == "cap")
    assert cap.values == (900_000.0, 1_200_000.0)
    places = corners(svg(graph), "b")
    assert places == [place_of(graph, at) for at in ((0, 9e5), (4, 9e5), (8, 1.2e6), (12, 1.2e6))]


def test_a_step_far_above_all_that_was_measured_is_told():
    """Half of the time the cap was in sight: that half is drawn, the other one stands in the note."""
    samples = capped(*[1_000_000] * 5, *[9_000_000] * 5)
    graph = by_key(samples, limits=[recorded_limit("cap", samples, 9_000_000.0)])["rate"]
    assert "above the picture: cap at 9.00 MB/s" in graph.note
    assert graph.up.end <= 2.5
    assert next(line for line in graph.lines if line.label == "cap").values == (1_000_000.0,)


def test_the_words_of_a_graph_fit_its_field():
    """With the largest letters a page may use, on a telephone, nothing is cut at the edge and no words overlap."""
    limits = [Limit(label="cap", bytes_per_s=5e6), Limit(label="link", bytes_per_s=6e6)]
    for samples in (readings(7), readings(40), readings(40, window=None)):
        for graph in transfer_graphs(samples, limits=limits):
            root = ElementTree.fromstring(svg(graph))
            wide = 0.56 * LARGEST_LETTERS
            height = int(root.get("viewBox").split()[3])
            below = [one for one in root.findall("text") if one.get("class") == "n"]
            for text in root.findall("text"):
                assert int(text.get("x")) + wide * len(text.text) <= WIDTH + 2, text.text
                assert int(text.get("y")) < height
                assert not text.text.endswith((";", " "))
            downs = [int(one.get("y")) for one in below]
            assert all(after - before > LARGEST_LETTERS for before, after in pairwise(downs))


@pytest.mark.parametrize("count", [0, 1])
def test_without_readings_nothing_is_drawn_and_that_is_said(count):
    """No readings or one are no line, and never a line at zero."""
    for graph in some(transfer_graphs(readings(count))):
        assert graph.lines == ()
        assert "not measured" in svg(graph)
        assert "not measured" in graph.description


def test_the_number_of_readings_is_said():
    """Each graph says of how many readings it is; few are called a hint."""
    for count, few in ((5, True), (40, False)):
        for graph in some(transfer_graphs(readings(count))):
            drawn = svg(graph)
            assert f"{count} readings" in drawn
            assert ("a hint only" in drawn) is few


def test_graphs_are_well_formed_within_their_field_and_free_of_styles():
    """Each is XML, has a description, no style attribute (the page's policy forbids them), and stays in its field."""
    for graph in some(transfer_graphs(readings(60))):
        root = ElementTree.fromstring(svg(graph))
        assert root.get("role") == "img"
        assert root.get("aria-label") == graph.description
        assert all("style" not in element.attrib for element in some(root.iter()))
        for line in some(graph.lines):
            for point in some(line.points):
                over, down = place_of(graph, point)
                assert 0 <= over <= WIDTH
                assert 0 <= down <= HEIGHT


def test_lines_can_be_told_apart_without_colour():
    """Within a graph no two lines have the same dashes."""
    for graph in some(
        transfer_graphs(
            readings(20), limits=[Limit(label="cap", bytes_per_s=1e6), Limit(label="link", bytes_per_s=2e6)]
        )
    ):
        strokes = [line.stroke for line in graph.lines]
        assert len(strokes) == len(set(strokes))


def test_moves_add_up_to_the_places():
    """The relative moves of a path end where the last point lies."""
    graph = by_key(readings(30))["rtt"]
    path = re.search(
        r'<path class="a" d="(M\d+ \d+[^"]*)"/></svg>|<path class="a" d="(M[^"]*)"/><path class="c" d="M\d+ \d+h',
        svg(graph),
    )
    assert path is not None
    data = path[1] or path[2]
    over, down = map(int, re.match(r"M(\d+) (\d+)", data).groups())
    for letter, first, second in re.findall(r"([lhv])(-?\d+)(?: ?(-?\d+))?", data):
        over += int(first) if letter in "lh" else 0
        down += int(first) if letter == "v" else int(second or 0)
    assert (over, down) == place_of(graph, graph.lines[0].points[-1])


def test_hostile_text_is_escaped():
    """A label is text, whatever it holds."""
    graph = by_key(readings(20))["rate"]
    line = replace(graph.lines[0], label='<script>alert("x")</script>')
    drawn = svg(replace(graph, lines=(line,), title="<b>", note="a & b"))
    ElementTree.fromstring(drawn)
    assert "&lt;script" in drawn
    assert "<script" not in drawn


def test_a_graph_may_be_a_file_of_its_own():
    """With its name space and its style, it is an SVG file."""
    root = ElementTree.fromstring(standalone(by_key(readings(20))["rate"]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].tag.endswith("style")
