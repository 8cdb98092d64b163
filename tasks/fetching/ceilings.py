"""How fast a device can fetch at most by each protocol: by its windows, their tuning, the path and the link. Pure.

Facts
-----
* A copy has no more than the smaller of two windows per round trip, TCP's and that of the SSH channel inside it; see
  `flashferry.tcp.ssh_channel_window`.
* A release shows which lines that widen the channel it takes only when they are set. A forecast goes by the release
  (`ChannelWindow.since`) and says that it assumes.
* Where bulk mode is on by default, the default configuration has its line; so a configuration without one has it off,
  and the channel is as wide as on 16.x. How wide it is on IOS 15 was never seen.
* What a window is without configuration was seen with FTP's client; that the others start with the same is assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from flashferry.core.units import bound_rate
from flashferry.devices.platforms.platform import ChannelWindow, Platform
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.tcp.ssh_channel_window import ChannelRate, Limit, channel_rate, link_payload_bytes_per_s
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.transport import Transport
from tasks.tcp_config import Change, TcpLines, TunePlan, plan_tune


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What a copy by one protocol can have at most.

    Attributes:
        bytes_per_s: No copy is faster, in payload bytes per second.
        likely_bytes_per_s: What to expect with no other limit: no flash, no processor, no loss.
        limit: What the most comes from.
        channel_window_bytes: Window of the SSH channel, or None where there is none.
        is_assumed: Whether a window or the round-trip time in it is assumed.
        untuned_bytes_per_s: The most without any line of ours.
    """

    transport: str
    title: str
    bytes_per_s: float
    likely_bytes_per_s: float
    limit: Limit
    tcp_window_bytes: int
    channel_window_bytes: int | None
    is_assumed: bool
    untuned_bytes_per_s: float

    @property
    def reason(self) -> str:
        """Return what it comes from, in words."""
        words = {
            Limit.TCP_WINDOW: f"TCP window of {self.tcp_window_bytes} bytes",
            Limit.SSH_WINDOW: f"SSH window of {self.channel_window_bytes} bytes",
            Limit.LINK: "its link",
        }[self.limit]
        return f"{words}, assumed" if self.is_assumed else words


def ceilings(
    before: TcpLines,
    *,
    platform: Platform,
    release: str,
    transports: Iterable[Transport],
    window_bytes: int | None,
    rtt_s: float | None,
    link_rate_bps: float | None,
) -> tuple[Ceiling, ...]:
    """Return what a device can have at most by each of some protocols.

    Args:
        before: Its lines as they are.
        platform: What it runs.
        release: Its release as printed; empty where it is not known.
        transports: The protocols.
        window_bytes: The window that both are to have, or None where nothing is tuned.
        rtt_s: Round-trip time in seconds, or None where none was measured.
        link_rate_bps: What copies may have of the link in bits per second, or None where that is not known.
    """
    link = None if link_rate_bps is None else link_payload_bytes_per_s(link_rate_bps)
    found = []
    for one in transports:
        plan = plan_tune(before, platform=platform, transport=one, window_bytes=window_bytes)
        tuned = _Windows.of(_expected(before, plan, one.windows(platform), release), platform, one)
        untuned = _Windows.of(before, platform, one)
        most = tuned.rate(rtt_s, link)
        found.append(
            Ceiling(
                transport=one.name,
                title=one.title,
                bytes_per_s=most.most_bytes_per_s,
                likely_bytes_per_s=most.likely_bytes_per_s,
                limit=most.limit,
                tcp_window_bytes=tuned.tcp_bytes,
                channel_window_bytes=tuned.channel_bytes,
                is_assumed=tuned.is_assumed(most.limit) or (rtt_s is None and most.limit is not Limit.LINK),
                untuned_bytes_per_s=untuned.rate(rtt_s, link).most_bytes_per_s,
            )
        )
    return tuple(found)


