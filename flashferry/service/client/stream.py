"""Events of a run at a remote service, without gap or repeat across broken connections and restarts.

Each event id names the event file and the offset after the event; a reconnect sends the last id and continues there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import quote

import httpx
from msgspec import Struct

from flashferry.monitor.events import WrittenEvent, event_of
from flashferry.service.client.client import ServiceClient, ServiceRefused, ServiceUnusable, unreachable

PATIENCE_S = 1800.0
"""How long a run is followed without a sign of the service: its host may be restarting."""
MOST_LINE_BYTES = 1 << 20
"""Limit of a line; an event has some hundred bytes."""
MOST_DEVICES = 50_000
"""More devices than any run has."""
_MOST_ID = 200
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_IN_PASSING = 1
"""So many breaks in a row are not reported: a stream ends by itself after five minutes."""


class Said(Struct, frozen=True, kw_only=True):
    """A server-sent event. A stream can continue after its `id`; empty if it has none."""

    kind: str
    id: str
    data: bytes


def server_sent(parts: Iterable[bytes]) -> Iterator[Said]:
    """Parse a stream into server-sent events; an incomplete last one is dropped.

    Raises:
        ServiceUnusable: A line or an event is above the size limit.
    """
    fields: dict[bytes, bytes] = {}
    for line in _lines(parts, MOST_LINE_BYTES):
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            # Our events have one data line each; join several as the specification says.
            fields[name] = fields[name] + b"\n" + value if name == b"data" and name in fields else value
            if len(fields.get(b"data", b"")) > MOST_LINE_BYTES or len(fields) > 8:
                raise _too_long(MOST_LINE_BYTES)
        else:
            if b"data" in fields:
                yield _said(fields)
            fields = {}


def run_events(
    client: ServiceClient,
    run_id: str,
    report: Callable[[str], None],
    *,
    patience_s: float = PATIENCE_S,
) -> Iterator[WrittenEvent]:
    """Yield the events of a run until it is over, each once.

    `report` is called with a line for the user when the connection breaks and when it is back.

    Raises:
        ServiceRefused: The caller may not read the run, or it writes no events.
        ServiceUnusable: No answer for `patience_s` seconds, or the answer is not a stream of events.
    """
    contact = _Contact(client, report, patience_s)
    while not contact.is_over:
        try:
            yield from contact.events(run_id)
        except httpx.HTTPError as error:
            contact.broke(unreachable(error, client.url))
        except (ServiceUnusable, ServiceRefused) as error:
            if not contact.may_pass(error):
                raise
            contact.broke(error)
        else:
            contact.ended()


class _Contact:
    """Connection state of `run_events`: last event id, retry times, and what was reported to the user."""

    def __init__(self, client: ServiceClient, report: Callable[[str], None], patience_s: float) -> None:
        self._client, self._report, self._patience_s = client, report, patience_s
        self._last_seen_s, self._last = client.clock(), ""
        self.is_over = False
        self._breaks, self._has_events = 0, False

    def events(self, run_id: str) -> Iterator[WrittenEvent]:
        """Open the stream and yield the events after the last one, until the stream ends or breaks."""
        headers = {"Last-Event-ID": self._last} if self._last else {}
        with self._client.listening(f"/runs/{quote(run_id, safe='')}/events", headers) as parts:
            for said in server_sent(self._noting_contact(parts)):
                self._last = said.id or self._last
                self.is_over = said.kind == "end"
                if self.is_over:
                    return
                if (event := event_of(said.data)) is not None:
                    yield event

    def _noting_contact(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the parts of a stream unchanged, and note that the service answers."""
        for part in parts:
            if self._breaks > _IN_PASSING:
                self._report("the service answers again")
            self._breaks, self._has_events, self._last_seen_s = 0, True, self._client.clock()
            yield part

    def may_pass(self, error: ServiceUnusable | ServiceRefused) -> bool:
        """Return whether an error is temporary: a proxy answers so while the service restarts."""
        if isinstance(error, ServiceRefused):
            # A run that just started may be missing from the last snapshot.
            return error.status == HTTPStatus.NOT_FOUND and self._breaks < len(_PAUSES_S)
        return error.passes

    def broke(self, error: ServiceUnusable | ServiceRefused) -> None:
        """Wait before the next try. Raises the error after `patience_s`."""
        self._breaks += 1
        if self._client.clock() - self._last_seen_s > self._patience_s:
            raise error
        if self._breaks == _IN_PASSING + 1:
            self._report(f"{error.message}. Trying again; what it started continues there")
        self._client.pause(_PAUSES_S[min(self._breaks, len(_PAUSES_S)) - 1])

    def ended(self) -> None:
        """Wait before a stream that ended normally is requested again.

        Raises:
            ServiceUnusable: Streams ended without any event too many times in a row.
        """
        if self.is_over:
            return
        if self._has_events:
            self._has_events = False
            self._client.pause(_PAUSES_S[0])
        else:
            hint = "Look at the service, and at what is in front of it"
            self.broke(ServiceUnusable("the service's stream of events ends before it says anything", hint=hint))


def _lines(parts: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    rest = bytearray()
    for part in parts:
        rest += part
        if b"\n" in part:
            *whole, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            yield from (line.removesuffix(b"\r") for line in whole)
        if len(rest) > most_bytes:
            raise _too_long(most_bytes)


def _said(fields: dict[bytes, bytes]) -> Said:
    name = ""
    with suppress(UnicodeDecodeError):
        name = fields.get(b"id", b"").decode("ascii")
    is_name = len(name) <= _MOST_ID and name.isprintable()
    kind = fields.get(b"event", b"message").decode("utf-8", "replace")
    return Said(kind=kind, id=name if is_name else "", data=fields[b"data"])


def _too_long(most_bytes: int) -> ServiceUnusable:
    return ServiceUnusable(
        f"the stream of events: expected lines of at most {most_bytes:,} bytes, found a longer one",
        hint="Check that it is a flashferry service of the same release as this command line",
    )
