"""Jobs and runs for programs: what each route answers, and what stands in audit and journal behind it."""

from __future__ import annotations

import re

import pytest

from flashferry.core.jobs import JobFolder
from flashferry.core.values import replace
from flashferry.service.api import jobs, runs
from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.principal import SYSTEM, Actor, Grant, Role
from flashferry.store.control_requests import Origin
from flashferry.store.journal import Journal
from flashferry.store.service.audit import entries
from flashferry.store.service.jobs import JobKind, JobState, claim_job, end_job, job_of, latest_jobs
from flashferry.store.stored_run import read_run
from tests.unit.service.plans.calling import client

from .conftest import AT, DIGEST, OTHERS


@pytest.fixture
def call(service, anna, monkeypatch):
    """Call as anna, or as who is given."""
    # Their texts are none; what is looked at there is for the tests of plans.
    monkeypatch.setattr("flashferry.service.plans.planning.image_obstacle", lambda service, digest: "")

    def made(path, body=None, *, actor=anna, **headers):
        router = runs.router if path.startswith("/runs") else jobs.router
        opened = client(service, actor, router)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            return opened.get(f"/api/v1{path}", headers=named)
        return opened.post(f"/api/v1{path}", json=body, headers=named)

    return made


@pytest.fixture
def eve(anna: Actor) -> Actor:
    """One who may look at AMS, and nothing else."""
    return replace(anna, name="ben", grants=frozenset({Grant(role=Role.VIEWER, site="AMS")}))


@pytest.fixture
def journal(service):
    with Journal(service.state, Origin(actor="anna")) as opened:
        yield opened


@pytest.fixture
def run_id(journal):
    """A run of AMS under way, of the approved plan."""
    found = journal.begin_run("stage", {"plan": {"path": "/p", "digest": DIGEST}})
    journal.add_device(found, host="r1", address="x", port=22, platform="ios", site="AMS", wave=0, image="x.bin")
    return found


def audit(service):
    with service.database.reading() as database:
        return [(one.entry.action, one.entry.outcome, one.entry.object) for one in entries(database)]


def test_an_approved_plan_is_begun(call, service):
    """202, where to look, and the job as it stands; nothing of its command line is told."""
    answer = call("/runs", {"plan": DIGEST, "reason": "tonight"})
    job = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (202, f"/api/v1/jobs/{job['job_id']}")
    assert (job["kind"], job["state"], job["digest"], job["reason"]) == ("stage", "queued", DIGEST, "tonight")
    assert "words" not in job
    assert call(f"/jobs/{job['job_id']}").json() == job | {"result": None}
    assert call("/jobs").json()["jobs"] == [job]


def test_what_changes_no_device_may_be_asked_for_at_the_start(call, service):
    """Beyond the plan that was approved; what is sent to change a device is not."""
    job_id = call("/runs", {"plan": DIGEST, "verify_signature": True, "ready": True}).json()["job_id"]
    with service.database.reading() as database:
        assert {"--verify-signature", "--ready"} <= set(job_of(database, job_id).words)
    for name in ("add", "dead_man"):
        assert call("/runs", {"plan": DIGEST, name: True}).status_code == 422


def test_a_queued_job_is_cancelled_with_a_reason(call, service):
    """It is over for good, with who and why at the job and in the audit; its plan can be begun anew."""
    job_id = call("/runs", {"plan": DIGEST}).json()["job_id"]
    assert call(f"/jobs/{job_id}/cancel", {"reason": " "}).status_code == 422
    found = call(f"/jobs/{job_id}/cancel", {"reason": "wrong night"}).json()
    assert (found["state"], found["exit_code"], found["is_open"]) == ("ended", None, False)
    assert found["sentence"] == "cancelled by anna: wrong night"
    assert audit(service)[1:] == [("job.cancel", "refused", f"job:{job_id}"), ("job.cancel", "done", f"job:{job_id}")]
    assert call("/runs", {"plan": DIGEST}).status_code == 202


