"""What the links to devices carry: stated in the inventory, or learned from earlier transfers of the same site.

A rate that is learned serves plans and windows. It holds no copy back unless the inventory states a `cap_share`: where
no rate is stated, copies find the link's rate anew for themselves (`flashferry.tcp.pacing`), and it may have changed.

An unknown rate is no reason to refuse. A copy without one finds the pace of its link by itself, all copies of a site
share it, and it stays fair to other flows. That takes BBR and a kernel that paces. Where this host has neither, a copy
would use CUBIC: it fills the queue of its link until it loses packets, and delays everything else there. So `plan` and
`stage` refuse that, unless the operator insists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from flashferry.fileserver import HostCapabilities, SiteRates, TransferRecord, network_of, probe_capabilities
from flashferry.tcp.pacing_constants import HOLD_SHARE
from flashferry.tcp.ssh_channel_window import link_payload_bytes_per_s
from inventory.host_view import HostView
from inventory.sites import rate_missing

FILE = "link-rates.json"
STATED = "stated in the inventory"


def payload_cap_bytes_per_s(cap_bps: float | None) -> int | None:
    """Return a cap on the link as a rate of payload, which is what the kernel paces by; None stays None.

    Args:
        cap_bps: Bits per second on the link, IP headers included.
    """
    return None if cap_bps is None else int(link_payload_bytes_per_s(cap_bps))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """A link's rate and where the figure comes from.

    Attributes:
        rate_bps: Bits per second on the link, > 0.
        source: `stated in the inventory`, or how old it is, from which client and with which verdict it was learned.
    """

    rate_bps: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCap:
    """What the copies over a link may take together: payload bytes per second, and where the figure comes from."""

    bytes_per_s: int
    source: str


class LinkRates:
    """The links of a run. A rate that the inventory states always wins; one that is learned ends with its age.

    Args:
        folder: State directory in which learned rates are kept between runs, or None: in memory only.
        wall: Wall-clock time, seconds since 1970.
    """

    def __init__(self, folder: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self._rates = SiteRates(folder / FILE if folder is not None else None)
        self._wall = wall

    def of(self, device: HostView, peer_address: str) -> LinkRate | None:
        """Return the rate of a device's link, or None where it is unknown.

        Args:
            device: The device.
            peer_address: Its address as the SSH session shows it; its network stands for a site where none is named.
        """
        if device.link_rate_bps is not None:
            return LinkRate(rate_bps=device.link_rate_bps, source=STATED)
        return self._learned(_key(device, peer_address))

    def note(self, device: HostView, record: TransferRecord) -> None:
        """Store what a transfer shows about the link of its device."""
        self._rates.note(_key(device, record.peer_address), record)

    def cap(self, device: HostView, peer_address: str) -> LinkCap | None:
        """Return the cap of a device that shares its link with no other; None: no cap."""
        found = self.of(device, peer_address)
        if found is None or (found.source != STATED and not device.is_cap_share_stated):
            return None
        return _capped(found, device.cap_share)

    def learned_site_caps(self, devices: Iterable[HostView]) -> dict[str, LinkCap]:
        """Return what the copies to a site may take together, where a share is stated and the rate is learned."""
        found: dict[str, LinkCap] = {}
        everyone = tuple(devices)
        stated = {device.site for device in everyone if device.link_rate_bps is not None}
        for device in everyone:
            if device.site is None or device.site in stated or not device.is_cap_share_stated:
                continue
            if (learned := self._learned(device.site)) is not None:
                cap = _capped(learned, device.cap_share)
                found[device.site] = min(cap, found.get(device.site, cap), key=lambda one: one.bytes_per_s)
        return found

    def _learned(self, site: str) -> LinkRate | None:
        now_s = self._wall()
        learned = self._rates.learned(site, now_s)
        return None if learned is None else LinkRate(rate_bps=learned.rate_bps, source=learned.describe(now_s))


def copy_share(device: HostView, rate: LinkRate | None) -> float:
    """Return the part of a link that copies take: the inventory's, or of a learned rate what a found pace leaves them.

    Args:
        device: A device behind the link.
        rate: What is known of it.
    """
    is_found = rate is not None and rate.source != STATED and not device.is_cap_share_stated
    return HOLD_SHARE if is_found else device.cap_share


def _capped(rate: LinkRate, share: float) -> LinkCap:
    bytes_per_s = payload_cap_bytes_per_s(rate.rate_bps * share)
    assert bytes_per_s is not None
    return LinkCap(bytes_per_s=bytes_per_s, source=f"{share:.0%} of {rate.source}")


def _key(device: HostView, peer_address: str) -> str:
    return device.site or network_of(peer_address)


INSIST = "--uncapped"
"""The option that lets copies run with neither cap nor pace."""

_SHOWN = 3


def pace_notice(
    devices: Iterable[HostView],
    links: LinkRates,
    *,
    uncapped: bool,
    probe: Callable[[], HostCapabilities] | None = None,
) -> str:
    """Return a sentence about links without a cap; empty where every link has one.

    Args:
        devices: The devices that may copy.
        links: What the links carry.
        uncapped: Whether the operator insists.
        probe: Returns what the kernel allows this process; called only where a link has no cap.

    Raises:
        ConfigInvalid: A link has no cap, this host allows no pace either, and the operator does not insist.
    """
    everyone = tuple(devices)
    capped = links.learned_site_caps(everyone)
    names = dict.fromkeys(_name(one) for one in everyone if one.link_rate_bps is None and one.site not in capped)
    if not names:
        return ""
    names_shown = ", ".join([*names][:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    lacking = _lacking((probe or probe_capabilities)())
    if not lacking:
        return (
            f"no link rate is stated for {names_shown}: copies find their pace themselves; "
            "'link_rate_bps' in the inventory sets a cap"
        )
    if not uncapped:
        raise rate_missing(names_shown, lacking, INSIST)
    return f"no link rate is stated for {names_shown}, and {lacking}: copies have neither a cap nor a pace ({INSIST})"


def _lacking(capabilities: HostCapabilities) -> str:
    """Return why no pace can be found on this host, or nothing where it can."""
    if not capabilities.paces:
        return "this host's kernel does not pace"
    return "" if capabilities.allows("bbr") else "this host's kernel grants us no BBR"


def _name(device: HostView) -> str:
    return f"site '{device.site}'" if device.site is not None else f"device {device.name}"
