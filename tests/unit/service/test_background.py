"""Keepers look again and again, survive what their looks raise, and say how they do."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.service.api.health import readyz
from flashferry.service.app import build_app
from flashferry.service.background import BackgroundTasks, PeriodicTask
from tests.patience import PATIENCE_S
from tests.unit.service.client import TestClient


class Looks:
    """Looks that fail as they are told, and can be waited for."""

    def __init__(self, *troubles: Exception | None) -> None:
        self.troubles = list(troubles)
        self.count = 0
        self.happened = threading.Condition()

    def __call__(self, service):
        with self.happened:
            self.count += 1
            self.happened.notify_all()
            trouble = self.troubles.pop(0) if self.troubles else None
        if trouble is not None:
            raise trouble

    def reach(self, count):
        with self.happened:
            assert self.happened.wait_for(lambda: self.count >= count, timeout=PATIENCE_S)


@pytest.fixture
def keeping(service):
    """Return what starts keepers; they end with the test."""
    begun = []

    def start(*keepers):
        made = BackgroundTasks(service, keepers)
        made.start()
        begun.append(made)
        return made

    yield start
    for one in begun:
        assert one.stop(PATIENCE_S) == ()


def test_a_look_that_fails_is_taken_again(keeping, caplog):
    """The keeper lives, is told of once while it fails alike, and once more when it looks again."""
    trouble = ConfigInvalid("expected a wall, found a door", hint="Build one")
    looks = Looks(trouble, trouble)
    with caplog.at_level(logging.WARNING):
        kept = keeping(PeriodicTask(name="builder", every_s=0.01, run=looks))
        looks.reach(5)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "expected a wall, found a door. Build one" in caplog.records[0].message
    assert caplog.records[0].exc_info is None, "what is expected has its sentence, no trace"
    assert kept.states()[0].is_good


def test_nobody_waits_for_another(keeping):
    """One that hangs holds up no other; one that raises what nobody foresaw ends nothing."""
    held = threading.Event()
    looks = Looks(ZeroDivisionError("b"))
    keeping(
        PeriodicTask(name="hanging", every_s=0.01, run=lambda service: held.wait(PATIENCE_S)),
        PeriodicTask(name="quick", every_s=0.01, run=looks),
    )
    looks.reach(3)
    held.set()


def test_who_fails_is_named_to_probes(service, keeping):
    """`/readyz` is 503 and says whose last look failed; not why, for anybody may ask."""
    looks = Looks(*[OSError("/very/private is gone")] * 1000)
    kept = keeping(PeriodicTask(name="scheduler", every_s=0.01, run=looks))
    looks.reach(2)
    with TestClient(build_app(service, background_tasks=kept)) as client:
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["looks"] == {"database": True, "journal": True, "disk": True, "keeper scheduler": False}
    assert "private" not in answer.text


def test_a_look_that_hangs_is_told(service, monkeypatch):
    """After two minutes in one look a keeper counts as failed."""
    held = threading.Event()
    kept = BackgroundTasks(service, [PeriodicTask(name="slow", every_s=1, run=lambda service: held.wait(PATIENCE_S))])
    kept.start()
    now_s = time.monotonic()
    try:
        assert kept.states()[0].is_good
        monkeypatch.setattr(time, "monotonic", lambda: now_s + 121)
        assert not kept.states()[0].is_good
    finally:
        monkeypatch.undo()
        held.set()
        kept.stop(PATIENCE_S)


def test_one_that_is_in_a_look_is_named_at_the_end(service):
    """The end waits for looks as long as it was told, no longer, and says who was cut."""
    held, looks = threading.Event(), threading.Event()
    look = lambda service: looks.set() or held.wait(PATIENCE_S)  # noqa: E731
    kept = BackgroundTasks(service, [PeriodicTask(name="slow", every_s=1, run=look)])
    kept.start()
    assert looks.wait(PATIENCE_S)
    assert kept.stop(0) == ("slow",)
    held.set()


def test_a_service_is_ready_as_it_begins(service):
    """An empty state folder, no journal yet, no keepers: ready."""
    assert readyz.__doc__
    with TestClient(build_app(service)) as client:
        assert client.get("/readyz").json()["status"] == "ready"


def test_a_journal_that_is_none_is_told(service):
    """Something else in the journal's place makes the service unready."""
    (service.state / "journal.sqlite3").write_text("no journal")
    with TestClient(build_app(service)) as client:
        assert client.get("/readyz").json()["looks"]["journal"] is False
