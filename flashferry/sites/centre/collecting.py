"""Receive agents' words: verify the signer, and store them in the ledger."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from flashferry.core.json_access import Node
from flashferry.sites.centre.settings import CentreSettings
from flashferry.sites.wire import WireError, Word, WordKind, opened_word
from flashferry.store.database import moment
from flashferry.store.sites.agents import (
    AgentBeat,
    fetching_in,
    take_beat,
    take_clock,
    take_depot,
    take_fetching,
    take_sign,
)
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.words import PartWord, Taken, take_word

_LOG = logging.getLogger("flashferry.sites.centre")
CANARIES, OTHERS = 0, 1
"""The rounds of a run: the fleet's first devices, then all others."""
_CANARY = ".canary"
_MOST_REASONS = 100
CHECK_PREFIX = "look-"
"""Prefix of "runs" that are only checks of agents."""


def now() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def wire_run(run: str, site: str, number: int) -> str:
    """Return the name of a run's part in orders and words; agents number their words per part."""
    return f"{run}.{site}" + (_CANARY if number == CANARIES else "")


def part_of_wire(called: str, site: str) -> tuple[str, int]:
    """Return run and round of a part's name; the run is empty if the name is not that site's."""
    number = CANARIES if called.endswith(f".{site}{_CANARY}") else OTHERS
    tail = f".{site}{_CANARY}" if number == CANARIES else f".{site}"
    return (called.removesuffix(tail), number) if called.endswith(tail) else ("", OTHERS)


@dataclass(frozen=True, slots=True)
class Clock:
    """How far an agent's clock is ahead (negative: behind), and the largest error of that figure."""

    ahead_s: float
    within_s: float


def clock_by(asked: datetime, said: datetime, received: datetime) -> Clock | None:
    """Return an agent's clock offset from one answer, as NTP computes it (RFC 5905, 8).

    Args:
        asked: When it was asked, by our clock.
        said: The agent's time in the answer.
        received: When the answer arrived, by our clock; before `asked` if our clock was set back: None.
    """
    both_ways_s = (received - asked).total_seconds()
    if both_ways_s < 0:
        return None
    return Clock((said - asked).total_seconds() - both_ways_s / 2, both_ways_s / 2)


class Dropped(Struct, frozen=True, kw_only=True):
    """A word that was ignored; `site` is the claimed one, empty if unreadable."""

    site: str
    why: str


_OTHER_REASONS = Dropped(site="", why="words that counted for nothing, for more reasons than are kept apart")


