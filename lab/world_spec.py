"""What a world is made of, and how its devices are reached."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from lab.errors import LabError
from lab.link import LinkProfile, load_profile

# 198.18.0.0/15 is set aside for benchmarks (RFC 2544, RFC 6890): it is nobody's network.
CORE_NETWORK = ipaddress.IPv4Network("198.18.0.0/24")
SITE_NETWORK = ipaddress.IPv4Network("198.18.1.0/24")
SERVER_ADDRESS = "198.18.0.1"

DEFAULT_PLATFORM = "csr1000v-16.11"
_FIRST_HOST = 11
_LOGIN = ("ferry", "ferry-lab-login", "ferry-lab-enable")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A device of a world.

    Attributes:
        name: Host name.
        platform: Name of a platform data file.
        address: Its address within 198.18.1.0/24; None for the next free one from 198.18.1.11.
        username: Who may log in.
        password: Their password.
        enable_secret: The enable secret.
        privilege: The privilege level after login: 15, or 1 for a login that has to `enable`.
        config_lines: Global configuration lines that it starts with, also in its startup configuration.
        flash_free_bytes: Room on its flash; None for what the platform has.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """A world: one site of devices behind one WAN link.

    Attributes:
        profile: The link's profile, or the name of a data file.
        seed: Seeds the link's losses.
        devices: At least one.
    """

    profile: LinkProfile | str = "published"
    seed: int = 1
    devices: tuple[DeviceSpec, ...] = (DeviceSpec(name="r1"),)

    def link_profile(self) -> LinkProfile:
        """Return the profile itself.

        Raises:
            LabError: There is none of that name.
        """
        return load_profile(self.profile) if isinstance(self.profile, str) else self.profile


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAccess:
    """How a device is reached from the core."""

    name: str
    address: str
    username: str
    password: str = field(repr=False)
    enable_secret: str = field(repr=False)
    platform: str
    port: int = 22


def addressed(devices: tuple[DeviceSpec, ...]) -> tuple[DeviceAccess, ...]:
    """Give every device an address.

    Raises:
        LabError: There is no device, two have the same name or address, or an address is outside the site.
    """
    if not devices:
        raise LabError("A world needs at least one device.")
    taken = {spec.address for spec in devices if spec.address}
    hosts = (str(host) for host in list(SITE_NETWORK.hosts())[_FIRST_HOST - 1 :])
    free = (host for host in hosts if host not in taken)
    accesses = tuple(
        DeviceAccess(
            name=spec.name,
            address=spec.address or next(free),
            username=spec.username,
            password=spec.password,
            enable_secret=spec.enable_secret,
            platform=spec.platform,
        )
        for spec in devices
    )
    _check(accesses)
    return accesses


def _check(accesses: tuple[DeviceAccess, ...]) -> None:
    names = [each.name for each in accesses]
    addresses = [each.address for each in accesses]
    for values, what in ((names, "name"), (addresses, "address")):
        double = next((value for value in values if values.count(value) > 1), None)
        if double is not None:
            raise LabError(f"Two devices have the {what} {double!r}; each needs its own.")
    for each in accesses:
        if ipaddress.IPv4Address(each.address) not in SITE_NETWORK:
            raise LabError(f"{each.name}: the address {each.address} is outside the site {SITE_NETWORK}.")
