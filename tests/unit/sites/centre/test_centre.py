"""Runs given to sites, orders sent until they are taken, canaries of the whole fleet, steering; without a broker."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from flashferry.api.reports import report_exit_code
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode, run_exit_code
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.model.plan_file import plan_text
from flashferry.model.states import Outcome, RunState
from flashferry.model.waves import WavePolicy
from flashferry.monitor.events import Event
from flashferry.sites.broker import BrokerUnreachable
from flashferry.sites.centre.centre import our_release
from flashferry.sites.centre.collecting import now
from flashferry.sites.centre.following import Follower
from flashferry.sites.centre.merging import merged, report_of_sites, run_report
from flashferry.sites.centre.ordering import ACKNOWLEDGE_EVERY_S, AGAIN_S, GAP_S
from flashferry.sites.centre.overview import overview, run_overview, run_overviews
from flashferry.sites.centre.plans import ReadPlan, wave_to_approve
from flashferry.sites.centre.sharing import left_out, shares
from flashferry.sites.wire import OrderJob, WordKind
from flashferry.store.control_requests import Asker, SteerKind
from flashferry.store.database import moment, moment_of
from flashferry.store.sites.runs import parts_of
from tests.unit.sites.centre.ground import RELEASE, Ground
from tests.unit.sites.centre.plans import device, plan

ANN = Asker(actor="ann", via="command-line", reason="a storm")
AMS = [device(f"ams-r{number}", "ams") for number in range(3)]
LIM = [device(f"lim-r{number}", "lim") for number in range(3)]


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr("flashferry.sites.centre.centre.our_release", lambda: RELEASE)
    return Ground(tmp_path, "ams", "lim")


class Watching:
    """Keeps what a view is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.said: list[str] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def say(self, text: str) -> None:
        self.said.append(text)


def states(ground: Ground, run: str) -> dict[str, str]:
    with ground.ledger.reading() as database:
        return {f"{part.site} {part.round}": part.state.value for part in parts_of(database, run)}


def look(ground: Ground, run: str) -> Watching:
    """Let a follower look once."""
    view = Watching()
    follower = Follower(ground.centre, ground.centre.run_named(run), ANN)
    follower.follow(view, left=lambda: True)
    return view


def test_a_plan_is_offered_and_each_site_ordered_its_own_devices(ground: Ground) -> None:
    """The plan's file by its digest where agents fetch it; orders with digest and names, and nothing else."""
    made = plan([*AMS, *LIM])
    run = ground.begin(made)
    ground.tend(run)
    assert (ground.folder / "plans" / f"plan-{made.digest}.json").is_file()
    orders = {order.site: order for order in ground.broker.sent if order.job is OrderJob.STAGE}
    assert {site: order.devices for site, order in orders.items()} == {
        "ams": tuple(one.host for one in AMS),
        "lim": tuple(one.host for one in LIM),
    }
    assert {(order.run, order.plan) for order in orders.values()} == {
        (f"{run}.ams", made.digest),
        (f"{run}.lim", made.digest),
    }


def test_an_order_goes_out_again_under_its_own_name_until_it_is_taken(ground: Ground) -> None:
    """The same order after a while, and none once its agent says that it has it."""
    run = ground.begin(plan(AMS))
    ground.tend(run)
    ground.tend(run)
    (first,) = [order for order in ground.broker.sent if order.job is OrderJob.STAGE]
    ground.now_s += AGAIN_S
    ground.tend(run)
    again = [order for order in ground.broker.sent if order.job is OrderJob.STAGE]
    assert again == [first, first]
    ground.say("ams", f"{run}.ams", WordKind.ACCEPTED, {"order": first.id, "job": "stage"})
    ground.now_s += AGAIN_S
    ground.tend(run)
    assert len([order for order in ground.broker.sent if order.job is OrderJob.STAGE]) == 2


