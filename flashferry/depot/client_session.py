"""One run at the depot: what it asks is done, what concerns it is told, and what it leaves behind is cleared up."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from flashferry.core.errors import FlashferryError, kind_of
from flashferry.depot import messages as said
from flashferry.depot.handshake import user_name
from flashferry.depot.send_queue import SendQueue
from flashferry.fileserver import EventKind, FileIdentity, SettingsInvalid
from flashferry.fileserver.wire import MOST_BYTES, AddTicket, Revoke, SetCap, SetSiteCap, SetSiteLink, SiteLoadUpdate
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import CatalogueInvalid, ImageUnreadable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from flashferry.depot.messages import Greeting, OfferedPath, Request
    from flashferry.depot.shared_state import SharedState
    from flashferry.fileserver import ServerEvent
    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.rate_limits import SiteLoad
    from flashferry.fileserver.tickets import TicketGrant

_SEE = "Put it where the depot may read it (a unit of systemd may not see /home and /tmp), or give --depot never"


class ClientSession:
    """A run that uses the depot, from its greeting to its end.

    Args:
        name: Told apart from others by it.
        connection: The line to it, greeted.
        greeting: What it greeted with.
        ground: What all runs share.
    """

    def __init__(self, name: str, connection: Connection, greeting: Greeting, ground: SharedState) -> None:
        self.name, self.purpose, self.pid = name, greeting.purpose, greeting.pid
        self.since = time.time()
        self._connection, self._ground = connection, ground
        self._catalogue: Catalogue | None = None
        self._ending = threading.Lock()
        self._is_over = False
        self._has_joined = False
        self.outbox = SendQueue(connection, self.end)

    @property
    def has_work(self) -> bool:
        """Return whether it is more than a look."""
        return self.purpose != said.LOOK

    def serve(self, welcome: said.Welcome) -> None:
        """Do what it asks until it goes."""
        self.outbox.say(welcome)
        # One that was killed leaves half a message behind; one that is not understood is not served on.
        with suppress(EOFError, OSError, msgspec.DecodeError):
            while not self._is_over:
                call = said.call_of(self._connection.recv_bytes(MOST_BYTES))
                self._take(call)
        self.end()

    def end(self) -> None:
        """Have it go: what it asked for ends, its slots and caps are the others'. Twice is harmless."""
        with self._ending:
            if self._is_over:
                return
            self._is_over = True
        self.outbox.close()
        with suppress(OSError):
            # Wakes who reads; closing alone does not.
            _shut(self._connection)
        self._ground.leave(self)

    def _take(self, call: said.Call) -> None:
        try:
            result = self._done(call.request)
        except FlashferryError as error:
            told = said.Answer(number=call.number, kind=kind_of(error), error=error.message, hint=error.hint)
        else:
            told = said.answer(call.number, result)
        if call.number:
            self.outbox.say(told)

    def _done(self, request: Request) -> object:
        ground = self._ground
        match request:
            case said.Offer(paths, pushes):
                self._catalogue = self._catalogue_of(paths)
                if pushes:
                    self.join()
            case said.Digest(name):
                return self._offered().image(name)
            case AddTicket(grant):
                return ground.take_ticket(self, self._checked(grant))
            case Revoke(ticket_id):
                ground.of(self, ticket_id).revoke(ticket_id)
            case SetCap(ticket_id, cap_bytes_per_s):
                ground.of(self, ticket_id).set_cap(ticket_id, cap_bytes_per_s)
            case said.StateCap(site, cap_bytes_per_s, source):
                ground.state_cap(self, site, cap_bytes_per_s, source)
            case SetSiteLink(site, link_bytes_per_s):
                ground.server.set_site_link(site, link_bytes_per_s)
            case said.AskSlot(number, site, limit):
                ground.ask_slot(self, number, site, limit)
            case said.ClaimSlot(number, site, limit):
                ground.claim_slot(self, number, site, limit)
            case said.FreeSlot(number):
                ground.free_slot(self, number)
            case said.Pushed(load):
                ground.take_load(self, load)
            case said.Look():
                return ground.view()
        return None

    # Its images

    def _catalogue_of(self, paths: tuple[OfferedPath, ...]) -> Catalogue:
        for one in paths:
            _check_same(one)
        try:
            return Catalogue(tuple(one.path for one in paths), cache_path=self._ground.digests)
        except CatalogueInvalid as error:
            raise CatalogueInvalid(
                f"{error.message} (by the depot, user {user_name(os.geteuid())})", hint=_SEE
            ) from None

    def _offered(self) -> Catalogue:
        if self._catalogue is None:
            raise SettingsInvalid("depot: expected images before anything is asked of them", hint="Offer some first")
        return self._catalogue

    def _checked(self, grant: TicketGrant) -> TicketGrant:
        """Return a ticket with the image as we found it: what a run says of a file, we take from nobody.

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

    # What it is told: its own tickets, and the server as a whole.

    def hear(self, event: ServerEvent) -> None:
        """Tell it of an event that concerns it."""
        if event.kind is EventKind.GONE:
            event = replace(event, kind=EventKind.NOTICE)
        self.outbox.tell(event)

    # What the file server tells a guest: how others share sites with the run's own pushes.

    def join(self) -> None:
        """Have its pushes share sites with all others."""
        if not self._has_joined:
            self._has_joined = True
            self._ground.server.join(self.name, self)

    def note(self, load: SiteLoad, /) -> None:
        """Tell it what all others do at a site."""
        self.outbox.say(SiteLoadUpdate(load=load))

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str, /) -> None:
        """Tell it what the transfers of a site may take together."""
        self.outbox.say(SetSiteCap(site=site, cap_bytes_per_s=cap_bytes_per_s, source=source))

    def set_site_link(self, site: str, link_bytes_per_s: int | None, /) -> None:
        """Tell it what a site's link carries."""
        self.outbox.say(SetSiteLink(site=site, link_bytes_per_s=link_bytes_per_s))

    def admit(self, _grant: FixedGrant, /) -> None:
        """Do nothing: nobody logs in there."""

    def invalidate_tickets(self, ticket_ids: tuple[str, ...], reason: str) -> None:
        """Tell it that tickets of its died with their process."""
        self.outbox.say(said.TicketsInvalidated(ticket_ids=ticket_ids, reason=reason))


def _check_same(offered: OfferedPath) -> None:
    """Check that we see the file that the run sees; a unit may have a /tmp of its own.

    Raises:
        ImageUnreadable: We see none, or another one.
    """
    path, who = offered.path, f"the depot (user {user_name(os.geteuid())})"
    try:
        found = path.stat()
    except OSError as error:
        raise ImageUnreadable(f"image {path}: {who} cannot read it: {error.strerror}", hint=_SEE) from None
    if offered.identity is not None and FileIdentity.of(found) != offered.identity:
        raise ImageUnreadable(f"image {path}: {who} sees another file there than this command", hint=_SEE)
    if not os.access(path, os.R_OK):
        raise ImageUnreadable(f"image {path}: {who} cannot read it: Permission denied", hint=_SEE)


def _shut(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
