"""Pages of devices and of what copies ran at, over a journal as a release wrote it."""

from __future__ import annotations

import pytest

from flashferry.service.trends import device_graph, fleet_graph, site_speeds
from flashferry.store.history import Measurement
from flashferry.store.journal import Journal
from tests.contract import stored
from tests.served import serve
from tests.unit.service.pages.test_runs import page, view


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    state = tmp_path_factory.mktemp("service") / "state"
    stored.lay_out(state)
    with Journal(state) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="a/b", address="192.0.2.9", port=22, platform="ios", site="AMS")
        journal.finish_run(run_id)
    made = serve(state)
    made.person("ada", "viewer")
    made.person("bob", "viewer@AMS")
    return made


def test_each_device_stands_once_as_its_last_run_has_it(served):
    """With its newest speed; one whose name has a slash has a page, too."""
    ada = served.browser("ada")
    told = view(served, ada, "/devices")["devices"]
    assert [one["host"] for one in told] == ["a/b", "xe1", "xe2"]
    assert told[2]["model"] == "CSR1000V"
    assert told[2]["speed_bytes_per_s"] > 0
    text = page(served, ada, "/devices")
    assert 'href="/devices/a%2Fb"' in text
    assert "a/b" in page(served, ada, "/devices/a%2Fb")


def test_devices_are_chosen_by_words_and_site(served):
    """All words, of any column."""
    ada = served.browser("ada")
    for query, hosts in (
        ("?q=xe+csr", ["xe2"]),
        ("?q=192.0.2.9", ["a/b"]),
        ("?site=AMS", ["a/b"]),
        ("?q=no", []),
    ):
        assert [one["host"] for one in view(served, ada, f"/devices{query}")["devices"]] == hosts


def test_a_device_has_its_history(served):
    """Copies drawn and listed, and the runs that had it."""
    ada = served.browser("ada")
    assert '<svg class="graph"' in page(served, ada, "/devices/xe1")
    told = view(served, ada, "/devices/xe1")
    assert "graph" not in told
    assert len(told["copies"]) >= 2
    assert len(told["runs"]) == 3


def test_who_may_see_one_site_sees_its_devices_alone(served):
    """Others are not there, and do not count in any median."""
    bob = served.browser("bob")
    assert [one["host"] for one in view(served, bob, "/devices")["devices"]] == ["a/b"]
    assert served.call("GET", "/devices/xe1", bob).status_code == 404
    assert served.call("GET", "/devices/none", bob).status_code == 404
    assert view(served, bob, "/trends")["sites"] == []


def test_trends_are_drawn(served):
    """Of the fleet; without nights that is said."""
    ada = served.browser("ada")
    text = page(served, ada, "/trends")
    assert '<svg class="graph"' in text
    assert "No nights yet" in text
    (site,) = view(served, ada, "/trends")["sites"]
    assert (site["site"], site["devices"]) == ("", 2)


def copy(host: str = "r1", at: str = "2026-11-20T01:00:00+00:00", rate: float = 1e6, **more) -> Measurement:
    given = {"kind": "stage", "tuned": True, "to_null": False, "size_bytes": 10_000_000, "steady_bytes_per_s": None,
             "rtt_s": None, "window_bytes": None, "congestion_control": None, "verdict": "cap",
             "run_id": "run"}  # fmt: skip
    return Measurement(host=host, at=at, duration_s=10_000_000 / rate, rate_bytes_per_s=rate, **given | more)


def test_tuned_copies_as_it_is_and_speed_tests_are_lines_of_their_own():
    """In one order of time, so that what tuning brought is seen."""
    graph = device_graph([copy(rate=1e6, tuned=False), copy(rate=5e6), copy(rate=6e6, to_null=True)])
    assert [(line.label, line.points) for line in graph.lines] == [
        ("tuned", ((1.0, 5e6),)),
        ("as it is", ((0.0, 1e6),)),
        ("speed test", ((2.0, 6e6),)),
    ]
    assert device_graph([]).lines == ()


def test_a_day_of_the_fleet_is_the_median_of_its_copies():
    """One that stalled for hours moves nothing; speed tests write no flash and are none."""
    found = fleet_graph(
        [copy(rate=rate) for rate in (1e6, 2e6, 9e6)] + [copy(at="2026-11-22T01:00:00+00:00", to_null=True)]
    )
    assert [(line.label, line.points) for line in found.lines] == [("tuned", ((0.0, 2e6),))]
    assert found.readings == 1


def test_what_tuning_brought_at_a_site_is_the_quotient_of_its_medians():
    """Where both are known."""
    (ams, lim) = site_speeds(
        [copy(rate=6e6), copy(rate=2e6, tuned=False), copy("r2", rate=5e6), copy("r9")], {"r1": "AMS", "r2": "LIM"}
    )
    assert (ams.gain, ams.copies, ams.limit) == (3.0, 2, "cap")
    assert (lim.gain, lim.tuned_bytes_per_s) == (None, 5e6)