def test_a_broker_that_is_away_is_told_once_and_sent_to_later(ground: Ground) -> None:
    """What could not be sent stays to be sent; people hear of it once, and when it is back."""
    run = ground.begin(plan(AMS))
    ground.broker.is_away = True
    follower, view = Follower(ground.centre, ground.centre.run_named(run), ANN), Watching()
    follower.follow(view, left=lambda: True)
    follower.follow(view, left=lambda: True)
    ground.broker.is_away = False
    follower.follow(view, left=lambda: True)
    assert [text.partition(".")[0] for text in view.said] == [
        "broker: expected it to answer: it is away",
        "the broker takes orders again",
    ]
    assert ground.broker.jobs(OrderJob.STAGE) == [("stage", f"{run}.ams")]


def test_a_broker_that_is_away_at_the_start_stops_the_run_before_it_begins(ground: Ground) -> None:
    """Nothing is entered where nobody can be asked."""
    ground.broker.is_away = True
    with pytest.raises(BrokerUnreachable):
        ground.begin(plan(AMS))
    with pytest.raises(ConfigInvalid, match="the journal has no run yet"):
        ground.centre.run_named("latest")


def test_who_does_not_answer_stops_the_run_before_it_begins(ground: Ground) -> None:
    """A site that is silent, and no other is given anything."""
    ground.broker.on_look = lambda order: ground.answer(order) if order.site == "ams" else None
    with pytest.raises(ConfigInvalid, match="site lim: expected its agent to answer, found that it never has"):
        ground.begin(plan([*AMS, *LIM]))
    assert ground.broker.jobs(OrderJob.STAGE) == []


def test_a_plan_that_is_over_is_refused(ground: Ground) -> None:
    """No site begins a plan whose end is past."""
    with pytest.raises(ConfigInvalid, match="the plan's end, 2026-01-01T00:00:00"):
        ground.begin(plan(AMS, ends_at="2026-01-01T00:00:00+00:00"))
    assert ground.broker.sent == []


def test_a_plan_that_cannot_be_offered_is_refused_before_anything_is_sent(ground: Ground) -> None:
    """The folder that agents fetch from is not there: told with its key."""
    (ground.folder / "plans").rmdir()
    with pytest.raises(ConfigInvalid, match="cannot be offered") as caught:
        ground.begin(plan(AMS))
    assert "plans_folder" in str(caught.value)
    assert run_overviews(ground.ledger, most=5) == ()
    assert ground.broker.jobs(OrderJob.STAGE) == []


def plans_of(ground: Ground) -> set[str]:
    return {path.name for path in (ground.folder / "plans").iterdir()}


def end(ground: Ground, run: str) -> None:
    ground.do_all("ams", f"{run}.ams", [one.host for one in AMS])
    look(ground, run)


def test_a_plan_goes_once_every_run_of_it_has_ended(ground: Ground) -> None:
    """Agents fetch it while one is open; the ledger has its text, so the run is reported and begun again as ever."""
    made = plan(AMS)
    name = f"plan-{made.digest}.json"
    first, second = ground.begin(made), ground.begin(made)
    end(ground, first)
    assert plans_of(ground) == {name}
    end(ground, second)
    assert plans_of(ground) == set()
    assert run_exit_code(run_report(merged(ground.ledger, ground.centre.run_named(first)))) is ExitCode.OK
    third = ground.begin(made)
    assert plans_of(ground) == {name}
    end(ground, third)
    assert plans_of(ground) == set()


def test_a_plan_that_was_there_before_stays(ground: Ground) -> None:
    """The operator put it there; a damaged one of that name is replaced by ours, and ours goes."""
    made = plan(AMS)
    path = ground.folder / "plans" / f"plan-{made.digest}.json"
    path.write_text(plan_text(made))
    end(ground, ground.begin(made))
    assert path.is_file()
    path.write_text("damaged")
    end(ground, ground.begin(made))
    assert not path.exists()


