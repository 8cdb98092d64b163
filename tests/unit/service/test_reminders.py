"""People are reminded of what is changed and not restored, every hour while it is so, whoever began the run."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from flashferry.core.values import replace
from flashferry.model.states import RunState
from flashferry.service.live.presenters import action_items
from flashferry.service.notices import NoticeKind
from flashferry.service.reminders import Reminding, remind
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.journal import Journal
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.hooks import HookRow, add_hook, notices_of
from flashferry.store.service.jobs import Job, JobKind
from tests.unit.conftest import take
from tests.unit.service.live.made import NOW, device, run, scene


@pytest.fixture
def reminding(tmp_path):
    """Return what reminds of a scene some time later, and what was announced since."""
    time = [NOW]
    service = Service(
        state=tmp_path, settings=ServiceSettings(), database=ServiceDatabase(tmp_path), now=lambda: time[0]
    )
    kinds = (NoticeKind.NOT_RESTORED.value, NoticeKind.OUTSIDE_WINDOW.value)
    with service.database.writing() as database:
        hook = HookRow(hook_id="a", name="a", form="syslog", target="udp://x", secret_name=None, kinds=kinds)
        add_hook(database, hook)
    seen = []

    def after(found, **later):
        time[0] += timedelta(**later)
        remind(service, found)
        return announced()

    def announced():
        with service.database.reading() as database:
            rows = [row for row in notices_of(database, "a", most=99) if row.notice_id not in seen]
        seen.extend(row.notice_id for row in rows)
        return [(row.kind, json.loads(row.body)["sentence"]) for row in reversed(rows)]

    after.service = service
    after.announced = announced
    return after


def job(ended_at=None):
    told = {"words": (), "requested_by": "anna", "via": "session", "created_at": moment(NOW)}
    return Job(job_id="j1", kind=JobKind.RECOVER, run_id="dead", ended_at=ended_at, **told)


DEAD = scene(run(device("r1", "tuned", is_held=True), state=RunState.DIED, run_id="dead"))
CALM = scene(run(device("r1", "done", outcome="done"), state=RunState.FINISHED, run_id="dead"))
TOLD = ("device.not_restored", "dead: the run died and left 1 device changed and not restored: r1")


def test_it_is_told_at_once_and_every_hour(reminding):
    """Of a run from a shell, which nobody else tells of."""
    assert reminding(DEAD) == [TOLD]
    assert reminding(DEAD, minutes=59) == []
    assert reminding(DEAD, minutes=1) == [TOLD]
    assert reminding(DEAD, hours=1) == [TOLD]


def test_the_first_word_about_a_job_is_its_end(reminding):
    """And to the recovery behind it; what nobody told of by then is told here, and each hour."""
    of_a_job = replace(DEAD, jobs={"dead": job(ended_at=moment(NOW))})
    assert reminding(of_a_job) == []
    assert reminding(of_a_job, minutes=9) == []
    assert reminding(of_a_job, minutes=1) == [TOLD]
    assert reminding(of_a_job, minutes=59) == []
    assert reminding(of_a_job, minutes=1) == [TOLD]


def test_a_job_that_comes_to_no_end_is_not_waited_for(reminding):
    """A recovery that hangs is no reason to tell nobody."""
    of_a_job = replace(DEAD, jobs={"dead": job()})
    assert reminding(of_a_job, minutes=59) == []
    assert reminding(of_a_job, minutes=1) == [TOLD]


def test_what_was_told_behind_the_look_is_not_over(reminding):
    """A job told of it while the look was under way, which saw nothing of it yet: it is not told twice."""
    assert reminding(DEAD, minutes=1) == [TOLD]
    assert reminding(CALM) == []
    assert reminding(DEAD, minutes=1) == []


def test_what_is_over_is_forgotten(reminding):
    """And told of at once should it come again."""
    assert reminding(DEAD) == [TOLD]
    assert reminding(replace(CALM, read_at=NOW + timedelta(minutes=1)), minutes=1) == []
    assert reminding(DEAD, minutes=1) == [TOLD]


def test_a_run_that_will_be_late_is_told_of_once(reminding):
    """As long as it stays so."""
    until = (NOW + timedelta(minutes=1)).isoformat()
    late = scene(run(device("r1", "copying"), until=until))
    if not action_items(late):
        late = scene(replace(late.runs[0], ends_at=NOW + timedelta(hours=1), until=NOW))
    ((kind, sentence),) = reminding(late)
    assert kind == "outside.window"
    assert "after its window" in sentence
    assert reminding(late, hours=2) == []


def test_a_clock_put_back_silences_nobody(reminding):
    """What was told in a time to come is told again."""
    assert reminding(DEAD) == [TOLD]
    assert reminding(DEAD, days=-400) == [TOLD]
    assert reminding(DEAD, minutes=30) == []


def test_it_looks_at_the_journal(reminding):
    """A run that died with a device in hand is found by itself; a journal that cannot be read is nothing over."""
    with Journal(reminding.service.state) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios")
        take(journal, run_id, "r1", "SN/r1")
    look = Reminding()
    look(reminding.service)
    ((kind, sentence),) = reminding.announced()
    assert kind == "device.not_restored"
    assert "r1" in sentence
