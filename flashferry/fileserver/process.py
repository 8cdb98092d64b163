"""The serving process, started by `flashferry.fileserver.child`: `python -m flashferry.fileserver.process FD FD ...`.

The first descriptor is the control channel, the others are the listening sockets, in the order of the listeners in the
settings. All protocols of a process are served by one event loop, asyncio's where they need that.

It ends when its parent ends, in whatever way: the control channel is then closed, and as a second check the parent's
process id is compared twice a second.
"""

import logging
import os
import signal
import socket
import sys
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from flashferry.core.errors import FlashferryError, kind_of
from flashferry.core.values import replace
from flashferry.fileserver.host_capabilities import probe_capabilities, raise_soft_limit
from flashferry.fileserver.protocol import (
    AsyncChat,
    AsyncioLoop,
    IOLoop,
    ServingContext,
    divert_loop_errors,
    load_protocol,
)
from flashferry.fileserver.rate_limits import given_cap
from flashferry.fileserver.settings import LOG
from flashferry.fileserver.ticket_service import TicketService
from flashferry.fileserver.wire import (
    LENGTH_BYTES,
    MOST_BYTES,
    AddTicket,
    AdmitLogin,
    Answer,
    AttemptsElsewhere,
    AttemptUsed,
    Beat,
    DecideAttempt,
    Drain,
    EventMessage,
    Open,
    ProgressUpdate,
    ProgressUpdates,
    Ready,
    RefusedLogin,
    Revoke,
    SetCap,
    SetLoadElsewhere,
    SetSiteCap,
    SetSiteLink,
    SiteLoadUpdate,
    Stop,
    Yielded,
    answer,
    decode_call,
    decode_hello,
    framed,
)

if TYPE_CHECKING:
    from flashferry.fileserver.protocol import Listener, ProtocolFactory
    from flashferry.fileserver.transfer_records import ServerEvent
    from flashferry.fileserver.wire import Hello, Message, Request
    from flashferry.images.image import ImageFile

_HEARTBEAT_S = 0.5
_HOLD_S = 0.1
# Most bytes unread by the parent. A busy parent reads late: with a long queue of old progress it would take a running
# copy for a stalled one, and wait as long for answers.
_UNREAD_BYTES = 16_384
_STOPPED = "the server was stopped"


class ControlLink(AsyncChat):
    """The serving process's end of the channel to its parent."""

    def __init__(self, connection: socket.socket, ioloop: Any, service: "Service") -> None:
        self._service = service
        self._incoming: list[bytes] = []
        self._is_length = True
        self._outgoing: list[bytes] = []
        # The newest update of each ticket.
        self._updates: dict[str, ProgressUpdate] = {}
        self._is_post_due = False
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
        super().__init__(connection, ioloop=ioloop)
        self.set_terminator(LENGTH_BYTES)

    def collect_incoming_data(self, data: bytes) -> None:
        """Buffer a piece of a length or of a message."""
        self._incoming.append(data)

    def found_terminator(self) -> None:
        """Handle a complete length or a complete message."""
        data = b"".join(self._incoming)
        self._incoming.clear()
        self.set_terminator(int.from_bytes(data, "big") if self._is_length else LENGTH_BYTES)
        self._is_length = not self._is_length
        if self._is_length:
            self._take(data)

    def _take(self, data: bytes) -> None:
        call = decode_call(data)
        try:
            reply = answer(call.number, self._service.answer(call.request))
        except (FlashferryError, KeyError, ValueError) as error:
            text = error.message if isinstance(error, FlashferryError) else str(error)
            reply = Answer(number=call.number, kind=kind_of(error), error=text)
        if call.number:
            self.send_message(reply)

    def send_message(self, message: "Message") -> None:
        """Send a message at once: the parent must get the report of a delivery before the client sees its end."""
        if not self._closed:
            # After the progress that came before it.
            self._gather()
            self._outgoing.append(framed(message))
            self._post()

    def send_event(self, event: "ServerEvent") -> None:
        """Send an event; while the parent does not read, only the newest progress of each ticket is kept."""
        update = ProgressUpdate.of(event)
        if update is None:
            self.send_message(EventMessage(event=event))
        elif not self._closed:
            self._updates[update.now.ticket_id] = update
            # Together with that of all other transfers read in this turn of the loop.
            self._post_in(0)

    def beat(self) -> None:
        """Send a heartbeat unless other messages are waiting."""
        if not self.producer_fifo and not self._outgoing:
            self.send_message(Beat())

    def _post_in(self, seconds: float) -> None:
        if not self._is_post_due:
            self._is_post_due = True
            self.ioloop.call_later(seconds, self._post_updates, _errback=self.handle_error)

    def _post_updates(self) -> None:
        self._is_post_due = False
        if not self.producer_fifo:
            self._post()
        elif not self._closed:
            self._post_in(_HOLD_S)

    def _gather(self) -> None:
        updates, self._updates = list(self._updates.values()), {}
        if updates:
            self._outgoing.append(framed(ProgressUpdates(updates=updates)))

    def _post(self) -> None:
        self._gather()
        messages, self._outgoing = self._outgoing, []
        if messages and not self._closed:
            self.push(b"".join(messages))

    def flush(self) -> None:
        """Send what is queued, for at most two seconds, before the process ends."""
        if self._closed:
            return
        self._post()
        self.socket.settimeout(2.0)
        while self.producer_fifo and not self._closed:
            self.initiate_send()

    def handle_close(self) -> None:
        """End with the parent."""
        self.close()
        self._service.stop()

    def handle_error(self) -> None:
        """End the process after an error on the control channel."""
        LOG.exception("control channel")
        self.handle_close()


