"""Write a world as a Nornir inventory: hosts.yaml, groups.yaml and defaults.yaml of its SimpleInventory.

A site is a group, since its devices share a link. The keys in ``data`` are those the README of the project documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flashferry.lab.world_spec import SSH_PORT, DeviceAccess, Site

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.lab.world import World

_FILE_MODE = 0o600


def write_inventory(world: World, folder: Path, *, cap_share: float | None = None) -> Path:
    """Write the three files into a new folder, for its owner's eyes only, and return it.

    Args:
        world: The world.
        folder: The folder, which is not there yet.
        cap_share: What copies may take together of each site's link, above 0 to 1; None: nothing is said of it.
    """
    first = world.devices[0]
    common = _login(first)
    folder.mkdir(mode=0o700)
    _write(folder / "hosts.yaml", {device.name: _host(device, common) for device in world.devices})
    share = {} if cap_share is None else {"cap_share": cap_share}
    _write(folder / "groups.yaml", {site.name: _group(site, share) for site in world.sites})
    # The devices' host keys are made anew with every world, so they are known in a file of its own, which an inventory
    # names below the controller's state folder only.
    known_hosts = f"known_hosts_of_{world.directory.name}"
    _write(folder / "defaults.yaml", common | {"data": common["data"] | {"known_hosts": known_hosts}})
    return folder


def _group(site: Site, share: Mapping[str, float]) -> dict[str, Any]:
    """Return what all devices of a site have in common: its link, its depot, and the LAN where that has a rate."""
    data: dict[str, Any] = {"site": site.name, "link_rate_bps": int(site.profile.rate_bps)} | dict(share)
    if site.depot is not None:
        data["depot"] = site.depot.address
    if site.lan is not None:
        data["lan_rate_bps"] = int(site.lan.rate_bps)
    return {"platform": "ios", "data": data}


def _login(device: DeviceAccess) -> dict[str, Any]:
    return {
        "username": device.username,
        "password": device.password,
        "data": {"enable_secret": device.enable_secret},
    }


def _host(device: DeviceAccess, common: dict[str, Any]) -> dict[str, Any]:
    host: dict[str, Any] = {"hostname": device.address, "groups": [device.site]}
    if device.port != SSH_PORT:
        host["port"] = device.port
    own = _login(device)
    host |= {key: value for key, value in own.items() if value != common[key]}
    stated = _stated(device)
    if stated:
        # What hosts say of themselves hides nothing of the group's and the defaults': Nornir looks keys up one by one.
        host["data"] = host.get("data", {}) | stated
    return host


def _stated(device: DeviceAccess) -> dict[str, Any]:
    """Return what the inventory says of the protocols that a device may fetch by."""
    stated: dict[str, Any] = {}
    if device.transports:
        stated["transports"] = list(device.transports)
    if device.clear_text is not None:
        stated["clear_text"] = device.clear_text
    return stated


def _write(path: Path, values: Mapping[str, Any]) -> None:
    path.touch(mode=_FILE_MODE)
    path.write_text("---\n" + "\n".join(_lines(values)) + "\n", encoding="utf-8")


def _lines(values: Mapping[str, Any], depth: int = 0) -> list[str]:
    """Return a mapping as YAML; its scalars and lists are JSON, which YAML contains."""
    lines = []
    for key, value in values.items():
        head = f"{'  ' * depth}{key}:"
        if isinstance(value, Mapping):
            lines += [head, *_lines(value, depth + 1)]
        else:
            lines.append(f"{head} {json.dumps(value)}")
    return lines
