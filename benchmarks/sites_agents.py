"""Agents that speak the wire and stage nothing: real signed words by a real broker, at the rates of a run.

They stand in for `flashferry sites agent` where the centre is what is looked at: in `benchmarks/sites_fleet.py` and in
the centre's tests. They keep their words until these are heard, send again what is not, and know an order by its id, as
the wire has it; what their devices do is made up.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flashferry.core.codec import stored_json
from flashferry.core.values import replace
from flashferry.model.record import DeviceRecord
from flashferry.model.states import Outcome, Restored, State
from flashferry.monitor.event_log import event_line
from flashferry.monitor.events import Event, Progress
from flashferry.sites.broker import ORDER_TASK, Broker, BrokerSettings, BrokerUnreachable, control_queue, site_queue
from flashferry.sites.centre.centre import our_release
from flashferry.sites.keys import PrivateKey, PublicKey
from flashferry.sites.wire import Order, OrderJob, Word, WordKind, moment_text, opened_order, sealed_word

BEAT_S = 30.0
AGAIN_S = 5.0
"""Words that were not heard so long after they were sent are sent again."""
SIZE_BYTES = 500_000_000
_STEPS = ("connect", "check", "snapshot", "tune")
_AFTER = ("verify", "restore", "prove")


@dataclass(slots=True)
class Spoken:
    """A word, and when it was sent last."""

    word: Word
    sent_s: float = 0.0


@dataclass(slots=True)
class PartPlay:
    """A part under way: what its devices do is made up, second by second."""

    order: Order
    began_s: float
    waiting: list[str] = field(default_factory=list)
    copying: dict[str, float] = field(default_factory=dict)
    progress_at: dict[str, float] = field(default_factory=dict)
    is_stopped: bool = False
    is_paused: bool = False
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How an agent behaves.

    Attributes:
        copy_s: So long a device's copy takes, by the clock here.
        copies: Devices of a site that copy at the same time.
        word_every_s: Events of a part are sent together so often.
        progress_every_s: So often a copy's progress is told.
        release: The release that it says to be of.
        clock_ahead_s: How far its clock is ahead.
        refuses: Why it refuses to stage; empty: it does not.
        fails: Devices whose copy fails.
        is_silent: Whether it answers nothing at all.
    """

    copy_s: float = 2.0
    copies: int = 8
    word_every_s: float = 1.0
    progress_every_s: float = 10.0
    release: str = field(default_factory=our_release)
    clock_ahead_s: float = 0.0
    refuses: str = ""
    fails: frozenset[str] = frozenset()
    is_silent: bool = False


