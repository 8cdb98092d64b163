"""Page of copy speeds by day and by site, and of the lab nights."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from markupsafe import Markup

from flashferry.core.values import as_dict
from flashferry.reports.graphs import svg
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.device_list import listed_devices
from flashferry.service.pages.frame import view_page
from flashferry.service.trends import fleet_graph, site_speeds
from flashferry.store.history import History

router = APIRouter(include_in_schema=False)
SHOWN_NIGHTS = 30


@view_page(router, "/trends", "trends.html")
def trends(service: TheService, actor: TheActor) -> object:
    """Return speeds by day and by site, and the series of lab nights."""
    site_of = {one.host: one.site for one in listed_devices(service, actor).devices if one.last is not None}
    history = History.read(service.state)
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
