"""Which congestion control a transfer gets: a decision on facts, without sockets.

Facts
-----

- With the window fixed, random loss limits CUBIC (about 2.7 MB/s at 0.01 % and 100 ms, RFC 9438); BBR version 1 does
  not slow down on loss and reaches the link.
- Without a cap BBR starves its neighbours: measured at 5.5 against 0.43 MB/s for a CUBIC flow beside it. Its start-up
  overshoots then too, which without SACK takes seconds to repair. A cap a little under the link ends both. Where none
  is known the copy finds a pace for itself, see `flashferry.tcp.pacing`.
- Without SACK a sender repairs one loss per round trip. Where a full link has more (1 % at 100 ms: four), BBR runs into
  timeouts and sends a sixth of all bytes again. Slowed to what loses less than one per round trip, it is two to four
  times as fast as CUBIC there and sends 1 to 5 % again. Most of the damage is done in the first second, so the pace
  has to grow with what is known to have arrived.
- A flow that its window limits needs no better congestion control than CUBIC, and BBR loses some per cent there: every
  ten seconds it all but stops for 0.2 s to look at the round-trip time. Where losses, and not the window, are what
  holds it back, BBR is two to three times as fast (64 kB at 10 and 100 ms, 1 %).
- An SSH channel has a window of its own, which a receiver refills late: it takes twice the bandwidth-delay product to
  fill a path. Behind a smaller one BBR loses 13 % against CUBIC at 64 KiB, 6 to 8 % at 128 KiB (100 ms, 50 Mbit/s).
- A pacing cap has the kernel pace by its own estimate also under CUBIC, at twice the congestion window per round trip.
  What a small channel window lets out then comes late: 0.068 for 0.081 MB/s at 8 KiB and 100 ms. Pacing that was once
  on stays on, whatever is chosen later, so such a flow begins without BBR and without a cap that it cannot reach.
"""

from dataclasses import dataclass

from flashferry.tcp.models import cubic_bytes_per_s, window_limited_bytes_per_s

FALL_BACK_SHARE = 0.05
"""BBR is given up when more than this part of all bytes is sent again ..."""

FALL_BACK_AFTER_S = 10.0
"""... for so long."""

_HOLES = 0.6
"""Losses per round trip that a flow without SACK may run into. Under fixed caps, at 1 % and 100 ms, BBR sent 1 % again
and had 0.67 MB/s at 0.5 of them, 7 % and 1.1 MB/s at 1.0, 11 % and 1.2 MB/s at 1.6."""

_MOST_AGAIN = 0.03
"""A flow without SACK that sends more again is slowed further, in proportion: timeouts repeat what had arrived."""

_HEAD_START_SEGMENTS = 100
"""Taken to have arrived before anything has: about what slow start sends in its first three round trips."""

_CLEAN_FLIGHT_SEGMENTS = 48
"""So few are repaired in time at 1 %: losses alone slow nothing below it; a full link of 10 ms holds no more."""

_LEAST_FLIGHT_SEGMENTS = 16
"""Timeouts are not to slow a flow to a crawl, from which it would learn nothing new."""

EARLY_SAMPLES_S = 5.0
"""So long a transfer is looked at ten times a second where losses are a reason to change something."""

_LEAST_LOSSES = 3
"""Fewer may be chance."""

_MODEL_MARGIN = 1.5
"""CUBIC swings below the window long before its average falls under it."""

_SHORT_RTT_S = 0.002
"""CUBIC reaches 200 Mbit/s at 0.1 % so near, and costs less processor time than anything that is paced."""

_SMALL_CHANNEL_BYTES = 131_072
"""A channel's window is taken for small up to here where no rate is stated: what 17.10 and later have by default."""

_CHANNEL_BDPS = 2
"""A channel's window holds a flow back below so many bandwidth-delay products."""

_BY_CHANNEL = "limited by the SSH channel's window"

