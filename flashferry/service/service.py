"""The service put together: what its routes, pages and background threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashferry.service.images.upload_sessions import Arrivals
from flashferry.service.outbound import OwnThreads
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What all parts of the service are given.

    Attributes:
        state: The state folder: journal, events, the service's own database.
        settings: What the configuration file says.
        database: The service's tables.
        now: What time it is, with a time zone.
        stopping: Set when the service ends: whoever waits, a stream or a background thread, ends then.
        arrivals: Who is sending which image just now.
        outbound: The threads in which routes ask other servers.
    """

    state: Path
    settings: ServiceSettings
    database: ServiceDatabase
    now: Callable[[], datetime] = field(default=_now)
    stopping: threading.Event = field(default_factory=threading.Event)
    arrivals: Arrivals = field(default_factory=Arrivals)
    outbound: OwnThreads = field(default_factory=OwnThreads)

    @property
    def images(self) -> Path:
        """Return the folder where images are kept, and from where alone plans take theirs."""
        return self.settings.runs.images or self.state / "images"
