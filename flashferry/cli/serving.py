"""What `flashferry serve` offers: a copy line per image, made anew when its ticket is worth nothing any more."""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import (
    EventKind,
    FileServer,
    FixedLogin,
    ImageFile,
    ServerEvent,
    SiteRates,
    Ticket,
    TicketRequest,
    TransferState,
    network_of,
)
from flashferry.images.errors import ImageUnreadable
from flashferry.model.links import payload_cap_bytes_per_s
from flashferry.transports.copy_dialogue import copy_command

# What `serve` learns of links where nobody stated a rate: told, and kept between runs. It holds no copy back.
#
# A copy finds the link's rate anew for itself, see `flashferry.tcp.pacing`: the link may have changed, or carry
# somebody else too.

_TEACHING = frozenset({EventKind.LOGIN, EventKind.DONE, EventKind.FAILED})


class LearnedRates:
    """Learns from every transfer that ends what the link of its client's network carries.

    Args:
        rates: What is known already.
        wall: Wall-clock time in seconds since 1970.
        set_link: Takes a network, and what its link carries as payload bytes per second; None for not known any more;
            None where nobody wants it.
    """

    def __init__(
        self,
        rates: SiteRates,
        wall: Callable[[], float] = time.time,
        set_link: Callable[[str, int | None], None] | None = None,
    ) -> None:
        self._rates = rates
        self._wall = wall
        self._set_link = set_link if set_link is not None else _nobody
        self._told: dict[str, float] = {}

    def start(self) -> Iterator[str]:
        """Yield what is known of all networks, in words."""
        for site in self._rates.sites():
            yield from self._tell(site)

    def take(self, event: ServerEvent) -> Iterator[str]:
        """Learn from the end of a transfer; at a login look again how old a rate is. Yield what changed, in words."""
        if event.peer_address is None or event.kind not in _TEACHING:
            return
        site = network_of(event.peer_address)
        record = event.progress.record if event.progress else None
        if event.kind is not EventKind.LOGIN:
            if record is None:
                return
            self._rates.note(site, record)
        yield from self._tell(site)

    def _tell(self, site: str) -> Iterator[str]:
        now_s = self._wall()
        learned = self._rates.learned(site, now_s)
        if learned is None:
            if self._told.pop(site, None) is not None:
                self._set_link(site, None)
                yield f"{site}: the learned link rate is too old and is forgotten"
        elif self._told.get(site) != learned.rate_bps:
            self._told[site] = learned.rate_bps
            self._set_link(site, payload_cap_bytes_per_s(learned.rate_bps))
            yield f"{site}: the link carries {learned.describe(now_s)}"


def _nobody(network: str, link_bytes_per_s: int | None) -> None:
    """Take what nobody wants."""


PASSWORD_VARIABLE = "FLASHFERRY_SERVE_PASSWORD"  # noqa: S105 - the name of a variable
"""Holds the password of `--user`; it never stands in the command line, which everybody on the host can read."""

SIOCGIFADDR = 0x8915
"""Asks for an interface's IPv4 address (linux/sockios.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One image on offer: its ticket, when that expires (monotonic seconds), and the lines to paste."""

    image: ImageFile
    ticket: Ticket
    expires_s: float
    lines: tuple[str, ...] = field(repr=False)


class ManualTickets:
    """Issues tickets for hand use. A ticket is good for one delivery, so each delivery brings a new line.

    Args:
        server: The server.
        addresses: Ours, as routers reach us.
        target: File system in the lines, or `null:`.
        allow: Networks clients must come from; empty for any.
        lifetime_s: How long a line is good.
        capped: Whether all copies share one cap.
        link_bytes_per_s: Payload that the routers' link carries, where that was stated: for the verdicts.
        fixed: Credentials that are good besides, for every image.
    """

    SITE = "serve"

    def __init__(
        self,
        *,
        server: FileServer,
        addresses: tuple[str, ...],
        target: str,
        allow: tuple[str, ...],
        lifetime_s: float,
        capped: bool,
        link_bytes_per_s: int | None = None,
        fixed: FixedLogin | None = None,
    ) -> None:
        self._server = server
        self._addresses = addresses
        self._target = target
        self._allow = allow
        self._lifetime_s = lifetime_s
        self._capped = capped
        self._link_bytes_per_s = link_bytes_per_s
        self._offers: dict[str, Offer] = {}
        self._fixed = fixed
        if fixed is not None:
            server.admit(fixed)

    def renew(self) -> tuple[Offer, ...]:
        """Issue tickets for images whose last one was used up or expired, or whose file was replaced."""
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
        return tuple(fresh)

    def fixed_lines(self) -> tuple[str, ...]:
        """Return copy lines for the fixed credentials, with a word in place of the password; none without them."""
        if self._fixed is None:
            return ()
        image = self._server.catalogue.names()[0]
        return self._lines(self._fixed.username, "PASSWORD", image)

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
                link_bytes_per_s=self._link_bytes_per_s,
            )
        )
        return Offer(
            image=self._server.image(name),
            ticket=ticket,
            expires_s=time.monotonic() + self._lifetime_s,
            lines=self._lines(ticket.username, ticket.password, name),
        )

    def _lines(self, username: str, password: str, image: str) -> tuple[str, ...]:
        return tuple(
            copy_command(
                username=username,
                password=password,
                server=address,
                port=self._server.port,
                image=image,
                target=self._target if self._target == "null:" else f"{self._target}{image}",
            )
            for address in self._addresses
        )


def fixed_login(
    user: str | None, allow: tuple[str, ...], *, site: str, link_bytes_per_s: int | None = None
) -> FixedLogin | None:
    """Return the fixed credentials asked for, with their password from the environment or typed in; None for none.

    Raises:
        ConfigInvalid: There is no password and nobody to ask.
    """
    if user is None:
        return None
    # Taken out, so that no process started from here inherits it.
    password = os.environ.pop(PASSWORD_VARIABLE, None)
    if password is None:
        if not sys.stdin.isatty():
            raise ConfigInvalid(
                f"--user {user}: expected its password in {PASSWORD_VARIABLE}, found nothing",
                hint=f"Set {PASSWORD_VARIABLE}, or start it on a terminal, where the password is asked for",
            )
        password = getpass.getpass(f"Password of the FTP user {user}: ")
    return FixedLogin(
        username=user, password=password, source_addresses=allow, site=site, link_bytes_per_s=link_bytes_per_s
    )


def parsed_ports(text: str | None) -> tuple[int, int] | None:
    """Return the two ports of `FIRST-LAST`.

    Raises:
        ConfigInvalid: It is not of that form.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        raise ConfigInvalid(
            f"passive ports: expected FIRST-LAST such as 50000-50100, found {text!r}",
            hint="Give the first and the last port of a range that firewalls let through, 1024 to 65535",
        )
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