class SimulatedAgent:
    """An agent of one site or several.

    Args:
        name: Its name of itself.
        sites: Its sites.
        key: Signs its words.
        centre: Whose orders it takes.
        broker: Where the broker is.
        conduct: How it behaves.
    """

    def __init__(
        self,
        name: str,
        sites: Sequence[str],
        key: PrivateKey,
        centre: PublicKey,
        broker: BrokerSettings,
        conduct: Conduct | None = None,
    ) -> None:
        self.name, self.sites, self._key, self._centre = name, tuple(sites), key, centre
        self._broker = Broker(broker, owner=f"agent-{name}")
        self.conduct = conduct or Conduct()
        self._lock = threading.RLock()
        self._spool: dict[str, dict[int, Spoken]] = {}
        self._next: dict[str, itertools.count[int]] = {}
        self._orders: set[str] = set()
        self._parts: dict[str, PartPlay] = {}
        self.staged: list[tuple[str, str]] = []
        self.started_at = moment_text(datetime.now(UTC))
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._live, name=f"agent-{name}")]

    def start(self) -> None:
        """Begin to live."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _live(self) -> None:
        queues = [queue for site in self.sites for queue in (site_queue(site), control_queue(site))]
        with self._broker.worker(queues, ORDER_TASK, self._take):
            beat_at = 0.0
            while not self._end.wait(0.2):
                if time.monotonic() - beat_at >= BEAT_S and not self.conduct.is_silent:
                    beat_at = time.monotonic()
                    self._beat()
                with self._lock:
                    for part in list(self._parts.values()):
                        self._play(part)
                self._send()
        self._broker.close()

    def _take(self, envelope: str) -> None:
        order = opened_order(envelope, (self._centre,))
        if self.conduct.is_silent:
            return
        with self._lock:
            if order.job is OrderJob.ACKNOWLEDGE:
                self._heard(order)
            elif order.id in self._orders:
                return
            elif order.job is OrderJob.CHECK:
                self._say(order, WordKind.DEPOT, {"images": [{"name": "image.bin", "size_bytes": SIZE_BYTES}]})
            else:
                self._orders.add(order.id)
                self._carry_out(order)

    def _carry_out(self, order: Order) -> None:
        if order.job is OrderJob.STAGE:
            if self.conduct.refuses:
                self._say(order, WordKind.REFUSED, {"order": order.id, "sentence": self.conduct.refuses})
                return
            self._say(order, WordKind.ACCEPTED, {"order": order.id})
            part = PartPlay(order=order, began_s=time.monotonic(), waiting=list(order.devices))
            self._parts[order.run] = part
            self.staged += [(order.run, host) for host in order.devices]
            return
        self._say(order, WordKind.ACCEPTED, {"order": order.id, "job": order.job.value})
        if (part := self._parts.get(order.run)) is not None:
            part.is_paused = order.job is OrderJob.PAUSE
            part.is_stopped |= order.job is OrderJob.STOP

    def _heard(self, order: Order) -> None:
        assert order.offset is not None
        spool = self._spool.get(order.run, {})
        for offset in [one for one in spool if one <= order.offset]:
            del spool[offset]

    def _say(self, order: Order, kind: WordKind, data: dict[str, Any]) -> None:
        offset = next(self._next.setdefault(order.run, itertools.count(1)))
        word = self._word(order.site, order.run, offset, kind, data)
        self._spool.setdefault(order.run, {})[offset] = Spoken(word)

    def _word(self, site: str, run: str, offset: int, kind: WordKind, data: dict[str, Any]) -> Word:
        at = datetime.now(UTC) + timedelta(seconds=self.conduct.clock_ahead_s)
        return Word(
            agent=self.name,
            site=site,
            run=run,
            offset=offset,
            kind=kind,
            at=moment_text(at),
            release=self.conduct.release,
            data=data,
        )

    def _beat(self) -> None:
        for site in self.sites:
            depot = [{"name": "image.bin", "size_bytes": SIZE_BYTES}]
            data = {"started_at": self.started_at, "depot": depot}
            word = self._word(site, "", 0, WordKind.BEAT, data)
            try:
                self._broker.send_word(sealed_word(word, self._key))
            except BrokerUnreachable:
                return

    def _send(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            due = [one for spool in self._spool.values() for one in spool.values() if now_s - one.sent_s >= AGAIN_S]
        for one in due:
            try:
                self._broker.send_word(sealed_word(one.word, self._key))
            except BrokerUnreachable:
                return
            one.sent_s = time.monotonic()

    def _play(self, part: PartPlay) -> None:
        """Have the devices of a part come as far as the time says, and tell of it."""
        now_s = time.monotonic()
        if now_s - part.began_s < part.seq * self.conduct.word_every_s:
            return
        part.seq += 1
        events, records = self._begun(part, now_s), []
        for host, began_s in list(part.copying.items()):
            if now_s - began_s >= self.conduct.copy_s or part.is_stopped:
                del part.copying[host]
                events += self._ended(part, host, now_s)
                records.append(self._record(host, is_stopped=part.is_stopped))
            elif now_s - part.progress_at.get(host, 0.0) >= self.conduct.progress_every_s:
                part.progress_at[host] = now_s
                events.append(self._progress(part, host, now_s - began_s, now_s))
        if part.is_stopped:
            records += [self._record(host, is_stopped=True, is_begun=False) for host in part.waiting]
            part.waiting.clear()
        self._tell(part, events, records)

    def _tell(self, part: PartPlay, events: list[Event], records: list[DeviceRecord]) -> None:
        if events:
            lines = [event_line(one, run_id=part.order.run, at=datetime.now(UTC)) for one in events]
            self._say(part.order, WordKind.EVENT, {"events": [json.loads(line) for line in lines]})
        for record in records:
            self._say(part.order, WordKind.RECORD, {"record": stored_json(record)})
        if not part.waiting and not part.copying:
            data = {"order": part.order.id, "exit_code": 0, "interrupted": part.is_stopped, "sentence": ""}
            self._say(part.order, WordKind.ENDED, data)
            del self._parts[part.order.run]

    def _begun(self, part: PartPlay, now_s: float) -> list[Event]:
        found: list[Event] = []
        while len(part.copying) < self.conduct.copies and not (part.is_stopped or part.is_paused):
            if not part.waiting:
                break
            host = part.waiting.pop(0)
            part.copying[host] = now_s
            for step in _STEPS:
                found += [self._event(part, host, step, status, now_s) for status in ("started", "done")]
            found.append(self._event(part, host, "pull", "started", now_s))
        return found

    def _ended(self, part: PartPlay, host: str, now_s: float) -> list[Event]:
        found = [self._event(part, host, "pull", "done", now_s)]
        for step in _AFTER:
            found += [self._event(part, host, step, status, now_s) for status in ("started", "done")]
        failed = host in self.conduct.fails
        end = self._event(part, host, "device", "failed" if failed else "done", now_s)
        outcome = Outcome.FAILED if failed else Outcome.INTERRUPTED if part.is_stopped else Outcome.DONE
        return [*found, replace(end, outcome=outcome.value, restored=Restored.RESTORED.value)]

    def _event(self, part: PartPlay, host: str, step: str, status: str, now_s: float) -> Event:
        text = f"{step} {status}, as a device of a play does it"
        return Event(host=host, step=step, status=status, text=text, at_s=now_s - part.began_s, site=part.order.site)

    def _progress(self, part: PartPlay, host: str, past_s: float, now_s: float) -> Event:
        share = min(1.0, past_s / self.conduct.copy_s)
        rate = SIZE_BYTES / self.conduct.copy_s
        progress = Progress(acked_bytes=int(share * SIZE_BYTES), size_bytes=SIZE_BYTES, rate_bytes_per_s=rate)
        return replace(self._event(part, host, "pull", "progress", now_s), progress=progress)

    def _record(self, host: str, *, is_stopped: bool, is_begun: bool = True) -> DeviceRecord:
        outcome = Outcome.FAILED if host in self.conduct.fails else Outcome.DONE
        if is_stopped:
            outcome = Outcome.INTERRUPTED if is_begun else Outcome.NOT_STARTED
        return DeviceRecord(
            host=host,
            state=State.DONE if outcome is Outcome.DONE else State.FAILED,
            outcome=outcome,
            restored=Restored.RESTORED if is_begun else Restored.UNTOUCHED,
            image="image.bin",
            notes=("a play: no device was touched",),
            seconds_by_step={"pull": self.conduct.copy_s},
        )


def main() -> None:
    """Run one agent until it is told to end: `NAME URL KEYFILE CENTREKEY COPY_S SITE...`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("url")
    parser.add_argument("key", type=Path)
    parser.add_argument("centre")
    parser.add_argument("copy_s", type=float)
    parser.add_argument("word_every_s", type=float)
    parser.add_argument("sites", nargs="+")
    given = parser.parse_args()
    conduct = Conduct(copy_s=given.copy_s, word_every_s=given.word_every_s)
    agent = SimulatedAgent(
        given.name,
        given.sites,
        PrivateKey.load(given.key),
        PublicKey.of(given.centre),
        BrokerSettings(url=given.url),
        conduct,
    )
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    agent.start()
    over.wait()
    agent.stop()


if __name__ == "__main__":
    sys.exit(main())
