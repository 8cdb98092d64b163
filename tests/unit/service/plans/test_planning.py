"""A plan that the service makes is a draft of who asked for it, and nobody's who may not have one."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.jobs import JobFolder
from flashferry.core.values import replace
from flashferry.model.plan_file import plan_text
from flashferry.service.api.plans import router
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.jobs.supervisor import prepare
from flashferry.service.plans.planning import PlanJobs, PlanSpec, make_plan
from flashferry.service.principal import Grant, Role
from flashferry.store.service import images as store
from flashferry.store.service.images import ImageState
from flashferry.store.service.jobs import job_of
from flashferry.store.service.plans import plans
from inventory.image_rules import Traits, load_image_rules
from tests.unit.service.plans.calling import client

WISH = PlanSpec(title="core", sites=("AMS", "LIM"), window="22:00-05:00")


@pytest.fixture
def ended(able, who):
    """Return what asks for a plan as somebody, and ends its job, which has written a text."""

    def ended(text, by="maker", wish=WISH):
        job = make_plan(able, who(by), wish)
        folder = JobFolder.of(able.state, job.job_id)
        folder.make()
        if text is not None:
            folder.write(folder.plan, text)
        with able.database.writing() as database:
            database.execute("UPDATE jobs SET state = 'ended', exit_code = 0 WHERE job_id = ?", (job.job_id,))
        return job.job_id

    return ended


def now(service, job_id):
    with service.database.reading() as database:
        return job_of(database, job_id), list(plans(database))


def test_what_the_job_wrote_is_a_draft_of_who_asked(able, ended, plan):
    """Under the title that he gave; the job says which plan it made, and a second look offers nothing."""
    job_id, keeper = ended(plan_text(plan)), PlanJobs()
    keeper.run_once(able)
    job, (found,) = now(able, job_id)
    assert (found.made_by, found.title, found.state) == ("maker", "core", "draft")
    assert job.digest == found.digest
    assert job.sentence == f"made plan {found.digest[:12]}…"
    keeper.run_once(able)
    PlanJobs().run_once(able)
    assert len(now(able, job_id)[1]) == 1


def test_the_job_runs_the_verb_for_its_sites_and_window(able, ended):
    """By the inventory's rules, with images of the service's folder."""
    job, _ = now(able, ended(None))
    words = job.words
    assert words[0] == "plan"
    assert {"--filter=site=AMS", "--filter=site=LIM"} <= set(words)
    assert words[words.index("--window") + 1] == "22:00-05:00"
    assert words[words.index("--image-dir") + 1] == str(able.images)


@pytest.mark.parametrize(
    ("text", "statement", "why"),
    [
        ("{}", "", "expected a file with the schema"),
        (None, "", ""),
        ("whole", "DELETE FROM grants WHERE person = 'maker'", "expected an operator at AMS, LIM"),
        ("whole", "UPDATE people SET state = 'disabled' WHERE name = 'maker'", "expected an operator at AMS, LIM"),
    ],
)
def test_what_cannot_be_offered_is_told_by_the_job(able, ended, plan, text, statement, why):
    """No plan, half a plan, or an asker who may not any more by then."""
    job_id = ended(plan_text(plan) if text == "whole" else text)
    if statement:
        with able.database.writing() as database:
            database.execute(statement)
    PlanJobs().run_once(able)
    job, found = now(able, job_id)
    assert found == []
    assert job.digest is None
    assert why in job.sentence


@pytest.mark.parametrize(
    ("by", "changes", "why"),
    [
        ("bob", {}, "expected the role operator for AMS, LIM"),
        ("bob", {"sites": ()}, "expected the role operator for all sites"),
        ("maker", {"window": "tonight"}, "window: expected two times of day"),
        ("maker", {"image": "../x"}, "expected the name of a file"),
        ("maker", {"title": "a\x00"}, "title: expected one line"),
    ],
)
def test_what_is_not_as_it_must_be_is_refused(able, who, by, changes, why):
    """Before anything is run."""
    with pytest.raises(ServiceError) as refused:
        make_plan(able, who(by), replace(WISH, **changes))
    assert why in refused.value.sentence


def test_the_api_answers_with_the_job(able, who):
    """202, and where to look."""
    answer = client(able, who("bob"), router).post("/api/v1/plans/make", json={"sites": ["AMS"], "image": "new.bin"})
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/api/v1/jobs/{answer.json()['job']}"


def test_settings_of_its_run_are_chosen_with_the_plan(able, who):
    """By the names of the policy; what is null, or a switch that is off, is as it would be otherwise."""
    settings = {"add": True, "ready": False, "dead_man": False, "verify_signature": True, "approve": True}
    body = {"sites": ["AMS"], "image": "new.bin"} | settings
    job_id = client(able, who("bob"), router).post("/api/v1/plans/make", json=body).json()["job"]
    with able.database.reading() as database:
        words = job_of(database, job_id).words
    assert {"--add", "--verify-signature", "--no-dead-man", "--approve"} <= set(words)
    assert "--ready" not in words


GOLDEN = replace(WISH, golden=True)


@pytest.fixture
def golden(able):
    """Return what says which image is golden for which model where; the images may be used."""

    def golden(*entries, state=ImageState.PUBLISHED):
        with able.database.writing() as database:
            for model, site, image in entries:
                told = {"size_bytes": 5, "source": "x", "uploaded_by": "maker", "created_at": "", "sha512": "0" * 128}
                store.add_image(database, store.StoredImage(name=image, state=state, **told))
                store.set_golden(database, store.Golden(model=model, site=site, image=image, by="maker", at=""))

    return golden


def test_a_plan_by_golden_images_is_told_them_as_rules(able, who, golden):
    """A file that `--image-rules` reads, in place of the inventory's; as they were when it was asked for."""
    golden(("ISR4331/K9", "*", "isr.bin"), ("C9300-48P", "AMS", "cat.bin"), ("C9300-48P", "LIM", "cat.bin"))
    job = make_plan(able, who("maker"), GOLDEN)
    golden(("ISR4331/K9", "*", "newer.bin"))
    folder = JobFolder.of(able.state, job.job_id)
    prepare(able, job)
    assert job.words[job.words.index("--image-rules") + 1] == str(folder.rules)
    assert job.words[job.words.index("--image-dir") + 1] == str(able.images)
    rules = load_image_rules(folder.rules, ("ios", "ios-xe"))
    for model, image in (("isr4331/k9", "isr.bin"), ("C9300-48P", "cat.bin")):
        assert rules.choose(Traits(platform="ios-xe", model=model, version="17.9.4")).image == image
    with pytest.raises(ConfigInvalid, match="no rule of"):
        rules.choose(Traits(platform="ios", model="WS-C2960X", version="15.2"))


