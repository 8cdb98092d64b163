"""Checks of device, group and site names in requests against the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.service.errors import invalid_from
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from inventory.selection import SAMPLE, Selection, check_known, sample_directory

if TYPE_CHECKING:
    from nornir.core.inventory import Inventory

SITE = "site"
_FILES = ("hosts.yaml", "groups.yaml", "defaults.yaml")


def site_filters(sites: Iterable[str]) -> tuple[str, ...]:
    """Return the inventory filters that select the devices of some sites."""
    return tuple(f"{SITE}={site}" for site in sites if site)


def check_names(service: Service, selection: Selection) -> None:
    """Check that the inventory has every name of a selection.

    Skipped for an inventory of another system and for an unreadable one: the job checks those, so that no request
    waits.

    Raises:
        InvalidRequest: A device, group, site or other value is unknown.
    """
    inventory = _inventory(service) if selection != Selection() else None
    if inventory is None:
        return
    try:
        check_known(inventory, selection)
    except ConfigInvalid as error:
        hint = error.hint if error.message.startswith("--filter") else "Name what the inventory has"
        raise invalid_from(ConfigInvalid(error.message.removeprefix("--filter").lstrip(" :"), hint=hint)) from None


def check_sites(service: Service, sites: Iterable[str]) -> None:
    """Check that the inventory has some sites. Raises `InvalidRequest`."""
    check_names(service, Selection(filters=site_filters(dict.fromkeys(sites))))


def with_devices(service: Service, sites: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sites that have devices; all given sites if none has.

    For sites that no request named: a role at a closed site must not block a job at the others.
    """
    inventory = _inventory(service) if sites else None
    if inventory is None:
        return sites
    there = {str(host.get(SITE)) for host in inventory.hosts.values()}
    return tuple(site for site in sites if site in there) or sites


def inventory_hosts(service: Service) -> tuple[Mapping[str, tuple[str, str]], str]:
    """Return address and site of each inventory device by name, and why there are none (empty: there are some)."""
    given = service.settings.runs.inventory
    if given is None:
        return {}, "no inventory is configured: an admin sets inventory under [runs] in service.toml"
    try:
        inventory = _read(given)
    except ConfigInvalid as error:
        return {}, f"the inventory cannot be read: {error.message}"
    if inventory is None:
        return {}, "the inventory is that of another system, which only jobs read"
    return {
        name: (host.hostname or "", str(host.get(SITE) or ""))
        for name, host in inventory.hosts.items()
    }, ""  # fmt: skip


def site_zones(service: Service) -> Mapping[str, str]:
    """Return the time zone of each site that has windows in the inventory, by its IANA name."""
    inventory = _inventory(service)
    found: dict[str, str] = {}
    for host in inventory.hosts.values() if inventory is not None else ():
        site, windows = str(host.get(SITE) or ""), host.get("windows")
        # All windows of a site have one time zone (`inventory.time_window.check_windows`).
        if site not in found and isinstance(windows, list) and windows and isinstance(windows[0], dict):
            found[site] = str(windows[0].get("timezone") or "UTC")
    return found


def operated_sites(service: Service, actor: Actor) -> tuple[str, ...]:
    """Return the sites of inventory and settings at which the caller is operator."""
    hosts, _ = inventory_hosts(service)
    names = {site for _, site in hosts.values() if site} | set(service.settings.site_names)
    return tuple(sorted(name for name in names if actor.may({Role.OPERATOR}, (name,))))


def _inventory(service: Service) -> Inventory | None:
    """Return the inventory if it is a readable folder, else None."""
    given = service.settings.runs.inventory
    try:
        return None if given is None else _read(given)
    except ConfigInvalid:
        return None


def _read(given: str) -> Inventory | None:
    """Return the inventory in a folder; None for one of another system. Raises `ConfigInvalid`."""
    folder = sample_directory() if given == SAMPLE else Path(given)
    if folder.is_file():
        return None
    return _opened(folder, tuple(_stamp(folder / name) for name in _FILES))


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        about = path.stat()
    except OSError:
        return ()
    return about.st_mtime_ns, about.st_size, about.st_ino


@lru_cache(maxsize=4)
def _opened(folder: Path, stamps: tuple[tuple[int, ...], ...]) -> Inventory:  # noqa: ARG001 -- part of the key
    """Return the inventory in a folder; cached by the time stamps of its files. Raises `ConfigInvalid`."""
    # Late: nornir is slow to import.
    from inventory.nornir_loader import open_inventory

    return open_inventory(folder).inventory
