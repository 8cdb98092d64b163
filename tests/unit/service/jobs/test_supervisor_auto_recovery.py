"""What follows the death of a run, step by step, whatever was known in between."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flashferry.core.values import replace
from flashferry.service.jobs.supervisor import RECOVERY_PAUSES_S, LeftRun, NextTry, next_try, starts_again
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, JobKind, JobState

from .conftest import AT, NOW

HELD = LeftRun(is_alive=False, is_finished=False, holds=2, is_stopped=False)
CLEAN = replace(HELD, holds=0)
DEAD = Job(
    job_id="j",
    kind=JobKind.STAGE,
    state=JobState.DEAD,
    words=(),
    requested_by="anna",
    via="session",
    created_at=AT,
    ended_at=AT,
)
RECOVER, RESUME = JobKind.RECOVER, JobKind.RESUME


def under(kind, attempt, state=JobState.ENDED, at=AT):
    return replace(DEAD, job_id=f"{kind}{attempt}", kind=kind, attempt=attempt, state=state, parent="j", ended_at=at)


def follows(tries=(), run=HELD, *, dead=DEAD, resumes=2, after_s=0.0):
    return next_try(dead, tries, run, resumes=resumes, now=NOW + timedelta(seconds=after_s))


def test_devices_are_restored_first_then_the_run_goes_on():
    """Recovery, resume; a second death has its own recovery; a third nobody goes on with."""
    assert follows() == NextTry(kind=RECOVER, attempt=1)
    tries = [under(RECOVER, 1)]
    assert follows(tries, CLEAN) == NextTry(kind=RESUME, attempt=1)
    tries.append(under(RESUME, 1, JobState.DEAD))
    assert follows(tries) == NextTry(kind=RECOVER, attempt=2)
    tries.append(under(RECOVER, 2))
    assert follows(tries, CLEAN) == NextTry(kind=RESUME, attempt=2)
    tries.append(under(RESUME, 2, JobState.DEAD))
    assert follows(tries) == NextTry(kind=RECOVER, attempt=3)
    tries.append(under(RECOVER, 3))
    assert follows(tries, CLEAN) is None


def test_a_run_that_touched_nothing_goes_on_at_once():
    """There is nothing to restore."""
    assert follows((), CLEAN) == NextTry(kind=RESUME, attempt=1)


def test_a_recovery_that_failed_is_tried_again_later_and_later():
    """Then people are needed; nothing is gone on with while a device is not restored."""
    tries = []
    for attempt, pause_s in enumerate(RECOVERY_PAUSES_S, 1):
        if pause_s:
            assert follows(tries, after_s=pause_s - 1) is None
        assert follows(tries, after_s=pause_s) == NextTry(kind=RECOVER, attempt=attempt)
        tries.append(under(RECOVER, attempt))
    assert follows(tries, after_s=3600) is None


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.STARTING, JobState.RUNNING])
def test_while_a_try_is_open_nothing_follows(state):
    """One at a time."""
    assert follows([replace(under(RECOVER, 1, state), ended_at=None)]) is None


@pytest.mark.parametrize(
    "run",
    [
        replace(HELD, is_alive=True),
        replace(CLEAN, is_alive=True),
        replace(CLEAN, is_finished=True),
        replace(CLEAN, is_stopped=True),
    ],
)
def test_a_run_that_somebody_has_in_hand_or_wanted_to_stop_is_left(run):
    """A person at the command line, or his wish, comes before ours."""
    assert follows((), run) is None


def test_a_stopped_run_is_restored_all_the_same():
    """To stop meant to restore."""
    assert follows((), replace(HELD, is_stopped=True)) == NextTry(kind=RECOVER, attempt=1)


def test_a_speed_test_is_restored_and_not_gone_on_with():
    """Somebody asks for another one where he wants it."""
    probe = replace(DEAD, kind=JobKind.PROBE)
    assert follows((), dead=probe) == NextTry(kind=RECOVER, attempt=1)
    assert follows([under(RECOVER, 1)], CLEAN, dead=probe) is None


def test_a_run_that_was_gone_on_with_to_its_end_is_over():
    """However it came out."""
    assert follows([under(RESUME, 1)], CLEAN) is None


def test_nobody_is_gone_on_with_where_the_settings_say_so():
    """`resumes = 0`: restored, then left to people."""
    assert follows(resumes=0) == NextTry(kind=RECOVER, attempt=1)
    assert follows([under(RECOVER, 1)], CLEAN, resumes=0) is None


def test_what_died_long_ago_is_left_to_people():
    """A service that was off for days does not begin to type into routers."""
    assert follows(after_s=25 * 3600) is None
    assert moment(NOW) == AT


@pytest.mark.parametrize(
    ("more", "deaths", "resumes", "after_s", "is_queued"),
    [
        ({}, 0, 2, 0, True),
        ({}, 1, 2, 0, True),
        ({}, 2, 2, 0, False),
        ({}, 0, 0, 0, False),
        ({"run_id": "r1"}, 0, 2, 0, False),
        ({"kind": RESUME, "run_id": "r1"}, 0, 2, 0, False),
        ({"kind": JobKind.PROBE}, 0, 2, 0, False),
        ({"kind": JobKind.PLAN}, 0, 2, 0, False),
        ({}, 0, 2, 25 * 3600, False),
    ],
)
def test_a_run_without_a_journal_entry_starts_again_so_often(more, deaths, resumes, after_s, is_queued):
    """As often as `resumes` says, where the journal has no run of the job, and not a day later."""
    dead, now = replace(DEAD, **more), NOW + timedelta(seconds=after_s)
    assert starts_again(dead, deaths=deaths, resumes=resumes, now=now) is is_queued