class Collector:
    """Store envelopes in the ledger.

    Args:
        ledger: The ledger.
        settings: The agents' keys and sites.
        clock: Returns the current time.
    """

    def __init__(self, ledger: SitesDatabase, settings: CentreSettings, clock: Callable[[], datetime] = now) -> None:
        self._ledger, self._settings, self._clock = ledger, settings, clock
        self._lock = threading.Lock()
        self._asked: dict[str, datetime] = {}
        self._answered: set[tuple[str, str]] = set()
        self._answers: dict[str, tuple[str, int]] = {}
        self.dropped: Counter[Dropped] = Counter()
        self.taken: Counter[str] = Counter()

    def ask(self, run: str) -> None:
        """Expect words that answer a check."""
        with self._lock:
            self._asked[run] = self._clock()

    def answers(self) -> Mapping[str, tuple[str, int]]:
        """Return the answers to checks since the last call: by site, the check's run and the offset."""
        with self._lock:
            found, self._answers = self._answers, {}
        return found

    def take(self, envelopes: Sequence[str]) -> None:
        """Store envelopes in one transaction; invalid ones are dropped.

        Raises:
            sqlite3.Error: None could be stored; agents send them again.
        """
        words = [word for envelope in envelopes if (word := self._opened(envelope)) is not None]
        if not words:
            return
        with self._ledger.writing() as database:
            for word in words:
                if word.kind is WordKind.BEAT:
                    self._beat(database, word)
                elif word.run.startswith(CHECK_PREFIX):
                    self._answer(database, word)
                else:
                    self._word(database, word)

    def _opened(self, envelope: str) -> Word | None:
        """Return the word in an envelope, if it is signed by the agent of its site."""
        try:
            word = opened_word(envelope, self._settings.keys)
        except WireError as error:
            self._drop("", error.message)
            return None
        site = self._settings.sites.get(word.site)
        if site is None:
            self._drop("", "a word of a site that is not in the settings")
        elif not _is_by(envelope, site.agent_key.key_id):
            self._drop(word.site, f"a word about {word.site} by another site's agent")
        else:
            return word
        return None

    def _drop(self, site: str, why: str) -> None:
        one = Dropped(site=site, why=why)
        with self._lock:
            if one not in self.dropped and len(self.dropped) >= _MOST_REASONS:
                # Through the broker any number of them can be made up.
                one = _OTHER_REASONS
            is_new = one not in self.dropped
            self.dropped[one] += 1
        if is_new:
            _LOG.warning("a word was dropped%s: %s", f" (site {one.site})" if one.site else "", one.why)

    def _beat(self, database: sqlite3.Connection, word: Word) -> None:
        """Store a heartbeat. It may have been delayed, so it only proves that a clock is ahead."""
        ahead_s = (datetime.fromisoformat(word.at) - self._clock()).total_seconds()
        is_ahead = ahead_s > self._settings.clock_bound_s
        is_news = self._speaks(database, word, self._lived_at(word), Clock(ahead_s, 0.0) if is_ahead else None)
        if is_news:
            take_fetching(database, word.site, fetching_in(word.data.get("fetching")))
            if (images := _images(word)) is not None:
                take_depot(database, word.site, images)
        self._count(word, "" if is_news else "said again")

    def _lived_at(self, word: Word) -> datetime:
        """Return when the sender of a word was certainly alive: an old word may be delayed or replayed."""
        at, said = self._clock(), datetime.fromisoformat(word.at)
        return at if at - said <= timedelta(seconds=self._settings.clock_bound_s) else said

    def _speaks(self, database: sqlite3.Connection, word: Word, received: datetime, clock: Clock | None) -> bool:
        """Store what a word says about its agent; return whether it is new."""
        beat = AgentBeat(
            site=word.site,
            agent=word.agent,
            instance=Node(word.data).text("started_at") or "",
            release=word.release,
            last_message_at=moment(received),
            said_at=moment(datetime.fromisoformat(word.at)),
            clock_ahead_s=clock.ahead_s if clock else None,
            clock_within_s=clock.within_s if clock else 0.0,
        )
        return take_beat(database, beat, clock_bound_s=self._settings.clock_bound_s)

    def _word(self, database: sqlite3.Connection, word: Word) -> None:
        at = moment(self._clock())
        run, number = part_of_wire(word.run, word.site)
        part_word = PartWord(
            run=run,
            site=word.site,
            round=number,
            agent=word.agent,
            offset=word.offset,
            kind=word.kind.value,
            at=word.at,
            data=word.data,
        )
        taken = take_word(database, part_word, at=at)
        if taken in (Taken.NEWS, Taken.REPEAT):
            take_sign(database, word.site, moment(self._lived_at(word)))
        if word.kind is WordKind.DEPOT and (images := _images(word)) is not None:
            take_depot(database, word.site, images)
        if taken in (Taken.UNKNOWN_PART, Taken.OTHER_AGENT):
            self._drop(word.site, f"a word about {word.run} {taken.value}")
        self._count(word, taken.value)

    def _answer(self, database: sqlite3.Connection, word: Word) -> None:
        """Store the answer to a check: its agent is alive, and its clock is known."""
        at, said = self._clock(), datetime.fromisoformat(word.at)
        with self._lock:
            asked = self._asked.get(word.run)
            is_first = (word.run, word.site) not in self._answered
            self._answered.add((word.run, word.site))
            offset = max(word.offset, self._answers.get(word.site, ("", 0))[1])
            self._answers[word.site] = (word.run, offset)
        clock = clock_by(asked, said, at) if asked is not None else None
        if clock is not None and clock.within_s > self._settings.clock_bound_s:
            # It waited in the spool, or on the way: it says less than what is known.
            clock = None
        if asked is not None and is_first:
            self._speaks(database, word, at, None)
            take_sign(database, word.site, moment(at))
            if clock is not None:
                take_clock(database, word.site, clock.ahead_s, clock.within_s)
        if (images := _images(word)) is not None:
            take_depot(database, word.site, images)
        self._count(word)

    def _count(self, word: Word, became: str = "") -> None:
        with self._lock:
            self.taken[f"{word.kind.value} {became}".strip()] += 1


def _is_by(envelope: str, key_id: str) -> bool:
    # The envelope was opened: its key is the one that signed it.
    return f'"key":"{key_id}"' in envelope


def _images(word: Word) -> list[str] | None:
    """Return the names of the proven images in a word; None if it has none."""
    found = word.data.get("depot" if word.kind is WordKind.BEAT else "images")
    if not isinstance(found, list):
        return None
    names = (one if isinstance(one, str) else Node(one).text("name") for one in found)
    return [name for name in names if name]
