"""What an agent tells: in order, again until it is heard, bounded, and followed from files without loss or repeat."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashferry.core.jobs import JobFolder
from flashferry.sites.agent import word_sender
from flashferry.sites.agent.execution import EventTail
from flashferry.sites.agent.word_sender import Identity, WordSender
from flashferry.sites.broker import BrokerUnreachable
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import MOST_DATA_BYTES, Word, WordKind, opened_word
from flashferry.store.sites import spool
from flashferry.store.sites.agents import AgentDatabase
from tests.patience import until

KEY = PrivateKey.make()


class FakeBroker:
    """Takes words, or is away, or has more than anybody takes."""

    def __init__(self) -> None:
        self.is_away = False
        self.waiting = 0
        self.words: list[Word] = []

    def send_word(self, envelope: str) -> None:
        if self.is_away:
            raise BrokerUnreachable("away")
        self.words.append(opened_word(envelope, [KEY.public]))

    def waiting_words(self) -> int:
        if self.is_away:
            raise BrokerUnreachable("away")
        return self.waiting

    def offsets(self, run: str = "run-1") -> list[int]:
        return [one.offset for one in self.words if one.run == run]


@pytest.fixture
def database(tmp_path: Path) -> AgentDatabase:
    return AgentDatabase(tmp_path / "state")


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()


@contextmanager
def teller(database: AgentDatabase, broker: FakeBroker) -> Iterator[WordSender]:
    """Run a teller that beats but once."""
    identity = Identity(agent="agent-1", site="ams", release="0.1.0", key=KEY)
    made = WordSender(database, broker, identity, beat=lambda: {"clock": "now"}, beat_s=3600)  # type: ignore[arg-type]
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_words_are_sent_in_their_order_by_whomever_they_are_told(database, broker) -> None:
    """From several threads; each once while nothing is lost."""
    with teller(database, broker) as made:
        threads = [threading.Thread(target=made.add, args=("run-1", WordKind.EVENT, {"n": n})) for n in range(20)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        until(lambda: len(broker.offsets()) == 20, "all are sent")
    assert broker.offsets() == list(range(1, 21))
    assert [one.kind for one in broker.words if not one.run] == [WordKind.BEAT]


def test_behind_a_gap_all_that_was_not_heard_is_sent_again(database, broker, monkeypatch) -> None:
    """The broker may have lost what it had; what was heard is not sent again."""
    monkeypatch.setattr(word_sender, "_PAUSE_FIRST_S", 0.05)
    with teller(database, broker) as made:
        for _ in range(3):
            made.add("run-1", WordKind.EVENT, {})
        until(lambda: broker.offsets() == [1, 2, 3], "they are sent")
        made.acknowledged("run-1", 1)
        broker.is_away = True
        made.add("run-1", WordKind.ENDED, {})
        until(lambda: made._complained_s > 0, "it is noticed")
        broker.words.clear()
        broker.is_away = False
        until(lambda: len(broker.offsets()) == 3, "they come again")
        assert broker.offsets() == [2, 3, 4]


def test_what_is_not_heard_comes_again_by_and_by(database, broker, monkeypatch) -> None:
    """Also while the broker is there: the centre may have lost it."""
    monkeypatch.setattr(word_sender, "_AGAIN_FIRST_S", 0.2)
    with teller(database, broker) as made:
        made.add("run-1", WordKind.EVENT, {})
        until(lambda: broker.offsets() == [1, 1], "it comes again")
        made.acknowledged("run-1", 1)
    with database.reading() as reading:
        assert spool.size(reading) == 0


def test_nothing_is_added_to_a_pile_that_nobody_takes(database, broker) -> None:
    """Words are safe on disk; they go once there is room."""
    broker.waiting = 10_000
    with teller(database, broker) as made:
        made.add("run-1", WordKind.EVENT, {})
        made.add("run-1", WordKind.EVENT, {})
        assert broker.words == []
        broker.waiting = 0
        until(lambda: broker.offsets() == [1, 2], "there is room")


def test_a_word_that_is_too_long_says_so_and_holds_up_no_other(database, broker) -> None:
    """Of what device it was is told."""
    with teller(database, broker) as made:
        made.add("run-1", WordKind.RECORD, {"order": "o1", "host": "r1", "record": "x" * MOST_DATA_BYTES})
        made.add("run-1", WordKind.ENDED, {})
        until(lambda: broker.offsets() == [1, 2], "both are sent")
    assert (broker.words[-2].data["host"], "more than a word holds" in broker.words[-2].data["cut"]) == ("r1", True)


class Tailed:
    """The events of a job, and who follows them."""

    def __init__(self, database: AgentDatabase) -> None:
        self.database = database
        self.folder = JobFolder.of(database.directory, "o1")
        self.folder.make()

    def tail(self) -> EventTail:
        """Return a follower that remembers nothing, as after a restart."""
        return EventTail(
            self.database, self.database.directory, order_id="o1", run="run-1", job_id="o1", progress_s=10.0
        )

    def write(self, text: str) -> None:
        with self.folder.events.open("a") as file:
            file.write(text)

    def told(self) -> list[dict]:
        with self.database.reading() as reading:
            return [line for word in spool.waiting(reading, {}) for line in word.data["events"]]


@pytest.fixture
def tailed(database: AgentDatabase) -> Tailed:
    return Tailed(database)


def line(number: int, **more: object) -> str:
    return json.dumps({"seq": number, "status": "done", "host": "r1", "at_s": float(number)} | more) + "\n"


def test_events_are_told_once_whoever_follows_them(tailed: Tailed) -> None:
    """Each look may be the first of another agent; a line that is half written waits for its other half."""
    assert not tailed.tail().take()
    tailed.write(line(1) + line(2)[:10])
    assert tailed.tail().take()
    assert not tailed.tail().take()
    tailed.write(line(2)[10:] + "no json\n" + line(3))
    tailed.tail().take()
    assert [one["seq"] for one in tailed.told()] == [1, 2, 3]


def test_mere_progress_is_thinned_and_nothing_else(tailed: Tailed) -> None:
    """By device and by the times in the lines."""
    progress = [line(n, status="progress", host=host, at_s=float(n)) for n in range(25) for host in ("r1", "r2")]
    tailed.write("".join(progress) + line(99))
    tailed.tail().take()
    found = [(one["host"], one["at_s"]) for one in tailed.told()]
    assert found == [*((host, at) for at in (0.0, 10.0, 20.0) for host in ("r1", "r2")), ("r1", 99.0)]


def test_many_events_are_several_words(tailed: Tailed) -> None:
    """None is longer than a word may be."""
    tailed.write("".join(line(n, text="x" * 500) for n in range(1, 400)))
    tailed.tail().take()
    with tailed.database.reading() as reading:
        words = spool.waiting(reading, {})
    assert len(words) > 1
    assert [one["seq"] for word in words for one in word.data["events"]] == list(range(1, 400))
