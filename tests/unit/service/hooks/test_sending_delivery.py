"""The outbox is emptied: tries with growing pauses for a day, order kept, one hook's trouble nobody else's."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest

from flashferry.service.hooks.sending import GIVES_UP_AFTER_S, Delivery, pause
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.audit import entries
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.hooks import HookRow, add_hook, hook_of, notices_of, revive
from tests.patience import PATIENCE_S
from tests.unit.service.hooks.receivers import web_receiver

BEGIN = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)


class Wound:
    """A service whose clock the test winds."""

    def __init__(self, folder):
        self.time = BEGIN
        self.service = Service(
            state=folder, settings=ServiceSettings(), database=ServiceDatabase(folder), now=lambda: self.time
        )
        self.look = Delivery()

    def pass_on(self, **later):
        self.time += timedelta(**later)
        self.look(self.service)

    def hook(self, name, url, *kinds, form="webhook"):
        with self.service.database.writing() as database:
            row = HookRow(hook_id=name, name=name, form=form, target=url, secret_name=None, kinds=tuple(kinds))
            add_hook(database, row)

    def announce(self, *sentences, kind=NoticeKind.RUN_ENDED):
        for sentence in sentences:
            with self.service.database.writing() as database:
                announce(self.service, database, kind, "run:1", sentence)

    def outbox(self, hook):
        with self.service.database.reading() as database:
            return notices_of(database, hook, most=100)


@pytest.fixture
def wound(tmp_path):
    return Wound(tmp_path)


def sentences(receiver):
    return [json.loads(body)["sentence"] for _, _, body in receiver.came]


def test_what_is_announced_is_sent_once(wound):
    """At the next look, in order, and never again."""
    with web_receiver() as receiver:
        wound.hook("a", receiver.url, "run.ended")
        wound.announce("first", "second")
        wound.pass_on(seconds=2)
        wound.pass_on(days=2)
    assert sentences(receiver) == ["first", "second"]
    assert all(row.delivered_at for row in wound.outbox("a"))


def test_a_try_that_failed_is_followed_by_others(wound):
    """With the same key, after a pause; what waits behind it keeps its place."""
    with web_receiver() as receiver:
        receiver.answers = [(500, {}), (500, {}), (200, {})]
        wound.hook("a", receiver.url, "run.ended")
        wound.announce("first", "second")
        wound.pass_on(seconds=2)
        assert wound.outbox("a")[-1].sentence == "expected an answer of 200 to 299, found 500"
        wound.pass_on(seconds=9)
        assert len(receiver.came) == 1, "nothing is tried before its time, nor what is behind it"
        wound.pass_on(seconds=2)
        wound.pass_on(seconds=21)
    assert sentences(receiver) == ["first", "first", "first", "second"]
    keys = [headers["idempotency-key"] for _, headers, _ in receiver.came]
    assert len({*keys[:3]}) == 1
    assert keys[3] != keys[0]


def test_pauses_grow_to_an_hour():
    """From ten seconds; a receiver may ask for longer, up to that."""
    found = [pause(attempts).total_seconds() for attempts in range(1, 12)]
    assert found == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert pause(1, 120).total_seconds() == 120
    assert pause(1, 10**9).total_seconds() == 3600
    assert pause(10**6).total_seconds() == 3600


def test_after_a_day_it_is_given_up_and_shown(wound):
    """As the audit says; an administrator has it tried once more."""
    with web_receiver() as receiver:
        receiver.answers = [(500, {})]
        wound.hook("a", receiver.url, "run.ended")
        wound.announce("first")
        passed_s = 0
        while not wound.outbox("a")[0].is_dead:
            wound.pass_on(seconds=600)
            passed_s += 600
            assert passed_s < 2 * GIVES_UP_AFTER_S
        assert GIVES_UP_AFTER_S - 3600 <= passed_s <= GIVES_UP_AFTER_S + 3600
        with wound.service.database.reading() as database:
            (entry,) = [one.entry for one in entries(database)]
        assert (entry.action, entry.actor, entry.object) == ("notice.given_up", "system", "hook:a")
        receiver.answers = [(200, {})]
        with wound.service.database.writing() as database:
            assert revive(database, "a", "2026-11-24T00:00:00.000Z") == 1
        wound.pass_on(days=3)
        assert wound.outbox("a")[0].delivered_at is not None


def test_an_address_that_is_gone_is_not_tried_again(wound):
    """410 is the receiver's word that it will never take anything."""
    with web_receiver() as receiver:
        receiver.answers = [(410, {})]
        wound.hook("a", receiver.url, "run.ended")
        wound.announce("first")
        wound.pass_on(seconds=2)
    assert wound.outbox("a")[0].is_dead


def test_one_hook_holds_up_no_other(wound):
    """One that fails and one that nobody can send to beside one that works."""
    with web_receiver() as receiver, web_receiver() as failing:
        failing.answers = [(500, {})]
        wound.hook("a", failing.url, "run.ended")
        wound.hook("b", "no address at all", "run.ended", form="syslog")
        wound.hook("c", receiver.url, "run.ended")
        wound.announce("first")
        wound.pass_on(seconds=2)
    assert sentences(receiver) == ["first"]
    assert wound.outbox("b")[0].sentence == "ValueError: no address at all"


def test_the_end_of_the_service_waits_for_no_receiver(wound):
    """What was not taken yet is sent after the next start."""
    wound.hook("a", "http://127.0.0.1:9", "run.ended")
    wound.announce("first")
    wound.service.stopping.set()
    thread = threading.Thread(target=wound.look, args=(wound.service,))
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert wound.outbox("a")[0].attempts == 0


def test_a_clock_put_back_holds_up_nothing(wound):
    """A pause that was reckoned in another year is none."""
    with web_receiver() as receiver:
        receiver.answers = [(500, {}), (200, {})]
        wound.hook("a", receiver.url, "run.ended")
        wound.announce("first")
        wound.pass_on(seconds=2)
        wound.pass_on(days=-365)
    assert sentences(receiver) == ["first", "first"]
    assert wound.outbox("a")[0].delivered_at is not None


def test_a_hook_that_follows_the_audit_is_sent_all_of_it(wound):
    """In order, none left out, none twice, however often its receiver was away."""
    with web_receiver() as receiver:
        receiver.answers = [(200, {}), (500, {}), (200, {})]
        wound.hook("a", receiver.url, "audit.entry")
        for number in range(5):
            with wound.service.database.writing() as database:
                wound.service.note(database, SYSTEM, "plan.made", f"plan:{number}")
        wound.pass_on(seconds=2)
        wound.pass_on(seconds=2)
        assert len(receiver.came) == 2, "the pause holds"
        wound.pass_on(seconds=20)
        wound.pass_on(seconds=2)
    found = [json.loads(body)["facts"]["object"] for _, _, body in receiver.came]
    assert found == ["plan:0", "plan:1", *(f"plan:{number}" for number in range(1, 5))]
    with wound.service.database.reading() as database:
        hook = hook_of(database, "a")
    assert hook is not None
    assert hook.audit_seq == 5
    assert receiver.came[1][1]["idempotency-key"] == receiver.came[2][1]["idempotency-key"] == "audit-2"
