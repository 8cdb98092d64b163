"""What a world is made of, and how its devices are reached."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flashferry.lab.errors import LabError, Table, Within, data_names, read_file, read_table
from flashferry.lab.link import KEYS, LinkProfile, load_profile
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.receiver import OPTIMISTIC
from flashferry.lab.standin.recording import load_recording, nearest_platform
from flashferry.lab.standin.trustpoints import trustpoint_lines

if TYPE_CHECKING:
    from flashferry.lab.world import World

# 198.18.0.0/15 is set aside for benchmarks (RFC 2544, RFC 6890): it is no network of anyone.
CORE_NETWORK = ipaddress.IPv4Network("198.18.0.0/24")
SITE_NETWORK = ipaddress.IPv4Network("198.18.1.0/24")
"""Of the first site, where it has no more devices than fit in."""

SERVER_ADDRESS = "198.18.0.1"
SSH_PORT = 22
DEFAULT_PLATFORM = "csr1000v-16.11"
_POOL = ipaddress.IPv4Network("198.18.0.0/16")
_FIRST_HOST = 11
_DEPOT_HOST = 10
_LOGIN = ("ferry", "ferry-lab-login", "ferry-lab-enable")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device of a world.

    Attributes:
        platform: Name of a platform data file.
        address: Its address within the network of its site (198.18.1.0/24 for the first); None for the next free one
            from the network's eleventh on.
        privilege: The privilege level after login: 15, or 1 for a login that has to `enable`.
        config_lines: Configuration lines that it starts with, also in its startup configuration; a line of a section
            begins with a blank and stands behind the one that opens it.
        flash_free_bytes: Room on its flash; None for what the platform has.
        refused_commands: What AAA command authorization refuses to the username: commands that are one of these or
            begin with their words, written out, such as ``configure`` or ``ip tcp``.
        extended_passive: The FTP client tries EPSV before PASV; None for what the platform does.
        trustpoints: Whom it trusts for HTTPS: names, each with an authority's certificate in PEM; they stand in its
            configuration.
        blocked_transports: Protocols of `copy` that do not get through from it, as behind a firewall that knows them by
            more than their ports: no packet of theirs leaves, and the device waits as long as it has patience.
        control_plane_packets_per_s: What its control-plane policer lets in of what is meant for itself, SSH included;
            None for no policer. The link drops the rest, so it needs the rung with a WAN.
        receiver: Receiver profile of its copies by FTP to flash: `optimistic`, or a model that its platform has.
        recording: Path of a recording that it is played from; None for what the platform prints.
        transports: What the inventory says that it may fetch by; empty for nothing said.
        clear_text: What the inventory says of clear text; None for nothing said.
    """

    name: str
    platform: str = DEFAULT_PLATFORM
    address: str | None = None
    username: str = _LOGIN[0]
    password: str = field(default=_LOGIN[1], repr=False)
    enable_secret: str = field(default=_LOGIN[2], repr=False)
    privilege: Annotated[int, Within(0, 15)] = 15
    config_lines: tuple[str, ...] = ()
    flash_free_bytes: int | None = None
    refused_commands: tuple[str, ...] = ()
    extended_passive: bool | None = None
    trustpoints: tuple[tuple[str, str], ...] = ()
    blocked_transports: tuple[str, ...] = ()
    control_plane_packets_per_s: Annotated[int, Within(1, 10**6)] | None = None
    receiver: str = OPTIMISTIC
    recording: str | None = None
    transports: tuple[str, ...] = ()
    clear_text: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotSpec:
    """A host at a site on the LAN of its devices; by default ``SITE-depot`` at the network's tenth address."""

    name: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpec:
    """Devices that share a WAN link.

    `profile`: The link's profile, or the name of a data file. `depot`: Its depot host; None for none. `lan`: Profile of
    the depot's line into the LAN, which all devices share when they fetch from it, or the name of a data file; None for
    as fast as the machine allows. Between devices nothing limits but their flash.
    """

    name: str
    profile: LinkProfile | str
    devices: tuple[DeviceSpec, ...]
    depot: DepotSpec | None = None
    lan: LinkProfile | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A world of one site, by `profile` and `devices`, or of several `sites`; `seed` seeds the losses of links."""

    profile: LinkProfile | str = "published"
    seed: int = 1
    devices: tuple[DeviceSpec, ...] = (DeviceSpec(name="r1"),)
    sites: tuple[SiteSpec, ...] = ()

    @property
    def all_sites(self) -> tuple[SiteSpec, ...]:
        """The sites; a world without any has one, of its own profile and devices."""
        return self.sites or (SiteSpec(name="site", profile=self.profile, devices=self.devices),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAccess:
    """How a device is reached from the core."""

    name: str
    address: str
    username: str
    password: str = field(repr=False)
    enable_secret: str = field(repr=False)
    platform: str
    port: int = SSH_PORT
    site: str = "site"
    transports: tuple[str, ...] = ()
    clear_text: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotPlace:
    """Where a site's depot host is: its name, and its address, for the devices as for the core."""

    name: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotHost:
    """A site's depot host in a running world; ``pid`` is a live process in its namespace."""

    name: str
    site: str
    address: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A site of a world as it is built: names, addresses and the links' profiles are settled."""

    name: str
    network: str
    profile: LinkProfile
    devices: tuple[DeviceAccess, ...]
    depot: DepotPlace | None = None
    lan: LinkProfile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressing:
    """Where a world's addresses lie.

    `prefix`: What stands for the first two bytes of 198.18.0.0/16; devices keep the other two. `server_address`: Where
    a server for the devices listens.
    """

    prefix: str = "198.18"
    server_address: str = SERVER_ADDRESS
    port: int = SSH_PORT

    def moved(self, address: str) -> str:
        """Return an address or network of 198.18.0.0/16 where it is in this world."""
        return f"{self.prefix}.{address.split('.', 2)[2]}"


