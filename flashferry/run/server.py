"""The transports and the file server of a run: its own, or the host's depot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
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
    listener_at,
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
    from flashferry.depot.client import DepotClient
    from flashferry.fileserver import Welcome


def transports_of(
    devices: Iterable[HostView], options: RunOptions, *, first: Mapping[str, str] | None = None
) -> dict[str, tuple[Transport, ...]]:
    """Return by what the copy of each device is tried, the first one first.

    Args:
        devices: The devices.
        options: What is asked for, and where our server is.
        first: By device: the one to begin with where `auto` is asked for, for it was measured, or planned.

    Raises:
        ConfigInvalid: What is asked for is not allowed, or our side cannot serve it; no device was touched.
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
    """Check that our certificate is valid for the devices that may fetch by it.

    Where our address is found out by a device's session it is held against the certificate's names only then.

    Raises:
        ConfigInvalid: It is not valid for them; the sentence names the device that uses another address.
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
    """Return those by which a device fetches: to `null:` nothing can be pushed.

    Raises:
        ConfigInvalid: There is none.
    """
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
    """Return by what a look tries each device: all that its inventory names or leaves, or what was asked for.

    Of a device of which the inventory says nothing the usual one, as a run would take it.

    Args:
        devices: The devices.
        options: What is asked for, and where our server is.

    Raises:
        ConfigInvalid: What is asked for is not allowed, or our side cannot serve it; no device was touched.
    """
    requested = _requested(options)
    everything = replace(requested, asked=AUTO)
    devices, tried = tuple(devices), {}
    for one in devices:
        is_open = requested.asked == AS_USUAL and _is_stated(one)
        # What a run would take is complained of where our side cannot serve it.
        taken = candidates(one.name, one.transport_policy, requested)
        choice = candidates(one.name, one.transport_policy, everything) if is_open else taken
        # A tiny copy goes to `null:`, as a speed test does.
        tried[one.name] = _fetching(one.name, choice)
    _check_certificate(devices, tried, options)
    return tried


def left_out(device: HostView, options: RunOptions) -> tuple[str, ...]:
    """Return what a look that tries several transports leaves out though the inventory allows it, a sentence each.

    Empty where only one is tried: there was no choice.
    """
    requested = _requested(options)
    is_open = requested.asked == AUTO or (requested.asked == AS_USUAL and _is_stated(device))
    return unserved(device.transport_policy, requested) if is_open else ()


def _requested(options: RunOptions) -> TransportRequest:
    """Return what is asked for, with what our server, or the depot, can serve."""
    return transport_request(
        options.policy.transport,
        certificate=options.server.certificate,
        key=options.server.key,
        not_served=options.not_served,
    )


def _is_stated(device: HostView) -> bool:
    """Return whether the inventory says by what a device may fetch."""
    return bool(device.transports) or device.clear_text is not None


def served_for(choices: Mapping[str, tuple[Transport, ...]]) -> tuple[Transport, ...]:
    """Return what our server has to serve for some devices, in the usual order; nothing where all are pushed to."""
    needed = {one.name for choice in choices.values() for one in choice}
    served = tuple(one for one in TRANSPORTS if one.name in needed)
    return served if served or may_push(choices) else (USUAL,)


def may_push(choices: Mapping[str, tuple[Transport, ...]]) -> bool:
    """Return whether the image of any device may be pushed."""
    return any(PUSH in choice for choice in choices.values())


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
            asks for something else than it has; or our own address is none.
    """
    if (address := options.server.address) is not None and not WORD.fullmatch(address):
        raise ConfigInvalid(
            f"server address {address!r}: expected an IPv4 address or a host name",
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
    # Here, for a run that brings its own server waits for none of it.
    from flashferry.depot.client import DepotClient

    until_s = time.monotonic() + DEPOT_STARTS_S
    while True:
        try:
            return DepotClient(path, options.verb, sample_interval_s=options.sample_interval_s)
        except DepotNotRunning:
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
