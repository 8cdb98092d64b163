"""Caps and paces of sites, divided among their transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.tcp.pacing import LinkPacer, Pace, Phase
from flashferry.tcp.pacing_figures import LEAST_BYTES_PER_S
from flashferry.tcp.path_estimator import BaseRtt, PathReading
from flashferry.tcp.verdict_rules import WINDOW_FILLED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashferry.tcp.info import TcpInfo


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


def elsewhere(loads: Mapping[str, SiteLoad], site: str, process: str) -> SiteLoad:
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

    def __init__(self, traffic: SiteTraffic, name: str) -> None:
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


_RWND_LIMITED = 0.3

"""Of the time between two looks. The kernel shows about 0.47 under BBR for a flow entirely held by the window, and 0
for one that is held by its pace."""

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
        apply: Takes a pace of this copy, and what the pace is doing.

    Attributes:
        delivered_bytes: Payload that has arrived since it joined.
        rate_bytes_per_s: What arrived per second between the last two readings.
        is_held_back: Whether its receiver or its sender held it back between them, and not its pace.
        rtt_s: Smoothed round-trip time; 0 while unknown.
        base_rtt_s: The least of late.
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
        """Take a reading in; return the seconds until the next one is wanted."""
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
        """End its part; the others get its share."""
        self._site.leave(self)
        # Who gave it refers to us; left so, the two would stay until a collection of garbage.
        self.apply = _nothing

    @property
    def sent_bytes(self) -> int:
        """Payload sent since it joined, repeats included."""
        return (self._last.bytes_sent or 0) - (self._first.bytes_sent or 0)

    @property
    def again_bytes(self) -> int:
        """What was sent again since."""
        return (self._last.bytes_retrans or 0) - (self._first.bytes_retrans or 0)

    def _take_rtt(self, info: TcpInfo, now_s: float, least_s: float | None = None) -> None:
        if info.rtt_s is not None:
            self.rtt_s = info.rtt_s
            self.base_rtt_s = self._base.take(now_s, min(info.rtt_s, least_s or info.rtt_s))


class SitePace:
    """The copies of one site that find their pace together.

    Args:
        known_bytes_per_s: What earlier copies found, to begin nearer to it.
    """

    def __init__(self, known_bytes_per_s: float | None = None) -> None:
        self._pacer = LinkPacer(known_bytes_per_s)
        self._copies: list[PacedCopy] = []
        self._gone = [0, 0, 0]
        self._decided_s = float("-inf")
        self._pace: Pace | None = None

    @property
    def found_bytes_per_s(self) -> float | None:
        """What the link was found to carry for all copies of the site together; None while that is not known."""
        return self._pacer.found_bytes_per_s

    @property
    def found_at_s(self) -> float | None:
        """When that was, monotonic."""
        return self._pacer.found_at_s

    @property
    def copies(self) -> int:
        """How many copies share it now."""
        return len(self._copies)

    def join(self, info: TcpInfo, now_s: float, apply: Callable[[int, Phase], None]) -> PacedCopy:
        """Let a copy take part; it has its share at once.

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
        """Take a copy out."""
        if copy not in self._copies:
            return
        self._copies.remove(copy)
        for place, moved in enumerate((copy.delivered_bytes, copy.sent_bytes, copy.again_bytes)):
            self._gone[place] += moved
        if self._pace is not None and self._copies:
            self._divide(self._pace)

    def decide(self, now_s: float) -> float:
        """Decide anew unless that has just been done; return the seconds until the next reading is wanted."""
        least_s = self._pace.next_check_s / 2 if self._pace is not None else 0.0
        if now_s - self._decided_s >= least_s:
            reading = self._reading(now_s)
            if reading is not None:
                self._decided_s = now_s
                self._pace = self._pacer.take(reading)
                self._divide(self._pace)
        return self._pace.next_check_s if self._pace is not None else 1.0

    def _reading(self, now_s: float) -> PathReading | None:
        """Return the sum of what the copies see; None before any has a round-trip time."""
        seen = [copy for copy in self._copies if copy.rtt_s > 0 and now_s - copy.seen_s <= _STALE_S]
        if not seen:
            return None
        # A queue before the link that they share is seen by all of them; one that only some see is behind it.
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
        """Give each copy its share."""
        left, waiting = pace.bytes_per_s, len(self._copies)
        for copy in sorted(self._copies, key=lambda one: one.rate_bytes_per_s if one.is_held_back else float("inf")):
            share = left / waiting
            if copy.is_held_back:
                share = min(share, max(_MARGIN_FOR_HELD_BACK * copy.rate_bytes_per_s, share / 4))
            left, waiting = left - int(share), waiting - 1
            copy.apply(int(share), pace.phase)


class SitePaces:
    """The paces of all sites, and what was found for those without a copy now, for an hour."""

    def __init__(self) -> None:
        self._running: dict[str, SitePace] = {}
        self._found: dict[str, tuple[float, float]] = {}

    def of(self, key: str, now_s: float) -> SitePace:
        """Return the pace for a site, or for whatever else shares a link; started anew where no copy runs.

        Args:
            key: Its name.
            now_s: Monotonic time.
        """
        self._forget()
        if key not in self._running:
            rate, found_s = self._found.get(key, (None, now_s))
            self._running[key] = SitePace(rate if now_s - found_s <= _REMEMBERED_S else None)
        return self._running[key]

    def _forget(self) -> None:
        """Keep of sites without a copy only what was found."""
        for key in [key for key, pace in self._running.items() if not pace.copies]:
            gone = self._running.pop(key)
            if gone.found_bytes_per_s is not None and gone.found_at_s is not None:
                self._found.pop(key, None)
                self._found[key] = (gone.found_bytes_per_s, gone.found_at_s)
        while len(self._found) > _MOST_REMEMBERED:
            del self._found[next(iter(self._found))]


def _nothing(_pace_bytes_per_s: int, _phase: Phase) -> None:
    """Take a pace for a copy that has left."""


def _delivered(before: TcpInfo, info: TcpInfo) -> int:
    """Return the payload that arrived between two readings, also after a gap where the kernel reports it (4.18)."""
    if info.delivered_segments is None or before.delivered_segments is None:
        return (info.bytes_acked or 0) - (before.bytes_acked or 0)
    return (info.delivered_segments - before.delivered_segments) * info.snd_mss_bytes


def _is_held_back(before: TcpInfo, info: TcpInfo, span_s: float) -> bool:
    """Return whether window or sender, and not the pace, held a copy back between two readings."""
    waited_us = (info.rwnd_limited_us or 0) - (before.rwnd_limited_us or 0)
    waited_us += (info.sndbuf_limited_us or 0) - (before.sndbuf_limited_us or 0)
    if waited_us > _RWND_LIMITED * span_s * 1e6 or (info.app_limited and not info.notsent_bytes):
        return True
    return bool(info.snd_wnd_bytes) and info.in_flight_bytes >= WINDOW_FILLED * (info.snd_wnd_bytes or 0)
