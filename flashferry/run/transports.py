"""By which transports each device of a run is served, decided before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flashferry.run.options import RunOptions
from flashferry.transports import TRANSPORTS
from flashferry.transports.choice import candidates, wish_of
from flashferry.transports.transport import Transport
from inventory.view import HostView


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
    wish = wish_of(options.device.transport, certificate=options.certificate, key=options.key)
    known = first or {}
    return {one.name: candidates(one.name, one.transport_policy, wish, fastest=known.get(one.name)) for one in devices}


def served_for(choices: Mapping[str, tuple[Transport, ...]]) -> tuple[Transport, ...]:
    """Return what our server has to serve for some devices, in the usual order."""
    needed = {one.name for choice in choices.values() for one in choice}
    return tuple(one for one in TRANSPORTS if one.name in needed)
