"""Plans on pages: hostile text stays text, what somebody may not do is not offered, and forms do what they say."""

from __future__ import annotations

from html import unescape

import pytest

from flashferry.core.values import replace
from flashferry.model.fleet_plan import DepotAdvice, Fit, Savings
from flashferry.model.plan_file import plan_text
from flashferry.model.policy import carried
from flashferry.service.pages import jobs
from flashferry.service.pages.plans import router
from flashferry.service.plans.planning import PlanSpec, make_plan
from flashferry.store.service.jobs import latest_jobs, set_plan_made
from tests.served import view_of
from tests.unit.service.plans.calling import client as made

NASTY = "<script>alert(1)</script>\x1b[31m'\"&"


@pytest.fixture
def client(service, who):
    return lambda name: made(service, who(name), router)


@pytest.fixture
def hostile(plan):
    """Return a plan in which whatever text there is would like to be something else."""
    device = replace(plan.devices[0], model=NASTY, reason=NASTY, notes=(NASTY,), version=NASTY, address=NASTY)
    return replace(
        plan,
        devices=(device, *plan.devices[1:]),
        assumptions=(NASTY,),
        fit=Fit(fits=False, sentence=NASTY),
        waves=(replace(plan.waves[0], name=NASTY),),
        sites=(replace(plan.sites[0], site=NASTY),),
    )


def test_hostile_text_stays_text(client, hostile, offered, plan):
    """Models, notes, wave names, sentences, titles, comments: on the list, the plan and what differs."""
    offered(plan, title="<i>core</i>")
    digest = offered(hostile, title="<i>core</i>")
    client("ann").post(f"/plans/{digest}/approve", data={"comment": NASTY})
    for path in ("/plans", f"/plans/{digest}", f"/plans/{digest}/diff"):
        text = client("ann").get(path).text
        assert "<script>alert" not in text
        assert "<i>core" not in text
        assert "\x1b" not in text
        assert "&lt;i&gt;core&lt;/i&gt;" in text


def test_a_plan_is_shown_with_all_that_one_decides_by(client, plan, offered):
    """Digest, what is done to which device, image, waves, lines, its end, and why it may not be begun."""
    digest = offered(plan)
    text = unescape(client("ann").get(f"/plans/{digest}").text)
    for told in (
        digest,
        "Can't start: draft, not approved yet.",
        "flash full",
        "ip tcp window-size 250000",
        plan.images[0].sha512,
        "0 (canary)",
        "2026-11-21 23:00:00 UTC",
        "Approve as ann",
    ):
        assert told in text


def test_pages_have_what_their_titles_promise(client, plan, offered):
    """List, plan and differences."""
    digest = offered(plan)

    def view(path):
        return view_of(lambda: client("ann").get(path))

    assert [one["digest"] for one in view("/plans")["plans"]] == [digest]
    assert view(f"/plans/{digest}")["may"]["approve"] == ""
    assert view(f"/plans/{digest}/diff")["diff"] is None


def test_the_makers_button_is_disabled_and_his_post_refused(client, plan, offered):
    """With the reason beside it."""
    path = f"/plans/{offered(plan)}"
    text = unescape(client("maker").get(path).text)
    assert '<button disabled aria-describedby="h-approve">Approve</button>' in text
    assert "You made this plan; someone else must" in text
    assert client("maker").post(f"{path}/approve").status_code == 403


def test_a_plan_goes_from_its_file_to_a_run_by_two_people(client, service, plan):
    """Uploaded by one, approved by another, begun; each step leads back to where one sees what became of it."""
    file = {"file": ("plan.json", plan_text(plan), "application/json")}
    answer = client("eve").post("/plans", files=file, data={"title": "core"})
    path = answer.headers["Location"]
    assert (answer.status_code, path.startswith("/plans/")) == (303, True)
    assert "Start run" not in client("eve").get(path).text
    assert client("ann").post(f"{path}/approve", data={"comment": "ok"}).headers["Location"] == path
    assert "Start run" in client("eve").get(path).text
    assert "Start run" not in client("ann").get(path).text
    assert client("ann").post(f"{path}/start").status_code == 403


