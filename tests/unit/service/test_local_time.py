"""Times on pages: in the zone that a person chose, marked, and in the sites' own beside it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import pytest

from flashferry.core.values import replace
from flashferry.reports.words import moment
from flashferry.service.known_names import site_zones
from flashferry.service.live.presenters import clock, tonight_board
from flashferry.service.live.snapshot import EventView
from flashferry.service.local_time import site_times, zone_names
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.people import set_time_zone
from tests.served import serve
from tests.unit.service.live.made import device, run, scene
from tests.unit.service.live.test_snapshot import copying

HOSTS = "".join(
    f"r-{site}: {{hostname: 192.0.2.1, platform: ios, data: {{site: {site}{windows}}}}}\n"
    for site, windows in {
        "AMS": ', windows: [{from: "22:00", until: "05:00", timezone: Europe/Amsterdam}]',
        "LIM": ', windows: [{from: "22:00", until: "05:00", timezone: America/Lima}]',
        "GVA": ', windows: [{from: "22:00", until: "05:00"}]',
        "OSL": "",
    }.items()
)
ZONES = {"AMS": "Europe/Amsterdam", "LIM": "America/Lima", "GVA": "UTC"}


@pytest.fixture
def settings(tmp_path):
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "hosts.yaml").write_text(HOSTS)
    return RunSettings(inventory=str(folder), images=tmp_path)


def test_a_time_is_marked_with_its_zone():
    """By its name, or by its offset where the zone has no name."""
    at = "2026-11-21T23:29:54+00:00"
    assert moment(at) == "2026-11-21 23:29:54 UTC"
    assert moment(at, zone=ZoneInfo("Europe/Amsterdam")) == "2026-11-22 00:29:54 CET"
    assert moment(at, zone=ZoneInfo("Asia/Dubai")) == "2026-11-22 03:29:54 UTC+04"
    assert moment("2026-11-21T23:29:54", zone=ZoneInfo("Europe/Amsterdam")) == "2026-11-22 00:29:54 CET"


def test_a_person_chooses_a_zone_for_all_pages(tmp_path):
    """Kept for that person; until then UTC. The audit has the choice."""
    served = serve(tmp_path)
    ann, bob = (served.browser(served.person(name, "viewer")) for name in ("ann", "bob"))

    def page(by, path="/me"):
        return served.call("GET", path, by, headers={"Accept": "text/html"}).text

    assert "2026-11-23 20:00:00 UTC" in page(ann)
    assert served.call("POST", "/me/time-zone", ann, form={"time_zone": "Europe/Oslo"}).status_code == 303
    assert "<option selected>Europe/Oslo" in page(ann)
    assert "2026-11-23 21:00:00 CET" in page(ann)
    assert "UTC" not in page(ann, "/tonight")
    assert "Europe/Oslo" in page(ann, "/tonight")
    assert "2026-11-23 20:00:00 UTC" in page(bob)
    assert served.audit()[-1].action == "time_zone.chosen"


def test_an_unknown_zone_is_refused_in_the_form(tmp_path):
    """With the name that was probably meant; nothing is stored."""
    served = serve(tmp_path)
    ann = served.browser(served.person("ann", "viewer"))
    form, headers = {"time_zone": "Europe/Osl"}, {"Accept": "text/html"}
    answer = served.call("POST", "/me/time-zone", ann, form=form, headers=headers)
    assert answer.status_code == 422
    assert "did you mean 'Europe/Oslo'?" in unescape(answer.text)
    assert "<option selected>UTC" in served.call("GET", "/me", ann, headers=headers).text


def test_a_zone_that_the_machine_no_longer_knows_is_utc(tmp_path):
    """Pages are shown all the same."""
    served = serve(tmp_path)
    ann = served.browser(served.person("ann", "viewer"))
    with served.service.database.writing() as database:
        set_time_zone(database, "ann", "Europe/Atlantis")
    assert "2026-11-23 20:00:00 UTC" in served.call("GET", "/me", ann, headers={"Accept": "text/html"}).text


def test_zones_to_choose_from_are_places():
    """And UTC, first."""
    assert zone_names()[0] == "UTC"
    assert {"Europe/Oslo", "Asia/Tokyo"} < set(zone_names())
    assert not [one for one in zone_names() if one.startswith(("Etc/", "posix/"))]


def test_live_clocks_are_in_the_zone_of_the_snapshot():
    """Ends, windows and the clock itself; the day is that of the reader."""
    found = scene(run(device("r1", "tuned"), heard=EventView(devices={"r1": copying()})))
    oslo = tonight_board(found.in_zone(ZoneInfo("Europe/Oslo")), {})["now"]["now"]["clock"].text
    assert (tonight_board(found, {})["now"]["now"]["clock"].text, oslo) == ("02:14", "03:14")
    night = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
    assert clock(night + timedelta(hours=1), night) == "Mon 00:30"
    assert clock(night + timedelta(hours=1), night.astimezone(ZoneInfo("Europe/Oslo"))) == "01:30"


def test_an_end_over_a_change_of_clocks_is_right():
    """An hour of copying is an hour, also where the wall clock goes from 03:00 back to 02:00."""
    zone = ZoneInfo("Europe/Oslo")
    at = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    moves = replace(copying(), acked_bytes=0, size_bytes=7_200_000, rate_bytes_per_s=1000.0)
    found = replace(scene(run(device("r1", "tuned"), heard=EventView(devices={"r1": moves}))), at=at)
    row = next(iter(tonight_board(found.in_zone(zone), {})["sites"].values()))
    assert row["eta"].text == "03:30"


def test_a_window_is_shown_by_its_sites_clocks_too():
    """Sites whose clocks show the same stand together; those that show what the reader sees are left out."""
    at = "2026-11-21T21:00:00+00:00"
    assert site_times(at, ("AMS", "LIM", "GVA", "OSL"), ZONES, UTC) == (
        ("Sat 22:00 CET", "AMS"), ("Sat 16:00 UTC-05", "LIM"),
    )  # fmt: skip
    assert site_times(at, ("AMS", "LIM", "GVA"), ZONES, ZoneInfo("Europe/Paris")) == (
        ("Sat 16:00 UTC-05", "LIM"), ("Sat 21:00 UTC", "GVA"),
    )  # fmt: skip
    assert site_times(None, ("AMS",), ZONES, UTC) == site_times("soon", ("AMS",), ZONES, UTC) == ()


def test_sites_zones_are_those_of_their_windows(tmp_path, settings):
    """By the inventory; UTC where a window names none."""
    served = serve(tmp_path / "state", ServiceSettings(runs=settings))
    assert site_zones(served.service) == ZONES
    assert site_zones(replace(served.service, settings=ServiceSettings())) == {}
