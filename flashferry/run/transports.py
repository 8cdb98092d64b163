"""By which transports each device of a run is served, decided before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.run.options import RunOptions
from flashferry.transports import PUSH, TRANSPORTS, USUAL
from flashferry.transports.choice import Wish, candidates, unserved, wish_of
from flashferry.transports.serving import check_files, is_certified
from flashferry.transports.transport import Transport
from inventory.host_view import HostView
from inventory.transport_policy import AS_USUAL, AUTO


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
            check_files(*files, told=(address,))
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


def reach_by(devices: Iterable[HostView], options: RunOptions) -> dict[str, tuple[Transport, ...]]:
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


def _requested(options: RunOptions) -> Wish:
    """Return what is asked for, with what our server, or the depot, can serve."""
    return wish_of(
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
