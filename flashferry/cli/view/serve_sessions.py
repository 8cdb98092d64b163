"""Sessions of a running server: a live table in a terminal, plain lines elsewhere, or JSON lines."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from flashferry.api.serving import LearnedRates, ManualTickets, Offer
from flashferry.cli.terminal.interrupt import SignalQueue
from flashferry.cli.terminal.output import copy_line, echo, say
from flashferry.cli.view.layout import ShownTable, Verbatim, console
from flashferry.core.codec import to_json
from flashferry.core.redaction import redact_json
from flashferry.core.units import coarse_rate, megabytes, milliseconds
from flashferry.fileserver import (
    EventKind,
    FileServer,
    ServerEvent,
    ServerGone,
    TransferProgress,
    TransferRecord,
    TransferState,
)

SHOWN_SESSIONS = 30
KEPT_SESSIONS = 1000
WIDE_COLUMNS = 110
IMAGE_COLUMNS = 20
JSON_LINES_AT_ONCE = 100
RENEW_EVERY_S = 0.5
"""Interval of checks for expired offers and replaced image files."""

_ENDS = frozenset({EventKind.DONE, EventKind.FAILED})
_RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)


def watch_sessions(
    server: FileServer,
    tickets: ManualTickets,
    rates: LearnedRates | None,
    stop: threading.Event,
    *,
    as_json: bool,
    has_by: bool = False,
) -> None:
    """Print offers and transfers until the server ends; learn link rates if none was given.

    Setting `stop` lets transfers finish; setting it again ends them.

    Args:
        server: The server.
        tickets: Issues its tickets.
        rates: Learns link rates, or None.
        stop: Stop request.
        as_json: Whether to print JSON lines.
        has_by: Whether to show each transfer's transport, as several are served.
    """
    with SignalQueue[ServerEvent]() as queue, ExitStack() as stack:
        stack.callback(server.events(queue.put))
        view: _View = _JsonLines() if as_json else PlainLines(has_by=has_by)
        if not as_json and console().is_terminal:
            live = stack.enter_context(Live(console=console(), refresh_per_second=4, transient=False))
            view = LiveTable(live, has_by=has_by)
        _Watch(server, tickets, rates, view).until_gone(queue, stop)


class _View:
    """Receiver of what the watcher reports."""

    def offer(self, offer: Offer) -> None:
        """Show a new copy command."""

    def events(self, events: list[ServerEvent]) -> None:
        """Show events in order; passed in batches, as hundreds of copies report many at once."""

    def rate(self, text: str) -> None:
        """Show that a link rate was learned or expired."""


class _Watch:
    """Passes on events first, then new offers: a transfer's end comes before the line that replaces its own."""

    def __init__(self, server: FileServer, tickets: ManualTickets, rates: LearnedRates | None, view: _View) -> None:
        self._server, self._tickets, self._rates, self._view = server, tickets, rates, view
        self._is_draining = False
        self._is_gone = False

    def until_gone(self, queue: SignalQueue[ServerEvent], stop: threading.Event) -> None:
        """Pass on events until the server has ended."""
        self._report_rates(self._rates.start() if self._rates else ())
        self._offer()
        while not self._is_gone:
            events = queue.take(RENEW_EVERY_S)
            self._take(events)
            if stop.is_set():
                stop.clear()
                self._drain()
            elif not events or any(event.kind in _ENDS for event in events):
                self._offer()

    def _take(self, events: list[ServerEvent]) -> None:
        self._view.events(events)
        for event in events:
            self._is_gone = self._is_gone or event.kind is EventKind.GONE
            self._report_rates(self._rates.take(event) if self._rates else ())

    def _report_rates(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._view.rate(text)

    def _offer(self) -> None:
        if self._is_draining or self._is_gone:
            return
        with suppress(ServerGone):
            for offer in self._tickets.renew():
                self._view.offer(offer)

    def _drain(self) -> None:
        """Let transfers finish; at the second request end them."""
        if self._is_draining:
            self._server.close()
            return
        self._is_draining = True
        with suppress(ServerGone):
            count = self._server.drain()
            if count:
                say(f"no new sessions; waiting for {count} running transfers, Ctrl-C again ends them")


class _JsonLines(_View):
    def offer(self, offer: Offer) -> None:
        # Unmasked: the only place where a ticket is printed.
        login = {"copy": offer.lines, "transports": offer.transports, "password": offer.password or None}
        print(json.dumps({"event": "offer", "image": offer.ticket.image_name, **login}), flush=True)  # noqa: T201

    def events(self, events: list[ServerEvent]) -> None:
        # One write: each wakes the writing thread.
        for first in range(0, len(events), JSON_LINES_AT_ONCE):
            some = events[first : first + JSON_LINES_AT_ONCE]
            lines = (json.dumps(redact_json({"event": event.kind.value} | to_json(event))) + "\n" for event in some)
            print("".join(lines), end="", flush=True)  # noqa: T201

    def rate(self, text: str) -> None:
        print(json.dumps(redact_json({"event": "cap", "text": text})), flush=True)  # noqa: T201


class PlainLines(_View):
    """Prints copy commands on standard output and transfers on standard error.

    Args:
        has_by: Whether to show each transfer's transport.
    """

    def __init__(self, *, has_by: bool) -> None:
        self._has_by = has_by

    def offer(self, offer: Offer) -> None:
        """Print the copy commands, and separately the password to type."""
        copy_line("\n".join(offer.lines))
        if offer.password:
            copy_line(_typed(offer), err=True)

    def events(self, events: list[ServerEvent]) -> None:
        """Print a line per event, except progress."""
        for event in events:
            if event.kind is not EventKind.PROGRESS:
                at = datetime.fromtimestamp(event.at, UTC).strftime("%H:%M:%S")
                by = event.progress.transport if self._has_by and event.progress is not None else None
                text = f"by {by}: {event.text}" if by else event.text
                echo(f"{at}  {event.peer_address or '-':<15} {event.kind.value:<12} {text}", err=True)

    def rate(self, text: str) -> None:
        """Print the notice."""
        echo(text, err=True)


class LiveTable(_View):
    """Table of the latest 30 sessions with bar and rate, running ones first; fewer columns if narrow.

    Args:
        live: Rich's live display.
        has_by: Whether to show each transfer's transport.
    """

    def __init__(self, live: Live, *, has_by: bool) -> None:
        self._live, self._has_by = live, has_by
        self._sessions: dict[str, tuple[float, TransferProgress]] = {}

    def offer(self, offer: Offer) -> None:
        """Print the image, its copy commands, and the password to type."""
        image = offer.image
        self._print(f"{image.name}, {image.size_bytes:,} bytes, MD5 {image.md5}", style="bold")
        for line in offer.lines:
            self._live.console.print(Verbatim(line), soft_wrap=True, end="")
        if offer.password:
            self._live.console.print(Verbatim(_typed(offer)), soft_wrap=True, end="")

    def events(self, events: list[ServerEvent]) -> None:
        """Update the transfers, and print those that ended."""
        for event in events:
            self._take(event)
        if any(event.progress is not None for event in events):
            self._live.update(self._table())

    def _take(self, event: ServerEvent) -> None:
        seen = event.progress
        if seen is None:
            if event.kind in {EventKind.NOTICE, EventKind.LOGIN_FAILED}:
                self._print(event.text)
            return
        self._sessions[seen.ticket_id] = (event.at, seen)
        if len(self._sessions) > KEPT_SESSIONS:
            del self._sessions[min(self._sessions, key=lambda ticket_id: self._sessions[ticket_id][0])]
        if seen.record is not None and event.kind in {EventKind.DONE, EventKind.FAILED}:
            self._print(_summary(seen.record, has_by=self._has_by))
        elif event.kind is EventKind.FAILED:
            by = f"by {seen.transport}: " if self._has_by and seen.transport else ""
            self._print(f"{seen.peer_address or 'no client'}: {by}{event.text}")

    def rate(self, text: str) -> None:
        """Print the notice."""
        self._print(text)

    def _print(self, text: str, style: str | None = None) -> None:
        self._live.console.print(text, style=style)

    def _table(self) -> Table:
        wide = self._live.console.width >= WIDE_COLUMNS
        table = ShownTable(box=None, pad_edge=False, header_style="bold")
        client, *others = ("client", "image", "state", "done", "", "rate", "RTT", "sender", "verdict") if wide else (
            "client", "state", "done", "rate", "RTT", "verdict",
        )  # fmt: skip
        for column in (client, *(("by",) if self._has_by else ()), *others):
            table.add_column(column, no_wrap=True, overflow="ellipsis")
        newest = sorted(self._sessions.values(), key=lambda one: (one[1].state in _RUNNING, one[0]), reverse=True)
        for _, seen in newest[:SHOWN_SESSIONS]:
            of_client, *cells = _wide_row(seen) if wide else _narrow_row(seen)
            table.add_row(of_client, *((seen.transport or "-",) if self._has_by else ()), *cells)
        return table


def _narrow_row(seen: TransferProgress) -> tuple[str, ...]:
    return (
        seen.peer_address or "-",
        seen.state.value,
        f"{seen.bytes_acked / max(seen.size_bytes, 1):.0%} of {megabytes(seen.size_bytes)}",
        coarse_rate(_rate(seen)),
        milliseconds(seen.rtt_s) if seen.rtt_s else "-",
        seen.record.verdict.kind.value if seen.record else f"{seen.limited_by.value} so far" if seen.limited_by else "",
    )


def _wide_row(seen: TransferProgress) -> tuple[str | ProgressBar, ...]:
    client, state, done, rate, rtt, verdict = _narrow_row(seen)
    bar = ProgressBar(total=max(seen.size_bytes, 1), completed=seen.bytes_acked, width=12)
    image = seen.image_name if len(seen.image_name) <= IMAGE_COLUMNS else f"{seen.image_name[: IMAGE_COLUMNS - 1]}…"
    return client, image, state, done, bar, rate, rtt, seen.congestion_control or "-", verdict


def _summary(record: TransferRecord, *, has_by: bool) -> str:
    by = f" by {record.transport}" if has_by else ""
    text = f"{record.peer_address}: {record.image_name}: {record.outcome}{by}. {record.verdict.sentence}"
    return f"{text} {record.verdict.advice}".rstrip()


def _typed(offer: Offer) -> str:
    """Return the sentence with the password to type when a router asks for it.

    It names the user, since the copy command may be in another stream or come a moment later.
    """
    asking = {by: None for line, by in zip(offer.lines, offer.transports, strict=True) if offer.password not in line}
    which = f"{offer.ticket.image_name}, by {' and '.join(asking)}, user {offer.ticket.username}"
    return f"the password that a router asks for ({which}): {offer.password}"


def _rate(seen: TransferProgress) -> float:
    return seen.record.rate_bytes_per_s if seen.record else seen.rate_bytes_per_s