def settle(spec: WorldSpec, addressing: Addressing | None = None) -> tuple[Site, ...]:
    """Load the links' profiles and give every site a network and every device an address.

    Raises LabError: a profile of a link or receiver is wrong, a site has no device, two sites or devices have the same
    name or address, or an address is outside its site's network.
    """
    addressing = addressing or Addressing()
    sites: list[Site] = []
    after = CORE_NETWORK
    for each in spec.all_sites:
        if not each.devices:
            raise LabError(f"Site {each.name}: a site needs at least one device, found none.")
        for device in each.devices:
            if device.receiver != OPTIMISTIC:
                load_platform(device.platform).receiving(device.receiver)
        after = _network(len(each.devices), after, each.name)
        sites.append(_settled(each, after, addressing))
    _check_unique("sites", "name", [site.name for site in sites])
    everyone = [device for site in sites for device in site.devices]
    depots = [site.depot for site in sites if site.depot is not None]
    _check_unique("devices", "name", [device.name for device in everyone])
    _check_unique("devices", "address", [device.address for device in everyone])
    _check_unique("hosts", "name", [*(device.name for device in everyone), *(depot.name for depot in depots)])
    return tuple(sites)


def _settled(site: SiteSpec, network: ipaddress.IPv4Network, addressing: Addressing) -> Site:
    if site.lan is not None and site.depot is None:
        raise LabError(
            f"Site {site.name}: lan: expected none without a depot, for it is the depot's line into the LAN; give the "
            "site a depot, or take the key out."
        )
    return Site(
        name=site.name,
        network=addressing.moved(str(network)),
        profile=_profile(site.profile),
        devices=_addressed(site, network, addressing),
        depot=_depot(site, network, addressing),
        lan=None if site.lan is None else _profile(site.lan),
    )


def _profile(profile: LinkProfile | str) -> LinkProfile:
    return load_profile(profile) if isinstance(profile, str) else profile


def _depot(site: SiteSpec, network: ipaddress.IPv4Network, addressing: Addressing) -> DepotPlace | None:
    if site.depot is None:
        return None
    name = site.depot.name or f"{site.name}-depot"
    address = site.depot.address or _depot_address(network)
    if not _is_within(address, network):
        raise LabError(f"{name}: address: expected one in its site's {network}, found {address!r}.")
    return DepotPlace(name=name, address=addressing.moved(address))


def _depot_address(network: ipaddress.IPv4Network) -> str:
    return str(network.network_address + _DEPOT_HOST)


def addressed(devices: tuple[DeviceSpec, ...]) -> tuple[DeviceAccess, ...]:
    """Give every device of a single site an address. Raises LabError: as `settle`."""
    return settle(WorldSpec(profile="lan", devices=devices))[0].devices


