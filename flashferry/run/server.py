"""The transports and the file server of a run: its own server, or the host's depot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.client import DepotClient
from flashferry.depot.paths import AUTO as DEPOT_AUTO
from flashferry.depot.paths import DepotNotRunning, DepotNotUsable, socket_of
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
from flashferry.run.request import RunOptions
from flashferry.transports import PUSH, TRANSPORTS, USUAL
from flashferry.transports.listeners import (
    HOST_KEYS,
    check_files,
    is_certified,
    listeners_at,
    listening_error,
    port_notice,
)
from flashferry.transports.transport import ListenOptions, Transport
from flashferry.transports.transport_selection import (
    TransportRequest,
    candidates,
    not_served_by,
    transport_request,
    unserved,
)
from inventory.host_view import WORD, HostView
from inventory.transport_policy import AS_USUAL, AUTO

if TYPE_CHECKING:
    from flashferry.fileserver import Welcome


def transports_of(
    devices: Iterable[HostView], options: RunOptions, *, first: Mapping[str, str] | None = None
) -> dict[str, tuple[Transport, ...]]:
    """Return the transports to try for each device's copy, in order.

    Args:
        devices: The devices.
        options: What is asked for, and where our server is.
        first: The first transport by device if `auto` is asked for, as measured or planned.

    Raises:
        ConfigInvalid: A transport asked for is not allowed, or our side cannot serve it; no device was touched.
    """
    devices = tuple(devices)
    requested = _requested(options)
    known = first or {}
    found = {
        one.name: candidates(one.name, one.transport_policy, requested, fastest=known.get(one.name)) for one in devices
    }
    _check_certificate(devices, found, options)
    return {name: _fetching(name, allowed_ones) for name, allowed_ones in found.items()} if options.to_null else found


def _check_certificate(
    devices: Iterable[HostView], choices: Mapping[str, tuple[Transport, ...]], options: RunOptions
) -> None:
    """Raise unless our certificate is valid for the devices that may fetch by it.

    If a device's SSH session decides our address, the certificate's names are checked only then.
    """
    if (files := options.server.certificate_and_key) is None:
        return
    meant = [one for one in devices if any(map(is_certified, choices[one.name]))]
    if meant:
        check_files(*files)
    for one in meant:
        address = options.server.address or one.server_address
        if address is None:
            continue
        try:
            check_files(*files, addresses=(address,))
        except ConfigInvalid as error:
            raise ConfigInvalid(error.message, host=one.name, hint=error.hint) from None


def _fetching(host: str, allowed_ones: tuple[Transport, ...]) -> tuple[Transport, ...]:
    """Return the transports by which a device fetches; raise if there is none: nothing can be pushed to `null:`."""
    fetching = tuple(one for one in allowed_ones if one is not PUSH)
    if not fetching:
        raise ConfigInvalid(
            f"--transport {PUSH.name}: expected one by which devices fetch, for a speed test goes to 'null:', which no "
            "push can",
            host=host,
            hint=f"Stage by it ('flashferry stage --transport {PUSH.name}'): 'flashferry history' then has its rate",
        )
    return fetching


def transports_to_reach(devices: Iterable[HostView], options: RunOptions) -> dict[str, tuple[Transport, ...]]:
    """Return the transports by which a check tries each device: all that its inventory allows, or what was asked for.

    A device whose inventory says nothing is tried by the usual transport, as a run would use.

    Raises:
        ConfigInvalid: A transport asked for is not allowed, or our side cannot serve it; no device was touched.
    """
    requested = _requested(options)
    everything = replace(requested, asked=AUTO)
    devices, tried = tuple(devices), {}
    for one in devices:
        is_open = requested.asked == AS_USUAL and _is_stated(one)
        # Raises if our side cannot serve what a run would use.
        taken = candidates(one.name, one.transport_policy, requested)
        choice = candidates(one.name, one.transport_policy, everything) if is_open else taken
        # A tiny copy goes to `null:`, as a speed test does.
        tried[one.name] = _fetching(one.name, choice)
    _check_certificate(devices, tried, options)
    return tried


def left_out(device: HostView, options: RunOptions) -> tuple[str, ...]:
    """Return a sentence for each allowed transport that a check of several transports cannot try.

    Empty if only one is tried: there was no choice.
    """
    requested = _requested(options)
    is_open = requested.asked == AUTO or (requested.asked == AS_USUAL and _is_stated(device))
    return unserved(device.transport_policy, requested) if is_open else ()


def _requested(options: RunOptions) -> TransportRequest:
    """Return the transports asked for, with those that our server, or the depot, can serve."""
    return transport_request(
        options.policy.transport,
        certificate=options.server.certificate,
        key=options.server.key,
        not_served=options.not_served,
    )


def _is_stated(device: HostView) -> bool:
    """Return whether the inventory says by which transports a device may fetch."""
    return bool(device.transports) or device.clear_text is not None


def served_for(choices: Mapping[str, tuple[Transport, ...]]) -> tuple[Transport, ...]:
    """Return the transports that our server has to serve, in the usual order; none if all images are pushed."""
    needed = {one.name for choice in choices.values() for one in choice}
    served = tuple(one for one in TRANSPORTS if one.name in needed)
    return served if served or may_push(choices) else (USUAL,)


def may_push(choices: Mapping[str, tuple[Transport, ...]]) -> bool:
    """Return whether the image of any device may be pushed."""
    return any(PUSH in choice for choice in choices.values())


SERVER_RESTARTS = 3
"""Replacements of a dead server process per run; after that a person should find the cause."""

DEPOT_STARTS_S = 5.0
"""Seconds to wait for a depot whose socket exists but that does not answer: it may be restarting."""

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
        ConfigInvalid: A required depot is not there or belongs to another user; the depot is of another release; an
            option contradicts the depot; or our own address is invalid.
    """
    if (address := options.server.address) is not None and not WORD.fullmatch(address):
        raise ConfigInvalid(
            f"--address {address!r}: expected an IPv4 address or a host name",
            hint="Give the address at which the devices reach this host with --address",
        )
    path = socket_of(options.server.depot, state)
    if path is None:
        yield None, options, ""
        return
    try:
        depot = _connected(path, options)
    except (DepotNotRunning, DepotNotUsable) as error:
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
    until_s = time.monotonic() + DEPOT_STARTS_S
    while True:
        try:
            return DepotClient(path, options.verb, sample_interval_s=options.sample_interval_s)
        except DepotNotRunning:
            # A required depot may be restarting: then its socket does not exist either.
            if (options.server.depot == DEPOT_AUTO and not path.exists()) or time.monotonic() >= until_s:
                raise
            time.sleep(_RETRY_S)


