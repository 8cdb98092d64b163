"""The typed view on one inventory host: where it is, at which site, and what its WAN link carries.

Nornir keeps free-form `data` per host and group. The keys that flashferry reads are few, so they are checked
here, with errors that name the host, the key, and the group that the value came from; everything else in `data`
belongs to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flashferry.core.errors import ConfigInvalid
from inventory.keys import READERS
from inventory.platforms import platform_of, wrong_platform
from inventory.time_window import TimeWindow
from inventory.transport_policy import CLEAR_TEXT, ORDER, TransportPolicy
from inventory.values import INTERFACE, WORD

if TYPE_CHECKING:
    from nornir.core.inventory import Host

__all__ = [
    "DEFAULT_CAP_SHARE",
    "FAULT",
    "INTERFACE",
    "SSH_PORT",
    "WORD",
    "HostView",
    "InventoryHost",
    "check_fault",
    "read_key",
    "set_fault",
    "view",
]

SSH_PORT = 22
DEFAULT_CAP_SHARE = 0.8
"""Share of a site's link that copies may take unless the inventory says otherwise."""


FAULT = "flashferry_fault"
"""Key of a host's data under which an inventory plugin leaves what is wrong with that host alone."""

T = TypeVar("T")


class InventoryGroup(Protocol):
    """What we need of `nornir.core.inventory.Group`."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """Return its own data, without that of its groups."""
        ...


class InventoryHost(Protocol):
    """What we need of `nornir.core.inventory.Host`: merged attributes and merged data."""

    name: str
    hostname: str | None
    port: int | None
    platform: str | None

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the host's own data."""
        ...

    def extended_groups(self) -> Sequence[InventoryGroup]:
        """Return its groups and their groups, the nearest first."""
        ...

    def extended_data(self) -> Mapping[str, object]:
        """Return the data of host, groups and defaults, the nearest winning."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One device as flashferry sees it.

    Attributes:
        name: Inventory name.
        address: Name or address to log in to.
        port: SSH port.
        platform: NAPALM platform, `ios`, whatever the inventory calls IOS or IOS-XE.
        site: Name of the site whose link the device shares, or None.
        link_rate_bps: Rate of the site's WAN link in bit/s, or None where nobody said.
        cap_share: Share of that rate that copies may take, in (0, 1].
        is_cap_share_stated: Whether somebody wrote that share, so that it holds for a rate that is learned, too.
        server_address: Our address as the device reaches it, or None: the local end of the SSH connection.
        vrf: VRF through which the device reaches us, or None.
        source_interface: Interface from which the device's FTP client is to come, or None: as the device has it. IOS
            knows it only as a configuration line, so it is set for the copy and put back like the tuned lines.
        windows: When its site may be worked on; none means at any time.
        max_copies: How many copies may run over the site's link at once, or None: as the run has it.
        transports: Transports by which it may fetch, the preferred one first; none stated: all, in the usual order.
        clear_text: Whether its login and image may cross in clear text; None: nobody said, which means yes.
        image: The image that this device is to have, a file name or a path as written; it goes before all rules.
        groups: Names of its groups and their groups, the nearest first.
        console_access: Whether somebody can get at its console when it does not come back from a restart.
        upstream: Whether others are reached through it, so that it is restarted after them.
        depot: Host name or URL of the site's depot, from which its devices pull over the LAN; or None.
        neighbours: Whether the devices of its site serve each other.
        lan_rate_bps: Rate of the LAN between its depot, or its neighbours, and the devices in bit/s; None: nobody said.
    """

    name: str
    address: str
    port: int
    platform: str
    site: str | None
    link_rate_bps: float | None
    cap_share: float
    server_address: str | None
    vrf: str | None
    source_interface: str | None = None
    windows: tuple[TimeWindow, ...] = ()
    max_copies: int | None = None
    transports: tuple[str, ...] = ()
    clear_text: bool | None = None
    image: str | None = None
    groups: tuple[str, ...] = ()
    is_cap_share_stated: bool = False
    console_access: bool = False
    upstream: bool = False
    depot: str | None = None
    neighbours: bool = False
    lan_rate_bps: float | None = None

    @property
    def cap_bps(self) -> float | None:
        """Return the rate that copies to this site may take together, in bit/s on the link; None if unknown."""
        return None if self.link_rate_bps is None else self.link_rate_bps * self.cap_share

    @property
    def transport_policy(self) -> TransportPolicy:
        """Return by which transports it may fetch."""
        return TransportPolicy(stated=self.transports, clear_text=self.clear_text)


