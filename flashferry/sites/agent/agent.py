"""Run the agent of a site: claim the site, receive orders, carry them out in turn, report, and end in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version

from flashferry.core.errors import ConfigInvalid
from flashferry.sites.agent.bench import Bench
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.execution import restore_left
from flashferry.sites.agent.heartbeat import Heartbeat
from flashferry.sites.agent.lanes import Lanes
from flashferry.sites.agent.order_intake import Taker
from flashferry.sites.agent.presence import Claim, Presence, only_here, place_of
from flashferry.sites.agent.retention import Retention
from flashferry.sites.agent.word_sender import Identity, WordSender
from flashferry.sites.broker import ORDER_TASK, Broker, control_queue, site_queue
from flashferry.sites.keys import PrivateKey
from flashferry.sites.settings import AgentSettings
from flashferry.store.sites.agents import AgentDatabase, agent_name

_POLL_S = 1.0
_ENDS_WITHIN_S = 4.0

Report = Callable[[str], None]
"""Shows a sentence to the operator."""


def run_agent(settings: AgentSettings, ending: threading.Event, *, report: Report) -> None:
    """Work for a site until asked to end. Runs under way are then ended in order, which restores their devices.

    Args:
        settings: The agent's settings.
        ending: Set to end the agent.
        report: Shows sentences to the operator.

    Raises:
        ConfigInvalid: The settings are wrong, or another agent works for the site.
    """
    key = PrivateKey.load(settings.key)
    with only_here(settings.state), ExitStack() as stack:
        agent = Agent(settings, key, ending, depot=SiteDepot(settings.catalogue, settings.source))
        stack.callback(agent.close)
        agent.run(report)


class Agent:
    """A running agent; `run_agent` runs one."""

    def __init__(self, settings: AgentSettings, key: PrivateKey, ending: threading.Event, *, depot: SiteDepot) -> None:
        self._settings, self._ending = settings, ending
        self._database = AgentDatabase(settings.state)
        self._release = version("flashferry")
        self._name = _checked_name(self._database, settings.site)
        self._broker = Broker(settings.broker, owner=f"agent-{settings.site}")
        self._key_id = key.public.key_id
        identity = Identity(agent=self._name, site=settings.site, release=self._release, key=key)
        place = place_of(settings.state)
        self._claim = Claim(self._broker, identity, place=place, beat_s=settings.beat_s)
        self._heartbeat = Heartbeat(self._database, depot, settings.beat_s)
        self._teller = WordSender(
            self._database,
            self._broker,
            identity,
            beat=lambda: self._heartbeat.content(self._lanes.in_hand),
            beat_s=settings.beat_s,
        )
        self._bench = Bench(settings=settings, database=self._database, depot=depot, teller=self._teller, ending=ending)
        self._taker = Taker(self._bench, identity, news=self._wake)
        self._lanes = Lanes(self._bench, self._taker)
        self._retention = Retention(self._database, settings.state)
        self._presence: Presence | None = None

    def run(self, report: Report) -> None:
        """Work until asked to end.

        Raises:
            ConfigInvalid: Another agent works for the site.
        """
        site = self._settings.site
        report(f"agent {self._name} for site {site}, release {self._release}, key {self._key_id}")
        # What a dead run left is restored, and what is unfinished gone on with, whether or not the broker is there.
        self._teller.start()
        restore_left(self._bench)
        # What others may be at work on is not continued; where that is not known, it is ours as before.
        presence = self._presence = Presence(
            self._claim, beat_s=self._settings.beat_s, ending=self._ending, report=report
        )
        presence.start()
        self._lanes.start()
        try:
            self._take_orders(presence, report)
        finally:
            self._ending.set()
            self._lanes.join()

    def close(self) -> None:
        """Send the last reports and release the claim; neither waits for an unreachable broker."""
        self._teller.close()
        if self._presence is not None:
            self._presence.give_up()
        self._broker.close()

    def _take_orders(self, presence: Presence, report: Report) -> None:
        """Receive orders for as long as this agent owns the site."""
        while not presence.is_ours():
            if self._ending.wait(_POLL_S):
                return
        self._taker.settle()
        queues = (site_queue(self._settings.site), control_queue(self._settings.site))
        report(f"takes orders from {' and '.join(queues)}")
        with self._broker.worker(queues, ORDER_TASK, self._taker.take, ends_within_s=_ENDS_WITHIN_S):
            next_check_s = 0.0
            while presence.is_ours() and not self._ending.wait(_POLL_S):
                if time.monotonic() >= next_check_s:
                    next_check_s = time.monotonic() + self._settings.beat_s
                    self._heartbeat.check_depot()
                    self._retention.apply()

    def _wake(self) -> None:
        self._lanes.wake()


def _checked_name(database: AgentDatabase, site: str) -> str:
    """Return the agent's own name.

    Raises:
        ConfigInvalid: The state folder belongs to another site's agent.
    """
    with database.writing() as writing:
        name, known = agent_name(writing, site)
    if known != site:
        raise ConfigInvalid(
            f"state folder {database.directory}: expected that of site {site}, found that of site {known}",
            hint="Give this agent a state folder of its own: journal and ledger are a site's",
        )
    return name