_WITHOUT = {"bbr": ("cubic", "reno"), "cubic": ("reno",), "reno": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderChoice:
    """A congestion control to ask for; None leaves the kernel's default.

    Attributes:
        congestion_control: Its name.
        reason: Why, in words.
        may_become_bbr: Whether losses during the transfer are a reason to change to BBR.
        finds_pace: Whether the pace is found in the transfer itself, for want of a cap.
    """

    congestion_control: str | None
    reason: str
    may_become_bbr: bool = False
    finds_pace: bool = False

    @property
    def candidates(self) -> tuple[str, ...]:
        """What to try in turn where the kernel refuses."""
        if self.congestion_control is None:
            return ()
        return (self.congestion_control, *_WITHOUT.get(self.congestion_control, ()))


def first_candidates(asked: str) -> tuple[str, ...]:
    """Return what a connection is to have before anything is known of it, to be tried in turn; none: the kernel's.

    Under `auto` it is CUBIC also where the host has BBR for all: a connection that began with BBR stays paced.

    Args:
        asked: The profile's word.
    """
    first = {"auto": "cubic", "system": None}.get(asked, asked)
    return SenderChoice(congestion_control=first, reason="").candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLimit:
    """The SSH channel that an image goes through.

    Attributes:
        window_bytes: The largest window that the client opened.
        most_bytes_per_s: What the transfer may come to by its cap, or the whole cap that is shared; None for no cap.
    """

    window_bytes: int
    most_bytes_per_s: int | None = None

    def is_tight(self, rtt_s: float | None) -> bool:
        """Return whether the window, and not the path, is what limits the transfer."""
        if self.most_bytes_per_s is None or rtt_s is None:
            return self.window_bytes <= _SMALL_CHANNEL_BYTES
        return self.window_bytes < _CHANNEL_BDPS * self.most_bytes_per_s * rtt_s

    def keeps_below(self, pace_bytes_per_s: float, rtt_s: float | None) -> bool:
        """Return whether the window alone keeps the transfer from being faster than a pace."""
        return bool(rtt_s) and window_limited_bytes_per_s(self.window_bytes, rtt_s or 1.0) <= pace_bytes_per_s


def choose_sender(
    asked: str,
    *,
    sack: bool,
    window_scaling: bool,
    cap_known: bool,
    rtt_s: float | None = None,
    channel: ChannelLimit | None = None,
) -> SenderChoice:
    """Choose the congestion control that a transfer begins with.

    Args:
        asked: The profile's word: `auto`, `system`, or a congestion control by name.
        sack: Whether SACK was negotiated on the data connection.
        window_scaling: Whether the client offered window scaling; without it at most 65535 bytes are in flight.
        cap_known: Whether a pacing cap holds for this transfer.
        rtt_s: Round-trip time of the handshake; None if not known.
        channel: The SSH channel; None where the image goes straight into the socket.
    """
    if asked == "system":
        return SenderChoice(congestion_control=None, reason="the profile leaves it to the kernel")
    if asked != "auto":
        return SenderChoice(congestion_control=asked, reason="the profile asks for it")
    if not cap_known:
        return _choose_without_cap(sack=sack, window_scaling=window_scaling, rtt_s=rtt_s, channel=channel)
    if not window_scaling:
        return SenderChoice(congestion_control="cubic", reason="limited by an unscaled window", may_become_bbr=True)
    if channel is not None and channel.is_tight(rtt_s):
        return SenderChoice(congestion_control="cubic", reason=_BY_CHANNEL, may_become_bbr=True)
    if not sack:
        return SenderChoice(congestion_control="bbr", reason="a scaled window and a cap, though no SACK")
    return SenderChoice(congestion_control="bbr", reason="SACK, a scaled window and a cap")


def _choose_without_cap(
    *, sack: bool, window_scaling: bool, rtt_s: float | None, channel: ChannelLimit | None
) -> SenderChoice:
    """Choose where no rate is stated: BBR under a pace that is found in the copy, see `flashferry.tcp.pacing`."""
    if rtt_s is not None and rtt_s < _SHORT_RTT_S:
        return SenderChoice(congestion_control="cubic", reason="no rate stated, and so near that CUBIC is as fast")
    if not window_scaling:
        return SenderChoice(congestion_control="cubic", reason="no rate stated; limited by an unscaled window")
    if channel is not None and channel.is_tight(rtt_s):
        return SenderChoice(congestion_control="cubic", reason=f"no rate stated; {_BY_CHANNEL}")
    if not sack:
        return SenderChoice(
            congestion_control="cubic", reason="no rate stated and no SACK; a search would lose too much"
        )
    return SenderChoice(
        congestion_control="bbr", reason="no rate stated: SACK, a scaled window and a pace found in the copy",
        finds_pace=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LossEstimate:
    """What a sender sees of the losses of a transfer.

    Attributes:
        losses: Segments sent again so far.
        lost_share: Those as a share of all, 0 to 1.
        window_bytes: Largest receive window seen, or the SSH channel's where that is smaller.
        rtt_s: Round-trip time; None if not known.
        mss_bytes: Segment size.
        acked_bytes: What the client acknowledged so far.
        repairs: Losses if there is no SACK: segments sent again, no more than one per round trip, since a timeout
            sends everything again that is on its way.
        channel_window_bytes: Largest window of the SSH channel seen; None where there is none.
    """

    losses: int
    lost_share: float
    window_bytes: int
    rtt_s: float | None
    mss_bytes: int
    acked_bytes: int
    repairs: int
    channel_window_bytes: int | None = None

    @property
    def _has_enough(self) -> bool:
        return 0 < self.lost_share < 1 and bool(self.rtt_s) and self.window_bytes > 0 and self.mss_bytes > 0

    def holds_cubic_back(self) -> bool:
        """Return whether random losses would hold a CUBIC flow below what its window allows."""
        if self.losses < _LEAST_LOSSES or not self._has_enough or self.rtt_s is None:
            return False
        by_window = window_limited_bytes_per_s(self.window_bytes, self.rtt_s)
        return cubic_bytes_per_s(self.lost_share, self.rtt_s, self.mss_bytes) < _MODEL_MARGIN * by_window

    def repairable_bytes_per_s(self) -> float | None:
        """Return the pace at which a flow without SACK loses no more in a round trip than it can repair.

        The share of losses is estimated with one more than were seen, so that a young flow doubles from round trip to
        round trip as slow start does, and stops as soon as its losses require it; None if the path is not known.
        """
        if not self.rtt_s or self.mss_bytes <= 0:
            return None
        arrived = self.acked_bytes / self.mss_bytes + _HEAD_START_SEGMENTS
        brake = min(1.0, _MOST_AGAIN * arrived / self.losses) if self.losses else 1.0
        in_flight = max(_CLEAN_FLIGHT_SEGMENTS, _HOLES * arrived / (self.repairs + 1)) * brake
        return max(_LEAST_FLIGHT_SEGMENTS, in_flight) * self.mss_bytes / self.rtt_s
