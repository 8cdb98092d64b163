"""Keep a trace of all requests to a controller: method, path, status, seconds, sizes; no headers, bodies or secrets."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.redaction import masked
from flashferry.core.values import as_dict

if TYPE_CHECKING:
    import httpx

MOST_EXCHANGES = 20_000
"""Newest requests kept; a night of 90 minutes that polls every five seconds has about 4,000."""

_STARTED = "flashferry.started_s"


class Exchange(Struct, frozen=True, kw_only=True):
    """A request and its answer.

    Attributes:
        at: Time of the answer, UTC.
        path: With its query.
        status: Status code; None: no answer.
        seconds: From the request to the end of the answer.
        sent_bytes: Size of the request's body; None: unknown in advance.
        received_bytes: Size of the answer's body.
        failure: Name of the error if there was no answer; else empty.
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
    """All requests to a controller. Thread-safe."""

    def __init__(self, most: int = MOST_EXCHANGES) -> None:
        self._lock = threading.Lock()
        self._exchanges: deque[Exchange] = deque(maxlen=most)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The requests so far, failed ones included."""
        with self._lock:
            return tuple(self._exchanges)

    def on_request(self, request: httpx.Request) -> None:
        """Note the start of a request: a hook of the HTTP library."""
        request.extensions[_STARTED] = time.monotonic()

    def on_response(self, response: httpx.Response) -> None:
        """Record an answer: a hook of the HTTP library."""
        response.read()
        self._keep(response.request, status=response.status_code, received_bytes=len(response.content))

    def on_failure(self, request: httpx.Request, failure: str) -> None:
        """Record a request without answer."""
        self._keep(request, failure=failure)

    def text(self) -> str:
        """Return one JSON object per line, secrets masked."""
        return "".join(masked(json.dumps(as_dict(one))) + "\n" for one in self.exchanges)

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