class Service:
    """The file server in the serving process.

    Args:
        control: The channel to the parent.
        sockets: Bound socket of each listener in the settings.
        hello: The parent's first message, with the settings.
    """

    def __init__(self, control: socket.socket, sockets: tuple[socket.socket, ...], hello: "Hello") -> None:
        self._hello = hello
        factories = [load_protocol(listener.protocol) for listener in hello.settings.listeners]
        self._loop = _loop_for(factories)
        self._running = True
        self._is_open = False
        self._terminated = False
        self._drain_until_s: float | None = None
        self._link = ControlLink(control, self._loop, self)
        send = self._link.send_message
        self.tickets = TicketService(hello.settings, self._link.send_event)
        self.tickets.on_login_failure = lambda failure: send(RefusedLogin(failure=failure))
        if hello.is_one_of_several:
            self.tickets.on_try = lambda use: send(AttemptUsed(use=use))
            self.tickets.on_yielded = lambda ticket_id: send(Yielded(ticket_id=ticket_id))
            self.tickets.on_site_load = lambda load: send(SiteLoadUpdate(load=load))
        self._ports = tuple(listening.getsockname()[1] for listening in sockets)
        context = ServingContext(tickets=self.tickets, settings=hello.settings, loop=self._loop)
        self._listeners: tuple[Listener, ...] = tuple(
            factory(listening, context, listener.options)
            for factory, listener, listening in zip(factories, hello.settings.listeners, sockets, strict=True)
        )

    def run(self) -> None:
        """Serve until stopped."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._link.send_message(Ready(ports=self._ports, capabilities=probe_capabilities()))
        self._loop.call_every(_HEARTBEAT_S, self._heartbeat)
        if isinstance(self._loop, AsyncioLoop):
            self._loop.run()
        else:
            timeout_s = 0.0
            while self._running:
                timeout_s = self._loop.loop(timeout_s, blocking=False)
        self._end()

    def answer(self, request: "Request") -> object:
        """Execute a request of the parent, and return the result.

        Raises:
            ValueError: The request is not for a serving process.
        """
        tickets = self.tickets
        match request:
            case AddTicket(grant, is_shared):
                return tickets.add(replace(grant, image=_shared(grant.image)), is_shared=is_shared)
            case Open():
                self.open()
            case Drain():
                return self.drain()
            case AdmitLogin(fixed):
                tickets.admit(fixed)
            case Revoke(ticket_id):
                tickets.revoke(ticket_id)
            case SetCap(ticket_id, cap_bytes_per_s):
                tickets.set_cap(ticket_id, cap_bytes_per_s)
            case SetSiteCap(site, cap_bytes_per_s, source):
                tickets.set_site_cap(site, given_cap(cap_bytes_per_s, source))
            case SetLoadElsewhere(load):
                tickets.set_elsewhere(load)
            case AttemptsElsewhere(ticket_id, tries, yields, is_delivered):
                tickets.use_elsewhere(ticket_id, tries, yields=yields, is_delivered=is_delivered)
            case DecideAttempt(ticket_id, here, goes_on):
                tickets.decide_try(ticket_id, here, goes_on=goes_on)
            case SetSiteLink(site, link_bytes_per_s):
                tickets.set_site_link(site, link_bytes_per_s)
            case Stop():
                self.stop()
            case _:
                raise ValueError("not for a serving process")
        return None

    def open(self) -> None:
        """Start accepting sessions, unless that is done already or the server is draining."""
        if not self._is_open and self._drain_until_s is None:
            self._is_open = True
            for listener in self._listeners:
                listener.open()

    def stop(self) -> None:
        """Make the event loop return."""
        self._running = False
        if isinstance(self._loop, AsyncioLoop):
            self._loop.stop()

    def drain(self) -> int:
        """Stop accepting sessions, close idle ones, and end after the last transfer or the time limit.

        Returns:
            Number of running transfers, including granted ones that wait for their data connection.
        """
        if self._drain_until_s is None:
            self._drain_until_s = self.tickets.clock() + self._hello.settings.limits.drain_s
            for listener in self._listeners:
                listener.drain()
            self._heartbeat()
        return self._in_progress()

    def _on_sigterm(self, _number: int, _frame: Any) -> None:
        # Only set a flag, for the loop may be anywhere; the heartbeat acts on it.
        self._terminated = True

    def _heartbeat(self) -> None:
        if os.getppid() != self._hello.parent_pid:
            self.stop()
        elif self._terminated:
            self.drain()
        self.tickets.sweep()
        self.tickets.report_loads()
        self._link.beat()
        if self._drain_until_s is not None and (not self._in_progress() or self.tickets.clock() >= self._drain_until_s):
            self.stop()

    def _in_progress(self) -> int:
        return self.tickets.in_progress + sum(listener.transfers_to_come for listener in self._listeners)

    def _end(self) -> None:
        for account in self.tickets.running:
            if account.channel is not None:
                account.channel.cut(_STOPPED)
        for listener in self._listeners:
            listener.close(_STOPPED)
        self._link.flush()
        if isinstance(self._loop, AsyncioLoop):
            self._loop.leave()


def _loop_for(factories: "list[ProtocolFactory]") -> Any:
    needs_asyncio = any(getattr(factory, "NEEDS_ASYNCIO", False) for factory in factories)
    return AsyncioLoop() if needs_asyncio else IOLoop()


@lru_cache(maxsize=64)
def _shared(image: "ImageFile") -> "ImageFile":
    """Return the same object for all tickets of an image, whose digests are half of a ticket's memory."""
    return image


class _Notices(logging.Handler):
    """Sends errors that the loop logs to the parent: only the message and the type of the exception."""

    def __init__(self, tickets: TicketService) -> None:
        super().__init__(logging.ERROR)
        self._tickets = tickets

    def emit(self, record: logging.LogRecord) -> None:
        """Send one."""
        kind = record.exc_info[0] if record.exc_info else None
        last_line = record.getMessage().strip().splitlines()[-1:] or [""]
        self._tickets.notice(f"internal error: {kind.__name__ if kind else last_line[0][:200]}")


def _read_hello(control: socket.socket) -> "Hello":
    channel = Connection(os.dup(control.fileno()))
    try:
        return decode_hello(channel.recv_bytes(MOST_BYTES))
    except EOFError:
        sys.exit("flashferry.fileserver.process: expected a greeting from the parent, found the channel closed")
    finally:
        channel.close()


def main(arguments: list[str]) -> None:
    """Serve on the sockets inherited from the parent."""
    control, *listening = (socket.socket(fileno=int(number)) for number in arguments)
    service = Service(control, tuple(listening), _read_hello(control))
    divert_loop_errors(_Notices(service.tickets))
    raise_soft_limit()
    service.run()


if __name__ == "__main__":
    main(sys.argv[1:])
