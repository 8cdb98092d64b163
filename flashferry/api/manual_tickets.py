"""Tickets for routers that are typed at: lines to paste, by every transport served, one ticket for an image."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flashferry.devices.platforms.ios import IOS
from flashferry.fileserver import FileServer, FixedLogin, Ticket, TicketRequest, TransferState
from flashferry.images.errors import ImageUnreadable
from flashferry.images.image import ImageFile
from flashferry.transports import transport
from flashferry.transports.transport import Transport

SITE = "serve"
"""Site of all copies where they share one cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One image on offer.

    Attributes:
        image: The image.
        ticket: Its ticket, good by each of the transports.
        expires_s: When that expires, monotonic seconds.
        lines: What to paste into a router.
        transports: Of each line, by what it fetches.
        password: What to type where a router asks for it; empty where every line has it.
    """

    image: ImageFile
    ticket: Ticket
    expires_s: float
    lines: tuple[str, ...] = field(repr=False)
    transports: tuple[str, ...] = ()
    password: str = field(default="", repr=False)


class ManualTickets:
    """Issues tickets for hand use. A ticket is good for one delivery, so each delivery brings a new line.

    Args:
        server: The server.
        addresses: Ours, as routers reach us, by the name of the transport: devices are told other ones where TLS is.
        transports: By what lines are given.
        target: File system in the lines, or `null:`.
        allow: Networks clients must come from; empty for any.
        lifetime_s: How long a line is good.
        capped: Whether all copies share one cap.
        link_bytes_per_s: Payload that the routers' link carries, where that was stated: for the verdicts.
        fixed: Credentials that are good besides, for every image.
    """

    def __init__(
        self,
        *,
        server: FileServer,
        addresses: Mapping[str, tuple[str, ...]],
        transports: Iterable[Transport],
        target: str,
        allow: tuple[str, ...],
        lifetime_s: float,
        capped: bool,
        link_bytes_per_s: int | None = None,
        fixed: FixedLogin | None = None,
    ) -> None:
        self._server = server
        self._addresses = addresses
        self._transports = tuple(transports)
        self._target = target
        self._allow = allow
        self._lifetime_s = lifetime_s
        self._capped = capped
        self._link_bytes_per_s = link_bytes_per_s
        self._offers: dict[str, Offer] = {}
        self._fixed = fixed
        self._is_open = False
        if fixed is not None:
            server.admit(fixed)

    def renew(self) -> tuple[Offer, ...]:
        """Issue tickets for images whose last one was used up or expired, or whose file was replaced.

        With the first ones the server takes sessions: until then it knew neither them nor the fixed login.
        """
        fresh = []
        for name in self._server.catalogue.names():
            held = self._offers.get(name)
            replaced = held is not None and self._server.catalogue.was_replaced(held.image)
            if held is None or replaced or self._is_worthless(held):
                try:
                    self._offers[name] = self._offer(name)
                    if replaced and self._fixed is not None:
                        self._server.admit(self._fixed)
                except ImageUnreadable:
                    # Gone or being written: offered again when it is back. At the start it is the operator's to mend.
                    if held is None:
                        raise
                    continue
                fresh.append(self._offers[name])
        if not self._is_open:
            self._server.open()
            self._is_open = True
        return tuple(fresh)

    def fixed_lines(self) -> tuple[str, ...]:
        """Return copy lines for the fixed credentials, with a word in place of the password; none without them."""
        if self._fixed is None:
            return ()
        image = self._server.catalogue.names()[0]
        return tuple(line for line, _ in self._lines(self._fixed.username, "PASSWORD", image))

    def _is_worthless(self, offer: Offer) -> bool:
        seen = self._server.progress(offer.ticket.ticket_id)
        used_up = seen.state is TransferState.DELIVERED or (seen.state.is_final and not seen.tries_left)
        return used_up or time.monotonic() >= offer.expires_s

    def _offer(self, name: str) -> Offer:
        ticket = self._server.issue_ticket(
            TicketRequest(
                image_name=name,
                source_addresses=self._allow,
                lifetime_s=self._lifetime_s,
                tries=10,
                site=SITE if self._capped else "",
                link_bytes_per_s=self._link_bytes_per_s,
            )
        )
        lines = self._lines(ticket.username, ticket.password, name)
        return Offer(
            image=self._server.image(name),
            ticket=ticket,
            expires_s=time.monotonic() + self._lifetime_s,
            lines=tuple(line for line, _ in lines),
            transports=tuple(by for _, by in lines),
            password="" if all(ticket.password in line for line, _ in lines) else ticket.password,
        )

    def _lines(self, username: str, password: str, image: str) -> tuple[tuple[str, str], ...]:
        """Return copy lines, each with the name of its transport."""
        target = self._target if self._target == "null:" else f"{self._target}{image}"
        return tuple(
            (
                transport.copy_command(
                    transport.Offer(
                        transport=one,
                        server=address,
                        port=self._server.port_of(one.name),
                        image=image,
                        username=username,
                        password=password,
                    ),
                    target,
                    IOS,
                ),
                one.name,
            )
            for one in self._transports
            for address in self._addresses[one.name]
        )
