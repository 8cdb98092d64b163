"""Pages of jobs: what each found, its errors and its file; who may see which of it."""

from __future__ import annotations

import html
import json

import pytest

from flashferry.core.jobs import JobFolder
from flashferry.model.exit_codes import ExitCode
from flashferry.service.jobs.create import ask
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.jobs import JobKind, JobState, claim_job, end_job
from tests.served import serve
from tests.unit.service.pages.test_runs import page, view

NASTY = "<script>alert(1)</script>"
CHECKED = {
    "host": "r1",
    "outcome": "done",
    "check": {
        "facts": {"model": "C1111-8P"},
        "version": {"release": "17.9.4"},
        "file_system": "bootflash:",
        "free_bytes": 2_000_000_000,
        "rtt_s": 0.0412,
        "notes": [NASTY],
        "refusal": None,
        "image": {"fits": "of this platform", "reason": "the image is for this platform"},
    },
    "failure": None,
    "reaches": [{"report": {"sentence": "fetched 4 kB"}}],
}
FAILED = {
    "host": "r2",
    "outcome": "failed",
    "check": None,
    "failure": {"step": "connect", "reason": "login refused", "hint": "Check its credentials"},
}


@pytest.fixture
def served(tmp_path):
    found = serve(tmp_path, ServiceSettings(runs=RunSettings(inventory="/etc/fleet")))
    found.person("anna", "operator@AMS", "viewer@AMS")
    return found


@pytest.fixture
def anna():
    return Actor(name="anna", via=Via.SESSION, grants=frozenset({Grant(role=Role.OPERATOR, site="AMS")}))


def requested(served, by, kind=JobKind.CHECK, **more) -> str:
    return ask(served.service, by, JobSpec(kind=kind, sites=("AMS",), **more)).job_id


def ended(served, job_id: str, document: dict, *, exit_code: int = 0, stderr: str = "", **more) -> None:
    folder = JobFolder.of(served.service.state, job_id)
    folder.make()
    folder.write(folder.result, json.dumps(document))
    folder.write(folder.stderr, stderr)
    with served.service.database.writing() as database:
        claim_job(database, job_id, at="2026", unit=None)
        given = {"sentence": "some devices failed"} | more
        end_job(database, job_id, at="2026", state=JobState.ENDED, exit_code=exit_code, **given)


def test_a_check_is_read_without_a_program(served, anna):
    """Its devices with what was read of them, those with something wrong first; its file to download."""
    job_id = requested(served, anna)
    document = {"schema": "flashferry.check/1", "exit_code": 3, "meaning": "some failed", "devices": [CHECKED, FAILED]}
    ended(served, job_id, document, exit_code=3, stderr="r1: fits\nr2: login refused\n")
    ann = served.browser("anna")
    assert f'href="/jobs/{job_id}"' in page(served, ann, "/jobs")
    text = page(served, ann, f"/jobs/{job_id}")
    for part in ("C1111-8P", "17.9.4", "2.00 GB free on bootflash:", "fetched 4 kB", "Some failed", "exit code 3"):
        assert part in text
    assert text.index("login refused. Check its credentials") < text.index("C1111-8P")
    assert "r1: fits\nr2: login refused</pre>" in text
    assert NASTY not in text
    assert f'href="/api/v1/jobs/{job_id}/result"' in text
    assert served.call("GET", f"/api/v1/jobs/{job_id}/result", ann).json() == document


def test_a_rehearsal_shows_what_would_be_sent(served, anna):
    """The commands of each device, in their order."""
    job_id = requested(served, anna, JobKind.DRY_RUN, image="new.bin")
    tune = {"changes": [{"ours": "ip tcp window-size 65535"}]}
    plan = {"tune": tune, "copy": "copy ftp: flash:", "verify": ["verify"], "restore": ["no ip tcp window-size"]}
    devices = [{"host": "r1", "outcome": "done", "plan": plan}]
    ended(served, job_id, {"schema": "flashferry.dry-run/1", "exit_code": 0, "devices": devices})
    (row,) = view(served, served.browser("anna"), f"/jobs/{job_id}")["list"]["rows"]
    assert row["word"] == "would be staged", "nothing was done"
    assert row["commands"] == ["ip tcp window-size 65535", "copy ftp: flash:", "verify", "no ip tcp window-size"]
    text = page(served, served.browser("anna"), f"/jobs/{job_id}")
    assert "4 commands" in text
    assert ">ip tcp window-size 65535\ncopy ftp: flash:\nverify\nno ip tcp window-size</pre>" in text


def test_readiness_says_what_is_in_the_way(served, anna):
    """The verdict, and the conditions that are not met."""
    job_id = requested(served, anna, JobKind.READY, image="new.bin")
    conditions = [
        {"name": "room", "met": "met", "sentence": "enough"},
        {"name": "boot", "met": "no", "sentence": "not set"},
    ]
    device = {"host": "r1", "outcome": "refused", "readiness": {"verdict": "no", "conditions": conditions}}
    ended(served, job_id, {"exit_code": 4, "devices": [device]}, exit_code=4)
    (row,) = view(served, served.browser("anna"), f"/jobs/{job_id}")["list"]["rows"]
    assert (row["word"], row["tone"], row["facts"]) == ("not ready", "bad", ["boot: not set"])