@pytest.mark.parametrize("is_over", [False, True])
def test_a_job_that_began_is_not_cancelled(call, service, is_over):
    """409, in the audit, and it goes on."""
    job_id = call("/runs", {"plan": DIGEST}).json()["job_id"]
    with service.database.writing() as database:
        claim_job(database, job_id, at=AT, unit=None)
        if is_over:
            end_job(database, job_id, at=AT, state=JobState.ENDED, exit_code=0, sentence="")
    answer = call(f"/jobs/{job_id}/cancel", {"reason": "x"})
    assert (answer.status_code, ("has ended" in answer.json()["detail"])) == (409, is_over)
    assert audit(service)[-1] == ("job.cancel", "refused", f"job:{job_id}")
    with service.database.reading() as database:
        assert job_of(database, job_id).state == (JobState.ENDED if is_over else JobState.STARTING)


def test_who_does_not_operate_a_jobs_sites_does_not_cancel_it(call, service, eve, chief):
    """Who may look is told so; a job that may touch all sites takes the role everywhere."""
    job_id = call("/runs", {"plan": DIGEST}).json()["job_id"]
    assert call(f"/jobs/{job_id}/cancel", {"reason": "x"}, actor=eve).status_code == 403
    everywhere = call("/checks", {}, actor=chief).json()["job_id"]
    assert call(f"/jobs/{everywhere}/cancel", {"reason": "x"}).status_code == 404
    assert call(f"/jobs/{everywhere}/cancel", {"reason": "x"}, actor=chief).status_code == 200


def test_a_run_is_told_when_to_end_and_waits_until_it_may_begin(call, service):
    """Both are told of its job, in UTC, and its verb is told its end: never later than the plan's."""
    with service.database.writing() as database:
        database.execute("UPDATE plans SET ends_at = '2026-11-24T05:00:00.000Z'")
    body = {"plan": DIGEST, "not_before": "2026-11-23T23:00:00+01:00", "until": "2026-11-24T09:00:00+01:00"}
    found = call("/runs", body, idempotency_key="k").json()
    assert (found["not_before"], found["until"]) == ("2026-11-23T22:00:00.000Z", "2026-11-24T05:00:00.000Z")
    with service.database.reading() as database:
        assert job_of(database, found["job_id"]).words[-2:] == ("--until", "2026-11-24T05:00:00+00:00")
        (entry,) = [one.entry for one in entries(database)]
    assert "2026-11-23T22:00:00.000Z" in entry.after
    assert call("/runs", body, idempotency_key="k").json()["job_id"] == found["job_id"]


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ({"until": "2026-11-23T11:59:00Z"}, "until: expected a time after 2026-11-23 12:00:00 UTC"),
        ({"not_before": "2026-11-23T22:00:00Z", "until": "2026-11-23T22:00:00Z"}, "until: expected a time after"),
        ({"not_before": "2026-11-24T05:00:00Z"}, "not_before: expected a time before the plan's end"),
        ({"not_before": "9999-12-31T23:00:00-12:00"}, "not_before: expected a time of this millennium"),
    ],
)
def test_times_that_leave_a_run_none_are_refused(call, service, times, told):
    """Each with its sentence, and nothing is entered."""
    with service.database.writing() as database:
        database.execute("UPDATE plans SET ends_at = '2026-11-24T05:00:00.000Z'")
    answer = call("/runs", {"plan": DIGEST} | times)
    assert (answer.status_code, told in answer.json()["detail"]) == (422, True), answer.text
    assert call("/jobs").json()["jobs"] == []


@pytest.mark.parametrize("at", ["2026-11-23T22:00:00", "tonight", ""])
def test_a_time_without_its_zone_is_none(call, at):
    """Nobody knows whose clock is meant."""
    assert call("/runs", {"plan": DIGEST, "not_before": at}).status_code == 422


