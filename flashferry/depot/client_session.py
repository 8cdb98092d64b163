"""Serve one run at the depot, and queue the messages to it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from flashferry.core.errors import FlashferryError, kind_of
from flashferry.core.values import replace
from flashferry.depot.handshake import STATUS, user_name
from flashferry.fileserver import EventKind, FileIdentity, RequestRefused, SettingsInvalid
from flashferry.fileserver.wire import (
    MOST_BYTES,
    AddTicket,
    AdmitLogin,
    Answer,
    AskSlot,
    ClaimSlot,
    EventMessage,
    FreeSlot,
    ImageHashed,
    OfferImages,
    ProgressUpdate,
    ProgressUpdates,
    ReadImage,
    ReadStatus,
    Revoke,
    SetCap,
    SetSiteCap,
    SetSiteLink,
    SiteLoadUpdate,
    answer,
    decode_call,
    encode,
)
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import CatalogueInvalid, ImageUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from flashferry.depot.handshake import Greeting
    from flashferry.depot.shared_state import SharedState
    from flashferry.fileserver import ServerEvent
    from flashferry.fileserver.ticket_accounts import TicketGrant
    from flashferry.fileserver.wire import Call, ForSender, Message, OfferedPath, Request, Welcome

MOST_UNREAD = 50_000
"""A run with more unread messages, progress not counted, has stopped reading."""


class SendQueue:
    """Send messages to one run. Thread-safe; methods return at once.

    Args:
        connection: The connection to it.
        give_up: Called on another thread if it has gone or stopped reading; perhaps more than once.
    """

    def __init__(self, connection: Connection, give_up: Callable[[], None]) -> None:
        self._connection, self._give_up = connection, give_up
        self._news = threading.Condition()
        self._messages: deque[Message] = deque()
        # The newest of each ticket.
        self._updates: dict[str, ProgressUpdate] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="depot-queue", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Send a message, after all earlier progress."""
        with self._news:
            if self._is_closed:
                return
            self._gather()
            self._messages.append(message)
            is_too_much = len(self._messages) > MOST_UNREAD
            self._news.notify()
        if is_too_much:
            # Not here: the caller may hold a lock that the end of a session needs.
            threading.Thread(target=self._give_up, name="depot-give-up", daemon=True).start()

    def send_event(self, event: ServerEvent) -> None:
        """Send an event; if the run reads late, only the newest progress."""
        update = ProgressUpdate.of(event)
        if update is None:
            self.send(EventMessage(event=event))
            return
        with self._news:
            self._updates[update.now.ticket_id] = update
            self._news.notify()

    def close(self) -> None:
        """Send nothing more; queued messages are dropped."""
        with self._news:
            self._is_closed = True
            self._messages.clear()
            self._updates.clear()
            self._news.notify()

    def join(self) -> None:
        """Wait until nothing is being sent, after `close`."""
        self._thread.join()

    def _gather(self) -> None:
        if self._updates:
            self._messages.append(ProgressUpdates(updates=list(self._updates.values())))
            self._updates.clear()

    def _run(self) -> None:
        with suppress(OSError):
            while (message := self._next()) is not None:
                self._connection.send_bytes(encode(message))
            return
        self._give_up()

    def _next(self) -> Message | None:
        with self._news:
            while not (self._messages or self._updates or self._is_closed):
                self._news.wait()
            if self._is_closed:
                return None
            if not self._messages:
                self._gather()
            return self._messages.popleft()


_HASH_REPORT_S = 1.0

_HINT = "Put it where the depot can read it (a unit of systemd may not see /home and /tmp), or give --depot never"


