"""What was said to a controller, line by line: method, path, status, seconds, sizes. No header, no body, no secret.

Hooks of the HTTP library see every exchange, those of Cisco's client among them. A login shows as `POST
/api/v0/authenticate` and its sizes; bodies may hold passwords and configurations and are never kept.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flashferry.core.redaction import masked

if TYPE_CHECKING:
    import httpx

MOST_EXCHANGES = 20_000
"""A night of 90 minutes that asks every five seconds has about 4,000; the newest are kept."""

_STARTED = "flashferry.started_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its answer.

    Attributes:
        at: When it was answered, UTC.
        method: `GET`, ...
        path: With its query, below the controller's address.
        status: The answer's code; None where there was no answer.
        seconds: From the request to the end of its answer.
        sent_bytes: Size of the request's body; None where it is not known before it is sent.
        received_bytes: Size of the answer's body.
        failure: Why there was no answer: the error's name; else empty.
    """

    at: str
    method: str
    path: str
    status: int | None
    seconds: float
    sent_bytes: int | None = None
    received_bytes: int = 0
    failure: str = ""


class Trace:
    """All exchanges with a controller. Safe to use from several threads."""

    def __init__(self, most: int = MOST_EXCHANGES) -> None:
        self._lock = threading.Lock()
        self._exchanges: deque[Exchange] = deque(maxlen=most)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges so far, those that failed among them."""
        with self._lock:
            return tuple(self._exchanges)

    def on_request(self, request: httpx.Request) -> None:
        """Note when a request is sent: a hook of the HTTP library."""
        request.extensions[_STARTED] = time.monotonic()

    def on_response(self, response: httpx.Response) -> None:
        """Keep an exchange: a hook of the HTTP library."""
        response.read()
        self._keep(response.request, status=response.status_code, received_bytes=len(response.content))

    def on_failure(self, request: httpx.Request, failure: str) -> None:
        """Keep a request that was never answered."""
        self._keep(request, failure=failure)

    def text(self) -> str:
        """Return one JSON object a line, secrets masked."""
        return "".join(masked(json.dumps(asdict(one))) + "\n" for one in self.exchanges)

    def _keep(
        self, request: httpx.Request, *, status: int | None = None, received_bytes: int = 0, failure: str = ""
    ) -> None:
        started_s = request.extensions.get(_STARTED, time.monotonic())
        sent = request.headers.get("Content-Length")
        one = Exchange(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            method=request.method,
            path=request.url.raw_path.decode("ascii", "replace"),
            status=status,
            seconds=round(time.monotonic() - started_s, 4),
            sent_bytes=int(sent) if sent is not None and sent.isdecimal() else None,
            received_bytes=received_bytes,
            failure=failure,
        )
        with self._lock:
            self._exchanges.append(one)
