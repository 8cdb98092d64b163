"""Pacing caps of transfers and sites, and what the transfers of a site move together. No sockets, no clock.

A transfer has the least of the caps that hold for it; the transfers of a site divide the site's cap. What a site's
transfers have moved together gives each the others' share of the link meanwhile.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.tcp.pacing_figures import LEAST_BYTES_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A pacing cap in payload bytes per second, in words where it comes from, and what it is a share of."""

    bytes_per_s: int
    source: str
    shared_bytes_per_s: int | None = None


def least_cap(*caps: Cap | None) -> Cap | None:
    """Return the least of the caps that are given; None if none is."""
    return min((cap for cap in caps if cap is not None), key=lambda cap: cap.bytes_per_s, default=None)


def given_cap(bytes_per_s: int | None, source: str) -> Cap | None:
    """Return a cap if a rate is given."""
    return None if bytes_per_s is None else Cap(bytes_per_s=bytes_per_s, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLoad:
    """What one process does at a site, or all but one: transfers under way, and what they have moved so far."""

    site: str
    transfers: int
    moved_bytes: int


def elsewhere(loads: "Mapping[str, SiteLoad]", site: str, process: str) -> SiteLoad:
    """Return what all processes but one do at a site.

    From that, each process finds the share of a transfer for itself: the cap over all transfers there are. So the
    shares of all of them make the cap, and one that begins takes no more than its part before the others know of it.

    Args:
        loads: What each process does there, by its name.
        site: The site.
        process: The process that it is for.
    """
    others = [load for name, load in loads.items() if name != process]
    return SiteLoad(
        site=site,
        transfers=sum(load.transfers for load in others),
        moved_bytes=sum(load.moved_bytes for load in others),
    )


class SiteCaps:
    """What all transfers of a site may take together."""

    def __init__(self) -> None:
        self._caps: dict[str, Cap] = {}
        self._elsewhere: dict[str, int] = {}

    def __contains__(self, site: str) -> bool:
        return site in self._caps

    def put(self, site: str, cap: Cap | None) -> None:
        """Set a site's cap; None lifts it."""
        if cap is None:
            self._caps.pop(site, None)
        else:
            self._caps[site] = cap

    def put_elsewhere(self, site: str, transfers: int) -> None:
        """Note how many transfers of a site other processes have under way: they have their shares, too."""
        self._elsewhere.pop(site, None)
        if transfers > 0:
            self._elsewhere[site] = transfers

    def whole(self, site: str) -> Cap | None:
        """Return a site's cap, undivided; None where it has none."""
        return self._caps.get(site)

    def share(self, site: str, transfers: int) -> Cap | None:
        """Return what each of so many transfers gets, beside those elsewhere; None where the site has no cap."""
        cap = self._caps.get(site)
        transfers = max(1, transfers) + self._elsewhere.get(site, 0)
        if cap is None or transfers <= 1:
            return cap
        part = max(LEAST_BYTES_PER_S, cap.bytes_per_s // transfers)
        source = f"1 of {transfers} shares of: {cap.source}"
        return Cap(bytes_per_s=part, source=source, shared_bytes_per_s=cap.bytes_per_s)


class _Site:
    """One site's transfers: how many run, and what was moved since the first of them began, in other processes, too."""

    def __init__(self) -> None:
        self.members = 0
        self.moved_bytes = 0
        self.elsewhere_bytes = 0


class SiteMember:
    """One transfer among those of its site.

    Args:
        traffic: Of all sites.
        name: Its site; empty where it shares its link with no other known.
    """

    def __init__(self, traffic: "SiteTraffic", name: str) -> None:
        self._traffic, self._name = traffic, name
        self._site = traffic.enter(name)
        self._before_bytes = self._site.moved_bytes
        self._own_bytes = 0

    def note(self, acked_bytes: int) -> None:
        """Take in how much of this transfer has been acknowledged so far."""
        self._site.moved_bytes += acked_bytes - self._own_bytes
        self._own_bytes = acked_bytes

    @property
    def beside_bytes(self) -> int:
        """What the site's other transfers have moved since this one began."""
        return max(0, self._site.moved_bytes - self._before_bytes - self._own_bytes)

    def leave(self) -> None:
        """End; what others had until now can still be asked."""
        self._traffic.leave(self._name)


class SiteTraffic:
    """The sites with transfers under way."""

    def __init__(self) -> None:
        self._sites: dict[str, _Site] = {}
        self._elsewhere_bytes: dict[str, int] = {}

    def moved_bytes(self, name: str) -> int:
        """Return what a site's transfers have moved here since the first of those under way began."""
        site = self._sites.get(name)
        return site.moved_bytes - site.elsewhere_bytes if site is not None else 0

    def put_elsewhere(self, name: str, moved_bytes: int) -> None:
        """Note what a site's transfers in other processes have moved so far: for those here it went beside them."""
        before = self._elsewhere_bytes.pop(name, 0)
        if moved_bytes > 0:
            self._elsewhere_bytes[name] = moved_bytes
        site = self._sites.get(name)
        if site is not None and moved_bytes > before:
            site.moved_bytes += moved_bytes - before
            site.elsewhere_bytes += moved_bytes - before

    def enter(self, name: str) -> _Site:
        """Count one more transfer of a site; one of no site is by itself."""
        site = self._sites.setdefault(name, _Site()) if name else _Site()
        site.members += 1
        return site

    def leave(self, name: str) -> None:
        """Count one less; a site without any is forgotten."""
        site = self._sites.get(name)
        if site is not None:
            site.members -= 1
            if not site.members:
                del self._sites[name]