def _belonging(options: RunOptions, welcome: Welcome, path: Path) -> RunOptions:
    """Return the options with the depot's own values; raise if a port or certificate is asked for that it lacks."""
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
    """Serve images while the block runs, by the depot or by a server of our own.

    Args:
        images: Image files, or folders of them.
        options: Where our own server listens, and its sample interval.
        state: The state folder.
        transports: Transports to serve; none if all images are pushed: then no port is open to other hosts.
        pushes: Whether images may also be pushed; their copies share the site's cap.
        depot: The host's depot; None: a server of our own.

    Raises:
        ConfigInvalid: The server cannot start, or the depot cannot serve the images; no device was touched yet.
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
                # A server process needs a listener; no other host reaches this address.
                else (USUAL.listener(ListenOptions(address=_LOOPBACK, port=0)),)
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
    """Return the fingerprints of our server's host keys, for devices that ask; none if no transport shows one.

    The state folder has the keys once a server was started with it; a depot's keys may be elsewhere (`options`).
    """
    keys = options.host_keys if options is not None and options.host_keys is not None else state / HOST_KEYS
    return tuple(dict.fromkeys(shown for one in transports for shown in one.fingerprints(keys)))


def port_notices(server: ServerClient, options: RunOptions, transports: Iterable[Transport]) -> Iterator[str]:
    """Yield a notice for each port that was chosen because none was asked for; none for the depot's ports."""
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
    """Pass on notices of a run's own server while the block runs, for example that a process hangs or died.

    Called on a thread of the server's. The depot's notices are not passed on: its operator has them.
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
    """Return the cap in bytes per second of each site's copies together; a site without a stated link rate has none.

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