def test_a_plan_that_cannot_be_removed_is_tried_again(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends all the same; the next one that ends takes both plans."""

    def refuse(_path: Path, *, missing_ok: bool) -> None:
        raise PermissionError(13, f"Permission denied ({missing_ok})")

    first = plan(AMS)
    run = ground.begin(first)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", refuse)
        end(ground, run)
    assert ground.centre.run_named(run).ended_at is not None
    assert plans_of(ground) == {f"plan-{first.digest}.json"}
    end(ground, ground.begin(plan(AMS, ends_at="2999-01-01T00:00:00+00:00")))
    assert plans_of(ground) == set()


def test_agents_are_told_what_was_heard_and_asked_for_what_is_missing(ground: Ground) -> None:
    """What is whole is acknowledged; where a word is missing that is told again after a while, which asks for it."""
    run = ground.begin(plan(AMS))
    called = f"{run}.ams"
    ground.say("ams", called, WordKind.ACCEPTED, {})
    ground.tend(run)
    heard = [order.offset for order in ground.broker.sent if order.job is OrderJob.ACKNOWLEDGE and order.run == called]
    assert heard == [1]
    ground.say("ams", called, WordKind.EVENT, {"events": []}, offset=3)
    for _ in range(4):
        ground.now_s += max(ACKNOWLEDGE_EVERY_S, GAP_S) + 1
        ground.tend(run)
    heard = [order.offset for order in ground.broker.sent if order.job is OrderJob.ACKNOWLEDGE and order.run == called]
    assert len(heard) > 2
    assert set(heard) == {1}
    ground.say("ams", called, WordKind.EVENT, {"events": []}, offset=2)
    ground.now_s += ACKNOWLEDGE_EVERY_S + 1
    ground.tend(run)
    assert [order.offset for order in ground.broker.sent if order.job is OrderJob.ACKNOWLEDGE][-1] == 3


def canaried() -> FleetPlan:
    return plan([*AMS, *LIM], WavePolicy())


def test_all_but_the_canaries_are_held_until_these_are_good(ground: Ground) -> None:
    """One device of the fleet goes first, by an order of its own; its record opens the rest at all sites."""
    run = ground.begin(canaried())
    ground.tend(run)
    assert ground.broker.jobs(OrderJob.STAGE) == [("stage", f"{run}.ams.canary")]
    assert states(ground, run) == {"ams 0": "given", "ams 1": "held", "lim 1": "held"}
    ground.record("ams", f"{run}.ams.canary", "ams-r0")
    view = look(ground, run)
    assert "the first devices (canaries) are good: all sites go on" in view.said
    ground.tend(run)
    assert sorted(ground.broker.jobs(OrderJob.STAGE))[1:] == [("stage", f"{run}.ams.canary"), ("stage", f"{run}.lim")]
    assert states(ground, run)["lim 1"] == "given"


def test_a_canary_that_fails_leaves_the_rest_as_it_is(ground: Ground) -> None:
    """What was held is never given; the run is over once the canary's site is, with why in every record."""
    run = ground.begin(canaried())
    ground.record("ams", f"{run}.ams.canary", "ams-r0", "failed")
    ground.end("ams", f"{run}.ams.canary")
    view = look(ground, run)
    assert any("no site begins anything more: 1 of the first devices" in text for text in view.said)
    assert states(ground, run) == {"ams 0": "ended", "ams 1": "ended", "lim 1": "ended"}
    report = run_report(merged(ground.ledger, ground.centre.run_named(run)))
    assert [one.outcome for one in report.devices] == [Outcome.FAILED, *[Outcome.NOT_STARTED] * 5]
    assert report.devices[5].failure is not None
    assert "site lim: not given: 1 of the first devices" in report.devices[5].failure.reason
    assert ground.broker.jobs(OrderJob.STAGE) == []


def test_where_people_approve_each_site_is_told_of_its_own_waves(ground: Ground) -> None:
    """A wave approved by a person opens what was held for it, and goes to sites that have it, and to no other."""
    run = ground.begin(plan([*AMS, *LIM], WavePolicy(canary=False, by="site", size=2, approve=True)))
    assert states(ground, run) == {"ams 0": "given", "ams 1": "held", "lim 1": "held"}
    found = ground.centre.run_named(run)
    assert wave_to_approve(found, None) == 1
    ground.centre.steer(found, SteerKind.APPROVE, ANN, wave=2)
    assert states(ground, run) == {"ams 0": "given", "ams 1": "given", "lim 1": "given"}
    ground.centre.steer(ground.centre.run_named(run), SteerKind.APPROVE, ANN, wave=3)
    ground.tend(run)
    assert ground.broker.jobs(OrderJob.APPROVE) == [("approve", f"{run}.lim")]
    with pytest.raises(ConfigInvalid, match="found that all can start"):
        wave_to_approve(ground.centre.run_named(run), None)


def test_a_wave_that_waits_for_a_yes_is_told(ground: Ground) -> None:
    """Once all before it is through, to who follows and who looks; not before, and not when the yes is there."""
    run = ground.begin(plan([*AMS, *LIM], WavePolicy(approve=True)))
    assert not [text for text in look(ground, run).said if "waits" in text]
    assert run_overview(ground.ledger, ground.centre.run_named(run)).waiting_wave is None
    ground.record("ams", f"{run}.ams.canary", "ams-r0")
    assert f"wave 1 waits: 'flashferry sites approve {run} --wave 1' lets sites begin it" in look(ground, run).said
    assert run_overview(ground.ledger, ground.centre.run_named(run)).waiting_wave == 1
    ground.centre.steer(ground.centre.run_named(run), SteerKind.APPROVE, ANN, wave=1)
    assert run_overview(ground.ledger, ground.centre.run_named(run)).waiting_wave is None


def test_behind_a_canary_that_failed_no_wave_waits(ground: Ground) -> None:
    """Nobody is asked for a yes to what is ended."""
    run = ground.begin(plan([*AMS, *LIM], WavePolicy(approve=True)))
    ground.record("ams", f"{run}.ams.canary", "ams-r0", "failed")
    said = look(ground, run).said
    assert any("no site begins anything more" in text for text in said)
    assert not [text for text in said if "waits" in text]


def test_who_is_paused_is_told_until_he_goes_on(ground: Ground) -> None:
    """Each site by what it was told last, alone or with all."""
    run = ground.begin(plan([*AMS, *LIM]))
    paused: list[tuple[str, ...]] = []
    for what, site in ((SteerKind.PAUSE, None), (SteerKind.CONTINUE, "ams"), (SteerKind.CONTINUE, None)):
        ground.centre.steer(ground.centre.run_named(run), what, ANN, site=site)
        paused.append(run_overview(ground.ledger, ground.centre.run_named(run)).paused)
    assert paused == [("ams", "lim"), ("lim",), ()]


def test_runs_are_listed_the_newest_first(ground: Ground) -> None:
    """With what their devices came to, and no more of them than wanted."""
    first = ground.begin(plan(AMS))
    second = ground.begin(plan(LIM))
    assert [one.run_id for one in run_overviews(ground.ledger, most=5)] == [second, first]
    assert [one.run_id for one in run_overviews(ground.ledger, most=1)] == [second]


def test_a_stop_reaches_what_is_under_way_and_ends_what_is_held(ground: Ground) -> None:
    """Sites that have something in hand are told; what was never given is over at once."""
    run = ground.begin(canaried())
    ground.say("ams", f"{run}.ams.canary", WordKind.ACCEPTED, {})
    told = ground.centre.steer(ground.centre.run_named(run), SteerKind.STOP, ANN)
    ground.tend(run)
    assert told == ("ams", "lim")
    assert ground.broker.jobs(OrderJob.STOP) == [("stop", f"{run}.ams.canary")]
    assert states(ground, run) == {"ams 0": "accepted", "ams 1": "ended", "lim 1": "ended"}


def test_steering_nobody_is_refused(ground: Ground) -> None:
    """A site that has nothing of the run, and a run that is over."""
    run = ground.begin(plan(AMS))
    with pytest.raises(ConfigInvalid, match=f"expected site lim to have something of run {run} in hand, found none"):
        ground.centre.steer(ground.centre.run_named(run), SteerKind.PAUSE, ANN, site="lim")
    ground.do_all("ams", f"{run}.ams", [one.host for one in AMS])
    with pytest.raises(ConfigInvalid, match=f"expected run {run} to be under way"):
        ground.centre.steer(ground.centre.run_named(run), SteerKind.PAUSE, ANN)


def test_lines_of_sites_stand_in_the_order_in_which_they_were_heard(ground: Ground) -> None:
    """A site's run counts from its own beginning: nobody's lines go back in time."""
    run = ground.begin(plan([*AMS, *LIM]))
    event = {"step": "pull", "status": "done", "text": "copied"}
    ground.say("ams", f"{run}.ams", WordKind.EVENT, {"events": [event | {"host": "ams-r0", "at_s": 900.0}]})
    ground.say("lim", f"{run}.lim", WordKind.EVENT, {"events": [event | {"host": "lim-r0", "at_s": 1.0}]})
    at_s = [one.at_s for one in look(ground, run).events]
    assert at_s == sorted(at_s)
    assert max(at_s) < 100


def test_who_follows_an_ended_run_sees_when_things_happened(ground: Ground) -> None:
    """By the times in the ledger since the run began: in order whatever a site's clock has, and none later than now."""
    run = ground.begin(plan([*AMS, *LIM]))
    with ground.ledger.writing() as database:
        database.execute("UPDATE runs SET started_at = ?", (moment(now() - timedelta(seconds=600)),))
    started = moment_of(ground.centre.run_named(run).started_at)

    def copied(site: str, after_s: float) -> None:
        at = moment(started + timedelta(seconds=after_s))
        event = {"host": f"{site}-r0", "step": "pull", "status": "done", "text": "copied", "at_s": 1.0, "at": at}
        ground.say(site, f"{run}.{site}", WordKind.EVENT, {"events": [event]})

    copied("ams", 100.0)
    copied("lim", 90.0)
    copied("lim", 250.5)
    copied("ams", 900.0)
    ground.do_all("ams", f"{run}.ams", [one.host for one in AMS])
    ground.do_all("lim", f"{run}.lim", [one.host for one in LIM])
    with ground.ledger.writing() as database:
        ended = moment(started + timedelta(seconds=300))
        database.execute("UPDATE parts SET changed_at = ?", (ended,))
    events = look(ground, run).events
    assert [round(one.at_s, 1) for one in events if one.host][:3] == [100.0, 100.0, 250.5]
    assert events[0].at_s == 0.0
    assert all(600 <= one.at_s < 700 for one in events[4:])


def test_a_run_is_followed_to_its_end_and_reported_as_one(ground: Ground) -> None:
    """Events of all sites, then records in the plan's order with those that the plan left out; the report reads so."""
    run = ground.begin(plan([*AMS, device("x", "ams", action=Action.REFUSED), *LIM]))
    ground.tend(run)
    event = {"host": "ams-r0", "step": "pull", "status": "done", "text": "copied", "at_s": 1.0, "site": "of the plan"}
    nonsense = [{"host": 7}, {"step": "pull"}, event | {"progress": "much"}]
    ground.say("ams", f"{run}.ams", WordKind.EVENT, {"events": [event, *nonsense]})
    ground.do_all("ams", f"{run}.ams", [one.host for one in AMS])
    ground.do_all("lim", f"{run}.lim", [one.host for one in LIM])
    view = Watching()
    assert Follower(ground.centre, ground.centre.run_named(run), ANN).follow(view)
    assert [(one.host, one.site) for one in view.events if one.host] == [("ams-r0", "ams")]
    found = merged(ground.ledger, ground.centre.run_named(run))
    report = run_report(found)
    assert [one.host for one in report.devices] == [*(one.host for one in AMS), "x", *(one.host for one in LIM)]
    assert [one.outcome for one in report.devices].count(Outcome.DONE) == 6
    assert not report.interrupted
    told = report_of_sites(found)
    assert told.standing is RunState.FINISHED
    assert [one.host for one in told.devices] == [one.host for one in report.devices]


def test_a_report_before_the_end_says_what_is_not_known(ground: Ground) -> None:
    """A device without a word of it is not begun as far as anybody knows, with what to do; the run is alive."""
    run = ground.begin(plan([*AMS, *LIM]))
    ground.record("ams", f"{run}.ams", "ams-r0")
    found = merged(ground.ledger, ground.centre.run_named(run))
    report = run_report(found)
    assert [one.outcome for one in report.devices] == [Outcome.DONE, *[Outcome.NOT_STARTED] * 5]
    failure = report.devices[3].failure
    assert failure is not None
    assert failure.reason == "site lim has it in hand, or will: no report of it came yet"
    assert failure.hint == f"'flashferry sites follow {run}' collects it once the site answers"
    assert report_of_sites(found).standing is RunState.ALIVE


def test_a_record_that_cannot_be_read_is_an_error_and_hides_no_other(ground: Ground) -> None:
    """A record of another form is told as one, of its own device alone."""
    run = ground.begin(plan(AMS))
    bad = {"host": "ams-r0", "record": {"host": "ams-r0", "state": "dancing"}}
    ground.say("ams", f"{run}.ams", WordKind.RECORD, bad)
    ground.record("ams", f"{run}.ams", "ams-r1")
    report = run_report(merged(ground.ledger, ground.centre.run_named(run)))
    assert [one.outcome for one in report.devices[:2]] == [Outcome.ERROR, Outcome.DONE]


def test_a_silent_site_is_told_with_when_it_was_heard_and_when_it_is_back(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once when it falls silent, and once when it is heard again."""
    from flashferry.sites.centre import following

    run = ground.begin(plan(AMS))
    follower, view = Follower(ground.centre, ground.centre.run_named(run), ANN), Watching()
    follower.follow(view, left=lambda: True)
    assert view.said == []
    present = following.now
    monkeypatch.setattr(following, "now", lambda: present() + timedelta(minutes=12))
    follower.follow(view, left=lambda: True)
    follower.follow(view, left=lambda: True)
    assert view.said == ["silent: ams (last message 12 min ago); what it has in hand goes on there"]
    assert follower.silence() == {"ams": "last message 12 min ago"}
    monkeypatch.setattr(following, "now", lambda: present() + timedelta(minutes=13))
    assert follower.silence() == {"ams": "last message 13 min ago"}
    monkeypatch.setattr(following, "now", present)
    follower.follow(view, left=lambda: True)
    assert view.said[1:] == ["site ams answers again"]
    assert follower.silence() == {}


def fetches(ground: Ground, done_bytes: int | None, image: str = "image.bin") -> None:
    """Have the agent of ams tell which image comes into its depot."""
    told = {"image": image, "phase": "copying", "done_bytes": done_bytes, "size_bytes": 1000}
    ground.say("ams", "", WordKind.BEAT, {"fetching": None if done_bytes is None else told})


def test_an_image_that_comes_into_a_depot_is_told_as_it_goes_on(ground: Ground) -> None:
    """When it begins and at each quarter; as of now for a view; nothing once it is there, or the site is through."""
    run = ground.begin(plan(AMS))
    follower, view = Follower(ground.centre, ground.centre.run_named(run), ANN), Watching()
    for done_bytes in (0, 100, 300, 400, 800):
        fetches(ground, done_bytes)
        follower.check(view)
    assert view.said == [f"site ams fetches image.bin: copying, {share}% of 1.0 kB" for share in (0, 30, 80)]
    assert follower.fetching() == {"ams": "image.bin: copying, 80%"}
    (part,) = run_overview(ground.ledger, ground.centre.run_named(run)).parts
    assert part.fetching is not None
    assert part.fetching.percent == 80
    (site, _) = overview(ground.ledger, ground.settings)
    assert site.fetching == part.fetching
    fetches(ground, None)
    follower.check(view)
    assert follower.fetching() == {}
    fetches(ground, 10, "other.bin")
    ground.do_all("ams", f"{run}.ams", [one.host for one in AMS])
    follower.check(view)
    assert (follower.fetching(), len(view.said)) == ({}, 3)
    assert run_overview(ground.ledger, ground.centre.run_named(run)).parts[0].fetching is None


def test_what_was_left_out_is_in_no_report_and_fails_nothing(ground: Ground) -> None:
    """The run is that of the others: through and good when these are, whatever the plan says of the rest."""
    refused = device("hq-r1", "hq", action=Action.REFUSED)
    made = plan([*AMS, device("hq-r0", "hq"), refused])
    left = [one.host for one in left_out(made, ground.settings, ["hq"])]
    found = shares(made, ground.settings, only=frozenset(one.host for one in AMS))
    run = ground.centre.begin(ReadPlan(plan=made, text=plan_text(made)), found, ANN, left)
    ground.do_all("ams", f"{run}.ams", [one.host for one in AMS])
    entry = ground.centre.run_named(run)
    report = run_report(merged(ground.ledger, entry))
    assert [one.host for one in report.devices] == [one.host for one in AMS]
    assert run_exit_code(report) is ExitCode.OK
    assert len(report_of_sites(merged(ground.ledger, entry)).devices) == len(AMS)
    assert run_overview(ground.ledger, entry).left_out == ("hq-r0", "hq-r1")
    assert [one.host for one in Follower(ground.centre, entry, ANN).roster().devices] == [one.host for one in AMS]


def test_a_site_that_is_through_may_be_silent(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is to be heard of it any more, so no row of it says so."""
    from flashferry.sites.centre import following

    run = ground.begin(plan([*AMS, *LIM]))
    ground.do_all("ams", f"{run}.ams", [f"ams-r{n}" for n in range(len(AMS))])
    follower, view = Follower(ground.centre, ground.centre.run_named(run), ANN), Watching()
    present = following.now
    monkeypatch.setattr(following, "now", lambda: present() + timedelta(minutes=12))
    follower.follow(view, left=lambda: True)
    assert follower.silence() == {"lim": "last message 12 min ago"}


def test_another_centre_goes_on_where_one_died(ground: Ground) -> None:
    """A ledger opened anew has all that was heard; orders that were not taken go out again."""
    run = ground.begin(canaried())
    ground.tend(run)
    ground.record("ams", f"{run}.ams.canary", "ams-r0")
    ground.broker.sent.clear()
    ground.open()
    look(ground, run)
    ground.tend(run)
    assert ("heard", f"{run}.ams.canary") in ground.broker.jobs(OrderJob.ACKNOWLEDGE)
    assert sorted(ground.broker.jobs(OrderJob.STAGE)) == [("stage", f"{run}.ams"), ("stage", f"{run}.lim")]


def test_our_release_is_the_installed_one() -> None:
    """Orders name the release that is installed."""
    assert our_release().count(".") == 2


def test_a_device_that_a_site_left_in_hand_is_not_restored_whatever_its_record_says(ground: Ground) -> None:
    """What the end of a part names as held outweighs all else; a device without a word has failed."""
    run = ground.begin(plan(AMS))
    called = f"{run}.ams"
    ground.record("ams", called, "ams-r0")
    end = {"job": "stage", "exit_code": None, "sentence": "its process died 3 times", "held": ["ams-r0", "ams-r1"]}
    ground.say("ams", called, WordKind.ENDED, end)
    found = merged(ground.ledger, ground.centre.run_named(run))
    report = run_report(found)
    assert [one.outcome for one in report.devices] == [Outcome.DONE, Outcome.FAILED, Outcome.FAILED]
    assert [one.restored.value for one in report.devices] == ["incomplete", "incomplete", "untouched"]
    assert run_exit_code(report) is ExitCode.RESTORE_INCOMPLETE
    assert report_exit_code(report_of_sites(found)) is ExitCode.DEVICES_FAILED
