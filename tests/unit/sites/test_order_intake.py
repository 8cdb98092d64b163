"""Orders as they come off a broker that somebody else has in hands: played again, early, late, or no orders at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashferry.core.values import replace
from flashferry.sites.agent.bench import Bench, End
from flashferry.sites.agent.execution import carry_out
from flashferry.sites.agent.order_intake import OrderRefused, Taker
from flashferry.sites.agent.word_sender import Identity
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import Order, OrderJob, moment_text, sealed_order
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase

KEY, OURS = PrivateKey.make(), PrivateKey.make()
NOW = datetime.now(UTC)
ORDER = Order(
    id="o1",
    job=OrderJob.STAGE,
    run="part-1",
    site="ams",
    agent_key=OURS.public.key_id,
    plan="a" * 64,
    devices=("r1",),
    valid_from=moment_text(NOW - timedelta(minutes=1)),
    valid_until=moment_text(NOW + timedelta(hours=8)),
    release="1.2.3",
)


class Site:
    """An agent's taker and its database; nobody carries anything out."""

    def __init__(self, folder: Path) -> None:
        self.database, self.now, self.clock_s = AgentDatabase(folder), NOW, 1000.0
        runs = SimpleNamespace(clock_differs_s=60.0, inventory="nowhere", resumes=3)
        settings = SimpleNamespace(site="ams", centres=(KEY.public,), runs=runs, state=folder)
        teller = SimpleNamespace(wake=lambda: None)
        self.bench = cast(
            "Bench",
            SimpleNamespace(settings=settings, database=self.database, teller=teller, ending=threading.Event()),
        )
        identity = Identity(agent="agent-1", site="ams", release="1.2.3", key=OURS)
        self.taker = Taker(self.bench, identity, news=lambda: None, now=lambda: self.now, clock=lambda: self.clock_s)

    def take(self, order: Order) -> None:
        self.taker.take(sealed_order(order, KEY))

    def state(self, order: Order) -> str | None:
        with self.database.reading() as database:
            entry = ledger.entry_of(database, order.id)
        return None if entry is None else entry.state.value

    def words(self) -> list[Any]:
        with self.database.reading() as database:
            return spool.waiting(database, {}, 10_000)

    def forget(self, at: datetime) -> None:
        with self.database.writing() as database:
            ledger.forget(database, moment_text(at - timedelta(days=30)))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    return Site(tmp_path)


def test_an_order_that_is_played_again_and_again_does_not_fill_the_spool(site: Site) -> None:
    """It is answered, and what nobody can be waiting for is not."""
    for _ in range(500):
        site.take(ORDER)
    assert len(site.words()) == 2  # accepted, and once that it is known
    site.taker.end(ORDER, End(exit_code=0, sentence="through", data={}))
    for _ in range(500):
        site.take(ORDER)
    assert len(site.words()) == 4
    site.clock_s += 10.0  # a centre that has no answer sends an order again after 15 s
    for _ in range(500):
        site.take(ORDER)
    assert len(site.words()) == 5


def test_what_is_no_order_does_not_fill_the_log(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Nor is it said to be of a centre that is known: whoever has the broker may have sent it."""
    with caplog.at_level(logging.WARNING):
        for number in range(500):
            site.taker.take(f"rubbish {number}")
    assert len(caplog.records) == 1
    assert "known centre" not in caplog.text
    site.clock_s += 60.0
    with caplog.at_level(logging.WARNING):
        site.taker.take("rubbish")
    assert len(caplog.records) == 2


def test_an_order_for_another_agent_of_the_site_is_neither_done_nor_answered(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """By its key: two agents take from one queue, and only the one that the centre means does anything, later too."""
    for other in (PrivateKey.make().public.key_id, ""):
        site.take(replace(ORDER, agent_key=other))
        site.take(replace(ORDER, agent_key=other, job=OrderJob.ACKNOWLEDGE, plan="", devices=(), offset=1))
    assert (site.state(ORDER), site.words()) == (None, [])
    assert f"with key {OURS.public.key_id}, which is this one's, found one for key" in caplog.text
    site.take(ORDER)
    assert site.state(ORDER) == "open"


def test_an_order_that_is_forgotten_is_not_done_again(site: Site) -> None:
    """While it may still be begun it is kept; behind that its end is, whatever a clock says later."""
    long = replace(ORDER, valid_until=moment_text(NOW + timedelta(days=60)))
    for order in (ORDER, replace(long, id="o2", run="part-2")):
        site.take(order)
        site.taker.end(order, End(exit_code=0, sentence="through", data={}))
    site.forget(NOW + timedelta(days=40))
    assert (site.state(ORDER), site.state(replace(long, id="o2"))) == (None, "ended")
    site.now = NOW  # a clock that was set back: by it the first is valid
    site.take(ORDER)
    assert site.state(ORDER) == "refused"
    site.take(replace(long, id="o3", run="part-3"))
    assert site.state(replace(long, id="o3")) == "open"


def test_a_stop_that_comes_before_its_stage_holds(site: Site) -> None:
    """They go by two queues: whichever is first, no device is touched."""
    stop = replace(ORDER, id="s1", job=OrderJob.STOP, plan="", devices=())
    site.take(stop)
    site.take(ORDER)
    end = carry_out(site.bench, ORDER)
    assert end is not None
    assert "stopped before it had started" in end.sentence


def test_an_order_that_waited_for_too_long_is_not_begun(site: Site) -> None:
    """Behind other work, or while the agent was down: until then it was to be begun, and not later."""
    late = replace(
        ORDER, valid_from=moment_text(NOW - timedelta(hours=9)), valid_until=moment_text(NOW - timedelta(hours=1))
    )
    site.now = NOW - timedelta(hours=2)
    site.take(late)
    assert site.state(late) == "open"
    with pytest.raises(OrderRefused, match="must not start after"):
        carry_out(site.bench, late)