def test_a_run_is_begun_by_a_form(able, service, who, images, plan):
    """One job for the plan; a second one at the same time is refused, and so is one for another image."""

    def client(name):
        return made(able, who(name), router)

    path = client("maker").post("/plans", files={"file": plan_text(plan)}).headers["Location"]
    assert client("maker").post(f"{path}/start").status_code == 409
    client("ann").post(f"{path}/approve")
    asked = {"reason": "tonight", "ready": "true", "add": "true"}
    assert client("maker").post(f"{path}/start", data=asked).status_code == 303
    assert client("maker").post(f"{path}/start").status_code == 409
    (images / "new.bin").write_bytes(b"imagf")
    assert "image new.bin on disk is not the one" in client("maker").post(f"{path}/start").text
    with service.database.reading() as database:
        (job,) = latest_jobs(database, 10)
    assert (job.requested_by, job.reason) == ("maker", "tonight")
    assert "--ready" in job.words
    assert "--add" not in job.words, "what changes a device is approved with the plan"


def test_all_settings_of_a_plan_are_on_its_page(client, plan, offered):
    """Those that are not the default stand out; an approver sees each."""
    text = client("ann").get(f"/plans/{offered(replace(plan, add=True))}").text
    assert "<dt>Add the image (install add)</dt><dd><b>yes</b></dd>" in text
    missing = [one.label for one, _ in carried(plan) if one.label[1:] not in unescape(text)]
    assert missing == []


def test_a_window_is_shown_by_the_sites_clocks_too(able, who, plan, offered, tmp_path):
    """When it starts, and by when it must end; the zones are those of the sites' windows in the inventory."""
    (tmp_path / "hosts.yaml").write_text(
        "r1: {hostname: 192.0.2.1, platform: ios,"
        " data: {site: AMS, windows: [{from: '22:00', until: '05:00', timezone: Europe/Amsterdam}]}}\n"
    )
    runs = replace(able.settings.runs, inventory=str(tmp_path))
    zoned = replace(able, settings=replace(able.settings, runs=runs))
    text = unescape(made(zoned, who("ann"), router).get(f"/plans/{offered(plan)}").text)
    assert "2026-11-21 22:00:00 UTC</time>; Sat 23:00 CET at AMS" in text
    assert "Forecast, in UTC</dt>" in text, "the sentence has the clock of the plan's maker"
    assert "2026-11-22 05:00:00 UTC</time>; Sun 06:00 CET at AMS" in text


@pytest.mark.parametrize(("verb", "word"), [("deny", "denied"), ("withdraw", "withdrawn")])
def test_a_decision_is_final_on_the_page_too(client, plan, offered, verb, word):
    """No form is left."""
    path = f"/plans/{offered(plan)}"
    assert client("ann").post(f"{path}/{verb}", data={"comment": "no"}).status_code == 303
    text = client("ann").get(path).text
    assert f"The plan is {word}; that is final." in text
    assert f'action="{path}' not in text


def test_what_differs_is_shown_line_by_line(client, plan, offered, clock):
    """Against the plan before it, or another one that one chooses."""
    offered(plan, title="core")
    clock[0] = clock[0].replace(minute=1)
    changed = replace(plan, devices=(replace(plan.devices[0], rtt_s=1.0), replace(plan.devices[1], host="r3")))
    digest = offered(changed, title="core")
    text = client("ann").get(f"/plans/{digest}/diff").text
    assert '<li class="removed">- r2</li>' in text
    assert '<li class="added">+ r3</li>' in text
    assert "+ lines: ip tcp window-size 2500000; ip tcp selective-ack" in text
    lone = offered(replace(changed, duration_s=5.0))
    assert "choose one" in client("ann").get(f"/plans/{lone}/diff").text
    assert "5.0 s" not in client("ann").get(f"/plans/{lone}/diff", params={"against": digest}).text
    assert "forecast end" in client("ann").get(f"/plans/{lone}/diff", params={"against": digest}).text


def test_the_list_is_filtered_by_its_address(client, plan, offered):
    """By title and state, so that a filter can be sent to a colleague."""
    core, edge = offered(plan, title="core"), offered(replace(plan, duration_s=1.0), title="edge")
    client("ann").post(f"/plans/{edge}/approve")
    for query, expected in (({"title": "core"}, [core]), ({"state": "approved"}, [edge]), ({"state": "denied"}, [])):
        found = view_of(lambda query=query: client("ann").get("/plans", params=query))["plans"]
        assert [one["digest"] for one in found] == expected
        assert client("ann").get("/plans", params=query).status_code == 200


