"""A centre without a broker: what it would send is kept, and words are said straight to its collector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.plan_file import plan_text
from flashferry.sites.broker import Broker, BrokerSettings, BrokerUnreachable
from flashferry.sites.centre.centre import Centre
from flashferry.sites.centre.collecting import Collector
from flashferry.sites.centre.ordering import Orders
from flashferry.sites.centre.plans import ReadPlan
from flashferry.sites.centre.settings import CentreSettings, SiteSettings
from flashferry.sites.centre.sharing import shares
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import Order, OrderJob, Word, WordKind, moment_text, opened_order, sealed_word
from flashferry.store.control_requests import Asker
from flashferry.store.sites.database import SitesDatabase

KEY = PrivateKey.make()
AGENT_KEY = PrivateKey.make()
RELEASE = "0.1.0"


class KeptBroker:
    """Keeps what is sent; away, it takes nothing."""

    def __init__(self) -> None:
        self.sent: list[Order] = []
        self.is_away = False
        self.on_look: Callable[[Order], None] = lambda order: None

    def send_order(self, site: str, envelope: str, *, is_control: bool = False) -> None:
        if self.is_away:
            raise BrokerUnreachable("broker: expected it to answer: it is away")
        order = opened_order(envelope, (KEY.public,))
        assert order.site == site
        self.sent.append(order)
        if order.job is OrderJob.CHECK:
            self.on_look(order)

    def jobs(self, *wanted: OrderJob) -> list[tuple[str, str]]:
        """Return job and part of what was sent, of some jobs."""
        return [(order.job.value, order.run) for order in self.sent if order.job in wanted]


class Ground:
    """A centre of some sites, whose agents answer a look and say what a test has them say."""

    def __init__(self, folder: Path, *sites: str) -> None:
        self.folder = folder
        plans = folder / "plans"
        plans.mkdir()
        self.settings = CentreSettings(
            path=folder / "sites.toml",
            key=folder / "centre.key",
            plans_folder=plans,
            broker=BrokerSettings(url="redis://127.0.0.1/0"),
            answer_s=0.3,
            sites={
                name: SiteSettings(name=name, agent_key=AGENT_KEY.public, inventory_sites=frozenset({name}))
                for name in sites
            },
        )
        self.broker = KeptBroker()
        self.broker.on_look = self.answer
        self.now_s = 1000.0
        self.said_at = datetime.now(UTC)
        self.ledger = SitesDatabase(folder / "state")
        self.offsets: dict[str, int] = {}
        self.open()

    def open(self) -> None:
        """Open the centre, as a new command does."""
        self.collector = Collector(self.ledger, self.settings)
        broker = cast("Broker", self.broker)
        orders = Orders(broker, self.ledger, self.settings, KEY, RELEASE, clock=lambda: self.now_s)
        self.centre = Centre(self.settings, self.ledger, self.collector, orders)

    def answer(self, order: Order) -> None:
        """Have an agent answer a look."""
        self.say(order.site, order.run, WordKind.DEPOT, {"images": ["image.bin"]})

    def say(self, site: str, run: str, kind: WordKind, data: dict[str, Any] | None = None, offset: int = 0) -> str:
        """Have an agent say its next word, or one with an offset; return the envelope."""
        # Times cross to the millisecond, and two words of an agent are never of the same one.
        self.said_at = max(datetime.now(UTC), self.said_at + timedelta(milliseconds=1))
        self.offsets[run] = self.offsets.get(run, 0) + (not offset)
        word = Word(
            agent=f"agent-{site}",
            site=site,
            run=run,
            offset=offset or self.offsets[run],
            kind=kind,
            at=moment_text(self.said_at),
            release=RELEASE,
            data=data or {},
        )
        envelope = sealed_word(word, AGENT_KEY)
        self.collector.take([envelope])
        return envelope

    def begin(self, plan: FleetPlan) -> str:
        """Give a plan to the sites; return the run."""
        read = ReadPlan(plan=plan, text=plan_text(plan))
        return self.centre.begin(read, shares(plan, self.settings), Asker(actor="ann", via="command-line"))

    def tend(self, run: str) -> None:
        """Have the centre send what is to be sent."""
        self.centre.orders.tend(run)

    def record(self, site: str, run: str, host: str, outcome: str = "done") -> None:
        """Have an agent tell what became of a device."""
        data = {"host": host, "record": {"host": host, "state": "done", "outcome": outcome, "seconds_by_step": {}}}
        self.say(site, run, WordKind.RECORD, data)

    def end(self, site: str, run: str) -> None:
        """Have an agent tell that a part is through."""
        self.say(site, run, WordKind.ENDED, {"job": "stage", "exit_code": 0, "sentence": "all devices are done"})

    def do_all(self, site: str, run: str, hosts: Sequence[str]) -> None:
        """Have an agent do a part to its end."""
        for host in hosts:
            self.record(site, run, host)
        self.end(site, run)
