"""Standalone file server: tickets for copy commands typed on routers, and link rates learned from transfers."""

from __future__ import annotations

import fcntl
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import link_rate
from flashferry.devices.platforms.ios import IOS
from flashferry.fileserver import (
    EventKind,
    FileServer,
    FileServerError,
    FixedLogin,
    Limits,
    ServerEvent,
    ServerGone,
    ServerSettings,
    ServerStartFailed,
    SiteRates,
    Ticket,
    TicketRequest,
    TransferState,
    network_of,
)
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import ImageError, ImageUnreadable
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.transports import transport
from flashferry.transports.listeners import HOST_KEYS, Listening, listening_error, usable_addresses, with_option
from flashferry.transports.scp import describe_host_keys
from inventory.host_view import DEFAULT_CAP_SHARE

if TYPE_CHECKING:
    from flashferry.images.image import ImageFile
    from flashferry.transports.transport import Transport

_TEACHING = frozenset({EventKind.LOGIN, EventKind.DONE, EventKind.FAILED})


class LearnedRates:
    """Learns the link rate of each client network from finished transfers.

    Args:
        rates: Rates known so far.
        wall: Wall-clock time in seconds since 1970.
        set_link: Receives a network and its link's rate in payload bytes per second, or None if the rate has expired;
            None:
            not needed.
    """

    def __init__(
        self,
        rates: SiteRates,
        wall: Callable[[], float] = time.time,
        set_link: Callable[[str, int | None], None] | None = None,
    ) -> None:
        self._rates = rates
        self._wall = wall
        self._set_link = set_link if set_link is not None else _dropped
        self._reported: dict[str, float] = {}

    def start(self) -> Iterator[str]:
        """Yield the known rates as sentences."""
        for site in self._rates.sites():
            yield from self._changes(site)

    def take(self, event: ServerEvent) -> Iterator[str]:
        """Learn from a finished transfer; at a login check whether the rate has expired. Yield changes as sentences."""
        if event.peer_address is None or event.kind not in _TEACHING:
            return
        site = network_of(event.peer_address)
        record = event.progress.record if event.progress else None
        if event.kind is not EventKind.LOGIN:
            if record is None:
                return
            self._rates.note(site, record)
        yield from self._changes(site)

    def _changes(self, site: str) -> Iterator[str]:
        now_s = self._wall()
        learned = self._rates.learned(site, now_s)
        if learned is None:
            if self._reported.pop(site, None) is not None:
                self._set_link(site, None)
                yield f"{site}: the learned link rate is too old and is forgotten"
        elif self._reported.get(site) != learned.rate_bps:
            self._reported[site] = learned.rate_bps
            self._set_link(site, payload_cap_bytes_per_s(learned.rate_bps))
            yield f"{site}: the link carries {learned.describe(now_s)}"


def _dropped(network: str, link_bytes_per_s: int | None) -> None:
    """Ignore a rate."""


SITE = "serve"
"""Site of all copies if they share one rate limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An image with the copy commands for it.

    Attributes:
        image: The image.
        ticket: Its ticket, valid for each transport.
        expires_s: When the ticket expires, in monotonic seconds.
        lines: Commands to paste into a router.
        transports: The transport of each line.
        password: Password to type when a router asks; empty if every line contains it.
    """

    image: ImageFile
    ticket: Ticket
    expires_s: float
    lines: tuple[str, ...] = field(repr=False)
    transports: tuple[str, ...] = ()
    password: str = field(default="", repr=False)


class ManualTickets:
    """Issues tickets for copy commands typed by hand. A ticket allows one transfer; each transfer brings a new command.

    Args:
        server: The server.
        addresses: Our addresses as routers reach us, by transport; with TLS they are names in the certificate.
        transports: Transports to print commands for.
        target: File system in the commands, or `null:`.
        allow: Networks that clients must come from; empty: any.
        lifetime_s: Lifetime of a ticket in seconds.
        capped: Whether all copies share one rate limit.
        link_bytes_per_s: Given payload rate of the routers' link, for the verdicts.
        fixed: Additional credentials valid for every image.
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
        """Issue tickets for images whose ticket was used or expired, or whose file was replaced.

        The first call also makes the server accept sessions.
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
                    # Missing or being written: offered again later. At the start it is an error.
                    if held is None:
                        raise
                    continue
                fresh.append(self._offers[name])
        if not self._is_open:
            self._server.open()
            self._is_open = True
        return tuple(fresh)

    def fixed_lines(self) -> tuple[str, ...]:
        """Return copy commands for the fixed credentials, with a placeholder for the password; none without them."""
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
        """Return copy commands, each with its transport."""
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


