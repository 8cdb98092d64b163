"""The objects that routes, pages and background tasks share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashferry.service.images.upload_sessions import UploadSessions
from flashferry.service.outbound import OwnThreads
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Settings, database and state of a service.

    Attributes:
        now: Returns the time, with a zone.
        stopping: Set when the service ends, so that streams and background tasks end.
    """

    state: Path
    settings: ServiceSettings
    database: ServiceDatabase
    now: Callable[[], datetime] = field(default=_now)
    stopping: threading.Event = field(default_factory=threading.Event)
    uploads: UploadSessions = field(default_factory=UploadSessions)
    outbound: OwnThreads = field(default_factory=OwnThreads)

    @property
    def images(self) -> Path:
        """Return the image folder, the only one that plans may use."""
        return self.settings.runs.images or self.state / "images"
