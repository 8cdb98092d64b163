"""An agent that continues whatever its ledger contains, and removes what is long over while it works."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.codec import encode
from flashferry.core.jobs import JobFolder
from flashferry.depot.sync.filling import SourceUnreachable
from flashferry.sites.agent.agent import Lanes, Retention
from flashferry.sites.agent.bench import Bench, SiteDepot
from flashferry.sites.agent.order_intake import OrderRefused, Taker
from flashferry.sites.agent.word_sender import Identity
from flashferry.sites.broker_settings import BrokerSettings
from flashferry.sites.keys import PrivateKey
from flashferry.sites.settings import AgentRuns, AgentSettings
from flashferry.sites.wire import Order, OrderJob, canonical, moment_text
from flashferry.store.sites import ledger
from flashferry.store.sites.agents import AgentDatabase
from tests.patience import until

NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path: Path) -> AgentSettings:
    PrivateKey.make().save(tmp_path / "agent.key")
    return AgentSettings(
        site="ams",
        state=tmp_path / "state",
        key=tmp_path / "agent.key",
        centres=(),
        broker=BrokerSettings(url="redis://127.0.0.1:1/0"),
        runs=AgentRuns(inventory=str(tmp_path / "inventory")),
        catalogue=tmp_path / "catalogue",
    )


class Teller:
    """Takes the news that something is to be reported."""

    def wake(self) -> None:
        """Ignore it."""


@pytest.fixture
def bench(settings: AgentSettings) -> Bench:
    depot = SiteDepot(settings.catalogue, None)
    teller: Any = Teller()
    database = AgentDatabase(settings.state)
    return Bench(settings=settings, database=database, depot=depot, teller=teller, ending=threading.Event())


@pytest.fixture
def taker(bench: Bench) -> Taker:
    key = PrivateKey.load(bench.settings.key)
    return Taker(bench, Identity(agent="agent", site="ams", release="1.2.3", key=key), news=lambda: None)


@pytest.fixture
def lanes(bench: Bench, taker: Taker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lanes]:
    """The lanes of an agent, which try again at once."""
    monkeypatch.setattr("flashferry.sites.agent.agent._AGAIN_S", 0.01)
    made = Lanes(bench, taker)
    yield made
    bench.ending.set()
    made.join()


def order(number: int, ends: timedelta) -> Order:
    return Order(
        id=f"o{number}",
        job=OrderJob.STAGE,
        run=f"part-{number}",
        site="ams",
        plan="a" * 64,
        devices=("r1",),
        valid_from=moment_text(NOW + ends - timedelta(hours=1)),
        valid_until=moment_text(NOW + ends),
        release="1.2.3",
    )


def enter(settings: AgentSettings, one: Order, body: str | None = None) -> None:
    with AgentDatabase(settings.state).writing() as database:
        text = body or canonical(encode(one))
        ledger.enter(database, order_id=one.id, job=one.job, run=one.run, work=one.id, body=text, at=moment_text(NOW))


def test_an_order_in_the_ledger_that_this_release_cannot_read_holds_up_no_other(settings, taker: Taker) -> None:
    """One of a release before: it is refused, and the next one is come to."""
    enter(settings, order(1, timedelta(hours=1)), body='{"id": "o1", "job": "stage", "run": "part-1", "speed": 9}')
    enter(settings, order(2, timedelta(hours=1)))
    assert [one.id for one in taker.left((OrderJob.STAGE,))] == ["o2"]
    with AgentDatabase(settings.state).reading() as database:
        entry = ledger.entry_of(database, "o1")
    assert entry is not None
    assert entry.state is ledger.OrderState.REFUSED


def test_an_order_that_waited_for_a_depot_until_it_was_over_says_so(
    settings: AgentSettings, lanes: Lanes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """That its time is over sets nobody right; what it waited for does. In the log it stands once, not every 5 s."""
    enter(settings, order(1, timedelta(hours=1)))
    away = [SourceUnreachable("source https://centre: connection refused") for _ in range(5)]
    errors = iter([*away, OrderRefused("order o1: expected to come to it in time", hint="Order it again")])

    def fails(_bench: object, _order: object) -> None:
        raise next(errors)

    monkeypatch.setattr("flashferry.sites.agent.agent.carry_out", fails)
    lanes.start()

    def entry() -> ledger.LedgerEntry:
        with AgentDatabase(settings.state).reading() as database:
            found = ledger.entry_of(database, "o1")
        assert found is not None
        return found

    until(lambda: entry().state is ledger.OrderState.REFUSED, "the order is refused")
    sentence = "order o1: expected to come to it in time; what it waited for: source https://centre: connection refused"
    assert entry().answer["sentence"] == sentence
    assert caplog.text.count("tried again") == 1


def test_a_fault_while_it_looks_for_work_does_not_end_its_work(
    lanes: Lanes, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is locked for a while, say: each lane reads it again."""
    reads: Counter[object] = Counter()

    def faulty(jobs: object) -> None:
        reads[jobs] += 1
        raise OSError("the disk is away")

    monkeypatch.setattr(taker, "left", faulty)
    monkeypatch.setattr("flashferry.sites.agent.agent._POLL_S", 0.01)
    lanes.start()
    until(lambda: len(reads) == 2 and min(reads.values()) > 1, "both lanes read again")


def test_what_is_long_over_is_forgotten_with_its_folders_once_the_clock_is_steady(settings: AgentSettings) -> None:
    """Events of a run are megabytes; the journal keeps what became of devices. A clock that jumped is not believed."""
    old = order(1, timedelta(days=-40))
    enter(settings, old)
    enter(settings, order(2, timedelta(hours=1)))
    with AgentDatabase(settings.state).writing() as database:
        for name in ("o1", "o2"):
            ended = moment_text(NOW - timedelta(days=39))
            ledger.close(database, name, ledger.OrderState.ENDED, {}, ended)
    for name in ("o1", "o1.1", "o2"):
        folder = JobFolder.of(settings.state, name)
        folder.make()
        folder.write(folder.command, "{}")
    (settings.state / "jobs" / "o1-plan.json").write_text("{}")
    wall_s, steady_s = NOW.timestamp() - 90_000, 0.0
    forgetting = Retention(
        AgentDatabase(settings.state), settings.state, wall_s=lambda: wall_s, steady_s=lambda: steady_s
    )
    for days_ahead, hours in ((365, 0), (365, 12), (0, 13), (0, 36)):
        wall_s, steady_s = NOW.timestamp() + days_ahead * 86_400 + hours * 3600, hours * 3600.0
        forgetting.apply()
        assert len(list((settings.state / "jobs").iterdir())) == 4
    wall_s, steady_s = NOW.timestamp() + 38 * 3600, 38 * 3600.0
    forgetting.apply()
    assert sorted(one.name for one in (settings.state / "jobs").iterdir()) == ["o2"]