SIOCGIFADDR = 0x8915
"""ioctl for an interface's IPv4 address (linux/sockios.h)."""


class ServeOptions(Listening, frozen=True, kw_only=True):
    """Options of the standalone server besides `Listening`.

    Attributes:
        images: Folder of images, or one image file.
        address: Our address in the copy commands; None: those of this host's interfaces.
        cap_bps: Rate limit of all copies together, in bit/s, > 0; None: no limit of their own.
        link_bps: Instead, the link's rate in bit/s, > 0; copies get four fifths of it; None: unknown.
        site_rates: File that stores learned link rates per client network between runs; None: they are forgotten at the
            end.
        user: User name of a fixed login besides the tickets; None: tickets alone.
        allow: Networks that clients must come from; empty: any.
        target: File system in the copy commands; `null:` for a speed test.
        lifetime_s: Lifetime of a ticket in seconds, > 0.
        sample_hz: TCP_INFO samples per second, 0.02 to 20.
        stream_samples: Whether each sample is an event of its own.
        state: Folder that stores digests between runs; None: the default.

    Raises:
        ConfigInvalid: Both a cap and a link are given; a transport is unknown or lacks what it needs; or a port or
            certificate is given for a transport that is not served.
    """

    images: Path
    address: str | None = None
    cap_bps: float | None = None
    link_bps: float | None = None
    site_rates: Path | None = None
    user: str | None = None
    allow: tuple[str, ...] = ()
    target: str = "flash:"
    lifetime_s: float = 24 * 3600.0
    sample_hz: float = 1.0
    stream_samples: bool = False
    state: Path | None = None

    def __post_init__(self) -> None:
        """Check the options against each other."""
        if self.cap_bps is not None and self.link_bps is not None:
            raise ConfigInvalid(
                "--cap-mbps and --link-mbps: expected one of them; --link-mbps caps at 80 % of the link",
                hint="Leave one of them out",
            )
        Listening.__post_init__(self)

    @property
    def is_capped(self) -> bool:
        """Return whether all copies share one rate limit."""
        return self.cap_bps is not None or self.link_bps is not None

    @property
    def cap_bytes_per_s(self) -> int | None:
        """Return the rate limit of all copies together as payload; None if there is none."""
        return payload_cap_bytes_per_s(self.link_bps * DEFAULT_CAP_SHARE if self.link_bps is not None else self.cap_bps)

    @property
    def cap_source(self) -> str:
        """Return where the rate limit comes from, as text."""
        if self.link_bps is not None:
            return f"{DEFAULT_CAP_SHARE:.0%} of {link_rate(self.link_bps)}, given"
        assert self.cap_bps is not None, "asked where there is a cap"
        return f"{link_rate(self.cap_bps)}, given"

    @property
    def link_bytes_per_s(self) -> int | None:
        """Return the link's given rate as payload, which verdicts are compared with; None: unknown."""
        return payload_cap_bytes_per_s(self.link_bps)