def announce(found: Iterable[Ceiling]) -> str:
    """Return `SCP will run at most at 82 kB/s here (...); HTTP at 5.9 MB/s (...)`, the slowest first; may be empty."""
    ordered = sorted(found, key=lambda one: one.bytes_per_s)
    if not ordered:
        return ""
    first, *others = ordered
    said = f"{first.title} will run at most at {bound_rate(first.bytes_per_s)} here ({first.reason})"
    return "; ".join((said, *(f"{one.title} at {bound_rate(one.bytes_per_s)} ({one.reason})" for one in others)))


def announce_choice(found: Iterable[Ceiling], by: str) -> str:
    """Return the most that a copy by one protocol of several can have, with that of the others.

    `the copy goes by FTP, here at most at 5.9 MB/s (its link); it would go by SCP at most at 82 kB/s (...)`. Empty
    where
    nothing is known of the chosen one.
    """
    ordered = sorted(found, key=lambda one: (one.transport != by, one.bytes_per_s))
    if not ordered or ordered[0].transport != by:
        return ""
    first, *others = ordered
    said = f"the copy goes by {first.title}, here at most at {bound_rate(first.bytes_per_s)} ({first.reason})"
    if not others:
        return said
    rest = [f"by {one.title} at most at {bound_rate(one.bytes_per_s)} ({one.reason})" for one in others]
    return f"{said}; it would go {', '.join(rest)}"


def is_worth_telling(found: Iterable[Ceiling], *, by: str = USUAL.name) -> bool:
    """Return whether the ceilings are shown: not where a copy goes as usual and the inventory names no protocols."""
    names = {one.transport for one in found}
    return bool(names) and (by != USUAL.name or names != {one.name for one in TRANSPORTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """The two windows of a copy, each with whether it is assumed."""

    tcp_bytes: int
    channel_bytes: int | None
    is_tcp_assumed: bool
    is_channel_assumed: bool

    @classmethod
    def of(cls, lines: TcpLines, platform: Platform, transport: Transport) -> _Windows:
        tcp, ssh = lines.window_bytes, platform.ssh
        channel: int | None = None
        stated = 0
        if transport.has_channel:
            stated = next((value for one in ssh.windows if (value := one.window_of(lines.of(one.setting.keyword)))), 0)
            channel = stated or ssh.default_bytes
        return cls(
            tcp_bytes=tcp or platform.defaults.typical_window_bytes,
            channel_bytes=channel,
            is_tcp_assumed=tcp is None,
            is_channel_assumed=channel is not None and not stated,
        )

    def rate(self, rtt_s: float | None, link_bytes_per_s: float | None) -> ChannelRate:
        return channel_rate(
            tcp_window_bytes=self.tcp_bytes,
            channel_window_bytes=self.channel_bytes,
            rtt_s=rtt_s or ASSUMED_RTT_S,
            link_bytes_per_s=link_bytes_per_s,
        )

    def is_assumed(self, limit: Limit) -> bool:
        return {Limit.TCP_WINDOW: self.is_tcp_assumed, Limit.SSH_WINDOW: self.is_channel_assumed}.get(limit, False)


def _expected(before: TcpLines, plan: TunePlan, windows: tuple[ChannelWindow, ...], release: str) -> TcpLines:
    """Return the lines that a device is assumed to have once it was tuned."""
    others = [one for one in plan.changes if not one.is_channel]
    tried = [one for one in (*plan.changes, *plan.channel) if one.is_channel]
    taken = next((one for one in tried if _is_known(one, windows, release)), None)
    changes = others if taken is None else [*others, taken]
    kept = [line for line in before.lines if line not in {one.before for one in changes}]
    return TcpLines(lines=(*kept, *(one.ours for one in changes)))


def _is_known(change: Change, windows: tuple[ChannelWindow, ...], release: str) -> bool:
    """Return whether a release is assumed to know a line: it stands there already, or the release is new enough."""
    if change.before is not None:
        return True
    found = re.match(r"\D*(\d+)\.(\d+)", release)
    since = next((one.since for one in windows if one.setting.keyword == change.keyword), None)
    return found is not None and since is not None and (int(found[1]), int(found[2])) >= since
