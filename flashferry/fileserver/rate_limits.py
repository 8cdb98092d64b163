"""Caps and paces of sites, divided among their transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.tcp.pacing import LEAST_BYTES_PER_S, LinkPacer, Pace, Phase
from flashferry.tcp.path_estimator import BaseRtt, PathReading
from flashferry.tcp.verdict_rules import WINDOW_FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashferry.tcp.tcp_info import TcpInfo


class Cap(Struct, frozen=True, kw_only=True):
    """A pacing cap in payload bytes per second, its source in words, and the cap of which it is a share, or None."""

    bytes_per_s: int
    source: str
    shared_bytes_per_s: int | None = None


def least_cap(*caps: Cap | None) -> Cap | None:
    """Return the least of the caps that are given; None if none is."""
    return min((cap for cap in caps if cap is not None), key=lambda cap: cap.bytes_per_s, default=None)


def given_cap(bytes_per_s: int | None, source: str) -> Cap | None:
    """Return a cap if a rate is given."""
    return None if bytes_per_s is None else Cap(bytes_per_s=bytes_per_s, source=source)


class SiteLoad(Struct, frozen=True, kw_only=True):
    """Load of one process, or of several, at a site: number of running transfers, and bytes that they have moved."""

    site: str
    transfers: int
    moved_bytes: int


def elsewhere(loads: Mapping[str, SiteLoad], site: str, process: str) -> SiteLoad:
    """Return the load of all processes but one at a site.

    From that, each process computes the share of a transfer: the cap divided by the number of all transfers. So the
    shares add up to the cap, and a new transfer takes no more than its share before the others know of it.

    Args:
        loads: Load of each process there, by its name.
        site: The site.
        process: The process that is left out.
    """
    others = [load for name, load in loads.items() if name != process]
    return SiteLoad(
        site=site,
        transfers=sum(load.transfers for load in others),
        moved_bytes=sum(load.moved_bytes for load in others),
    )


class SiteCaps:
    """Caps of sites, each for all transfers of the site together."""

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
        """Set the number of running transfers of a site in other processes, which share its cap."""
        self._elsewhere.pop(site, None)
        if transfers > 0:
            self._elsewhere[site] = transfers

    def whole(self, site: str) -> Cap | None:
        """Return a site's cap, undivided; None where it has none."""
        return self._caps.get(site)

    def share(self, site: str, transfers: int) -> Cap | None:
        """Return the share of each of `transfers` transfers here, besides those elsewhere; None if there is no cap."""
        cap = self._caps.get(site)
        transfers = max(1, transfers) + self._elsewhere.get(site, 0)
        if cap is None or transfers <= 1:
            return cap
        part = max(LEAST_BYTES_PER_S, cap.bytes_per_s // transfers)
        source = f"1 of {transfers} shares of: {cap.source}"
        return Cap(bytes_per_s=part, source=source, shared_bytes_per_s=cap.bytes_per_s)


class _Site:
    """A site's running transfers: their number, and the bytes moved since the first started, elsewhere included."""

    def __init__(self) -> None:
        self.members = 0
        self.moved_bytes = 0
        self.elsewhere_bytes = 0


class SiteMember:
    """One transfer among those of its site.

    Args:
        traffic: Traffic of all sites.
        name: Its site; empty if it shares its link with no known transfer.
    """

    def __init__(self, traffic: SiteTraffic, name: str) -> None:
        self._traffic, self._name = traffic, name
        self._site = traffic.enter(name)
        self._before_bytes = self._site.moved_bytes
        self._own_bytes = 0

    def note(self, acked_bytes: int) -> None:
        """Set the acknowledged bytes of this transfer so far."""
        self._site.moved_bytes += acked_bytes - self._own_bytes
        self._own_bytes = acked_bytes

    @property
    def beside_bytes(self) -> int:
        """Bytes that the site's other transfers have moved since this one started."""
        return max(0, self._site.moved_bytes - self._before_bytes - self._own_bytes)

    def leave(self) -> None:
        """Remove the transfer from its site; `beside_bytes` stays readable."""
        self._traffic.leave(self._name)


class SiteTraffic:
    """Traffic of the sites with running transfers."""

    def __init__(self) -> None:
        self._sites: dict[str, _Site] = {}
        self._elsewhere_bytes: dict[str, int] = {}

    def moved_bytes(self, name: str) -> int:
        """Return the bytes that a site's transfers in this process have moved since the first running one started."""
        site = self._sites.get(name)
        return site.moved_bytes - site.elsewhere_bytes if site is not None else 0

    def put_elsewhere(self, name: str, moved_bytes: int) -> None:
        """Set the bytes that a site's transfers in other processes have moved so far."""
        before = self._elsewhere_bytes.pop(name, 0)
        if moved_bytes > 0:
            self._elsewhere_bytes[name] = moved_bytes
        site = self._sites.get(name)
        if site is not None and moved_bytes > before:
            site.moved_bytes += moved_bytes - before
            site.elsewhere_bytes += moved_bytes - before

    def enter(self, name: str) -> _Site:
        """Add a transfer to a site; one without a site is counted by itself."""
        site = self._sites.setdefault(name, _Site()) if name else _Site()
        site.members += 1
        return site

    def leave(self, name: str) -> None:
        """Remove a transfer from a site; a site without transfers is dropped."""
        site = self._sites.get(name)
        if site is not None:
            site.members -= 1
            if not site.members:
                del self._sites[name]


_RWND_LIMITED = 0.3
"""Part of the time between two readings. Under BBR the kernel shows about 0.47 for a flow limited by the window alone,
and 0 for one limited by its pace."""

_MARGIN_FOR_HELD_BACK = 1.25

_STALE_S = 2.0

_REMEMBERED_S = 3600.0

_MOST_REMEMBERED = 1000


class PacedCopy:
    """One copy among those of a site; see `SitePace.join`.

    Args:
        site: The pace of its site.
        info: The first reading.
        now_s: Monotonic time.
        apply: Called with a pace of this copy and the phase of the search.

    Attributes:
        delivered_bytes: Payload that has arrived since it joined.
        rate_bytes_per_s: Delivery rate between the last two readings.
        is_held_back: Whether its receiver or its sender, and not its pace, limited it between them.
        rtt_s: Smoothed round-trip time; 0 while unknown.
        base_rtt_s: Least recent round-trip time.
        mss_bytes: Segment size.
        seen_s: Monotonic time of the last reading.
    """

    def __init__(self, site: SitePace, info: TcpInfo, now_s: float, apply: Callable[[int, Phase], None]) -> None:
        self.apply = apply
        self.is_held_back = False
        self.rate_bytes_per_s = 0.0
        self.rtt_s = self.base_rtt_s = 0.0
        self.mss_bytes = info.snd_mss_bytes
        self.seen_s = now_s
        self._site = site
        self.delivered_bytes = 0
        self._base = BaseRtt()
        self._first = self._last = info
        self._take_rtt(info, now_s, info.min_rtt_s)

    @property
    def site(self) -> SitePace:
        """The pace of its site."""
        return self._site

    def take(self, info: TcpInfo, now_s: float) -> float:
        """Add a reading; return the seconds until the next one."""
        span_s = now_s - self.seen_s
        self.mss_bytes = info.snd_mss_bytes or self.mss_bytes
        if span_s > 0:
            moved = _delivered(self._last, info)
            self.delivered_bytes += moved
            self.rate_bytes_per_s = moved / span_s
            self.is_held_back = _is_held_back(self._last, info, span_s)
        self._last, self.seen_s = info, now_s
        self._take_rtt(info, now_s)
        return self._site.decide(now_s)

    def leave(self) -> None:
        """Leave the site's search; the others get its share."""
        self._site.leave(self)
        # Break the reference cycle with the owner of `apply`, which only the garbage collector would free.
        self.apply = _nothing

    @property
    def sent_bytes(self) -> int:
        """Payload sent since it joined, repeats included."""
        return (self._last.bytes_sent or 0) - (self._first.bytes_sent or 0)

    @property
    def again_bytes(self) -> int:
        """Payload retransmitted since it joined."""
        return (self._last.bytes_retrans or 0) - (self._first.bytes_retrans or 0)

    def _take_rtt(self, info: TcpInfo, now_s: float, least_s: float | None = None) -> None:
        if info.rtt_s is not None:
            self.rtt_s = info.rtt_s
            self.base_rtt_s = self._base.take(now_s, min(info.rtt_s, least_s or info.rtt_s))


class SitePace:
    """Joint search for a pace by the copies of one site.

    Args:
        known_bytes_per_s: Rate found by earlier copies, to start closer to it; or None.
    """

    def __init__(self, known_bytes_per_s: float | None = None) -> None:
        self._pacer = LinkPacer(known_bytes_per_s)
        self._copies: list[PacedCopy] = []
        self._gone = [0, 0, 0]
        self._decided_s = float("-inf")
        self._pace: Pace | None = None

    @property
    def found_bytes_per_s(self) -> float | None:
        """Link rate found for all copies of the site together; None while unknown."""
        return self._pacer.found_bytes_per_s

    @property
    def found_at_s(self) -> float | None:
        """Monotonic time at which it was found."""
        return self._pacer.found_at_s

    @property
    def copies(self) -> int:
        """How many copies share it now."""
        return len(self._copies)

    def join(self, info: TcpInfo, now_s: float, apply: Callable[[int, Phase], None]) -> PacedCopy:
        """Add a copy, which gets its share at once.

        Args:
            info: The first reading of its connection.
            now_s: Monotonic time.
            apply: Takes a pace of this copy, and what the pace is doing.
        """
        copy = PacedCopy(self, info, now_s, apply)
        self._copies.append(copy)
        if self._pace is None:
            self.decide(now_s)
        else:
            self._divide(self._pace)
        return copy

    def leave(self, copy: PacedCopy) -> None:
        """Remove a copy; the others get its share."""
        if copy not in self._copies:
            return
        self._copies.remove(copy)
        for place, moved in enumerate((copy.delivered_bytes, copy.sent_bytes, copy.again_bytes)):
            self._gone[place] += moved
        if self._pace is not None and self._copies:
            self._divide(self._pace)

    def decide(self, now_s: float) -> float:
        """Update the pace unless that has just been done; return the seconds until the next reading."""
        least_s = self._pace.next_check_s / 2 if self._pace is not None else 0.0
        if now_s - self._decided_s >= least_s:
            reading = self._reading(now_s)
            if reading is not None:
                self._decided_s = now_s
                self._pace = self._pacer.take(reading)
                self._divide(self._pace)
        return self._pace.next_check_s if self._pace is not None else 1.0

    def _reading(self, now_s: float) -> PathReading | None:
        """Return the sum of the copies' readings; None before any has a round-trip time."""
        seen = [copy for copy in self._copies if copy.rtt_s > 0 and now_s - copy.seen_s <= _STALE_S]
        if not seen:
            return None
        # A queue before the shared link delays all copies; a delay of only some is elsewhere.
        queue_s = min(copy.rtt_s - copy.base_rtt_s for copy in seen)
        base_s = max(copy.base_rtt_s for copy in seen)
        return PathReading(
            at_s=now_s,
            rtt_s=base_s + queue_s,
            base_rtt_s=base_s,
            delivered_bytes=self._gone[0] + sum(copy.delivered_bytes for copy in self._copies),
            sent_bytes=self._gone[1] + sum(copy.sent_bytes for copy in self._copies),
            again_bytes=self._gone[2] + sum(copy.again_bytes for copy in self._copies),
            mss_bytes=max(copy.mss_bytes for copy in seen),
            held_back=all(copy.is_held_back for copy in seen),
        )

    def _divide(self, pace: Pace) -> None:
        """Divide a pace among the copies; one limited by its receiver or sender gets little more than it uses."""
        left, waiting = pace.bytes_per_s, len(self._copies)
        for copy in sorted(self._copies, key=lambda one: one.rate_bytes_per_s if one.is_held_back else float("inf")):
            share = left / waiting
            if copy.is_held_back:
                share = min(share, max(_MARGIN_FOR_HELD_BACK * copy.rate_bytes_per_s, share / 4))
            left, waiting = left - int(share), waiting - 1
            copy.apply(int(share), pace.phase)


class SitePaces:
    """Searches of all sites, and for an hour the results of sites without a running copy."""

    def __init__(self) -> None:
        self._running: dict[str, SitePace] = {}
        self._found: dict[str, tuple[float, float]] = {}

    def of(self, key: str, now_s: float) -> SitePace:
        """Return the search of a site, or of another key for a shared link; a new one if no copy is running."""
        self._forget()
        if key not in self._running:
            rate, found_s = self._found.get(key, (None, now_s))
            self._running[key] = SitePace(rate if now_s - found_s <= _REMEMBERED_S else None)
        return self._running[key]

    def _forget(self) -> None:
        """Drop the searches of sites without a copy, and keep their results."""
        for key in [key for key, pace in self._running.items() if not pace.copies]:
            gone = self._running.pop(key)
            if gone.found_bytes_per_s is not None and gone.found_at_s is not None:
                self._found.pop(key, None)
                self._found[key] = (gone.found_bytes_per_s, gone.found_at_s)
        while len(self._found) > _MOST_REMEMBERED:
            del self._found[next(iter(self._found))]


def _nothing(_pace_bytes_per_s: int, _phase: Phase) -> None:
    """Ignore a pace for a copy that has left."""


def _delivered(before: TcpInfo, info: TcpInfo) -> int:
    """Return the payload that arrived between two readings; since Linux 4.18 including data after missing segments."""
    if info.delivered_segments is None or before.delivered_segments is None:
        return (info.bytes_acked or 0) - (before.bytes_acked or 0)
    return (info.delivered_segments - before.delivered_segments) * info.snd_mss_bytes


def _is_held_back(before: TcpInfo, info: TcpInfo, span_s: float) -> bool:
    """Return whether window or sender, and not the pace, limited a copy between two readings."""
    waited_us = (info.rwnd_limited_us or 0) - (before.rwnd_limited_us or 0)
    waited_us += (info.sndbuf_limited_us or 0) - (before.sndbuf_limited_us or 0)
    if waited_us > _RWND_LIMITED * span_s * 1e6 or (info.app_limited and not info.notsent_bytes):
        return True
    return bool(info.snd_wnd_bytes) and info.in_flight_bytes >= WINDOW_FILLED * (info.snd_wnd_bytes or 0)