class Serving:
    """The standalone server while it runs.

    Args:
        server: The server.
        options: Its options.
        fixed: Credentials valid besides the tickets, or None.

    Attributes:
        server: The server: its events, catalogue and transfers.
        port_notices: Notices about ports that were chosen by default.
        fingerprints: Host key fingerprints as devices may show them; empty if devices show none.
        host_keys: The same as text, one per key.
    """

    def __init__(self, server: FileServer, options: ServeOptions, fixed: FixedLogin | None) -> None:
        self.server = server
        self.port_notices = options.port_notices(server.port_of)
        keys = state_folder(options.state) / HOST_KEYS
        self.fingerprints = tuple(dict.fromkeys(shown for one in options.served for shown in one.fingerprints(keys)))
        self.host_keys = describe_host_keys(keys) if self.fingerprints else ()
        self._options, self._fixed = options, fixed

    def tickets(self) -> ManualTickets:
        """Return what issues tickets, and apply rate limit and fixed login."""
        options = self._options
        if options.is_capped:
            self.server.set_site_cap(SITE, options.cap_bytes_per_s, options.cap_source)
        return ManualTickets(
            server=self.server,
            addresses=given_addresses(options),
            transports=options.served,
            target=options.target,
            allow=options.allow,
            lifetime_s=options.lifetime_s,
            capped=options.is_capped,
            link_bytes_per_s=options.link_bytes_per_s,
            fixed=self._fixed,
        )

    def rates(self) -> LearnedRates | None:
        """Return what learns link rates; None if copies share a rate limit, which hides the links' rates."""
        if self._options.is_capped:
            return None
        return LearnedRates(SiteRates(self._options.site_rates), set_link=self._set_link)

    def _set_link(self, network: str, link_bytes_per_s: int | None) -> None:
        # A server that has ended computes no verdicts.
        with suppress(ServerGone):
            self.server.set_site_link(network, link_bytes_per_s)


@contextmanager
def serve(options: ServeOptions, *, password: str | None = None) -> Iterator[Serving]:
    """Run the server for the block; a client with one of its tickets may fetch one image.

    Ports are bound at once. Clients wait until images are hashed and the first tickets issued, so that a valid login is
    never refused.

    Args:
        options: How to run it.
        password: The password of `options.user`, if there is one.

    Raises:
        ConfigInvalid: It cannot start, an image cannot be read, or the fixed login has no password.
    """
    if options.user is not None and password is None:
        raise ConfigInvalid(
            f"--user {options.user}: expected its password, found nothing", hint="Give it besides the options"
        )
    given_addresses(options)
    try:
        with closing(FileServer(_settings(options))) as server:
            server.start()
            yield Serving(server, options, _fixed_login(options, password))
    except ServerStartFailed as error:
        raise listening_error(error, options.served) from None
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(with_option(error.message), hint=error.hint) from None


def _settings(options: ServeOptions) -> ServerSettings:
    return ServerSettings(
        image_paths=(options.images,),
        listeners=options.listeners(state_folder(options.state) / HOST_KEYS),
        profile=options.profile,
        limits=Limits(sessions=options.sessions),
        sites_by_network=not options.is_capped,
        sample_interval_s=1 / options.sample_hz,
        stream_samples=options.stream_samples,
        hash_cache_path=_digest_cache(options.state),
    )


def given_addresses(options: ServeOptions) -> dict[str, tuple[str, ...]]:
    """Return our addresses for devices by transport; with TLS, names from the certificate.

    Raises:
        ConfigInvalid: The certificate is for none of our addresses.
    """
    usual = (options.address,) if options.address else advertised_addresses(options.listen)
    return {one.name: usable_addresses(one, usual, options.certificate, options.key) for one in options.served}


def _fixed_login(options: ServeOptions, password: str | None) -> FixedLogin | None:
    if options.user is None or password is None:
        return None
    return FixedLogin(
        username=options.user,
        password=password,
        source_addresses=options.allow,
        site=SITE if options.is_capped else "",
        link_bytes_per_s=options.link_bytes_per_s,
    )


def image_catalogue(folder: Path, *, state: Path | None = None) -> Catalogue:
    """Return the images of a folder; digests are computed on demand and stored.

    Args:
        folder: Folder of images, or one image file.
        state: Folder that stores digests between runs; None: the default.

    Raises:
        ConfigInvalid: There is no image, or the folder cannot be read.
    """
    try:
        return Catalogue((folder,), cache_path=_digest_cache(state))
    except ImageError as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


def _digest_cache(state: Path | None) -> Path:
    """Return the file of stored digests; create its folder."""
    cache = state_folder(state) / "digests.json"
    cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache


def advertised_addresses(listen: str) -> tuple[str, ...]:
    """Return the addresses to print: the one listened on, or those of this host's interfaces except loopback."""
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
