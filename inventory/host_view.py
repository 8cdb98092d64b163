"""Typed view of one inventory host: address, site, link and the other keys that flashferry reads.

These keys (`inventory.keys`) are checked here, with errors that name the host, the key, and the group that the value is
inherited from; all other keys in `data` belong to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import field_names
from inventory.keys import READERS
from inventory.platforms import platform_of, wrong_platform
from inventory.time_window import TimeWindow
from inventory.transport_policy import CLEAR_TEXT, ORDER, TransportPolicy
from inventory.value_readers import INTERFACE, WORD

if TYPE_CHECKING:
    from nornir.core.inventory import Host

__all__ = [
    "DEFAULT_CAP_SHARE",
    "INTERFACE",
    "OWN_KEYS",
    "SSH_PORT",
    "WORD",
    "HostView",
    "check_fault",
    "read_key",
    "set_fault",
    "view",
]

SSH_PORT = 22
DEFAULT_CAP_SHARE = 0.8
"""Share of a site's link that copies may take unless the inventory gives another."""

_FAULT = "flashferry_fault"
_VIEW = "flashferry_view"
OWN_KEYS = frozenset({_FAULT, _VIEW})
"""Keys of a host's data with internal objects: the error found while its inventory was read, and its cached view."""

T = TypeVar("T")


class HostView(Struct, frozen=True, kw_only=True):
    """One device of the inventory. A rate of None is unknown.

    Attributes:
        name: Inventory name.
        address: Name or address to log in to.
        port: SSH port.
        platform: NAPALM platform, `ios`, also if the inventory uses another name for IOS or IOS-XE.
        site: Name of the site whose link the device shares, or None.
        link_rate_bps: Rate of the site's WAN link in bit/s.
        cap_share: Share of that rate that all copies together may use, in (0, 1].
        is_cap_share_stated: Whether the inventory sets that share, so that it also applies to a learned rate.
        server_address: Our address as the device reaches it; None takes the local address of the SSH connection.
        vrf: VRF through which the device reaches us, or None.
        source_interface: Source interface of the device's client during the copy; None leaves it unchanged. In IOS it
            is a configuration line, so it is set for the copy and restored like the tuned lines.
        windows: Maintenance windows of its site; empty means at any time.
        max_copies: Most concurrent copies over the site's link; None takes the run's limit.
        transports: Transports by which it may fetch, the preferred one first; empty allows all, in the default order.
        clear_text: Whether its login and image may be sent in clear text; None allows it.
        image: The image of this device, a file name or a path as written; it has precedence over all rules.
        groups: Names of its groups and their groups, the nearest first.
        console_access: Whether its console is accessible if it does not return from a restart.
        upstream: Whether other devices are reached through it, so that it is restarted after them.
        depot: Host name or URL of the site's depot, from which its devices fetch over the LAN; or None.
        neighbours: Whether the devices of its site serve each other.
        lan_rate_bps: Rate of the LAN between its depot, or its neighbours, and the devices in bit/s.
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
        """Return the rate that all copies to this site together may use, in bit/s on the link; None if unknown."""
        return None if self.link_rate_bps is None else self.link_rate_bps * self.cap_share

    @property
    def transport_policy(self) -> TransportPolicy:
        """Return the transports that it may use."""
        return TransportPolicy(stated=self.transports, clear_text=self.clear_text)


_VIEWED = tuple(name for name in field_names(HostView) if name in READERS)
"""Keys that are attributes of a view under the same name."""


class _KeptView(Struct, frozen=True, kw_only=True):
    """A cached view, and the host's values from which it was made."""

    view: HostView
    made_from: tuple[object, ...]


def _own_values(host: Host) -> tuple[object, ...]:
    data = {key: value for key, value in host.data.items() if key != _VIEW}
    return host.hostname, host.port, host.platform, tuple(map(id, host.groups)), data


def set_fault(host: Host, error: ConfigInvalid) -> None:
    """Store an error with a host, to be raised when the host is selected; an earlier error is kept."""
    host.data.setdefault(_FAULT, error)


def check_fault(host: Host) -> None:
    """Raise the `ConfigInvalid` that `set_fault` stored with a host, if any."""
    fault = host.data.get(_FAULT)
    if isinstance(fault, ConfigInvalid):
        raise ConfigInvalid(fault.message, host=host.name, hint=fault.hint)


def view(host: Host) -> HostView:
    """Return the checked view of a Nornir host.

    The view is cached with the host, and made again after the host's own values changed. Later changes of groups and
    defaults are not noticed: they are complete before the first view is made.

    Raises:
        ConfigInvalid: The host has no address, an unsupported platform, or a key with a value of the wrong kind.
    """
    kept = host.data.get(_VIEW)
    own = _own_values(host)
    if not isinstance(kept, _KeptView) or kept.made_from != own:
        kept = host.data[_VIEW] = _KeptView(view=_made(host), made_from=own)
    return kept.view


def _made(host: Host) -> HostView:
    check_fault(host)
    data = host.extended_data()
    if not host.hostname:
        raise ConfigInvalid("no 'hostname' in the inventory", host=host.name, hint="Give its address or DNS name")
    platform = platform_of(host.platform)
    if platform is None:
        wrong, remedy = wrong_platform(host.platform)
        raise ConfigInvalid(wrong, host=host.name, hint=remedy)
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


def _check_transports(host: Host, policy: TransportPolicy) -> None:
    """Raise `ConfigInvalid` if a host's keys allow no transport."""
    if policy.names:
        return
    encrypted = ", ".join(name for name in ORDER if name not in CLEAR_TEXT)
    raise ConfigInvalid(
        f"data key 'transports'{_origin(host, 'transports')}: expected one of {encrypted} among them, since "
        f"'clear_text'{_origin(host, 'clear_text')} is false, found {', '.join(policy.stated)} alone",
        host=host.name,
        hint="Add a transport that encrypts, or allow clear text",
    )


def read_key(host: Host, key: str, read: Callable[[object], T], data: Mapping[str, object] | None = None) -> T:
    """Return the value of a host's data key, its own or inherited.

    Args:
        host: The host.
        key: The key.
        read: Its reader, see `inventory.value_readers`.
        data: The host's merged data, if the caller has it already.

    Raises:
        ConfigInvalid: The value is wrong; the message names the host, the key, and the group it is inherited from.
    """
    try:
        return read((host.extended_data() if data is None else data).get(key))
    except ConfigInvalid as error:
        where = _origin(host, key)
        raise ConfigInvalid(f"data key '{key}'{where}: {error.message}", host=host.name, hint=error.hint) from None


def _origin(host: Host, key: str) -> str:
    """Return in words from which group a host inherits a key; empty if the key is its own."""
    if key in host.data:
        return ""
    return next(
        (f" of group '{group.name}'" for group in host.extended_groups() if key in group.data), " of the defaults"
    )
