"""A run followed at a remote service: its events without gap or repeat, over broken connections and restarts of it.

The service names each event by its file and the byte behind it; whoever comes again says which was the last, and is
told what is behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

import httpx

from flashferry.monitor.event_reader import WrittenEvent, event_of
from flashferry.service.client.answers import ServiceRefused, ServiceUnusable, unreachable
from flashferry.service.client.client import ServiceClient

PATIENCE_S = 1800.0
"""So long a run is followed without anything being heard of the service: it may be restarted, or its host."""
MOST_LINE_BYTES = 1 << 20
"""An event has some hundred bytes."""
MOST_DEVICES = 50_000
"""A run has fewer; of a stream that tells of more nobody wants to keep count."""

_MOST_ID = 200
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_IN_PASSING = 1
"""So many breaks in a row are not worth a word: a stream ends by itself after five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A server-sent event.

    Attributes:
        kind: `message`, or what it says that it is.
        id: What to say to be told what is behind it; empty where it has none.
        data: What it holds.
    """

    kind: str
    id: str
    data: bytes


def server_sent(parts: Iterable[bytes], most_bytes: int = MOST_LINE_BYTES) -> Iterator[Said]:
    """Yield the server-sent events in the pieces of a stream; the end of one that broke off is left out.

    Raises:
        ServiceUnusable: A line, or an event, is larger than any could be.
    """
    fields: dict[bytes, bytes] = {}
    for line in _lines(parts, most_bytes):
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            # Ours have one line of data each; another one's lines belong together.
            fields[name] = fields[name] + b"\n" + value if name == b"data" and name in fields else value
            if len(fields.get(b"data", b"")) > most_bytes or len(fields) > 8:
                raise _too_long(most_bytes)
        else:
            if b"data" in fields:
                yield _said(fields)
            fields = {}


def run_events(
    client: ServiceClient,
    run_id: str,
    tell: Callable[[str], None],
    *,
    patience_s: float = PATIENCE_S,
) -> Iterator[WrittenEvent]:
    """Yield the events of a run until it is over, each once.

    Args:
        client: Asks the service.
        run_id: The run.
        tell: Takes a line for people, where the connection broke and where it is there again.
        patience_s: So long without a word of the service, in seconds, it is tried again.

    Raises:
        ServiceRefused: The run may not be looked at (any more), or writes no events that could be told.
        ServiceUnusable: Nothing was heard for too long, or what is heard is no stream of events.
    """
    contact = _Contact(client, tell, patience_s)
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
    """Whether the service is there, what people are told of that, and for how long it is tried again."""

    def __init__(self, client: ServiceClient, tell: Callable[[str], None], patience_s: float) -> None:
        self._client, self._tell, self._patience_s = client, tell, patience_s
        self._heard_s, self._last = client.clock(), ""
        self.is_over = False
        self._breaks, self._is_heard = 0, False

    def events(self, run_id: str) -> Iterator[WrittenEvent]:
        """Yield what is behind the last event that was told, until the stream ends or breaks off."""
        headers = {"Last-Event-ID": self._last} if self._last else {}
        with self._client.listening(f"/runs/{quote(run_id, safe='')}/events", headers) as parts:
            for said in server_sent(self._heard_in(parts)):
                self._last = said.id or self._last
                self.is_over = said.kind == "end"
                if self.is_over:
                    return
                if (event := event_of(said.data)) is not None:
                    yield event

    def _heard_in(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """Pass the pieces of a stream on, and know by them that the service is there."""
        for part in parts:
            if self._breaks > _IN_PASSING:
                self._tell("the service answers again")
            self._breaks, self._is_heard, self._heard_s = 0, True, self._client.clock()
            yield part

    def may_pass(self, error: ServiceUnusable | ServiceRefused) -> bool:
        """Return whether an answer is one that a service, or a proxy in front, gives while it is restarted."""
        if isinstance(error, ServiceRefused):
            # A run that has just begun may not be among those that were looked at last.
            return error.status == HTTPStatus.NOT_FOUND and self._breaks < len(_PAUSES_S)
        return error.passes

    def broke(self, error: ServiceUnusable | ServiceRefused) -> None:
        """Wait before it is tried again.

        Raises:
            ServiceUnusable: It was tried for too long.
        """
        self._breaks += 1
        if self._client.clock() - self._heard_s > self._patience_s:
            raise error
        if self._breaks == _IN_PASSING + 1:
            self._tell(f"{error.message}. It is tried again; what it has begun goes on there")
        self._client.pause(_PAUSES_S[min(self._breaks, len(_PAUSES_S)) - 1])

    def ended(self) -> None:
        """Wait a little before a stream that ended by itself is asked for again.

        Raises:
            ServiceUnusable: It says nothing, again and again.
        """
        if self.is_over:
            return
        if self._is_heard:
            self._is_heard = False
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
        hint="Is that a flashferry service, and of the same release as this command line?",
    )
