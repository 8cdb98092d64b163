"""What a world is made of, and how its devices are reached."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from flashferry.lab.errors import LabError
from flashferry.lab.link import LinkProfile, load_profile

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
        name: Host name.
        platform: Name of a platform data file.
        address: Its address within the network of its site (198.18.1.0/24 for the first); None for the next free one
            from the network's eleventh on.
        username: Who may log in.
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
        transports: What the inventory says that it may fetch by; empty for nothing said.
        clear_text: What the inventory says of clear text; None for nothing said.
    """

    name: str
    platform: str = DEFAULT_PLATFORM
    address: str | None = None
    username: str = _LOGIN[0]
    password: str = field(default=_LOGIN[1], repr=False)
    enable_secret: str = field(default=_LOGIN[2], repr=False)
    privilege: int = 15
    config_lines: tuple[str, ...] = ()
    flash_free_bytes: int | None = None
    refused_commands: tuple[str, ...] = ()
    extended_passive: bool | None = None
    trustpoints: tuple[tuple[str, str], ...] = ()
    blocked_transports: tuple[str, ...] = ()
    control_plane_packets_per_s: int | None = None
    transports: tuple[str, ...] = ()
    clear_text: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotSpec:
    """A host at a site, in a namespace of its own: on a LAN with the site's devices, and behind the same WAN link.

    Attributes:
        name: What it is called; None for ``SITE-depot``.
        address: Its address within the network of its site; None for the network's tenth.
    """

    name: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpec:
    """Devices that share a WAN link.

    Attributes:
        profile: The link's profile, or the name of a data file.
        devices: At least one.
        depot: Its depot host; None for none.
        lan: Profile of the depot's line into the LAN, which all devices share when they fetch from it, or the name of a
            data file; None for as fast as the machine allows. Between devices nothing limits but their flash.
    """

    name: str
    profile: LinkProfile | str
    devices: tuple[DeviceSpec, ...]
    depot: DepotSpec | None = None
    lan: LinkProfile | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A world: one site of devices behind one WAN link, or several.

    Attributes:
        profile: The link's profile, or the name of a data file.
        seed: Seeds the links' losses.
        devices: At least one.
        sites: Where there are several; then ``profile`` and ``devices`` do not count.
    """

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

    Attributes:
        prefix: What stands for the first two bytes of 198.18.0.0/16; devices keep the other two.
        server_address: Where a server for the devices listens.
        port: The devices' SSH port.
    """

    prefix: str = "198.18"
    server_address: str = SERVER_ADDRESS
    port: int = SSH_PORT

    def moved(self, address: str) -> str:
        """Return an address or network of 198.18.0.0/16 where it is in this world."""
        return f"{self.prefix}.{address.split('.', 2)[2]}"


def settle(spec: WorldSpec, addressing: Addressing | None = None) -> tuple[Site, ...]:
    """Load the links' profiles and give every site a network and every device an address.

    Raises:
        LabError: A profile is wrong, a site has no device, two sites or devices have the same name or address, or an
            address is outside its site's network.
    """
    addressing = addressing or Addressing()
    sites: list[Site] = []
    after = CORE_NETWORK
    for each in spec.all_sites:
        if not each.devices:
            raise LabError(f"Site {each.name}: a site needs at least one device, found none.")
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
    """Give every device of a single site an address.

    Raises LabError: there is no device, two have the same name or address, or an address is outside the site.
    """
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
