"""Pages of what goes on: who sees which run, what is chosen, and what is shown."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime

import pytest

from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.principal import SYSTEM
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.grouped_writer import open_database
from flashferry.store.journal import Journal
from flashferry.store.service.images import ImageState, add_image
from flashferry.store.service.jobs import JobKind, JobState, end_job, latest_jobs
from tests.contract import stored
from tests.served import serve
from tests.unit.service.plans.conftest import image
from tests.unit.store.test_status import touch


@pytest.fixture
def served(tmp_path, monkeypatch):
    found = serve(tmp_path)
    found.clock.now = datetime.now(UTC)  # that of the journal
    monkeypatch.setattr(SnapshotReader, "FRESH_S", 0.0)
    return found


@pytest.fixture
def run_id(served):
    """A run that lives: a device at AMS that is changed, one at LIM that waits."""
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage", {"policy": {"policy": {"approve": True}}})
        journal.add_device(found, host="r1", address="192.0.2.1", port=22, platform="ios", site="AMS")
        journal.add_device(found, host="r2/x", address="192.0.2.2", port=22, platform="ios", site="LIM", wave=1)
        touch(journal, found, "r1")
        yield found


def page(served, by, path: str) -> str:
    answer = served.call("GET", path, by, headers={"Accept": "text/html"})
    assert answer.status_code == 200, answer.text
    return answer.text


def view(served, by, path: str) -> dict:
    return served.view(path, by)


def test_a_viewer_sees_runs_waves_and_devices(served, run_id):
    """On the page, and as figures in its view."""
    ada = served.browser(served.person("ada", "viewer"))
    assert run_id in page(served, ada, "/tonight")
    assert run_id in page(served, ada, "/runs")
    text = page(served, ada, f"/runs/{run_id}")
    assert 'data-row="r1"' in text
    assert f'href="/runs/{run_id}/devices/r2%2Fx"' in text
    told = view(served, ada, f"/runs/{run_id}")
    assert told["run"]["whole"]["devices"] == 2
    assert [one["host"] for one in told["list"]["rows"]] == ["r1", "r2/x"]
    assert list(told["shown"]["waves"]) == ["0", "1"]
    assert "devices" not in view(served, ada, "/tonight")["runs"][0]


def test_who_may_see_one_site_sees_no_other(served, run_id):
    """Its devices are not there for him; a run that touches none of his sites is none."""
    bob = served.browser(served.person("bob", "viewer@LIM"))
    eve = served.browser(served.person("eve", "viewer@GVA"))
    for path in ("/tonight", "/runs", f"/runs/{run_id}"):
        assert "AMS" not in json.dumps(view(served, bob, path))
        assert "LIM" in json.dumps(view(served, bob, path)) or path == "/runs"
    assert served.call("GET", f"/runs/{run_id}/devices/r1", bob).status_code == 404
    assert served.call("GET", f"/runs/{run_id}/devices/r2%2Fx", bob).status_code == 200
    assert served.call("GET", f"/runs/{run_id}", eve).status_code == 404
    assert view(served, eve, "/runs")["runs"] == []


@pytest.mark.parametrize(
    ("query", "hosts"),
    [
        ("", ["r1", "r2/x"]),
        ("?state=queued", ["r2/x"]),
        ("?q=ams", ["r1"]),
        ("?q=LIM+r2", ["r2/x"]),
        ("?state=failed", []),
        ("?state=nonsense", ["r1", "r2/x"]),
    ],
)
def test_devices_are_chosen_by_state_and_words(served, run_id, query, hosts):
    """Of name, site, step and reason."""
    ada = served.browser(served.person("ada", "viewer"))
    assert [one["host"] for one in view(served, ada, f"/runs/{run_id}{query}")["list"]["rows"]] == hosts


def test_a_run_that_is_not_there_is_told_so(served):
    """And a device that a run does not have."""
    ada = served.browser(served.person("ada", "viewer"))
    for path in ("/runs/none", "/runs/none/devices/r1"):
        assert served.call("GET", path, ada).status_code == 404


def test_many_runs_stand_on_several_pages(served):
    """The latest first, each once."""
    ada = served.browser(served.person("ada", "viewer"))
    with Journal(served.service.state) as journal:
        ids = [journal.begin_run("stage") for _ in range(33)]
        for run_id in ids:
            journal.add_device(run_id, host="r", address="192.0.2.1", port=22, platform="ios")
            journal.finish_run(run_id)
    first, second = view(served, ada, "/runs"), view(served, ada, "/runs?page=2")
    shown = [one["run_id"] for one in (*first["runs"], *second["runs"])]
    assert (len(first["runs"]), first["pages"], sorted(shown)) == (30, 2, sorted(ids))
    assert 'href="?page=2"' in page(served, ada, "/runs")


def test_a_device_has_what_the_report_says_of_it(tmp_path):
    """Of a journal as a release wrote it: proof, steps, copies; the view has no HTML beside its own and no readings."""
    state = tmp_path / "state"
    probe, *_ = stored.lay_out(state)
    served = serve(state)
    ada = served.browser(served.person("ada", "viewer"))
    text = page(served, ada, f"/runs/{probe}/devices/xe1")
    assert text.count('<svg class="graph"') == 12
    assert "style=" not in text
    assert "Configuration: " in text
    told = view(served, ada, f"/runs/{probe}/devices/xe1")
    assert "section" not in told
    assert told["report"]["transfers"]
    assert "samples" not in told["report"]["transfers"][0]


def test_a_devices_page_names_its_wave_as_the_run_does(served):
    """By number and name, the first wave too."""
    waves = [{"number": 0, "name": "canary"}, {"number": 1, "name": "site AMS"}]
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage", {"waves": waves})
        for wave in (0, 1):
            journal.add_device(found, host=f"r{wave}", address="192.0.2.1", port=22, platform="ios", wave=wave)
        ada = served.browser(served.person("ada", "viewer"))
        for host, wave in (("r0", "0 (canary)"), ("r1", "1 (site AMS)")):
            assert f"<dt>Wave</dt><dd>{wave}</dd>" in page(served, ada, f"/runs/{found}/devices/{host}")


def test_who_operates_a_run_steps_in_by_forms(served, run_id):
    """With a reason, which stands at the run; who only looks, or operates one of its sites, is offered none."""
    ann = served.browser(served.person("ann", "operator"))
    for name, grants in (("vera", ("viewer",)), ("lima", ("operator@LIM",))):
        text = page(served, served.browser(served.person(name, *grants)), f"/runs/{run_id}")
        assert "Stop and restore" not in text
        assert "Approve" not in text
    text = page(served, ann, f"/runs/{run_id}")
    assert f'formaction="/runs/{run_id}/pause"' in text
    answer = served.call("POST", f"/runs/{run_id}/pause", ann, form={"reason": "a <b>storm</b>"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run_id}")
    text = page(served, ann, f"/runs/{run_id}")
    assert "a &lt;b&gt;storm&lt;/b&gt;" in text
    assert re.search(r"Paused since [0-9:]{5} UTC: running devices finish, no new ones start\.", text)
    assert 'data-cell="steering" data-tone="paused"' in text
    told = view(served, ann, f"/runs/{run_id}")["run"]
    assert (told["hold"], told["steer_requests"][0]["actor"]) == ("paused", "ann")
    assert served.call("POST", f"/runs/{run_id}/continue", ann, form={"reason": " "}).status_code == 422


def test_who_steers_sees_at_once_that_it_was_done(served, run_id, monkeypatch):
    """On the page that the form leads to, although pages share a snapshot for a while."""
    monkeypatch.setattr(SnapshotReader, "FRESH_S", 3600.0)
    ann, path = served.browser(served.person("ann", "operator")), f"/runs/{run_id}"
    assert "Operator actions so far" not in page(served, ann, path)
    assert served.call("POST", f"{path}/pause", ann, form={"reason": "storm"}).status_code == 303
    assert "Operator actions so far" in page(served, ann, path)


def test_who_approves_is_offered_the_waves(served, run_id):
    """At all sites of the run."""
    text = page(served, served.browser(served.person("olga", "approver")), f"/runs/{run_id}")
    assert f'action="/runs/{run_id}/approve"' in text
    assert "Approve" not in page(served, served.browser(served.person("lim", "approver@LIM")), f"/runs/{run_id}")


def test_waves_that_wait_for_nobody_are_not_offered(served):
    """A run whose plan asks for no approval of its waves."""
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage", {"policy": {"policy": {"approve": False}}})
        for wave in (0, 1):
            journal.add_device(found, host=f"r{wave}", address="192.0.2.1", port=22, platform="ios", wave=wave)
        text = page(served, served.browser(served.person("olga", "approver")), f"/runs/{found}")
    assert "Approve waves ahead" not in text


def test_only_a_paused_run_is_continued(served, run_id):
    """Else the form says so, its reason kept; and the page offers what fits, by a cell that follows the run."""
    ann = served.browser(served.person("ann", "operator"))
    path = f"/runs/{run_id}"
    assert 'data-cell="steering" data-tone=""' in page(served, ann, path)
    answer = served.call("POST", f"{path}/continue", ann, form={"reason": "well"}, headers={"Accept": "text/html"})
    assert answer.status_code == 409
    assert "is not paused: expected one that is" in answer.text
    assert 'value="well"' in answer.text
    assert served.call("POST", f"{path}/pause", ann, form={"reason": "x"}).status_code == 303
    assert served.call("POST", f"{path}/continue", ann, form={"reason": "x"}).status_code == 303


def test_while_a_recovery_is_at_work_no_other_is_offered(served):
    """The page of a dead run names the job; once that has ended without success, an operator may try."""
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage", {})
        journal.add_device(found, host="r1", address="192.0.2.1", port=22, platform="ios", site="AMS")
        touch(journal, found, "r1")
    ann, path = served.browser(served.person("ann", "operator")), f"/runs/{found}"
    text = page(served, ann, path)
    assert "Restore devices" in text
    assert "Recovery is at work" not in text
    with served.service.database.writing() as database:
        spec = JobSpec(kind=JobKind.RECOVER, run_id=found, sites=("AMS",), reason="job j1 died")
        job_id = request_job(served.service, database, SYSTEM, spec).job_id
    text = page(served, ann, path)
    assert "Restore devices" not in text
    assert f'Recovery is at work: <a href="/jobs/{job_id}">job {job_id}</a>' in text
    with served.service.database.writing() as database:
        end_job(database, job_id, at="2026", state=JobState.ENDED, exit_code=5, sentence="not proven")
    text = page(served, ann, path)
    assert "Restore devices" in text
    assert "Recovery is at work" not in text


def test_stopping_asks_first_and_says_what_happens(served, run_id):
    """To copies, to changed devices and to those that wait; in a form of its own."""
    text = page(served, served.browser(served.person("ann", "operator")), f"/runs/{run_id}")
    question = text[text.index("<summary>Stop and restore") : text.index(f'action="/runs/{run_id}/stop"')]
    for part in ("Copies under way are cut", "Every device that was changed is restored", "have not started stay"):
        assert part in question
    assert f'formaction="/runs/{run_id}/stop"' not in text


def test_two_thousand_devices_are_a_page_of_a_hundred(served):
    """The run's page in 300 kB, sorted and filtered by its address; devices in no wave have no wave -1."""
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage")
        for number in range(2000):
            more = {
                "address": "192.0.2.1",
                "port": 22,
                "platform": "ios",
                "image": "c1100-universalk9.17.12.04.SPA.bin",
            }
            site, wave = f"S{number % 40:02d}", number % 5 - 1
            journal.add_device(found, host=f"ams-branch-r{number:04d}", site=site, wave=wave, **more)
    ada = served.browser(served.person("ada", "viewer", "operator", "approver"))
    text = page(served, ada, f"/runs/{found}")
    assert len(text.encode()) < 300_000
    assert "wave -1" not in text
    assert "1 to 100 of 2000" in text
    last = view(served, ada, f"/runs/{found}?sort=-device&page=20&q=ams")["list"]
    assert [one["host"] for one in last["rows"]][-1] == "ams-branch-r0000"
    assert f'data-runs="{found}?q=ams&amp;sort=-device&amp;page=20"' in page(
        served, ada, f"/runs/{found}?sort=-device&page=20&q=ams"
    ), "the stream has the rows of this page alone"
    second = page(served, ada, f"/runs/{found}?sort=-device&page=19&q=ams")
    assert f'href="/runs/{found}?q=ams&amp;sort=-device&amp;page=20"' in second
    assert f'href="/runs/{found}?q=ams&amp;sort=device"' in second