_VIEWED = tuple(one.name for one in fields(HostView) if one.name in READERS)
"""Keys that a view has as attributes of the same name."""


def set_fault(host: Host, error: ConfigInvalid) -> None:
    """Have a host refused with this error once it is selected; the first one stays."""
    host.data.setdefault(FAULT, error)


def check_fault(host: InventoryHost) -> None:
    """Check that nothing is wrong with a host by its inventory plugin.

    Raises:
        ConfigInvalid: It is what `set_fault` was given.
    """
    fault = host.data.get(FAULT)
    if isinstance(fault, ConfigInvalid):
        raise ConfigInvalid(fault.message, host=host.name, hint=fault.hint)


def view(host: InventoryHost) -> HostView:
    """Return the checked view on a Nornir host.

    Raises:
        ConfigInvalid: The host has no address, an unsupported platform, or a key with a value of the wrong kind.
    """
    check_fault(host)
    data = host.extended_data()
    if not host.hostname:
        raise ConfigInvalid("no 'hostname' in the inventory", host=host.name, hint="Give its address or DNS name")
    platform = platform_of(host.platform)
    if platform is None:
        wrong, way_out = wrong_platform(host.platform)
        raise ConfigInvalid(wrong, host=host.name, hint=way_out)
    found = {key: read_key(host, key, READERS[key], data) for key in _VIEWED}
    cap_share = found.pop("cap_share")
    one = HostView(
        name=host.name,
        address=host.hostname,
        port=host.port or SSH_PORT,
        platform=platform,
        groups=tuple(group.name for group in host.extended_groups()),
        cap_share=cap_share or DEFAULT_CAP_SHARE,
        is_cap_share_stated=cap_share is not None,
        **found,
    )
    _check_transports(host, one.transport_policy)
    return one


def _check_transports(host: InventoryHost, policy: TransportPolicy) -> None:
    """Check that the keys leave a transport by which a host may fetch.

    Raises:
        ConfigInvalid: They leave none.
    """
    if policy.names:
        return
    encrypted = ", ".join(name for name in ORDER if name not in CLEAR_TEXT)
    raise ConfigInvalid(
        f"data key 'transports'{_origin(host, 'transports')}: expected one of {encrypted} among them, since "
        f"'clear_text'{_origin(host, 'clear_text')} is false, found {', '.join(policy.stated)} alone",
        host=host.name,
        hint="Add a transport that encrypts, or allow clear text",
    )


def read_key(host: InventoryHost, key: str, read: Callable[[object], T], data: Mapping[str, object] | None = None) -> T:
    """Return a key of a host's data, its own or inherited, through one of the readers of `inventory.values`.

    Args:
        host: The host.
        key: The key.
        read: Its reader.
        data: The host's merged data, where the caller has it already.

    Raises:
        ConfigInvalid: The value is wrong; the sentence names the host, the key, and the group that the value came from.
    """
    try:
        return read((host.extended_data() if data is None else data).get(key))
    except ConfigInvalid as error:
        where = _origin(host, key)
        raise ConfigInvalid(f"data key '{key}'{where}: {error.message}", host=host.name, hint=error.hint) from None


def _origin(host: InventoryHost, key: str) -> str:
    """Return where a key of a host's data stands, as words for behind its name; nothing where it is the host's own."""
    if key in host.data:
        return ""
    return next(
        (f" of group '{group.name}'" for group in host.extended_groups() if key in group.data), " of the defaults"
    )
