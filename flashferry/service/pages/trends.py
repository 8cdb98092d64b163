"""Page of copy speeds by day and by site, and of the lab nights; the graphs are pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from fastapi import APIRouter
from markupsafe import Markup
from msgspec import Struct

from flashferry.core.values import as_dict
from flashferry.reports.graphs import Graph, Line, Stroke, named_axis, rate_axis, svg
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.device_list import listed_devices
from flashferry.service.pages.frame import view_page
from flashferry.store.history import History
from flashferry.store.measurements import Measurement

MOST_DAYS = 60
"""Days in the graph of the fleet."""
MOST_COPIES = 60
"""Latest copies in a device's graph."""


class SiteSpeeds(Struct, frozen=True, kw_only=True):
    """Copies to flash at a site: number of devices and copies, median speeds tuned and untuned, most frequent limit."""

    site: str
    devices: int
    copies: int
    tuned_bytes_per_s: float | None
    as_is_bytes_per_s: float | None
    limit: str

    @property
    def gain(self) -> float | None:
        """Return the ratio of tuned to untuned speed; None if unknown."""
        if self.tuned_bytes_per_s is None or not self.as_is_bytes_per_s:
            return None
        return self.tuned_bytes_per_s / self.as_is_bytes_per_s


def device_graph(copies: Sequence[Measurement]) -> Graph:
    """Return a graph of a device's copies, oldest first."""
    shown = [one for one in copies if one.counts][-MOST_COPIES:]
    kinds = (
        ("tuned", Stroke.SOLID, [one.tuned and not one.to_null for one in shown]),
        ("as it is", Stroke.DASHED, [not one.tuned and not one.to_null for one in shown]),
        ("speed test", Stroke.DOTTED, [one.to_null for one in shown]),
    )
    lines = tuple(
        Line(
            label=label,
            stroke=stroke,
            points=tuple((float(place), one.bytes_per_s) for place, one in enumerate(shown) if meant[place]),
        )
        for label, stroke, meant in kinds
        if any(meant)
    )
    return _graph("Speed of its copies", [one.at[5:10] for one in shown], lines, len(shown), "measurement")


def fleet_graph(copies: Iterable[Measurement]) -> Graph:
    """Return a graph of daily median speeds of copies to flash, tuned and untuned."""
    by_day: dict[str, list[Measurement]] = defaultdict(list)
    for one in copies:
        if one.counts and not one.to_null:
            by_day[one.at[:10]].append(one)
    days = sorted(by_day)[-MOST_DAYS:]
    lines = []
    for label, stroke, is_tuned in (("tuned", Stroke.SOLID, True), ("as it is", Stroke.DASHED, False)):
        points = [
            (float(place), median(rates))
            for place, day in enumerate(days)
            if (rates := [one.bytes_per_s for one in by_day[day] if one.tuned is is_tuned])
        ]
        if points:
            lines.append(Line(label=label, stroke=stroke, points=tuple(points)))
    return _graph("Copies to flash, median of each day", [day[5:] for day in days], tuple(lines), len(days), "day")


def _graph(title: str, names: Sequence[str], lines: tuple[Line, ...], readings: int, reading: str) -> Graph:
    return Graph(
        key="speeds",
        title=title,
        across=named_axis(names or [""]),
        up=rate_axis(max((value for line in lines for value in line.values), default=0.0)),
        lines=lines,
        readings=readings,
        reading=reading,
    )


def site_speeds(copies: Iterable[Measurement], site_of: Mapping[str, str]) -> tuple[SiteSpeeds, ...]:
    """Return speeds by site; devices that `site_of` lacks are left out."""
    by_site: dict[str, list[Measurement]] = defaultdict(list)
    for one in copies:
        if one.counts and not one.to_null and one.host in site_of:
            by_site[site_of[one.host]].append(one)
    return tuple(_speeds(site, by_site[site]) for site in sorted(by_site))


def _speeds(site: str, copies: Sequence[Measurement]) -> SiteSpeeds:
    tuned = [one.bytes_per_s for one in copies if one.tuned]
    as_is = [one.bytes_per_s for one in copies if not one.tuned]
    limits = Counter(one.verdict for one in copies if one.verdict)
    return SiteSpeeds(
        site=site,
        devices=len({one.host for one in copies}),
        copies=len(copies),
        tuned_bytes_per_s=median(tuned) if tuned else None,
        as_is_bytes_per_s=median(as_is) if as_is else None,
        limit=limits.most_common(1)[0][0] if limits else "",
    )


router = APIRouter(include_in_schema=False)
SHOWN_NIGHTS = 30


@view_page(router, "/trends", "trends.html")
def trends(service: TheService, actor: TheActor) -> object:
    """Return speeds by day and by site, and the series of lab nights."""
    site_of = {one.host: one.site for one in listed_devices(service, actor).devices if one.last is not None}
    history = History.read(service.state, counts_damaged=False)
    copies = [one for host in site_of for one in history.of(host)]
    return {
        "sites": [as_dict(one) | {"gain": one.gain} for one in site_speeds(copies, site_of)],
        "site_names": service.settings.site_names,
        "fleet_graph": Markup(svg(fleet_graph(copies))),  # noqa: S704 -- svg escapes what it is given
        **_nights(service.state),
    }


def _nights(state: Path) -> dict[str, object]:
    # Late: the nightly package is large, and few open this page.
    from flashferry.nightly.artefacts.page import DRAWN, drawn_series, night_line
    from flashferry.nightly.artefacts.report import series_report
    from flashferry.nightly.history import READ_NIGHTS, by_series, past, stored_nights

    series = [series_report(one) for one in by_series(past(state))]
    return {
        "nights": [night_line(one) for one in reversed(stored_nights(state, last=min(SHOWN_NIGHTS, READ_NIGHTS)))],
        "series": [{"name": one.name, "unit": one.unit, "points": one.points} for one in series],
        "series_graphs": Markup("").join(
            Markup('<figure class="trend">{}</figure>').format(drawn_series(one)) for one in series if one.unit in DRAWN
        ),
    }
