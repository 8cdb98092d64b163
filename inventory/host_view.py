"""The typed view of one inventory host: address, site, link and what the keys of `data` say.

The keys that flashferry reads (`inventory.keys`) are checked here, with errors that name the host, the key and the
group that the value came from; everything else in `data` belongs to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

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
"""Keys of a host's data that hold objects of ours: its plugin's error, and the view that was made of it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One device as flashferry sees it. A rate of None is unknown; no windows mean at any time.

    Attributes:
        name: Inventory name.
        address: Name or address to log in to.
        port: SSH port.
        platform: NAPALM platform, `ios`, whatever the inventory calls IOS or IOS-XE.
        site: Name of the site whose link the device shares, or None.
        link_rate_bps: Rate of the site's WAN link in bit/s.
        cap_share: Share of that rate that copies may take, in (0, 1].
        is_cap_share_stated: Whether the inventory gives that share, so that it holds for a learned rate, too.
        server_address: Our address as the device reaches it, or None: the local end of the SSH connection.
        vrf: VRF through which the device reaches us, or None.
        source_interface: Interface of the device's client during the copy, or None: as the device has it. IOS knows it
            only as a configuration line, so it is set for the copy and restored like the tuned lines.
        windows: When its site may be worked on.
        max_copies: How many copies may run over the site's link at once, or None: as the run has it.
        transports: Transports by which it may fetch, the preferred one first; empty: all, in the usual order.
        clear_text: Whether its login and image may cross in clear text; None counts as yes.
        image: The image of this device, a file name or a path as written; it goes before all rules.
        groups: Names of its groups and their groups, the nearest first.
        console_access: Whether its console can be reached if it does not return from a restart.
        upstream: Whether other devices are reached through it, so that it is restarted after them.
        depot: Host name or URL of the site's depot, from which its devices pull over the LAN; or None.
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
        """Return the rate that copies to this site may take together, in bit/s on the link; None if unknown."""
        return None if self.link_rate_bps is None else self.link_rate_bps * self.cap_share

    @property
    def transport_policy(self) -> TransportPolicy:
        """Return by which transports it may fetch."""
        return TransportPolicy(stated=self.transports, clear_text=self.clear_text)


_VIEWED = tuple(one.name for one in fields(HostView) if one.name in READERS)
"""Keys that a view has as attributes of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptView:
    """A view, and what the host was when it was made."""

    view: HostView
    made_from: tuple[object, ...]


def _own_values(host: Host) -> tuple[object, ...]:
    data = {key: value for key, value in host.data.items() if key != _VIEW}
    return host.hostname, host.port, host.platform, tuple(map(id, host.groups)), data


def set_fault(host: Host, error: ConfigInvalid) -> None:
    """Have a host refused with this error once it is selected; the first error stays."""
    host.data.setdefault(_FAULT, error)


def check_fault(host: Host) -> None:
    """Raise the `ConfigInvalid` that `set_fault` left on a host, if any."""
    fault = host.data.get(_FAULT)
    if isinstance(fault, ConfigInvalid):
        raise ConfigInvalid(fault.message, host=host.name, hint=fault.hint)


def view(host: Host) -> HostView:
    """Return the checked view of a Nornir host.

    It is made once and kept with the host, and made anew when the host's own values were changed. Groups and defaults
    are not watched: they are complete before the first view is made.

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
    """Raise `ConfigInvalid` where the keys leave no transport by which a host may fetch."""
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
    """Return a key of a host's data, its own or inherited, read by one of the readers of `inventory.values`.

    Args:
        host: The host.
        key: The key.
        read: Its reader.
        data: The host's merged data, where the caller has it already.

    Raises:
        ConfigInvalid: The value is wrong; the sentence names the host, the key and the group that the value came from.
    """
    try:
        return read((host.extended_data() if data is None else data).get(key))
    except ConfigInvalid as error:
        where = _origin(host, key)
        raise ConfigInvalid(f"data key '{key}'{where}: {error.message}", host=host.name, hint=error.hint) from None


def _origin(host: Host, key: str) -> str:
    """Return words that name where a host inherits a key from; empty where the key is its own."""
    if key in host.data:
        return ""
    return next(
        (f" of group '{group.name}'" for group in host.extended_groups() if key in group.data), " of the defaults"
    )