def test_who_may_not_see_a_plan_gets_no_page_of_it(client, plan, offered):
    """As if it were not there."""
    digest = offered(plan)
    for path in ("", "/diff"):
        assert client("viv").get(f"/plans/{digest}{path}").status_code == 404
    assert view_of(lambda: client("viv").get("/plans"))["plans"] == []


def test_a_plan_is_made_and_rehearsed_by_forms(able, service, who, plan, offered):
    """Both are jobs, which are shown with what came of them."""
    maker, digest = made(able, who("maker"), router), offered(plan)
    asked = {"title": "x", "sites": "AMS, LIM", "window": "22:00-05:00"}
    assert maker.post("/plans/make", data=asked | {"add": "true", "dead_man": "false"}).headers["Location"] == "/plans"
    with service.database.reading() as database:
        (job,) = latest_jobs(database, 10)
    assert {"--add", "--no-dead-man"} <= set(job.words)
    assert "--ready" not in job.words
    assert "golden images: expected one" in maker.post("/plans/make", data=asked | {"golden": "true"}).text
    assert maker.post(f"/plans/{digest}/rehearse").headers["Location"] == f"/plans/{digest}"
    with service.database.writing() as database:
        database.execute("UPDATE jobs SET sentence = '<b>came', run_id = 'r<i>'")
    for path, word in (("/plans", "Plans being created"), (f"/plans/{digest}", "Rehearsals")):
        text = maker.get(path).text
        assert word in text
        assert "&lt;b&gt;came" in text
        assert "<b>came" not in text
    assert view_of(lambda: maker.get("/plans"))["being_made"][0]["state"] == "queued"
    assert view_of(lambda: made(able, who("viv"), router).get("/plans"))["being_made"] == []


def test_runs_rehearsals_and_the_making_of_a_plan_stand_apart(able, who, plan, offered):
    """A list of runs has runs alone; the job that made the plan is a link beside its maker."""
    maker, digest = made(able, who("maker"), router), offered(plan)
    making = make_plan(able, who("maker"), PlanSpec(title="x", sites=("AMS", "LIM")))
    with able.database.writing() as database:
        set_plan_made(database, making.job_id, digest, "made plan")
    assert "Runs of this plan" not in maker.get(f"/plans/{digest}").text
    maker.post(f"/plans/{digest}/rehearse")
    made(able, who("ann"), router).post(f"/plans/{digest}/approve")
    maker.post(f"/plans/{digest}/start")
    found = view_of(lambda: maker.get(f"/plans/{digest}"))
    assert ([one["kind"] for one in found["jobs"]], [one["kind"] for one in found["rehearsals"]]) == (
        ["stage"],
        ["dry-run"],
    )
    assert f'<a href="/jobs/{making.job_id}">its job</a>' in maker.get(f"/plans/{digest}").text


@pytest.mark.parametrize(
    ("verb", "state"),
    [("", "waits for approval"), ("approve", "is approved"), ("deny", "is denied"), ("withdraw", "is withdrawn")],
)
def test_the_job_that_made_a_plan_shows_the_plans_present_state(able, who, plan, offered, verb, state):
    """In the list of jobs and on its own page: what waited for approval when it was made may be approved by now."""
    digest, maker = offered(plan), made(able, who("maker"), router, jobs.router)
    job = make_plan(able, who("maker"), PlanSpec(sites=("AMS", "LIM")))
    with able.database.writing() as database:
        set_plan_made(database, job.job_id, digest, "made plan 1234…")
        database.execute("UPDATE jobs SET state = 'ended'")
    if verb:
        made(able, who("ann"), router).post(f"/plans/{digest}/{verb}", data={"comment": "well"})
    for path in ("/jobs", f"/jobs/{job.job_id}"):
        assert f"ade plan 1234…, which {state}" in maker.get(path).text


def test_a_queued_job_is_cancelled_where_it_is_shown(able, service, who, plan, offered):
    """A form for who operates its sites, until it starts; it leads to the page of the job."""
    digest = offered(plan)
    maker = made(able, who("maker"), router, jobs.router)
    maker.post(f"/plans/{digest}/rehearse")
    with service.database.reading() as database:
        (job,) = latest_jobs(database, 10)
    form = f'action="/jobs/{job.job_id}/cancel"'
    assert form in maker.get(f"/plans/{digest}").text
    assert form not in made(able, who("ann"), router, jobs.router).get(f"/plans/{digest}").text
    answer = maker.post(f"/jobs/{job.job_id}/cancel", data={"reason": "<b>no"})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/jobs/{job.job_id}")
    text = maker.get(f"/plans/{digest}").text
    assert form not in text
    assert "cancelled by maker: &lt;b&gt;no" in text