class ClientSession:
    """Serve one run, from its greeting to its end.

    Args:
        name: Its unique name.
        connection: The connection to it, greeted.
        greeting: Its greeting.
        shared: The state that all runs share.
    """

    def __init__(self, name: str, connection: Connection, greeting: Greeting, shared: SharedState) -> None:
        self.name, self.purpose, self.pid = name, greeting.purpose, greeting.pid
        self.since = time.time()
        self._connection, self._shared = connection, shared
        self._catalogue: Catalogue | None = None
        self._ending = threading.Lock()
        self._is_over = False
        self._has_joined = False
        self.queue = SendQueue(connection, self.end)

    @property
    def has_work(self) -> bool:
        """Whether it does more than read the status."""
        return self.purpose != STATUS

    def serve(self, welcome: Welcome) -> None:
        """Carry out its requests until it ends."""
        self.queue.send(welcome)
        # One that was killed may leave half a message; one that is not understood is not served on.
        with suppress(EOFError, OSError, msgspec.DecodeError):
            while not self._is_over:
                self._take(decode_call(self._connection.recv_bytes(MOST_BYTES)))
        self.end()

    def end(self) -> None:
        """End the session: revoke its tickets, release its slots and caps. Idempotent."""
        with self._ending:
            if self._is_over:
                return
            self._is_over = True
        self.queue.close()
        # Wakes the thread that reads; closing alone does not.
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
        self._shared.leave(self)

    def _take(self, call: Call) -> None:
        try:
            reply = answer(call.number, self._carried_out(call.request))
        except FlashferryError as error:
            reply = Answer(number=call.number, kind=kind_of(error), error=error.message, hint=error.hint)
        if call.number:
            self.queue.send(reply)

    def _carried_out(self, request: Request) -> object:
        shared = self._shared
        match request:
            case OfferImages(paths, pushes):
                self._catalogue = self._catalogue_of(paths)
                if pushes:
                    self.join()
            case ReadImage(name):
                return self._offered().image(name, on_progress=self._hash_progress(name))
            case AddTicket(grant):
                return shared.take_ticket(self, self._checked(grant))
            case Revoke(ticket_id):
                shared.server_for(self, ticket_id).revoke(ticket_id)
            case SetCap(ticket_id, cap_bytes_per_s):
                shared.server_for(self, ticket_id).set_cap(ticket_id, cap_bytes_per_s)
            case SetSiteCap():
                shared.state_cap(self.name, request)
            case SetSiteLink(site, link_bytes_per_s):
                shared.server.set_site_link(site, link_bytes_per_s)
            case AskSlot(number, site, limit):
                shared.ask_slot(self, number, site, limit)
            case ClaimSlot(number, site, limit):
                shared.claim_slot(self, number, site, limit)
            case FreeSlot(number):
                shared.free_slot(self, number)
            case SiteLoadUpdate(load):
                self.join()
                shared.server.take_load(self.name, load)
            case ReadStatus():
                return shared.view()
            case _:
                raise RequestRefused("not for a shared server")
        return None

    # Its images

    def _catalogue_of(self, paths: tuple[OfferedPath, ...]) -> Catalogue:
        for one in paths:
            _check_same(one)
        try:
            return Catalogue(tuple(one.path for one in paths), cache_path=self._shared.digests)
        except CatalogueInvalid as error:
            raise CatalogueInvalid(
                f"{error.message} (by the depot, user {user_name(os.geteuid())})", hint=_HINT
            ) from None

    def _offered(self) -> Catalogue:
        if self._catalogue is None:
            raise SettingsInvalid("depot: expected images before any request about them", hint="Offer some first")
        return self._catalogue

    def _checked(self, grant: TicketGrant) -> TicketGrant:
        """Return a ticket with the image as the depot found it; the run's own claims are not used.

        Raises:
            ImageUnreadable: It is not the image that the run means.
        """
        image = self._offered().image(grant.image.name)
        if image.sha512 != grant.image.sha512:
            raise ImageUnreadable(
                f"image {image.name!r}: {image.path} changed on disk since the run began",
                hint="Let the copy to it end, then start again: its digests belong to another file",
            )
        return replace(grant, image=image)

    def _hash_progress(self, name: str) -> Callable[[int, int], None]:
        """Return what reports how far an image is hashed; a client that left needs no digests."""
        reported_s = time.monotonic()

        def report(done_bytes: int, size_bytes: int) -> None:
            nonlocal reported_s
            if self._is_over:
                raise EOFError
            if (now_s := time.monotonic()) - reported_s >= _HASH_REPORT_S:
                reported_s = now_s
                self.queue.send(ImageHashed(name=name, done_bytes=done_bytes, size_bytes=size_bytes))

        return report

    # What it is sent

    def on_event(self, event: ServerEvent) -> None:
        """Send an event of its own ticket, or of the whole server."""
        if event.kind is EventKind.GONE:
            event = replace(event, kind=EventKind.NOTICE)
        self.queue.send_event(event)

    def join(self) -> None:
        """Let its pushes share sites with all other transfers."""
        if not self._has_joined:
            self._has_joined = True
            self._shared.server.join(self.name, self)

    def take(self, request: ForSender, /) -> None:
        """Send what applies to its pushes at a site, except fixed logins."""
        if not isinstance(request, AdmitLogin):
            self.queue.send(request)


def _check_same(offered: OfferedPath) -> None:
    """Check that the depot sees the same file as the run; a systemd unit may have a /tmp of its own.

    Raises:
        ImageUnreadable: It sees none, or another one.
    """
    path, reader = offered.path, f"the depot (user {user_name(os.geteuid())})"
    try:
        found = path.stat()
    except OSError as error:
        raise ImageUnreadable(f"image {path}: {reader} cannot read it: {error.strerror}", hint=_HINT) from None
    if offered.identity is not None and FileIdentity.of(found) != offered.identity:
        raise ImageUnreadable(f"image {path}: {reader} sees another file there than this command", hint=_HINT)
    if not os.access(path, os.R_OK):
        raise ImageUnreadable(f"image {path}: {reader} cannot read it: Permission denied", hint=_HINT)
