"""Rates of the links to devices: stated in the inventory, or learned from earlier transfers of the site.

Learned rates serve forecasts. They only limit a copy if the inventory states a `cap_share`, because a link may change;
otherwise copies find their own pace (`flashferry.tcp.pacing`), which all copies of a site share and which is fair to
other flows. That needs BBR and a pacing kernel. Without them a copy would use CUBIC, which fills the link's queue until
packets are lost and delays all other traffic, so `plan` and `stage` refuse that unless the operator insists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from flashferry.fileserver import HostCapabilities, SiteRates, TransferRecord, network_of, probe_capabilities
from flashferry.tcp.pacing import HOLD_SHARE
from flashferry.tcp.ssh_channel_window import link_payload_bytes_per_s
from inventory.host_view import HostView
from inventory.sites import rate_missing

FILE = "link-rates.json"
STATED = "stated in the inventory"


def payload_cap_bytes_per_s(cap_bps: float | None) -> int | None:
    """Convert a cap on the link (bit/s, IP headers included) to a payload rate for the kernel; None stays None."""
    return None if cap_bps is None else int(link_payload_bytes_per_s(cap_bps))


class LinkRate(Struct, frozen=True, kw_only=True):
    """Rate of a link.

    Attributes:
        rate_bps: Bit/s on the link, > 0.
        source: `stated in the inventory`, or the age, client and verdict of the transfer it was learned from.
    """

    rate_bps: float
    source: str


class LinkCap(Struct, frozen=True, kw_only=True):
    """Payload rate of all copies over a link together, and where it is from."""

    bytes_per_s: int
    source: str


class LinkRates:
    """The links of a run. A stated rate takes precedence; a learned one expires.

    Args:
        folder: State directory with learned rates; None keeps them in memory.
        wall: Wall clock, seconds since 1970.
    """

    def __init__(self, folder: Path | None = None, wall: Callable[[], float] = time.time) -> None:
        self._rates = SiteRates(folder / FILE if folder is not None else None)
        self._wall = wall

    def of(self, device: HostView, peer_address: str) -> LinkRate | None:
        """Return the rate of a device's link; None if unknown.

        Args:
            device: The device.
            peer_address: Its address in the SSH session, whose network replaces a missing site name.
        """
        if device.link_rate_bps is not None:
            return LinkRate(rate_bps=device.link_rate_bps, source=STATED)
        return self._learned(_key(device, peer_address))

    def note(self, device: HostView, record: TransferRecord) -> None:
        """Learn from a transfer."""
        self._rates.note(_key(device, record.peer_address), record)

    def cap(self, device: HostView, peer_address: str) -> LinkCap | None:
        """Return the cap of a device that shares its link with no other; None for no cap."""
        found = self.of(device, peer_address)
        if found is None or (found.source != STATED and not device.is_cap_share_stated):
            return None
        return _capped(found, device.cap_share)

    def learned_site_caps(self, devices: Iterable[HostView]) -> dict[str, LinkCap]:
        """Return the caps of sites with a stated share and a learned rate."""
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
    """Return the share of a link for copies: the inventory's, or for a learned rate what pacing leaves.

    Args:
        device: A device on the link.
        rate: The known rate, or None.
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
"""Option that allows copies without cap and pacing."""

_SHOWN = 3


def pace_notice(
    devices: Iterable[HostView],
    links: LinkRates,
    *,
    uncapped: bool,
    probe: Callable[[], HostCapabilities] | None = None,
) -> str:
    """Return a sentence about links without a cap; empty if each has one.

    Args:
        devices: The devices that may copy.
        links: The known rates.
        uncapped: Whether the operator insists.
        probe: Returns the kernel's capabilities; only called if a link has no cap.

    Raises:
        ConfigInvalid: A link has no cap, this host cannot pace, and the operator does not insist.
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
    """Return what this host lacks for pacing; empty for nothing."""
    if not capabilities.paces:
        return "this host's kernel does not pace"
    return "" if capabilities.allows("bbr") else "this host's kernel grants us no BBR"


def _name(device: HostView) -> str:
    return f"site '{device.site}'" if device.site is not None else f"device {device.name}"