@pytest.mark.parametrize(("plan", "status"), [(OTHERS, 403), ("ef" * 32, 404)])
def test_no_other_plan_is_begun(call, service, plan, status):
    """The refusal is a problem with a hint, and stands in the audit."""
    answer = call("/runs", {"plan": plan})
    assert answer.status_code == status
    assert answer.json()["hint"]
    if status == 403:
        assert audit(service) == [("run.start", "refused", f"plan:{OTHERS}")]
    with service.database.reading() as database:
        assert latest_jobs(database, 9) == []


def test_a_request_that_is_sent_again_makes_no_second_job(call, service):
    """The same key answers the same job, also after its end; for something else, or of somebody else, it is another."""
    first = call("/runs", {"plan": DIGEST}, idempotency_key="k1").json()["job_id"]
    assert call("/runs", {"plan": DIGEST}, idempotency_key="k1").json()["job_id"] == first
    assert call("/runs", {"plan": DIGEST}, idempotency_key="k2").status_code == 409
    with service.database.writing() as database:
        end_job(database, first, at=AT, state=JobState.ENDED, exit_code=0, sentence="")
    again = call("/runs", {"plan": DIGEST}, idempotency_key="k1")
    assert (again.status_code, again.json()["job_id"], again.json()["state"]) == (202, first, "ended")
    assert call("/checks", {}, idempotency_key="k1").status_code == 422
    assert call("/checks", {}, idempotency_key="").status_code == 422


def test_checks_and_probes_keep_to_the_sites_of_who_asks(call, service, chief):
    """Named or not; where somebody operates all, nothing is said."""
    one = call("/checks", {"hosts": ["r1"], "reach": True, "transport": "ftp,scp"}).json()
    other = call("/probes", {"how": "tuned", "seconds": 4}, actor=chief).json()
    assert call("/checks", {"sites": ["LIM"]}).status_code == 403
    with service.database.reading() as database:
        first, second = (job_of(database, found["job_id"]) for found in (one, other))
    assert (first.sites, second.sites) == (("AMS",), ())
    assert "--filter=site=AMS" in first.words
    assert first.words[-3:] == ("--reach", "--transport", "ftp,scp")
    assert second.words[-3:] == ("--seconds", "4.0", "--tuned")


