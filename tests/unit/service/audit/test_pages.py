"""The audit by API and by its page: found, exported, verified; hostile texts stay texts; auditors alone."""

from __future__ import annotations

import json

import pytest

from flashferry.service.principal import SYSTEM
from tests.served import serve, view_of

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def served(tmp_path):
    made = serve(tmp_path)
    made.person("anna", "auditor")
    made.person("vera", "viewer")
    with made.service.database.writing() as database:
        for number in range(250):
            made.service.note(
                database,
                SYSTEM,
                "plan.made" if number % 2 else "run.start",
                f"plan:{number}",
                reason=HOSTILE if number == 249 else "",
                after={"note": HOSTILE},
            )
    return made


def got(served, path, who="anna"):
    answer = served.call("GET", path, served.token(who))
    assert answer.status_code == 200, answer.text
    return answer


def test_entries_are_listed_page_by_page(served):
    """The oldest first, with where to go on; all of them, each once."""
    seqs, after = [], 0
    while after is not None:
        page = got(served, f"/api/v1/audit?after={after}&most=100").json()
        seqs += [one["seq"] for one in page["entries"]]
        after = page["next"]
    assert seqs == list(range(1, 251))


def test_entries_are_found(served):
    """By subject and object."""
    page = got(served, "/api/v1/audit?action=plan&object=plan:7").json()
    assert [one["object"] for one in page["entries"]] == ["plan:7"]
    assert page["next"] is None


def test_a_filter_that_is_none_is_told(served):
    """As a problem with its hint; on the page in a banner."""
    answer = served.call("GET", "/api/v1/audit?since=never", served.token("anna"))
    assert (answer.status_code, answer.json()["kind"]) == (422, "ConfigInvalid")
    assert "since: expected a time" in got(served, "/audit?since=never").text


@pytest.mark.parametrize(("form", "media_type"), [("jsonl", "application/jsonl"), ("csv", "text/csv; charset=utf-8")])
def test_the_audit_is_exported_whole(served, form, media_type):
    """Every entry, batch by batch, as a file."""
    answer = got(served, f"/api/v1/audit/export?form={form}")
    assert answer.headers["content-type"] == media_type
    assert f'filename="flashferry-audit.{form}"' in answer.headers["content-disposition"]
    lines = answer.text.splitlines()
    assert len(lines) == 250 + (form == "csv")
    if form == "jsonl":
        assert json.loads(lines[-1])["reason"] == HOSTILE


def test_the_audit_is_verified(served):
    """Whole, with its head; a head that was kept and is not there is told."""
    found = got(served, "/api/v1/audit/verify").json()
    assert (found["is_whole"], found["entries"]) == (True, 250)
    assert got(served, f"/api/v1/audit/verify?head={found['head']}").json()["is_whole"] is True
    other = got(served, f"/api/v1/audit/verify?head=999:{'0' * 64}").json()
    assert other["faults"] == ["entry 999: expected one, as a head that was kept says, found none"]
    assert "Intact: 250 entries" in got(served, "/audit/verify").text


def test_the_page_shows_the_newest_first(served):
    """A hundred, and where older ones are; nothing in it is obeyed."""
    page = got(served, "/audit").text
    assert page.index("plan:249") < page.index("plan:150")
    assert "plan:149" not in page
    assert "/audit?before=151" in page
    assert HOSTILE not in page
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e" in page
    older = got(served, "/audit?before=151").text
    assert "plan:149" in older


def test_filters_stay_in_links(served):
    """What was asked for holds for older entries and for exports."""
    page = got(served, "/audit?action=plan").text
    assert "/audit?action=plan&amp;before=" in page
    assert "/api/v1/audit/export?form=csv&amp;action=plan" in page


@pytest.mark.parametrize("path", ["/audit", "/api/v1/audit", "/api/v1/audit/export", "/audit/verify"])
def test_auditors_alone(served, path):
    """A viewer is refused, and that is in the audit."""
    assert served.call("GET", path, served.token("vera")).status_code == 403
    assert served.audit()[-1].action == "access.refused"


def test_a_page_has_so_many_entries_of_what_was_asked_for(served):
    found = view_of(lambda: got(served, "/audit?action=run.start"))
    assert len(found["entries"]) == 100
    assert {one["action"] for one in found["entries"]} == {"run.start"}
