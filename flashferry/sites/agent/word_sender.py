"""Deliver an agent's reports ("words") to the centre: spooled, signed, sent in order, and repeated until acknowledged.

A heartbeat is never repeated. While many words wait at the broker, none are added; they are safe in the spool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import masked, redact_json
from flashferry.sites.broker import Broker, BrokerUnreachable
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import MOST_DATA_BYTES, Word, WordKind, canonical, moment_text, sealed_word
from flashferry.store.sites import spool
from flashferry.store.sites.agents import AgentDatabase

_LOG = logging.getLogger("flashferry.sites")
_POLL_S = 0.5
_AGAIN_FIRST_S, _AGAIN_MOST_S = 30.0, 600.0
"""Words without acknowledgement are sent again after this time, then after twice as long, and so on."""
_CLOSING_S, _UNTAKEN_S = 10.0, 3.0
"""Time limits at the end: for sending the last words, and for the broker to accept one of them."""
_PAUSE_FIRST_S, _PAUSE_MOST_S = 1.0, 15.0
_MOST_AT_BROKER = 2000
_REPEAT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An agent's own name, its site, release and key."""

    agent: str
    site: str
    release: str
    key: PrivateKey = field(repr=False)


class WordSender:
    """Spool words and deliver them. Called from several threads.

    Args:
        database: The agent's database.
        broker: The broker.
        identity: The agent's identity.
        beat: Returns the content of a heartbeat.
        beat_s: Interval between heartbeats, seconds.
    """

    def __init__(
        self,
        database: AgentDatabase,
        broker: Broker,
        identity: Identity,
        *,
        beat: Callable[[], Mapping[str, Any]],
        beat_s: float,
    ) -> None:
        self._database, self._broker, self._identity = database, broker, identity
        self._beat, self._beat_s = beat, beat_s
        self._news, self._ending = threading.Event(), threading.Event()
        self._sent: dict[str, int] = {}
        self._taken_at_s = time.monotonic()
        self._again_s, self._again_at_s = _AGAIN_FIRST_S, time.monotonic() + _AGAIN_FIRST_S
        self._complained_s = -_REPEAT_S
        self._thread = threading.Thread(target=self._run, name="agent-teller", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def close(self) -> None:
        """Send what waits, and end; not for longer than the broker accepts words."""
        self._ending.set()
        self._news.set()
        closes_s = self._taken_at_s = time.monotonic()
        while self._thread.is_alive() and time.monotonic() - closes_s < _CLOSING_S:
            self._thread.join(_POLL_S)
            if time.monotonic() - self._taken_at_s > _UNTAKEN_S:
                return

    def add(self, run: str, kind: WordKind, data: Mapping[str, Any]) -> int:
        """Store a word and have it delivered; return its offset."""
        with self._database.writing() as database:
            offset = add_word(database, run, kind, data)
        self._news.set()
        return offset

    def wake(self) -> None:
        """Check the spool now."""
        self._news.set()

    def acknowledged(self, run: str, offset: int) -> None:
        """Remove words that the centre has stored."""
        with self._database.writing() as database:
            gone = spool.acknowledge(database, run, offset)
        if gone:
            self._again_s = _AGAIN_FIRST_S
            self._again_at_s = time.monotonic() + self._again_s

    def _run(self) -> None:
        beat_at_s, pause_s = 0.0, _PAUSE_FIRST_S
        while True:
            is_last = self._ending.is_set()
            try:
                if time.monotonic() >= beat_at_s:
                    beat_at_s = time.monotonic() + self._beat_s
                    self._send_beat()
                self._send_words()
                pause_s = _PAUSE_FIRST_S
            except FlashferryError as error:
                # Whatever was on its way may be lost: behind the gap all is sent again.
                self._sent.clear()
                self._complain(error)
                self._ending.wait(pause_s)
                pause_s = min(_PAUSE_MOST_S, pause_s * 2)
            except Exception as error:  # noqa: BLE001 -- the thread must live: without it the site is silent
                self._complain(error)
                self._ending.wait(pause_s)
            if is_last:
                return
            self._news.wait(_POLL_S)
            self._news.clear()

    def _send_beat(self) -> None:
        if not self._has_capacity():
            return
        self._broker.send_word(self._sealed("", 0, WordKind.BEAT, moment_text(datetime.now(UTC)), self._beat()))

    def _send_words(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._again_at_s:
            self._again_s = min(_AGAIN_MOST_S, self._again_s * 2)
            self._again_at_s = now_s + self._again_s
            self._sent.clear()
        while True:
            with self._database.reading() as database:
                words = spool.waiting(database, self._sent)
            if not words or not self._has_capacity():
                return
            for one in words:
                self._broker.send_word(self._sealed(one.run, one.offset, WordKind(one.kind), one.at, one.data))
                self._sent[one.run] = one.offset
                self._taken_at_s = time.monotonic()

    def _has_capacity(self) -> bool:
        waiting = self._broker.waiting_words()
        return waiting is None or waiting < _MOST_AT_BROKER

    def _sealed(self, run: str, offset: int, kind: WordKind, at: str, data: Mapping[str, Any]) -> str:
        who = self._identity
        word = Word(
            agent=who.agent,
            site=who.site,
            run=run,
            offset=offset,
            kind=kind,
            at=at,
            release=who.release,
            data=dict(data),
        )
        return sealed_word(word, who.key)

    def _complain(self, error: Exception) -> None:
        now_s = time.monotonic()
        if now_s - self._complained_s > _REPEAT_S:
            self._complained_s = now_s
            what = (
                "nothing can be sent for now, it is kept on disk"
                if isinstance(error, BrokerUnreachable)
                else "a word could not be sent"
            )
            _LOG.warning("%s: %s", what, masked(str(error)) or type(error).__name__)


def add_word(database: Any, run: str, kind: WordKind, data: Mapping[str, Any]) -> int:
    """Add a word to the spool within a transaction, secrets masked. Return its offset."""
    text = canonical(redact_json(dict(data), exact=("order", "host", "run_id")))
    if len(text) > MOST_DATA_BYTES:
        kept = {name: data[name] for name in ("order", "host", "run_id") if name in data}
        text = canonical(kept | {"cut": f"of {len(text):,} bytes: more than a word holds, see the journal at the site"})
    return spool.add(database, run=run, kind=kind.value, at=moment_text(datetime.now(UTC)), data=text)