@pytest.fixture
def inventory(service, tmp_path):
    """Have the service know a folder with a device at AMS and one at LIM."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    (folder / "hosts.yaml").write_text(
        "{r1: {hostname: 192.0.2.1, groups: [core], data: {site: AMS, rack: 7}},"
        " r2: {hostname: 192.0.2.2, groups: [core], data: {site: LIM}}}"
    )
    (folder / "groups.yaml").write_text("core: {platform: ios}")
    runs = replace(service.settings.runs, inventory=str(folder))
    object.__setattr__(service, "settings", replace(service.settings, runs=runs))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"sites": ["AMS", "LMI"]}, "site=LMI: no device has that site (did you mean 'LIM'?)"),
        ({"hosts": ["r1", "r11"]}, "unknown device 'r11' (did you mean 'r1'?)"),
        ({"groups": ["cores"]}, "unknown group 'cores' (did you mean 'core'?)"),
        ({"filters": ["rck=7"]}, "no device has 'rck' (did you mean 'rack'?)"),
    ],
)
def test_what_the_inventory_does_not_have_is_refused_at_once(call, chief, inventory, body, sentence):
    """Each single value, with what may have been meant; nothing is entered, and known values are taken."""
    refused = call("/checks", body, actor=chief)
    assert refused.status_code == 422
    assert sentence in refused.json()["detail"]
    assert call("/jobs", actor=chief).json()["jobs"] == []
    assert call("/checks", {"sites": ["AMS"], "hosts": ["r1"], "groups": ["core"]}, actor=chief).status_code == 202


def test_who_may_not_is_refused_for_that_first(call, inventory):
    """What the inventory has is nothing for who operates another site."""
    assert call("/checks", {"sites": ["LMI"]}).status_code == 403


def test_a_role_at_a_site_without_devices_keeps_no_job_from_the_others(call, service, chief, inventory):
    """Sites that were not named are those of the roles, as far as they have devices."""
    roles = frozenset(Grant(role=Role.OPERATOR, site=site) for site in ("AMS", "GONE"))
    found = call("/checks", {}, actor=replace(chief, grants=roles))
    assert found.status_code == 202
    with service.database.reading() as database:
        assert job_of(database, found.json()["job_id"]).sites == ("AMS",)


@pytest.mark.parametrize(
    "body", [{"transport": "pigeon"}, {"filters": ["site=LIM"]}, {"image": "../x"}, {"command": "reload"}, {"hosts": 1}]
)
def test_what_is_no_check_is_refused(call, body):
    """With a status that programs understand, and nothing is entered."""
    assert call("/checks", body).status_code == 422
    assert call("/jobs").json()["jobs"] == []


def test_a_dry_run_is_of_a_plan_or_an_image(call, service):
    """Neither is a mistake."""
    assert call("/dry-runs", {"plan": DIGEST}).json()["digest"] == DIGEST
    assert call("/dry-runs", {"image": "a.bin"}).json()["kind"] == "dry-run"
    assert call("/dry-runs", {}).status_code == 422


def test_what_a_jobs_verb_printed_is_told_once_it_ended(call, service):
    """Its document, as it is."""
    job_id = call("/checks", {}).json()["job_id"]
    folder = JobFolder.of(service.state, job_id)
    folder.make()
    folder.write(folder.result, '{"exit_code": 3, "devices": []}')
    assert call(f"/jobs/{job_id}").json()["result"] is None
    assert call(f"/jobs/{job_id}/result").status_code == 404
    with service.database.writing() as database:
        end_job(database, job_id, at=AT, state=JobState.ENDED, exit_code=3, sentence="no")
    found = call(f"/jobs/{job_id}").json()
    assert (found["exit_code"], found["result"]) == (3, {"exit_code": 3, "devices": []})
    assert call(f"/jobs/{job_id}/result").text == '{"exit_code": 3, "devices": []}'
    folder.write(folder.result, '"' + "x" * 2_000_000 + '"')
    assert call(f"/jobs/{job_id}").json()["result"] is None
    assert len(call(f"/jobs/{job_id}/result").content) == 2_000_002


def test_who_may_not_see_a_job_or_a_run_is_told_of_none(call, anna, eve, chief, run_id):
    """404, and in no list."""
    blind = replace(anna, name="x", grants=frozenset({Grant(role=Role.VIEWER, site="LIM")}))
    job_id = call("/runs", {"plan": DIGEST}).json()["job_id"]
    for path in (f"/jobs/{job_id}", f"/runs/{run_id}", f"/runs/{run_id}/devices", f"/runs/{run_id}/report.json"):
        assert call(path, actor=eve).status_code == 200
        assert call(path, actor=blind).status_code == 404
    assert call("/jobs", actor=blind).json()["jobs"] == []
    assert call("/runs", actor=blind).json()["runs"] == []
    assert call(f"/runs/{run_id}/pause", {"reason": "x"}, actor=blind).status_code == 404


def test_a_run_is_steered_with_a_reason(call, service, run_id, journal):
    """What is wanted of it is answered; name, way and reason stand at the run, and in the audit."""
    paused = call(f"/runs/{run_id}/pause", {"reason": "link down"}).json()
    assert (paused["paused"], paused["stopping"]) == (True, False)
    assert call(f"/runs/{run_id}/continue", {"reason": "link up"}).json()["paused"] is False
    assert call(f"/runs/{run_id}/stop", {"reason": "enough"}).json()["stopping"] is True
    wishes = call(f"/runs/{run_id}").json()["wishes"]
    assert [(one["what"], one["actor"], one["via"], one["reason"]) for one in wishes] == [
        ("pause", "anna", "session", "link down"),
        ("continue", "anna", "session", "link up"),
        ("stop", "anna", "session", "enough"),
    ]
    steps = [(what, outcome) for what in ("pause", "continue", "stop") for outcome in ("asked", "done")]
    assert audit(service) == [(f"run.{what}", outcome, f"run:{run_id}") for what, outcome in steps]
    assert read_run(service.state, run_id).steer_requests[0].reason == "link down"


JOURNAL_IS_FULL = (
    "CREATE TRIGGER full BEFORE INSERT ON steer_requests BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
)
AUDIT_IS_FULL = (
    "CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.outcome <> 'asked' "
    "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
)


def test_what_the_run_was_not_told_stands_in_the_audit_as_failed(call, service, run_id, journal):
    """Its journal takes nothing: 507, the run goes on as it did, and no entry says otherwise."""
    journal._write(JOURNAL_IS_FULL, ())
    answer = call(f"/runs/{run_id}/stop", {"reason": "enough"})
    assert (answer.status_code, "did not receive" in answer.json()["detail"]) == (507, True), answer.text
    assert audit(service) == [("run.stop", "asked", f"run:{run_id}"), ("run.stop", "failed", f"run:{run_id}")]
    assert call(f"/runs/{run_id}").json()["control"]["stopping"] is False
    journal._write("DROP TRIGGER full", ())
    assert call(f"/runs/{run_id}/stop", {"reason": "enough"}).json()["stopping"] is True
    assert audit(service)[-1] == ("run.stop", "done", f"run:{run_id}")


@pytest.mark.parametrize("is_told", [True, False])
def test_an_outcome_that_the_audit_cannot_take_is_in_the_log(call, service, run_id, journal, caplog, is_told):
    """Told or not, who asked is answered as it is; the audit says that it was asked for, which is true of both."""
    with service.database.writing() as database:
        database.execute(AUDIT_IS_FULL)
    if not is_told:
        journal._write(JOURNAL_IS_FULL, ())
    assert call(f"/runs/{run_id}/pause", {"reason": "x"}).status_code == (200 if is_told else 507)
    assert audit(service) == [("run.pause", "asked", f"run:{run_id}")]
    assert f"run.pause of run:{run_id} by anna: {'done' if is_told else 'failed'}" in caplog.text
    assert call(f"/runs/{run_id}").json()["control"]["paused"] is is_told


def test_who_sees_one_site_sees_its_part_of_a_run(call, service, eve, journal, run_id):
    """Its devices, waves, report and jobs; nothing names the others. Who steers needs all of them."""
    journal.add_device(run_id, host="lim-r2", address="y", port=22, platform="ios", site="LIM", wave=1, image="y.bin")
    journal.add_device(run_id, host="no-site", address="z", port=22, platform="ios", wave=1, image="y.bin")
    with service.database.writing() as database:
        job = request_job(service, database, SYSTEM, JobSpec(kind=JobKind.RESUME, run_id=run_id, sites=("AMS", "LIM")))
        end_job(database, job.job_id, at=AT, state=JobState.ENDED, exit_code=3, sentence="lim-r2 failed")
    folder = JobFolder.of(service.state, job.job_id)
    folder.make()
    folder.write(folder.result, '{"devices": ["lim-r2"]}')
    paths = [f"/runs/{run_id}", f"/runs/{run_id}/devices", "/runs", "/jobs", f"/jobs/{job.job_id}"]
    paths += [f"/runs/{run_id}/report.{form}" for form in ("html", "json", "csv", "xml")]
    for path in paths:
        answer = call(path, actor=eve)
        assert answer.status_code == 200
        assert not re.search("lim-r2|LIM|no-site|y[.]bin", answer.text), path
        assert "r1" in answer.text or "/runs/" not in path or path == f"/runs/{run_id}"
    assert "left out" in call(f"/runs/{run_id}/report.json", actor=eve).text
    answer = call(f"/jobs/{job.job_id}/result", actor=eve)
    assert (answer.status_code, "covers sites" in answer.json()["detail"]) == (403, True)
    for what in ("pause", "stop", "resume", "recover"):
        one_site = replace(eve, grants=frozenset({Grant(role=Role.OPERATOR, site="AMS")}))
        assert call(f"/runs/{run_id}/{what}", {"reason": "x"}, actor=one_site).status_code in (403, 409)
    assert call(f"/runs/{run_id}").json()["wishes"] == []


@pytest.mark.parametrize(("reason", "who", "status"), [("", "anna", 422), ("  ", "anna", 422), ("x", "eve", 403)])
def test_steering_takes_a_reason_and_the_role(call, service, run_id, anna, eve, reason, who, status):
    """Else nothing is done, and that stands in the audit."""
    actor = {"anna": anna, "eve": eve}[who]
    for what in ("pause", "stop"):
        assert call(f"/runs/{run_id}/{what}", {"reason": reason}, actor=actor).status_code == status
    assert call(f"/runs/{run_id}").json()["wishes"] == []
    assert {outcome for _, outcome, _ in audit(service)} == {"refused"}


def test_what_the_state_forbids_is_a_conflict(call, service, run_id, journal):
    """Nothing is restored or gone on with while it is under way; nothing is steered that is not."""
    why = {"reason": "x"}
    assert call(f"/runs/{run_id}/resume", why).status_code == 409
    assert call(f"/runs/{run_id}/recover", why).status_code == 409
    journal.finish_run(run_id)
    assert call(f"/runs/{run_id}/pause", why).status_code == 409
    assert call(f"/runs/{run_id}/recover", why).status_code == 409
    assert {outcome for _, outcome, _ in audit(service)} == {"refused"}


def test_a_dead_run_is_restored_and_gone_on_with(call, service, run_id, journal):
    """Each a job with its run, one at a time."""
    journal._write("UPDATE devices SET touched = 1, identity = 'r1'", ())
    journal.__exit__(None, None, None)
    recovery = call(f"/runs/{run_id}/recover", {"reason": "now"}, idempotency_key="a")
    assert (recovery.status_code, recovery.json()["kind"], recovery.json()["sites"]) == (202, "recover", ["AMS"])
    assert call(f"/runs/{run_id}/resume", {"reason": "now"}).status_code == 409
    with service.database.writing() as database:
        end_job(database, recovery.json()["job_id"], at=AT, state=JobState.ENDED, exit_code=0, sentence="")
    resume = call(f"/runs/{run_id}/resume", {"reason": "now"}).json()
    assert (resume["kind"], resume["digest"], resume["run_id"]) == ("resume", DIGEST, run_id)
    assert [one["kind"] for one in call(f"/runs/{run_id}").json()["jobs"]] == ["recover", "resume"]


def test_a_run_of_no_approved_plan_is_not_gone_on_with(call, service, journal):
    """Who began it at the command line goes on with it there."""
    found = journal.begin_run("stage")
    journal.add_device(found, host="r1", address="x", port=22, platform="ios", site="AMS", image="x.bin")
    journal.finish_run(found)
    answer = call(f"/runs/{found}/resume", {"reason": "x"})
    assert (answer.status_code, "approved here" in answer.json()["detail"]) == (409, True)


def test_runs_are_listed_read_and_reported(call, run_id):
    """With their devices, and as a file in each form."""
    (row,) = call("/runs").json()["runs"]
    assert (row["run_id"], row["sites"], row["outcomes"], row["actor"]) == (run_id, ["AMS"], {"planned": 1}, "anna")
    run = call(f"/runs/{run_id}").json()
    assert (run["plan_digest"], run["waves"]) == (DIGEST, [{"wave": 0, "devices": 1, "outcomes": {"planned": 1}}])
    (device,) = call(f"/runs/{run_id}/devices").json()["devices"]
    assert (device["host"], device["state"], device["is_held"]) == ("r1", "planned", False)
    for form, kind in (
        ("html", "text/html"),
        ("json", "application/json"),
        ("csv", "text/csv"),
        ("xml", "application/xml"),
    ):
        answer = call(f"/runs/{run_id}/report.{form}")
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.{form}"'
        assert "r1" in answer.text
    assert call(f"/runs/{run_id}/report.exe").status_code == 422
