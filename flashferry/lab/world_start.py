"""Start the helper processes of a world: for each site its stand-ins, and its depot and its link where it has them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from flashferry.lab.capability_levels import Rung
from flashferry.lab.standin.passwords import hash9
from flashferry.lab.world_helper import Helper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from flashferry.lab.world_spec import Addressing, DeviceAccess, DeviceSpec, Site, WorldSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a world is built from: its specification, settled for a rung and its addresses, and its directory.

    Attributes:
        spec: What it is made of.
        sites: Its sites, settled.
        rung: What is emulated.
        addressing: Where its addresses lie.
        directory: Private to it.
        core_pid: A process in a core namespace that is there already; None to make one with the first link.
        first_interface: Number of the first site's interface in the core, where others have links there too.
    """

    spec: WorldSpec
    sites: tuple[Site, ...]
    rung: Rung
    addressing: Addressing
    directory: Path
    core_pid: int | None = None
    first_interface: int = 0


def control_socket(directory: Path, what: str, number: int) -> Path:
    """Return where the control socket of a site's ``devices``, ``link`` or ``lan`` is."""
    return directory / f"{what}-{number}.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Live processes by which a world's namespaces are entered: in the core, in each site, and in each site's depot."""

    core_pid: int
    site_pids: tuple[int, ...]
    depot_pids: tuple[int | None, ...]


def start_helpers(stack: ExitStack, ground: Ground) -> Places:
    """Start all helpers, which end with the stack.

    Raises:
        LabError: One did not start.
    """
    numbers = range(len(ground.sites))
    standins = [_start(stack, ground, "devices", i, _devices_settings(ground, i)) for i in numbers]
    depots = {i: _start(stack, ground, "lan", i, settings) for i in numbers if (settings := _lan_settings(ground, i))}
    _hear([*standins, *depots.values()])
    site_pids = tuple(standin.process.pid for standin in standins)
    depot_pids = tuple(depots[i].process.pid if i in depots else None for i in numbers)
    places = Places(core_pid=site_pids[0], site_pids=site_pids, depot_pids=depot_pids)
    if ground.rung is not Rung.LOOPBACK:
        places = replace(places, core_pid=_start_links(stack, ground, places))
    for i, each in [*enumerate(standins), *depots.items()]:
        each.tell({"link_is_up": True, "site_pid": site_pids[i]})
    _hear([*standins, *depots.values()])
    return places


def _start_links(stack: ExitStack, ground: Ground, places: Places) -> int:
    """Start the links of all sites and return a process in the core."""
    links: list[Helper] = []
    for i, site_pid in enumerate(places.site_pids):
        core = links[0].process.pid if links else ground.core_pid
        pids = {"site_pid": site_pid, "depot_pid": places.depot_pids[i], "core_pid": core}
        links.append(_start(stack, ground, "link", i, _link_settings(ground, i) | pids))
        if i == 0:
            _hear(links)  # the others enter the core that it has made
    _hear(links[1:])
    return links[0].process.pid


def _hear(helpers: list[Helper]) -> None:
    for each in helpers:
        each.hear()


_INVENTORY_ONLY = ("transports", "clear_text")
"""What the inventory says of a device, which knows nothing of it."""

_MODULES = {
    "devices": "flashferry.lab.standin",
    "link": "flashferry.lab.relay",
    "lan": "flashferry.lab.depot_host",
}


def _start(stack: ExitStack, ground: Ground, what: str, number: int, settings: dict[str, Any]) -> Helper:
    control = {"control": str(control_socket(ground.directory, what, number))}
    helper = Helper(_MODULES[what], settings | control, ground.directory / f"{what}-{number}.log")
    stack.callback(helper.stop)
    return helper


def _devices_settings(ground: Ground, number: int) -> dict[str, Any]:
    specs, site = ground.spec.all_sites[number].devices, ground.sites[number]
    # Hashed once per secret, which costs hundredths of a second on purpose; a fleet mostly has one.
    secrets = {secret for spec in specs for secret in (spec.password, spec.enable_secret)}
    hashed = {secret: f"9 {hash9(secret)}" if secret else "" for secret in secrets}
    return {
        "directory": str(ground.directory),
        "has_own_network": ground.rung is not Rung.LOOPBACK,
        "link_control": str(control_socket(ground.directory, "link", number)) if ground.rung is Rung.FULL else None,
        "devices": [_device(spec, access, hashed) for spec, access in zip(specs, site.devices, strict=True)],
    }


def _device(spec: DeviceSpec, access: DeviceAccess, hashed: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of `flashferry.lab.standin.device.DeviceSettings`, with the platform's name."""
    own = {"address": access.address, "port": access.port}
    values = asdict(spec)
    for key in _INVENTORY_ONLY:
        del values[key]
    return values | own | {"password": hashed[spec.password], "enable_secret": hashed[spec.enable_secret]}


def _link_settings(ground: Ground, number: int) -> dict[str, Any]:
    site = ground.sites[number]
    return {
        "interface": f"wan{ground.first_interface + number}",
        "has_tun": ground.rung is Rung.FULL,
        "site_addresses": [f"{access.address}/32" for access in site.devices],
        "site_network": site.network,
        "core_address": f"{ground.addressing.server_address}/32",
        "depot_address": None if site.depot is None else site.depot.address,
        "profile": site.profile.as_json(),
        "nodes": {
            access.address: spec.control_plane_packets_per_s
            for spec, access in zip(ground.spec.all_sites[number].devices, site.devices, strict=True)
            if spec.control_plane_packets_per_s is not None
        },
        # The first link's losses are those of a world of one site.
        "seed": ground.spec.seed if number == 0 else f"{ground.spec.seed}/{site.name}",
    }


def _lan_settings(ground: Ground, number: int) -> dict[str, Any] | None:
    """Return the settings of a depot's host; None where there is none, or no namespace to put it in."""
    site = ground.sites[number]
    if site.depot is None or ground.rung is Rung.LOOPBACK:
        return None
    return {
        "site_network": site.network,
        "depot_address": site.depot.address,
        "profile": site.lan.as_json() if site.lan is not None and ground.rung is Rung.FULL else None,
        "seed": f"{ground.spec.seed}/{site.name}/lan",
    }