def test_depots_and_what_they_save_are_shown(client, plan, offered):
    """Where images come from, what crosses the link, and which sites should have a depot; hostile names stay text."""
    ams, lim = plan.sites
    saved = Savings(
        sentence="5 B over the links instead of 10 B",
        bytes=5,
        bytes_without=10,
        lan_bytes=10,
        duration_s=9.0,
        duration_without_s=19.0,
        nights=1,
        nights_without=3,
    )
    advice = DepotAdvice(
        site="GVA",
        devices=20,
        images=1,
        bytes=4_000_000_000,
        bytes_with=200_000_000,
        takes_s=4140.0,
        takes_with_s=600.0,
        saved_s=3540.0,
        fits=None,
        fits_with=None,
        nights=1,
        nights_with=1,
    )
    sites = (replace(ams, depot=NASTY, lan_bytes=2_000_000), replace(lim, neighbours=True))
    digest = offered(replace(plan, sites=sites, savings=saved, depot_advice=(advice,)))
    raw = client("ann").get(f"/plans/{digest}").text
    text = unescape(raw)
    assert "<script>alert" not in raw
    for told in (
        "5 B over the links instead of 10 B.",
        "neighbours</td>",
        "2.0 MB",
        "should have a depot",
        "GVA",
        "4.00 GB",
    ):
        assert told in text
    plain = client("ann").get(f"/plans/{offered(plan, title='before')}").text
    assert "epot" not in plain


def missing(client, name, digest) -> tuple[list, list]:
    """Return the sentences before the approval, and before the start."""
    found = view_of(lambda: client(name).get(f"/plans/{digest}"))["missing"]
    return tuple([one["sentence"] for one in found[part]] for part in ("approval", "start"))


def test_a_plan_lists_everything_between_it_and_its_run(client, service, plan, offered, clock):
    """For its maker, for who may approve, and for who may do neither: all at once, each with where to go."""
    with service.database.writing() as database:
        database.execute("UPDATE images SET state = 'unknown'")
    digest = offered(plan)
    approval, start = missing(client, "maker", digest)
    assert "image new.bin" in approval[0]
    assert approval[1] == "you made this plan; an approver at AMS, LIM must approve it"
    assert start[0] == "it is a draft; it needs an approval first"
    assert any("no inventory" in one for one in start)
    assert start[-1].startswith("its window opens")
    assert 'href="/images/new.bin"' in client("maker").get(f"/plans/{digest}").text
    approval, start = missing(client, "ann", digest)
    assert len(approval) == 1
    assert any("starting it needs an operator at AMS, LIM" in one for one in start)
    approval, _ = missing(client, "bob", digest)
    assert approval[-1] == "approving it needs an approver at AMS, LIM"


def test_an_approved_plan_lists_what_its_start_needs(able, service, who, plan):
    """Its window, an open job with the way to it; a plan that is over needs nothing."""

    def client(name):
        return made(able, who(name), router)

    digest = client("maker").post("/plans", files={"file": plan_text(plan)}).headers["Location"].rpartition("/")[2]
    client("ann").post(f"/plans/{digest}/approve")
    approval, start = missing(client, "maker", digest)
    assert approval == []
    assert [one.partition(",")[0] for one in start] == ["its window opens 2026-11-21 22:00 UTC"]
    client("maker").post(f"/plans/{digest}/start")
    assert "its job is queued" in missing(client, "maker", digest)[1]
    client("maker").post(f"/plans/{digest}/withdraw", data={"comment": "no"})
    assert missing(client, "maker", digest) == ([], [])


def test_a_plans_page_names_no_option_of_the_command_line(client, plan, offered):
    """Its forecast, reasons, hints and notes were written for one; a form has fields."""
    refused = replace(plan.devices[1], hint="Give its own; --any-image insists", notes=("not tuned (--tune never)",))
    fit = Fit(fits=None, sentence="no end is given, neither by --until nor by the sites' windows")
    digest = offered(replace(plan, devices=(plan.devices[0], refused), fit=fit, assumptions=("as by --uncapped",)))
    text = unescape(client("maker").get(f"/plans/{digest}").text)
    assert 'neither by "Window" nor' in text
    for option in ("--any-image", "--tune", "--until", "--uncapped", "--add"):
        assert option not in text
