"""Pages of devices and of what copies ran at, over a journal as a release wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from urllib.parse import urlencode

import pytest

from flashferry.core.values import replace
from flashferry.service.pages.trends import device_graph, fleet_graph, site_speeds
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.grouped_writer import open_database
from flashferry.store.journal import Journal
from flashferry.store.measurements import Measurement
from flashferry.store.service.jobs import latest_jobs
from flashferry.store.transfer_row import TransferEntry
from tests.contract import stored
from tests.served import serve
from tests.unit.service.pages.test_jobs import CHECKED, ended
from tests.unit.service.pages.test_runs import page, view
from tests.unit.store.conftest import TRANSFER
from tests.unit.store.test_status import touch


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
    told = view(served, ada, "/devices")["list"]["rows"]
    assert [one["host"] for one in told] == ["a/b", "xe1", "xe2"]
    assert told[2]["model"] == "CSR1000V"
    assert told[2]["copy"] is not None
    text = page(served, ada, "/devices")
    assert 'href="/devices/a%2Fb"' in text
    assert "a/b" in page(served, ada, "/devices/a%2Fb")


def test_devices_are_chosen_by_words_and_site(served):
    """All words, of any column."""
    ada = served.browser("ada")
    for query, hosts in (
        ("?q=xe+csr", ["xe1", "xe2"]),
        ("?q=192.0.2.9", ["a/b"]),
        ("?site=AMS", ["a/b"]),
        ("?q=nowhere", []),
    ):
        assert [one["host"] for one in view(served, ada, f"/devices{query}")["list"]["rows"]] == hosts


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
    assert [one["host"] for one in view(served, bob, "/devices")["list"]["rows"]] == ["a/b"]
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


HOSTS = """\
r1: {hostname: 192.0.2.1, platform: ios, data: {site: AMS}}
r2: {hostname: 192.0.2.2, platform: ios, data: {site: AMS}}
r3: {hostname: 192.0.2.3, platform: ios, data: {site: LIM}}
r4: {hostname: 192.0.2.4, platform: ios}
"""


@pytest.fixture
def fleet(tmp_path):
    """A service with an inventory and no run; anna operates AMS, carl everything."""
    for name in ("inventory", "images"):
        (tmp_path / name).mkdir()
    (tmp_path / "inventory" / "hosts.yaml").write_text(HOSTS)
    runs = RunSettings(inventory=str(tmp_path / "inventory"), images=tmp_path / "images")
    made = serve(tmp_path / "state", ServiceSettings(runs=runs))
    made.person("anna", "operator@AMS")
    made.person("carl", "operator")
    made.person("vera", "viewer")
    return made


def asked(fleet, who: str, path: str = "/devices", hosts: Sequence[str] = (), **form):
    """Send the form of a page of devices."""
    by = fleet.browser(who)
    content = urlencode([("csrf", by.csrf), *form.items(), *(("hosts", host) for host in hosts)]).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    return fleet.call("POST", path, by, content=content, headers=headers)


def jobs(fleet) -> list:
    with fleet.service.database.reading() as database:
        return latest_jobs(database, 10)


def test_the_inventory_is_listed_before_a_first_run(fleet):
    """Each device once, never checked, sorted by any column; who sees one site sees its devices alone."""
    vera = fleet.browser("vera")
    text = page(fleet, vera, "/devices")
    assert text.count("never checked") >= 4
    assert "Check readiness" not in text
    rows = view(fleet, vera, "/devices?sort=-device")["list"]["rows"]
    assert [one["host"] for one in rows] == ["r4", "r3", "r2", "r1"]
    assert [one["host"] for one in view(fleet, fleet.browser("anna"), "/devices")["list"]["rows"]] == ["r1", "r2"]
    assert "192.0.2.3" in page(fleet, vera, "/devices/r3")
    assert fleet.call("GET", "/devices/r3", fleet.browser("anna")).status_code == 404


def test_an_inventory_that_is_missing_is_named(tmp_path):
    """With what to do; the page still shows the devices of runs."""
    served = serve(tmp_path)
    text = page(served, served.browser(served.person("ada", "viewer")), "/devices")
    assert "no inventory is configured: an admin sets inventory under [runs]" in text


@pytest.mark.parametrize(
    ("what", "verb", "more"),
    [("check", "check", {}), ("probe", "probe", {}), ("ready", "ready", {"image": "new.bin"}), ("plan", "plan", {})],
)
def test_a_selection_becomes_a_job(fleet, what, verb, more):
    """Of the ticked devices alone, at their sites, with the reason; it leads to the page of the job."""
    answer = asked(fleet, "anna", hosts=("r1", "r2"), what=what, reason="new", **more)
    (job,) = jobs(fleet)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job.job_id}")
    assert (job.words[0], job.sites, job.reason) == (verb, ("AMS",), "new")
    assert [word for word in job.words if word.startswith("--host")] == ["--host=r1", "--host=r2"]


def test_everything_that_is_listed_becomes_a_job(fleet):
    """By the filter of the address, over all pages; one device by its own page."""
    assert asked(fleet, "carl", "/devices?site=AMS", what="check", every="true").status_code == 303
    assert jobs(fleet)[0].sites == ("AMS",)
    assert asked(fleet, "carl", "/devices/r4", what="check").status_code == 303
    assert {job.sites for job in jobs(fleet)} == {("AMS",), ()}


def test_who_does_not_operate_a_site_starts_nothing_there(fleet):
    """Named or not: what one may not see is not there, a viewer is refused, a device without a site takes all."""
    assert asked(fleet, "anna", hosts=("r1", "r3"), what="check").status_code == 404
    assert asked(fleet, "anna", "/devices/r3", what="check").status_code == 404
    assert asked(fleet, "vera", hosts=("r1",), what="check").status_code == 403
    fleet.person("olga", "operator@AMS", "viewer")
    for hosts in (("r3",), ("r4",), ("r1", "r3")):
        assert asked(fleet, "olga", hosts=hosts, what="check").status_code == 403
    assert jobs(fleet) == []


def test_a_refused_action_keeps_what_was_ticked(fleet):
    """In the form, on the page that was shown."""
    answer = asked(fleet, "carl", "/devices?q=r&sort=-device", hosts=("r2",), what="recover", reason="why not")
    assert answer.status_code == 409
    assert "expected a device that a run left changed" in answer.text
    assert '<input type="checkbox" class="screen" name="hosts" value="r2" aria-label="r2" checked>' in answer.text
    assert 'value="why not"' in answer.text
    assert 'name="q" type="search" value="r"' in answer.text
    assert asked(fleet, "carl", what="check").status_code == 422


def test_what_a_run_left_is_restored_from_the_list(fleet):
    """A recovery for each run that left one of the devices changed."""
    with Journal(fleet.service.state) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios", site="AMS")
        touch(journal, run_id, "r1")
        journal.finish_run(run_id)
    anna = fleet.browser("anna")
    assert [one["host"] for one in view(fleet, anna, "/devices?state=not+restored")["list"]["rows"]] == ["r1"]
    assert asked(fleet, "anna", hosts=("r1", "r2"), what="recover").status_code == 422
    assert asked(fleet, "anna", hosts=("r1", "r2"), what="recover", reason="died").status_code == 303
    (job,) = jobs(fleet)
    assert (job.kind, job.run_id) == ("recover", run_id)


def test_a_check_tells_model_release_and_readiness(fleet):
    """The newest counts; who may not see all of its job sees nothing of it."""
    for what, document in (
        ("check", {"schema": "flashferry.check/1", "exit_code": 0, "devices": [CHECKED]}),
        ("ready", {"exit_code": 4, "devices": [{"host": "r1", "outcome": "refused", "readiness": {"verdict": "no"}}]}),
    ):
        assert asked(fleet, "carl", hosts=("r1", "r3"), what=what, image="new.bin").status_code == 303
        ended(fleet, next(job.job_id for job in jobs(fleet) if job.kind == what), document)
    carl, anna = fleet.browser("carl"), fleet.browser("anna")
    row = view(fleet, carl, "/devices?q=r1")["list"]["rows"][0]
    assert (row["model"], row["release"], row["ready"]["word"]) == ("C1111-8P", "17.9.4", "not ready")
    assert view(fleet, anna, "/devices?q=r1")["list"]["rows"][0]["model"] == ""
    assert view(fleet, carl, "/devices?state=never+checked")["list"]["total"] == 3


def staged(fleet, outcome: str, check: dict | None = None, *, state: str | None = None, transfer: str = "") -> None:
    """Enter a run with r1 that ended so, with a copy where its outcome is named."""
    with Journal(fleet.service.state) as journal:
        run_id = journal.begin_run("stage")
        more = {"address": "192.0.2.1", "port": 22, "platform": "ios", "site": "AMS", "image": "new.bin"}
        journal.add_device(run_id, host="r1", **more)
        if transfer:
            record = replace(TRANSFER, outcome=transfer, started_at=fleet.clock.now.timestamp())
            of_copy = {"identity": "SN1/r1", "kind": "stage", "tuned": True, "target": "flash:x.bin", "image": "x.bin"}
            journal.add_transfer(run_id, "r1", TransferEntry(record=record, **of_copy))
        journal.record(run_id, "r1", {"host": "r1", "outcome": outcome, "check": check})
        if state is not None:
            with closing(open_database(fleet.service.state)) as database, database:
                database.execute("UPDATE devices SET state = ? WHERE run_id = ?", (state, run_id))
        journal.finish_run(run_id)


def row(fleet, who: str = "carl") -> dict:
    return view(fleet, fleet.browser(who), "/devices?q=r1")["list"]["rows"][0]


def test_what_was_read_of_a_device_outlives_a_run_that_reads_nothing(fleet):
    """Refused by its plan, or out of reach: model and release stay; the newest counts, of a run as of a check."""
    facts = {"facts": {"model": "C1111-8P"}, "version": {"release": "17.6.1"}}
    staged(fleet, "done", facts)
    staged(fleet, "refused")
    assert (row(fleet)["model"], row(fleet)["release"]) == ("C1111-8P", "17.6.1")
    assert row(fleet)["newest"]["word"] == "refused"
    for document in (CHECKED, {"host": "r1", "outcome": "failed", "check": None}):
        asked(fleet, "carl", hosts=("r1",), what="check")
        newest = next(job.job_id for job in jobs(fleet) if job.ended_at is None)
        ended(fleet, newest, {"schema": "flashferry.check/1", "devices": [document]})
        fleet.clock.now += timedelta(minutes=1)
    staged(fleet, "refused")
    assert row(fleet)["release"] == "17.6.1", "the check ended in 2026 by the test's words, before the run"
    with fleet.service.database.writing() as database:
        database.execute("UPDATE jobs SET ended_at = '2999'")
    assert row(fleet)["release"] == "17.9.4"


def test_the_last_copy_is_one_that_was_completed_and_verified(fleet):
    """A copy that was cut, or whose file was not what it should be, is none."""
    staged(fleet, "interrupted", state="failed", transfer="the run was stopped")
    staged(fleet, "failed", state="failed", transfer="delivered")
    assert row(fleet)["copied_at"] == ""
    assert "the run was stopped" in page(fleet, fleet.browser("carl"), "/devices/r1")
    staged(fleet, "done", state="done", transfer="delivered")
    assert row(fleet)["copied_at"] == fleet.clock.now.isoformat(timespec="milliseconds")


def test_two_thousand_devices_are_listed_by_the_hundred(fleet, tmp_path):
    """In 300 kB, also with what can be done with them."""
    lines = (f"r{n:04d}: {{hostname: 192.0.2.1, platform: ios, data: {{site: S{n % 40:02d}}}}}\n" for n in range(2000))
    (tmp_path / "inventory" / "hosts.yaml").write_text("".join(lines))
    text = page(fleet, fleet.browser("carl"), "/devices")
    assert "1 to 100 of 2000" in text
    assert len(text.encode()) < 300_000
