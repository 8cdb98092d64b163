"""Read a world from a data file; the format stands in docs/lab.md.

Every error names file, key and what is allowed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.lab.datafile import data_names, read_file, read_table
from flashferry.lab.errors import LabError
from flashferry.lab.link import KEYS, LinkProfile, load_profile
from flashferry.lab.standin.trustpoints import trustpoint_lines
from flashferry.lab.world_spec import DepotSpec, DeviceSpec, SiteSpec, WorldSpec

if TYPE_CHECKING:
    from flashferry.lab.datafile import Table

_PACKAGE = "flashferry.lab.worlds"
_PROFILES = "flashferry.lab.profiles"
_PLATFORMS = "flashferry.lab.standin.platforms"
_DEVICE_KEYS = (
    "name", "count", "platform", "address", "username", "password", "enable_secret", "privilege", "config",
    "flash_free_bytes", "refused_commands", "extended_passive", "trustpoints", "blocked_transports",
    "control_plane_packets_per_s", "transports", "clear_text",
)  # fmt: skip
_TRANSPORTS = ("ftp", "http", "https", "scp", "sftp")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_MOST_DEVICES = 4000
_MOST_SITES = 200


def load_world(name: str, *, seed: int | None = None) -> WorldSpec:
    """Read a world.

    Args:
        name: One of the lab's own, or the path of a file that ends in ``.toml``.
        seed: Replaces the file's own seed.

    Raises LabError: there is no such world, or something in it is not allowed.
    """
    is_file = name.endswith(".toml")
    table = read_file(Path(name)) if is_file else read_table(_PACKAGE, name)
    table.only("description", "seed", "sites")
    table.text("description", "")
    base = Path(name).parent if is_file else Path()
    sites = tuple(site for each in table.tables("sites") for site in _sites(each, base))
    if not sites:
        raise LabError(f"{table.where}: sites: expected at least one table [[sites]], found none.")
    return WorldSpec(seed=table.integer("seed", 1) if seed is None else seed, sites=sites)


def _sites(table: Table, base: Path) -> list[SiteSpec]:
    """Read a site, or several alike: with ``count`` each has a number, and its devices its name in front of theirs."""
    table.only("name", "count", "link", "devices", "depot", "lan")
    devices = tuple(device for each in table.tables("devices") for device in _devices(each, base))
    if not devices:
        raise LabError(f"{table.where}: devices: expected at least one table [[sites.devices]], found none.")
    depot = _depot_spec(table)
    first = SiteSpec(
        name=_name(table),
        profile=_link(table, "link", base),
        devices=devices,
        depot=depot,
        lan=_lan(table, depot, base),
    )
    if "count" not in table.values:
        return [first]
    if any(device.address is not None for device in devices) or (depot is not None and depot.address is not None):
        raise LabError(f"{table.where}: count: expected no address in its devices, for each site needs its own.")
    return [_numbered(first, number) for number in range(1, table.integer("count", low=1, high=_MOST_SITES) + 1)]


def _numbered(site: SiteSpec, number: int) -> SiteSpec:
    """Return one of several sites alike: its own name is in front of those of its devices and of its depot."""
    name, depot = f"{site.name}{number}", site.depot
    if depot is not None and depot.name is not None:
        depot = replace(depot, name=f"{name}-{depot.name}")
    devices = tuple(replace(one, name=f"{name}-{one.name}") for one in site.devices)
    return replace(site, name=name, devices=devices, depot=depot)


def _link(table: Table, key: str, base: Path) -> LinkProfile:
    """Read a site's link: a profile's name, or a table of a profile and what differs from it."""
    if isinstance(table.values.get(key), dict):
        link = table.table(key)
        link.only("profile", "to_site", "to_core", *KEYS)
        return load_profile(_known(link, "profile", _PROFILES), overrides=link, base=base)
    return load_profile(_known(table, key, _PROFILES), base=base)


def _depot_spec(table: Table) -> DepotSpec | None:
    """Read whether a site has a depot host: true or false, or a table of what is its own."""
    if "depot" not in table.values:
        return None
    if isinstance(table.values["depot"], dict):
        depot = table.table("depot")
        depot.only("name", "address")
        return DepotSpec(
            name=_name(depot) if "name" in depot.values else None,
            address=depot.text("address") if "address" in depot.values else None,
        )
    return DepotSpec() if table.flag("depot") else None


def _lan(table: Table, depot: DepotSpec | None, base: Path) -> LinkProfile | None:
    """Read the depot's line into the LAN of its site."""
    if "lan" not in table.values:
        return None
    if depot is None:
        raise LabError(f"{table.where}: lan: expected none without a depot, for it is the depot's line into the LAN.")
    return _link(table, "lan", base)


