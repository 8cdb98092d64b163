"""What `flashferry serve` offers: a copy line per image, made anew when its ticket is worth nothing any more."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from dataclasses import dataclass, field

from ftpserver import FtpServer, Ticket, TicketRequest, TransferState
from inventory.errors import ConfigInvalid
from tasks.copy_dialogue import copy_command

SIOCGIFADDR = 0x8915
"""Asks for an interface's IPv4 address (linux/sockios.h)."""


_RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One image on offer: its ticket, when that expires (monotonic seconds), and the lines to paste."""

    ticket: Ticket
    expires_s: float
    lines: tuple[str, ...] = field(repr=False)


class Desk:
    """Issues tickets for hand use. A ticket is good for one delivery, so each delivery brings a new line."""

    SITE = "serve"

    def __init__(
        self,
        *,
        server: FtpServer,
        addresses: tuple[str, ...],
        target: str,
        allow: tuple[str, ...],
        lifetime_s: float,
        capped: bool,
    ) -> None:
        self._server = server
        self._addresses = addresses
        self._target = target
        self._allow = allow
        self._lifetime_s = lifetime_s
        self._capped = capped
        self._offers: dict[str, Offer] = {}
        self._issued: set[str] = set()

    def renew(self) -> tuple[Offer, ...]:
        """Issue tickets for images whose last one was used up or expired; return the new offers."""
        fresh = []
        for name in self._server.catalogue.names():
            held = self._offers.get(name)
            if held is None or self._is_worthless(held):
                self._offers[name] = self._offer(name)
                fresh.append(self._offers[name])
        return tuple(fresh)

    def is_busy(self) -> bool:
        """Return whether a transfer is running, also one on a ticket that expired meanwhile."""
        return any(self._server.progress(ticket_id).state in _RUNNING for ticket_id in self._issued)

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
                site=self.SITE if self._capped else "",
            )
        )
        self._issued = {one for one in self._issued if not self._server.progress(one).state.is_final}
        self._issued.add(ticket.ticket_id)
        lines = tuple(
            copy_command(
                username=ticket.username,
                password=ticket.password,
                server=address,
                port=self._server.port,
                image=name,
                target=self._target if self._target == "null:" else f"{self._target}{name}",
            )
            for address in self._addresses
        )
        return Offer(ticket=ticket, expires_s=time.monotonic() + self._lifetime_s, lines=lines)


def parsed_ports(text: str | None) -> tuple[int, int] | None:
    """Return the two ports of `FIRST-LAST`.

    Raises:
        ConfigInvalid: It is not of that form.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise ConfigInvalid(f"passive ports: expected FIRST-LAST such as 50000-50100, found {text!r}")
    return int(first), int(last)


def advertised_addresses(listen: str) -> tuple[str, ...]:
    """Return the addresses to print: the one listened on, or those of this host's interfaces but loopback."""
    if listen not in {"0.0.0.0", "::"}:  # noqa: S104 -- compared, not bound
        return (listen,)
    found = tuple(address for _, name in socket.if_nameindex() if (address := _address_of(name)))
    routable = tuple(address for address in found if not address.startswith("127."))
    return routable or found or ("127.0.0.1",)


def _address_of(interface: str) -> str | None:
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
        except OSError:
            return None