def _network(count: int, after: ipaddress.IPv4Network, site: str) -> ipaddress.IPv4Network:
    """Return the least network behind ``after``, /24 or larger, that has room for so many devices."""
    prefix = min(24, 32 - (count + _FIRST_HOST).bit_length())
    size = 2 ** (32 - prefix)
    start = -(-(int(after.broadcast_address) + 1) // size) * size
    network = ipaddress.IPv4Network((start, prefix)) if prefix > 16 else _POOL
    if prefix <= 16 or not network.subnet_of(_POOL):
        raise LabError(f"Site {site}: no room is left in {_POOL} for its {count} devices; take fewer.")
    return network


def _addressed(site: SiteSpec, network: ipaddress.IPv4Network, addressing: Addressing) -> tuple[DeviceAccess, ...]:
    taken = {spec.address for spec in site.devices if spec.address}
    if site.depot is not None:
        depot = site.depot.address or _depot_address(network)
        if depot in taken:
            raise LabError(f"Site {site.name}: a device and the depot have the address {depot!r}; each needs its own.")
        taken.add(depot)
    first = int(network.network_address) + _FIRST_HOST
    hosts = map(str, map(ipaddress.IPv4Address, range(first, int(network.broadcast_address))))
    free = (host for host in hosts if host not in taken)
    accesses = []
    for spec in site.devices:
        address = spec.address or next(free)
        if not _is_within(address, network):
            raise LabError(f"{spec.name}: address: expected one in its site's {network}, found {address!r}.")
        accesses.append(
            DeviceAccess(
                name=spec.name, address=addressing.moved(address), port=addressing.port, site=site.name,
                username=spec.username, password=spec.password, enable_secret=spec.enable_secret,
                platform=spec.platform, transports=spec.transports, clear_text=spec.clear_text,
            )
        )  # fmt: skip
    return tuple(accesses)


def _is_within(address: str, network: ipaddress.IPv4Network) -> bool:
    try:
        return ipaddress.IPv4Address(address) in network
    except ValueError:
        return False


def _check_unique(what: str, key: str, values: list[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise LabError(f"Two {what} have the {key} {value!r}; each needs its own.")
        seen.add(value)


_PACKAGE = "flashferry.lab.worlds"
_PROFILES = "flashferry.lab.profiles"
_PLATFORMS = "flashferry.lab.standin.platforms"

_TRANSPORTS = ("ftp", "http", "https", "scp", "sftp")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_MOST_DEVICES = 4000
_MOST_SITES = 200


def load_world(name: str, *, seed: int | None = None) -> WorldSpec:
    """Read a world by its name, or by the path of a ``.toml`` file; `seed` replaces the file's own.

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
    first = _device(table, base)
    if "count" not in table.values:
        return [first]
    count = table.integer("count", low=1, high=_MOST_DEVICES)
    if first.address is not None:
        raise LabError(f"{table.where}: address: expected none beside count, for each device needs its own.")
    return [_device(table, base, number) for number in range(1, count + 1)]


def _device(table: Table, base: Path, number: int | None = None) -> DeviceSpec:
    recording = str(base.absolute() / table.text("recording")) if "recording" in table.values else None
    platform = (
        DEFAULT_PLATFORM if recording is None else nearest_platform(load_recording(Path(recording)), DEFAULT_PLATFORM)
    )
    return table.record(
        DeviceSpec,
        "name", "count", "platform", "config", "trustpoints", "blocked_transports", "recording", "transports",
        name=_name(table) + ("" if number is None else str(number)),
        platform=_known(table, "platform", _PLATFORMS, platform),
        config_lines=table.strings("config", ()),
        trustpoints=_trustpoints(table, base),
        blocked_transports=_transports(table, "blocked_transports"),
        recording=recording,
        transports=_transports(table, "transports"),
    )  # fmt: skip


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


_FILE_MODE = 0o600


def write_inventory(world: World, folder: Path, *, cap_share: float | None = None) -> Path:
    """Write the three files of an inventory into a new folder (mode 0700) and return it.

    `cap_share` is what copies may take together of each site's link, above 0 to 1; None writes none.
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
    return {"username": device.username, "password": device.password, "data": {"enable_secret": device.enable_secret}}


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
