"""Our server by itself, for routers that are typed at: copy lines, each with a ticket of its own, and what links carry.

A copy finds the rate of its link anew for itself (`flashferry.tcp.pacing`): the link may have changed, or carry
somebody else too. What is learned of links where nobody stated a rate is told, and kept between runs; it holds no copy
back.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from flashferry.api.learned_rates import LearnedRates
from flashferry.api.manual_tickets import SITE, ManualTickets
from flashferry.api.options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import link_rate
from flashferry.fileserver import (
    FileServer,
    FileServerError,
    FixedLogin,
    Limits,
    ServerGone,
    ServerSettings,
    ServerStartFailed,
    SiteRates,
)
from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import ImageError
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.transports.listening import HOST_KEYS, listening_error
from flashferry.transports.scp import described_keys
from flashferry.transports.serving import Listening, certified
from inventory.host_view import DEFAULT_CAP_SHARE

SIOCGIFADDR = 0x8915
"""Asks for an interface's IPv4 address (linux/sockios.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(Listening):
    """How our server is run by itself, besides how it listens and sends.

    Attributes:
        images: Folder of images, or one image file.
        address: Our address in the copy lines, or None: those of this host's interfaces.
        cap_bps: What all copies may take of the link together, in bit/s, > 0.
        link_bps: Or the rate of the link in bit/s, > 0, of which they get four fifths.
        site_rates: File that keeps link rates learned per client network between runs.
        user: A fixed login besides the tickets.
        allow: Networks that clients must come from; empty for any.
        target: File system in the copy lines; `null:` for a speed test.
        lifetime_s: How long a line is good, in seconds, > 0.
        sample_hz: Readings of TCP_INFO per second, 0.02 to 20.
        stream_samples: Whether each reading is an event of its own.
        state: Folder that keeps digests between runs; None: where the command line has it.

    Raises:
        ConfigInvalid: A cap and a link are given both, or a transport is unknown or lacks what it needs; or a port or
            a certificate is given for what is not served.
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
        """Check that no two options contradict each other."""
        if self.cap_bps is not None and self.link_bps is not None:
            raise ConfigInvalid(
                "--cap-mbps and --link-mbps: expected one of them; --link-mbps caps at 80 % of the link",
                hint="Leave one of them out",
            )
        Listening.__post_init__(self)

    @property
    def is_capped(self) -> bool:
        """Return whether all copies share one cap."""
        return self.cap_bps is not None or self.link_bps is not None

    @property
    def cap_bytes_per_s(self) -> int | None:
        """Return what all copies may take together, as payload; None where nobody said."""
        return payload_cap_bytes_per_s(self.link_bps * DEFAULT_CAP_SHARE if self.link_bps is not None else self.cap_bps)

    @property
    def cap_source(self) -> str:
        """Return where that figure comes from, in words."""
        if self.link_bps is not None:
            return f"{DEFAULT_CAP_SHARE:.0%} of {link_rate(self.link_bps)}, given"
        assert self.cap_bps is not None, "asked where there is a cap"
        return f"{link_rate(self.cap_bps)}, given"

    @property
    def link_bytes_per_s(self) -> int | None:
        """Return what the link carries as payload, where that was said: verdicts are held against it."""
        return payload_cap_bytes_per_s(self.link_bps)


class Serving:
    """Our server while it runs by itself.

    Args:
        server: The server.
        options: How it is run.
        fixed: Credentials that are good besides the tickets, or None.

    Attributes:
        server: The server: its events, its catalogue, and what it is sending.
        port_notices: What is to be said of ports where none was asked for.
        fingerprints: Of our host keys, as a device may show them that asks about them; none where none are shown.
        host_keys: The same in words, a text for each key: its kind, and each fingerprint with what it is.
    """

    def __init__(self, server: FileServer, options: ServeOptions, fixed: FixedLogin | None) -> None:
        self.server = server
        self.port_notices = options.port_notices(server.port_of)
        keys = state_folder(options.state) / HOST_KEYS
        self.fingerprints = tuple(dict.fromkeys(shown for one in options.served for shown in one.fingerprints(keys)))
        self.host_keys = described_keys(keys) if self.fingerprints else ()
        self._options, self._fixed = options, fixed

    def tickets(self) -> ManualTickets:
        """Return what issues tickets; from now on the cap and the fixed login hold."""
        options = self._options
        if options.is_capped:
            self.server.set_site_cap(SITE, options.cap_bytes_per_s, options.cap_source)
        return ManualTickets(
            server=self.server,
            addresses=told_addresses(options),
            transports=options.served,
            target=options.target,
            allow=options.allow,
            lifetime_s=options.lifetime_s,
            capped=options.is_capped,
            link_bytes_per_s=options.link_bytes_per_s,
            fixed=self._fixed,
        )

    def rates(self) -> LearnedRates | None:
        """Return what learns the rates of links; None where all copies share a cap, for that hides them."""
        if self._options.is_capped:
            return None
        return LearnedRates(SiteRates(self._options.site_rates), set_link=self._set_link)

    def _set_link(self, network: str, link_bytes_per_s: int | None) -> None:
        # A server that is gone judges nothing any more.
        with suppress(ServerGone):
            self.server.set_site_link(network, link_bytes_per_s)


@contextmanager
def serve(options: ServeOptions, *, password: str | None = None) -> Iterator[Serving]:
    """Run our server for as long as the block lasts; a client with a ticket of it may fetch one image.

    Its ports are its own from the start, and clients that connect wait until the first tickets are issued, for which
    the images are hashed: the right login is not refused before it is known.

    Args:
        options: How it is run.
        password: The password of `options.user`, where there is one.

    Raises:
        ConfigInvalid: It cannot start, an image cannot be read, or the fixed login has no password.
    """
    if options.user is not None and password is None:
        raise ConfigInvalid(
            f"--user {options.user}: expected its password, found nothing", hint="Give it besides the options"
        )
    told_addresses(options)
    try:
        with closing(FileServer(_settings(options))) as server:
            server.start()
            yield Serving(server, options, _fixed_login(options, password))
    except ServerStartFailed as error:
        raise listening_error(error, options.served) from None
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


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


def told_addresses(options: ServeOptions) -> dict[str, tuple[str, ...]]:
    """Return by the name of each transport the addresses that devices are told: TLS is for names of its certificate.

    Raises:
        ConfigInvalid: The certificate is for none of them.
    """
    usual = (options.address,) if options.address else advertised_addresses(options.listen)
    return {one.name: certified(one, usual, options.certificate, options.key) for one in options.served}


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
    """Return what a folder of images offers; digests are computed when they are asked for, and kept.

    Args:
        folder: Folder of images, or one image file.
        state: Folder that keeps digests between runs; None: where the command line has it.

    Raises:
        ConfigInvalid: It offers nothing, or cannot be read.
    """
    try:
        return Catalogue((folder,), cache_path=_digest_cache(state))
    except ImageError as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


def _digest_cache(state: Path | None) -> Path:
    """Return the file that keeps digests between runs; its folder is made if need be."""
    cache = state_folder(state) / "digests.json"
    cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache


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