def test_an_error_stands_at_the_top(served, anna):
    """Instead of a result, with what to do."""
    job_id = requested(served, anna)
    ended(served, job_id, {"error": "no inventory at /x", "hint": "Name it"}, exit_code=2)
    assert "No inventory at /x. Name it" in page(served, served.browser("anna"), f"/jobs/{job_id}")


def test_a_result_that_is_no_document_is_no_error(served, anna):
    """Of another release, damaged, or of other kinds of values."""
    ann = served.browser("anna")
    for document in ({}, {"devices": 3}, {"devices": [None, 7, {"host": 5, "check": [], "outcome": "new"}]}):
        job_id = requested(served, anna)
        ended(served, job_id, document)
        assert served.call("GET", f"/jobs/{job_id}", ann).status_code == 200


@pytest.mark.parametrize(
    ("kind", "code", "shown"),
    [
        ("plan", ExitCode.OK, "the plan's page shows whether it fits its window."),
        ("stage", ExitCode.UNFINISHED, '"Restore and resume" on the page of the run stages them.'),
        ("recover", ExitCode.RESTORE_INCOMPLETE, '"Restore devices" on the page of the run tries again.'),
    ],
)
def test_a_page_says_an_exit_code_in_words_of_pages(served, anna, kind, code, shown):
    """Neither a key of the JSON nor a command: those stand in the file and on the command line."""
    job_id = requested(served, anna)
    meaning = code.meaning_for(kind)
    ended(served, job_id, {"exit_code": int(code), "meaning": meaning}, exit_code=int(code), sentence=meaning)
    ann = served.browser("anna")
    for path in ("/jobs", f"/jobs/{job_id}"):
        text = html.unescape(page(served, ann, path))
        assert shown.removesuffix(".") in text, path
        assert "'late'" not in text, path
        assert "--resume" not in text, path
        assert "'flashferry" not in text, path
    assert html.unescape(page(served, ann, f"/jobs/{job_id}")).count(shown) == 1
    assert served.call("GET", f"/api/v1/jobs/{job_id}/result", ann).json()["meaning"] == meaning


def test_what_a_person_wrote_is_shown_as_it_was_written(served, anna):
    """A reason that names an option names it still; sentences of ours name the field."""
    job_id = requested(served, anna)
    ann, path = served.browser("anna"), f"/jobs/{job_id}"
    served.call("POST", f"{path}/cancel", ann, form={"reason": "without --window"})
    for shown in (path, "/jobs"):
        assert "ancelled by anna: without --window" in page(served, ann, shown)


def test_a_queued_job_is_cancelled_on_its_page(served, anna):
    """With a reason; without one the form is shown again."""
    job_id = requested(served, anna)
    ann, path = served.browser("anna"), f"/jobs/{job_id}"
    assert f'action="{path}/cancel"' in page(served, ann, path)
    refused = served.call("POST", f"{path}/cancel", ann, form={"reason": ""}, headers={"Accept": "text/html"})
    assert refused.status_code == 422
    assert refused.text.index(f'action="{path}/cancel"') < refused.text.index("reason: expected a few words")
    assert served.call("POST", f"{path}/cancel", ann, form={"reason": "no"}).headers["location"] == path
    assert "Cancelled by anna" in page(served, ann, path)


def test_a_viewer_of_one_site_reads_no_output_of_another(served, anna):
    """A job at two sites: its state, and neither its output nor its sentence; at another site it is not there."""
    chief = Actor(name="anna", via=Via.SESSION, grants=frozenset({Grant(role=Role.OPERATOR)}))
    job_id = ask(served.service, chief, JobSpec(kind=JobKind.CHECK, sites=("AMS", "LIM"))).job_id
    ended(served, job_id, {"exit_code": 0, "devices": [CHECKED]}, stderr="lim-r9")
    bob, eve = (
        served.browser(served.person(name, f"viewer@{site}")) for name, site in (("bob", "AMS"), ("eve", "GVA"))
    )
    text = page(served, bob, f"/jobs/{job_id}")
    for secret in ("C1111-8P", "lim-r9", "some devices failed", "LIM", "/result"):
        assert secret not in text
    assert served.call("GET", f"/jobs/{job_id}", eve).status_code == 404
    assert job_id not in page(served, eve, "/jobs")


def test_long_results_and_lists_stand_on_several_pages(served, anna):
    """A hundred devices each; of jobs the older ones by a link."""
    job_id = requested(served, anna)
    devices = [{"host": f"r{number:04d}", "outcome": "done"} for number in range(250)]
    ended(served, job_id, {"exit_code": 0, "devices": devices})
    ann = served.browser("anna")
    assert "1 to 100 of 250" in page(served, ann, f"/jobs/{job_id}")
    assert len(view(served, ann, f"/jobs/{job_id}?page=3")["list"]["rows"]) == 50
    assert view(served, ann, f"/jobs/{job_id}?page=9")["list"]["page"] == 3
