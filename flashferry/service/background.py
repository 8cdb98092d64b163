"""Background threads of the service: each looks at its subject again and again, and one that fails looks on.

A keeper never ends the service, nor another keeper: what its look raised is told once, in a sentence, and again when it
is over; until then `/readyz` names it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from flashferry.core.errors import FlashferryError
from flashferry.core.outside import masked
from flashferry.service.service import Service

_LOG = logging.getLogger("flashferry.service.background")
_EXPECTED = (FlashferryError, OSError, sqlite3.Error)
"""What is told in a sentence; of anything else the place in our program is told too."""
_STUCK_S = 120.0
_STUCK_LOOKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    """A look that is taken again and again.

    Attributes:
        name: What it is called where its failure is told: `scheduler`.
        every_s: From the beginning of a look to that of the next, seconds, above 0; a look that takes longer is
            followed by the next at once.
        look: The look; it is given the service, and returns soon where `Service.stopping` is set.
    """

    name: str
    every_s: float
    look: Callable[[Service], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperState:
    """How a keeper does.

    Attributes:
        name: Its name.
        looks: How many looks it has ended.
        looked_at: When its last look ended, or None before the first.
        failures: How many looks failed since one went well.
        sentence: Why the last one failed; empty where it went well.
        is_stuck: Whether the look under way takes far longer than its turn.
    """

    name: str
    looks: int = 0
    looked_at: datetime | None = None
    failures: int = 0
    sentence: str = ""
    is_stuck: bool = False

    @property
    def is_good(self) -> bool:
        """Return whether its last look went well, and none hangs."""
        return not self.sentence and not self.is_stuck


class Keepers:
    """The keepers of a service, each in a thread of its own.

    Args:
        service: What they look at; they end when its `stopping` is set.
        keepers: The keepers; no two of a name.
    """

    def __init__(self, service: Service, keepers: Sequence[PeriodicTask]) -> None:
        self._service = service
        self._keepers = tuple(keepers)
        self._lock = threading.Lock()
        self._states = {keeper.name: KeeperState(name=keeper.name) for keeper in keepers}
        self._begun_s: dict[str, float] = {}
        assert len(self._states) == len(self._keepers), "expected names that differ"
        self._threads = tuple(
            # A look that hangs at the end must not keep the process: what it writes is whole or not there.
            threading.Thread(target=self._keep, args=(keeper,), name=f"keeper-{keeper.name}", daemon=True)
            for keeper in keepers
        )

    def start(self) -> None:
        """Begin to look."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> tuple[str, ...]:
        """Have all looks end; return the names of keepers that did not within so many seconds."""
        self._service.stopping.set()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        return tuple(
            keeper.name for keeper, thread in zip(self._keepers, self._threads, strict=True) if thread.is_alive()
        )

    def states(self) -> tuple[KeeperState, ...]:
        """Return how each does."""
        now_s = time.monotonic()
        with self._lock:
            return tuple(
                replace(self._states[keeper.name], is_stuck=self._is_stuck(keeper, now_s)) for keeper in self._keepers
            )

    def _is_stuck(self, keeper: PeriodicTask, now_s: float) -> bool:
        begun_s = self._begun_s.get(keeper.name)
        return begun_s is not None and now_s - begun_s > max(_STUCK_S, _STUCK_LOOKS * keeper.every_s)

    def _keep(self, keeper: PeriodicTask) -> None:
        stopping = self._service.stopping
        while not stopping.is_set():
            begun_s = time.monotonic()
            with self._lock:
                self._begun_s[keeper.name] = begun_s
            self._take(keeper, self._look(keeper))
            stopping.wait(max(0.0, keeper.every_s - (time.monotonic() - begun_s)))

    def _look(self, keeper: PeriodicTask) -> Exception | None:
        try:
            keeper.look(self._service)
        except Exception as error:  # noqa: BLE001 -- no look may end the keeper
            return error
        return None

    def _take(self, keeper: PeriodicTask, error: Exception | None) -> None:
        """Keep what became of a look, and tell where that differs from the last one."""
        sentence = "" if error is None else masked(str(error) or type(error).__name__)
        with self._lock:
            before = self._states[keeper.name]
            self._begun_s.pop(keeper.name, None)
            self._states[keeper.name] = KeeperState(
                name=keeper.name,
                looks=before.looks + 1,
                looked_at=self._service.now(),
                failures=before.failures + 1 if error is not None else 0,
                sentence=sentence,
            )
        if error is not None and sentence != before.sentence:
            trace = None if isinstance(error, _EXPECTED) else error
            _LOG.error("keeper %s: its look failed, and is taken again: %s", keeper.name, sentence, exc_info=trace)
        elif error is None and before.sentence:
            _LOG.warning("keeper %s: looks again; %s looks had failed", keeper.name, before.failures)