def _known(table: Table, key: str, package: str, default: str | None = None) -> str:
    """Return the name of a data file of the lab, or the path of one of the user's own where that is allowed.

    What stands there is looked up now, for later the error could not say which file and key it came from.
    """
    name, names = table.text(key, default), data_names(package)
    own = package == _PROFILES
    if name in names or (own and name.endswith(".toml")):
        return name
    allowed = f"{', '.join(names)}{', or the path of a .toml file' if own else ''}"
    raise LabError(f"{table.where}: {key}: expected one of {allowed}; found {name!r}.")


def _devices(table: Table, base: Path) -> list[DeviceSpec]:
    """Read a device, or several alike: with ``count`` the name is what their numbers are put behind."""
    table.only(*_DEVICE_KEYS)
    first = _device(table, base)
    if "count" not in table.values:
        return [first]
    count = table.integer("count", low=1, high=_MOST_DEVICES)
    if first.address is not None:
        raise LabError(f"{table.where}: address: expected none beside count, for each device needs its own.")
    return [_device(table, base, number) for number in range(1, count + 1)]


def _device(table: Table, base: Path, number: int | None = None) -> DeviceSpec:
    default = DeviceSpec(name="default")
    return DeviceSpec(
        name=_name(table) + ("" if number is None else str(number)),
        platform=_known(table, "platform", _PLATFORMS, default.platform),
        address=table.text("address") if "address" in table.values else None,
        username=table.text("username", default.username),
        password=table.text("password", default.password),
        enable_secret=table.text("enable_secret", default.enable_secret),
        privilege=table.integer("privilege", default.privilege, low=0, high=15),
        config_lines=table.strings("config", ()),
        flash_free_bytes=table.integer("flash_free_bytes") if "flash_free_bytes" in table.values else None,
        refused_commands=table.strings("refused_commands", ()),
        extended_passive=table.flag("extended_passive") if "extended_passive" in table.values else None,
        trustpoints=_trustpoints(table, base),
        blocked_transports=_transports(table, "blocked_transports"),
        control_plane_packets_per_s=(
            table.integer("control_plane_packets_per_s", low=1, high=10**6)
            if "control_plane_packets_per_s" in table.values
            else None
        ),
        transports=_transports(table, "transports"),
        clear_text=table.flag("clear_text") if "clear_text" in table.values else None,
    )


def _trustpoints(table: Table, base: Path) -> tuple[tuple[str, str], ...]:
    """Read a table of names, each with the path of a certificate in PEM beside the world's file."""
    files = table.table("trustpoints")
    found = []
    for name in files.values:
        path = base / files.text(name)
        try:
            pem = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(f"{files.where}: {name}: expected a certificate in PEM, found {path} ({error}).") from error
        try:
            trustpoint_lines(name, pem)
        except LabError as error:
            raise LabError(f"{files.where}: {path}: {error}") from error
        found.append((name, pem))
    return tuple(found)


def _transports(table: Table, key: str) -> tuple[str, ...]:
    """Read names of transports."""
    names = table.strings(key, ())
    for name in names:
        if name not in _TRANSPORTS:
            raise LabError(f"{table.where}: {key}: expected some of {', '.join(_TRANSPORTS)}; found {name!r}.")
    return names


def _name(table: Table) -> str:
    name = table.text("name")
    if not _NAME.fullmatch(name):
        raise LabError(f"{table.where}: name: expected letters, digits and hyphens behind a letter, found {name!r}.")
    return name
