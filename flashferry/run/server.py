"""The file server of a run: its own, or the host's depot; its images, where it listens, and the caps of sites.

A run that finds a depot uses it: its port and the caps and slots of its sites are shared with all other runs then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.paths import AUTO as DEPOT_AUTO
from flashferry.depot.paths import NobodyThere, NotForUs, socket_of
from flashferry.fileserver import (
    EventKind,
    FileServer,
    FileServerError,
    ServerClient,
    ServerEvent,
    ServerSettings,
    ServerStartFailed,
)
from flashferry.images.errors import ImageError
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.run.options import RunOptions
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.choice import not_served_by
from flashferry.transports.listening import HOST_KEYS, listener_at, listeners_at, listening_error, port_notice
from flashferry.transports.transport import ListenOptions, Transport
from inventory.host_view import HostView

if TYPE_CHECKING:
    from flashferry.depot.client import DepotClient
    from flashferry.fileserver import Welcome

SERVER_RESTARTS = 3
"""How often in a run a server whose process died is replaced; after that a person should find the cause."""

DEPOT_STARTS_S = 5.0
"""A depot whose socket is there and that does not answer may just be starting anew."""

_LOOPBACK = "127.0.0.1"
_RETRY_S = 0.25


@contextmanager
def depot_for(options: RunOptions, state: Path) -> Iterator[tuple[DepotClient | None, RunOptions, str]]:
    """Connect to the host's depot, if one is to be used, before any device is touched.

    Args:
        options: How the run is to be done; `RunOptions.server.depot` says whether and which.
        state: The state folder.

    Yields:
        The depot, or None; the options with the depot's own values, such as its certificate; a notice.

    Raises:
        ConfigInvalid: It was insisted on and is not there or another user's; it is of another release; or an option
            asks for something else than it has.
    """
    path = socket_of(options.server.depot, state)
    if path is None:
        yield None, options, ""
        return
    try:
        depot = _connected(path, options)
    except (NobodyThere, NotForUs) as error:
        if options.server.depot != DEPOT_AUTO:
            raise ConfigInvalid(
                f"--depot: {error}",
                step="server",
                hint="Start it ('flashferry depot'), or give --depot never: this run then brings its own file server",
            ) from None
        yield None, options, f"{error}; this run brings its own file server, and shares no site's cap with other runs"
        return
    with closing(depot):
        yield depot, _belonging(options, depot.welcome, path), ""


def _connected(path: Path, options: RunOptions) -> DepotClient:
    # Here, for a run that brings its own server waits for none of it.
    from flashferry.depot.client import DepotClient

    until_s = time.monotonic() + DEPOT_STARTS_S
    while True:
        try:
            return DepotClient(path, options.verb, sample_interval_s=options.sample_interval_s)
        except NobodyThere:
            # One that is insisted on may be between its end and its new start: then its socket is not there either.
            if (options.server.depot == DEPOT_AUTO and not path.exists()) or time.monotonic() >= until_s:
                raise
            time.sleep(_RETRY_S)


def _belonging(options: RunOptions, welcome: Welcome, path: Path) -> RunOptions:
    """Return the options with what is the depot's: its certificate and host keys, and what it does not serve.

    Raises:
        ConfigInvalid: A port or a certificate is asked for that the depot has not.
    """
    ports = {
        name: port
        for one, port in zip(welcome.settings.listeners, welcome.ports, strict=True)
        for name in one.transports
    }
    asked = {one.name: port for one in TRANSPORTS if (port := options.server.port_of(one.listener_name))}
    wrong = next((name for name, port in asked.items() if ports.get(name) != port), None)
    if wrong is not None:
        has = f"port {ports[wrong]}" if wrong in ports else "none"
        raise ConfigInvalid(
            f"{wrong} port {asked[wrong]}: expected the depot's at {path}, which has {has}",
            step="server",
            hint="Leave the port out, for it is the depot's; or give --depot never",
        )
    given = options.server.certificate
    if given is not None and given.absolute() != welcome.certificate:
        raise ConfigInvalid(
            f"--certificate {given}: expected the depot's at {path}, which has {welcome.certificate or 'none'}",
            step="server",
            hint="Leave it out, for the certificate is the depot's; or give --depot never",
        )
    return replace(
        options,
        server=replace(options.server, certificate=welcome.certificate, key=welcome.key),
        host_keys=welcome.host_keys,
        not_served=not_served_by(f"the depot {path}", ports),
    )


@contextmanager
def serving(
    images: tuple[Path, ...],
    options: RunOptions,
    *,
    state: Path,
    transports: tuple[Transport, ...] = (USUAL,),
    pushes: bool = False,
    depot: DepotClient | None = None,
) -> Iterator[ServerClient]:
    """Have images served for as long as the block lasts, by the depot or by a server of our own.

    Args:
        images: Image files, or folders of them.
        options: Where our own listens, and how often the kernel is asked about each transfer.
        state: The state folder.
        transports: What is served; none where all images are pushed: then no port is open to other hosts.
        pushes: Whether images may be pushed besides: their copies share what a site has.
        depot: The host's depot, or None for a server of our own.

    Raises:
        ConfigInvalid: It cannot start, or the depot cannot serve it, which is the operator's to mend; no device was
            touched yet.
    """
    with ExitStack() as stack:
        if depot is None:
            yield stack.enter_context(_own(images, options, state=state, transports=transports, pushes=pushes))
            return
        stack.enter_context(closing(depot))
        _open(depot, images, transports, pushes=pushes)
        yield depot


def _open(depot: DepotClient, images: tuple[Path, ...], transports: tuple[Transport, ...], *, pushes: bool) -> None:
    missing = [one.name for one in transports if one.name not in depot.transports]
    if missing:
        raise ConfigInvalid(
            f"depot {depot.path}: expected {' and '.join(missing)}, which devices of this run may fetch by, found "
            f"{', '.join(depot.transports)}",
            step="server",
            hint="Start the depot with them among --transports, or give --depot never",
        )
    try:
        depot.open(images, pushes=pushes)
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(error.message, step="server", hint=error.hint) from None


@contextmanager
def _own(
    images: tuple[Path, ...],
    options: RunOptions,
    *,
    state: Path,
    transports: tuple[Transport, ...],
    pushes: bool,
) -> Iterator[FileServer]:
    where = ListenOptions(
        address=options.server.listen_address,
        passive_ports=options.server.passive_ports,
        certificate=options.server.certificate,
        key=options.server.key,
        host_keys=state / HOST_KEYS,
    )
    try:
        settings = ServerSettings(
            image_paths=images,
            listeners=(
                listeners_at(
                    transports,
                    where,
                    ports={one.listener_name: options.server.port_of(one.listener_name) for one in transports},
                )
                if transports
                # A server process needs a listener; on this address no other host reaches it.
                else (listener_at(_LOOPBACK, 0),)
            ),
            sample_interval_s=options.sample_interval_s,
        )
        server = FileServer(settings, restarts=SERVER_RESTARTS, pushes=pushes)
        server.__enter__()
    except ServerStartFailed as error:
        failed = listening_error(error, transports)
        raise ConfigInvalid(failed.message, step="server", hint=failed.hint) from None
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(error.message, step="server", hint=error.hint) from None
    with closing(server):
        yield server


def own_fingerprints(
    state: Path, transports: Iterable[Transport], options: RunOptions | None = None
) -> tuple[str, ...]:
    """Return the fingerprints of our server's host keys, for devices that ask; none where no transport shows one.

    Args:
        state: The state folder; the keys are there once a server was started with it.
        transports: What the server serves.
        options: How the run is done: a depot's keys may be elsewhere.
    """
    keys = options.host_keys if options is not None and options.host_keys is not None else state / HOST_KEYS
    return tuple(dict.fromkeys(shown for one in transports for shown in one.fingerprints(keys)))


def port_notices(server: ServerClient, options: RunOptions, transports: Iterable[Transport]) -> Iterator[str]:
    """Yield a notice for each port that was chosen because none was asked for.

    None for the depot's ports: its operator has them.
    """
    noted = set()
    if server.label:
        return
    for one in transports:
        port = server.port_of(one.name)
        if options.server.port_of(one.listener_name) is None and port not in noted:
            noted.add(port)
            if (notice := port_notice(port, one)) is not None:
                yield notice


@contextmanager
def server_notes(server: ServerClient, notify: Callable[[str], None]) -> Iterator[None]:
    """Pass on what a run's own server reports of itself while the block lasts: a process that hangs or died, say.

    Not what the depot does: that is its operator's, who has it from the depot.

    Args:
        server: The server.
        notify: Takes a sentence; called on a thread of the server's.
    """
    if server.label:
        yield
        return

    def take(event: ServerEvent) -> None:
        if event.kind is EventKind.NOTICE and event.progress is None:
            notify(f"note: {event.text}")

    unsubscribe = server.events(take)
    try:
        yield
    finally:
        unsubscribe()


def site_caps(devices: Iterable[HostView]) -> dict[str, int]:
    """Return the cap of each site's copies together; a site without a stated link rate has none.

    Raises:
        ConfigInvalid: Two devices of a site state different links.
    """
    caps: dict[str, int] = {}
    for device in devices:
        cap = payload_cap_bytes_per_s(device.cap_bps)
        if device.site is None or cap is None:
            continue
        if caps.setdefault(device.site, cap) != cap:
            raise ConfigInvalid(
                f"site '{device.site}': two devices state different link rates or shares",
                host=device.name,
                hint="State link_rate_bps and cap_share once, in the site's group",
            )
    return caps
