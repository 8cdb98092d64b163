"""Who must act: the sentences of the wall screen, and what its figures are of."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flashferry.model.states import RunState
from flashferry.service.live.presenters import (
    Urgency,
    action_items,
    clock,
    current_runs,
    run_board,
    tonight_board,
    whole,
)
from flashferry.service.live.snapshot import EventView
from flashferry.store.service.figures import WaitingPlan
from flashferry.store.status import LostDevice
from tests.unit.service.live.made import NOW, RUN, device, run, scene
from tests.unit.service.live.test_snapshot import copying

PLAN = WaitingPlan(
    digest="7c1e" * 16, title="branches", sites=("AMS",), devices=240, made_by="ada",
    made_at="2026-11-22T01:00:00.000Z", ends_at=None,
)  # fmt: skip
DEAD = run(
    device("r1", "tuned", is_held=True), device("r2", "done", outcome="done"), state=RunState.DIED, run_id="dead"
)


def urgencies(found) -> list[Urgency]:
    return [need.urgency for need in action_items(found)]


def test_a_calm_night_needs_nobody():
    """And says so in one line, in green."""
    calm = scene(
        run(device("r1", "done", outcome="done"), state=RunState.FINISHED, finished_at="2026-11-22T02:00:00+00:00")
    )
    assert action_items(calm) == ()
    alarm = tonight_board(calm, {})["now"]["now"]["alarm"]
    assert (alarm.text, alarm.tone) == ("Nothing is left changed, nothing needs attention, nothing is running.", "good")


def test_a_dead_run_with_touched_devices_is_red_and_first():
    """Whatever else there is."""
    found = scene(run(device(), waiting_wave=1), DEAD, plans=(PLAN,))
    assert urgencies(found) == [Urgency.DEAD, Urgency.WAVE, Urgency.PLAN]
    assert action_items(found)[0].sentence == "the run died and left 1 device changed and not restored: r1"
    now = tonight_board(found, {})["now"]["now"]
    assert (now["unrestored"].text, now["unrestored"].tone, now["alarm"].tone) == ("1", "bad", "bad")
    assert now["alarm"].text == "1 device is changed and NOT RESTORED. 3 items need attention."


def test_what_the_journal_lost_is_red():
    """By the files beside it."""
    found = scene(lost=(LostDevice(run_id="x", host="r7", address="192.0.2.7"),))
    assert urgencies(found) == [Urgency.NOT_RESTORED]
    assert tonight_board(found, {})["now"]["now"]["unrestored"].text == "1"


def test_a_wave_that_waits_says_since_when():
    """As the run told it."""
    found = scene(run(device(), waiting_wave=2, heard=EventView(hold="waiting", hold_since="2026-11-22T02:02:00.000Z")))
    (row,) = tonight_board(found, {})["needs"].values()
    assert (row["sentence"].text, row["since"].text) == ("wave 2 waits for approval", "02:02")
    assert row["what"].path == f"/runs/{RUN}"


@pytest.mark.parametrize(
    ("found", "since"),
    [
        (
            run(device("r1", "copied", is_held=True, updated_at="2026-11-22T01:41:00+00:00"), state=RunState.DIED),
            "01:41",
        ),
        (run(device("r1", updated_at="2026-11-22T01:40:00+00:00"), state=RunState.DIED), "01:40"),
        (
            run(
                device("r1", "done", outcome="done", updated_at="2026-11-22T01:50:00+00:00"),
                device("r2", wave=1, updated_at="2026-11-22T01:00:00+00:00"),
                waiting_wave=1,
            ),
            "01:50",
        ),
        (
            run(
                *(
                    device(f"r{minute}", "failed", outcome="failed", updated_at=f"2026-11-22T01:{minute}:00+00:00")
                    for minute in (31, 30)
                ),
                state=RunState.FINISHED,
            ),
            "01:30",
        ),
    ],
)
def test_since_is_what_the_journal_knows_where_no_event_says_it(found, since):
    """The last change of a dead run, the end of the wave before the one that waits, the first failure; no dash."""
    (row,) = tonight_board(scene(found), {})["needs"].values()
    assert row["since"].text == since


def test_a_dead_run_shows_when_it_was_last_seen():
    """In place of an end that nobody wrote down."""
    found = run(device("r1", updated_at="2026-11-22T01:40:00+00:00"), state=RunState.DIED)
    assert run_board(found, scene(found), {})["run"]["run"]["end_at"].text == "01:40"


def test_a_time_that_nobody_knows_is_left_empty():
    """A dash would say that there is none."""
    found = scene(lost=(LostDevice(run_id="x", host="r7", address="192.0.2.7"),))
    (row,) = tonight_board(found, {})["needs"].values()
    assert row["since"].text == ""


WAVES = ({"number": 0, "name": "canary"}, {"number": 1, "name": "site AMS"}, {"number": 2, "name": "site LIM"})
IN_WAVES = (device("r0", "done", outcome="done", wave=0), device("r1", wave=1), device("r2", wave=2))


def test_a_wave_is_called_the_same_everywhere():
    """By number and name, after the word or below it."""
    found = run(*IN_WAVES, waves=WAVES, waiting_wave=1)
    board = run_board(found, scene(found), {})
    assert [row["wave"].text for row in board["waves"].values()] == ["0 (canary)", "1 (site AMS)", "2 (site LIM)"]
    assert board["run"]["run"]["hold"].text == "Wave 1 (site AMS) waits for approval since 02:00 UTC."
    assert action_items(scene(found))[0].sentence == "wave 1 (site AMS) waits for approval"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"approve": True}, (1, 2)),
        ({"approve": True, "approved_wave": 1}, (2,)),
        ({"approve": True, "state": RunState.DIED}, ()),
        ({}, ()),
    ],
)
def test_waves_ahead_are_those_that_will_wait_for_an_approval(more, expected):
    """The first never waits, and none does by a plan that asks for no approval."""
    assert run(*IN_WAVES, waves=WAVES, **more).waves_ahead == expected


def test_a_wave_that_was_stopped_is_not_finished():
    """Nor is one that a dead run left; one of which no device began was not started; failures finish one."""
    devices = (
        device("r0", "failed", outcome="failed", wave=0), device("r1", "failed", outcome="interrupted", wave=1),
        device("r2", "planned", outcome="not begun", wave=2),
    )  # fmt: skip
    for state, word in ((RunState.FINISHED, "stopped"), (RunState.DIED, "interrupted")):
        found = run(*devices, waves=WAVES, state=state)
        rows = run_board(found, scene(found), {})["waves"].values()
        assert [row["state"].text for row in rows] == ["finished", word, "not started"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (run(device(), is_paused=True), Urgency.HELD),
        (run(device("r1", "failed", outcome="failed")), Urgency.FAILED),
        (run(device("r1", "copying"), heard=EventView(last_at="2026-11-22T02:12:00.000Z")), Urgency.SILENT),
        (
            run(
                device("r1", "copying"),
                heard=EventView(devices={"r1": copying(rate=1.0)}, last_at="2026-11-22T02:14:00.000Z"),
                until=(NOW + timedelta(seconds=60)).isoformat(),
            ),
            Urgency.LATE,
        ),
        (run(device(), state=RunState.DIED), Urgency.HELD),
    ],
)
def test_what_else_needs_somebody(made, expected):
    """Paused, failed, silent for a minute, behind its window, dead without harm."""
    assert urgencies(scene(made)) == [expected]


def test_what_failed_and_was_done_later_needs_nobody():
    """The other way round it does: the later run counts."""
    failed = run(device("r1", "failed", outcome="failed"), state=RunState.FINISHED, run_id="failed")
    done = run(device("r1", "done", outcome="done"), state=RunState.FINISHED, run_id="done")
    assert urgencies(scene(done, failed)) == []
    assert urgencies(scene(failed, done)) == [Urgency.FAILED]


def test_a_run_that_waits_or_speaks_is_not_silent():
    """A paused one has nothing to say."""
    assert urgencies(scene(run(device("r1", "copying"), heard=EventView(last_at="2026-11-22T02:13:50.000Z")))) == []
    assert urgencies(scene(run(device(), is_paused=True, heard=EventView(last_at="2026-11-22T01:13:50.000Z")))) == [
        Urgency.HELD
    ]


def test_trouble_is_told_before_all():
    """A screen that cannot see is not green."""
    alarm = tonight_board(scene(trouble="the live state cannot be read: no"), {})["now"]["now"]["alarm"]
    assert (alarm.text, alarm.tone) == ("Out of date: the live state cannot be read: no", "bad")


def test_the_figures_are_of_what_goes_on():
    """Of runs that live or left something changed; else of the last one."""
    alive = run(device(), run_id="alive")
    over = run(device("r3", "done", outcome="done"), state=RunState.FINISHED, run_id="over")
    old = run(device("r3"), state=RunState.FINISHED, run_id="old", started_at="2026-11-20T01:00:00+00:00")
    assert [one.run_id for one in current_runs(scene(over, alive, DEAD))] == ["alive", "dead"]
    assert [one.run_id for one in current_runs(scene(over, old))] == ["over"]
    assert current_runs(scene(old)) == ()


def test_who_may_see_one_site_is_not_told_of_others():
    """Runs, plans and lost devices alike."""
    found = scene(
        DEAD,
        run(device("r5", site="LIM"), run_id="lima"),
        plans=(PLAN,),
        lost=(LostDevice(run_id="x", host="r7", address="?"),),
    )
    mine = found.seen_from(frozenset({"LIM"}))
    assert ([one.run_id for one in mine.runs], mine.plans, mine.lost) == (["lima"], (), ())
    assert found.seen_from(None) is found


def test_hostile_names_are_shown_and_not_obeyed():
    """Escape sequences and marks that turn the writing around are made visible."""
    nasty = "r1\x1b]0;x\x07\u202e"
    board = run_board(run(device(nasty, "failed", outcome="failed", reason=nasty)), scene(), {})
    row = board["devices"][nasty]
    assert row["host"].text == row["text"].text == "r1\\x1b]0;x\\x07\\u202e"
    assert row["host"].path == f"/runs/{RUN}/devices/r1%1B%5D0%3Bx%07%E2%80%AE"


def test_a_runs_devices_stand_by_what_matters():
    """Not restored, failed, under way, waiting, through."""
    devices = [
        device("done", "done", outcome="done"), device("waits"), device("copies", "copying", is_held=True),
        device("failed", "failed", outcome="failed"), device("left", "failed", outcome="failed", restored="incomplete"),
    ]  # fmt: skip
    assert list(run_board(run(*devices), scene(), {})["devices"]) == ["left", "failed", "copies", "waits", "done"]


def test_every_board_has_a_form_for_streams():
    """Text, tone and path, nothing else."""
    found = scene(run(device("r1", "copying"), heard=EventView(devices={"r1": copying()})), DEAD, plans=(PLAN,))
    told = whole(tonight_board(found, {"AMS": "Amsterdam"}))
    assert told["sites"]["rows"]["AMS"]["site"] == "Amsterdam"
    assert told["sites"]["rows"]["AMS"]["share"] == "70"


def test_a_time_of_another_day_has_its_day():
    """Over midnight nobody is to guess."""
    assert clock(NOW, NOW) == "02:14"
    assert clock(NOW + timedelta(days=1), NOW) == "Mon 02:14"