def test_what_a_run_left_undone_is_planned_by_a_link(tmp_path):
    """Its devices that are not done; refused ones stand apart, as they would be refused again.

    For a run that lives, or left none, it is refused.
    """
    images = tmp_path / "images"
    images.mkdir()
    served = serve(tmp_path / "state", ServiceSettings(runs=RunSettings(images=images, inventory="/etc/fleet")))
    served.clock.now = datetime.now(UTC)
    ann = served.browser(served.person("ann", "operator@AMS"))
    with served.service.database.writing() as database:
        add_image(database, image("new.bin", state=ImageState.PUBLISHED, sha512="0" * 128, uploaded_by="ann"))
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage")
        for host, outcome in (("r1", "done"), ("r2", "failed"), ("r3", "refused"), ("r4", "not begun")):
            more = {"address": "192.0.2.1", "port": 22, "platform": "ios", "site": "AMS", "image": "new.bin"}
            journal.add_device(found, host=host, **more)
            journal.record(found, host, {"host": host, "outcome": outcome, "failure": {"reason": "<b>flash full"}})
        assert served.call("GET", f"/plans?unfinished={found}", ann).status_code == 409
        journal.finish_run(found)
    assert f'href="/plans?unfinished={found}#make"' in page(served, ann, f"/runs/{found}")
    text = page(served, ann, f"/plans?unfinished={found}")
    assert "Only the 2 devices of run" in text
    assert "<option selected>new.bin</option>" in text
    assert "Left out: 1 device that was refused" in text
    assert '<a href="/devices/r3">r3</a>: &lt;b&gt;flash full' in text
    answer = served.call("POST", "/plans/make", ann, form={"unfinished": found})
    assert answer.status_code == 303, answer.text
    with served.service.database.reading() as database:
        (job,) = latest_jobs(database, 10)
    assert [word for word in job.words if word.startswith("--host")] == ["--host=r2", "--host=r4"]
    assert job.sites == ("AMS",)


def test_a_run_that_left_only_refused_devices_offers_no_plan_of_them(served):
    """Nor of those that its plan left as they are: another plan would do the same."""
    with Journal(served.service.state) as journal:
        found = journal.begin_run("stage")
        for host, outcome in (("r1", "refused"), ("r2", "not begun")):
            journal.add_device(found, host=host, address="192.0.2.1", port=22, platform="ios")
            journal.record(found, host, {"host": host, "outcome": outcome})
        with closing(open_database(served.service.state)) as database, database:
            database.execute("UPDATE devices SET state = 'done' WHERE host = 'r2'")
        journal.finish_run(found)
    ann = served.browser(served.person("ann", "operator"))
    assert "Plan only" not in page(served, ann, f"/runs/{found}")
    assert served.call("GET", f"/plans?unfinished={found}", ann).status_code == 409