@pytest.mark.parametrize(
    ("entries", "sites", "why"),
    [
        ((), ("AMS",), "found none"),
        ((("M1", "GVA", "a.bin"),), ("AMS",), "found none"),
        (
            (("M1", "AMS", "a.bin"),),
            ("AMS", "LIM"),
            "for M1 at all sites that are planned, found a.bin at AMS, none",
        ),
        ((("M1", "AMS", "a.bin"), ("M1", "*", "b.bin")), ("AMS", "LIM"), "found a.bin at AMS, b.bin at LIM"),
        ((("M1", "AMS", "a.bin"), ("M1", "*", "b.bin")), (), "found b.bin at all others, a.bin at AMS"),
    ],
)
def test_golden_images_that_are_no_rules_are_refused(able, who, golden, entries, sites, why):
    """Rules know no site: what differs between sites takes a plan for each."""
    golden(*entries)
    everywhere = replace(who("maker"), grants=frozenset({Grant(role=Role.OPERATOR)}))
    with pytest.raises(ServiceError) as refused:
        make_plan(able, everywhere, replace(GOLDEN, sites=sites))
    assert (status_of(refused.value), why in refused.value.sentence) == (409, True), refused.value.sentence
    if entries and entries[0][1] == "AMS":
        assert make_plan(able, everywhere, replace(GOLDEN, sites=("AMS",))).rules


def test_a_golden_image_that_may_not_be_used_is_in_no_plan(able, who, golden):
    """It was found to be no match since."""
    golden(("M1", "*", "a.bin"), state=ImageState.MISMATCH)
    with pytest.raises(ServiceError, match=r"image a\.bin"):
        make_plan(able, who("maker"), GOLDEN)


def test_one_image_for_all_and_golden_ones_are_two_wishes(able, who):
    """Nobody guesses which is meant."""
    answer = client(able, who("bob"), router).post(
        "/api/v1/plans/make", json={"sites": ["AMS"], "image": "new.bin", "golden": True}
    )
    assert (answer.status_code, "found both" in answer.json()["detail"]) == (422, True)
