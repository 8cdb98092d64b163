"""Congestion control and pacing of a data connection: choose, apply, and report what holds."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.units import coarse_rate
from flashferry.fileserver import sockets
from flashferry.fileserver.transfer_records import SenderReport
from flashferry.tcp.models import cubic_bytes_per_s, window_limited_bytes_per_s
from flashferry.tcp.pacing import Phase
from flashferry.tcp.verdict import OwnPace

if TYPE_CHECKING:
    from flashferry.fileserver.rate_limits import Cap, PacedCopy, SitePace
    from flashferry.fileserver.settings import SenderProfile
    from flashferry.tcp.sample import ChannelReading
    from flashferry.tcp.tcp_info import TcpInfo

FALL_BACK_SHARE = 0.05
"""Share of retransmitted bytes above which BBR is replaced by CUBIC ..."""

FALL_BACK_AFTER_S = 10.0
"""... after so long."""

_HOLES = 0.6
"""Losses per round trip allowed for a flow without SACK. Under fixed caps, at 1 % loss and 100 ms, BBR retransmitted
1 % and reached 0.67 MB/s at 0.5 losses per round trip, 7 % and 1.1 MB/s at 1.0, 11 % and 1.2 MB/s at 1.6."""

_MOST_AGAIN = 0.03
"""Retransmitted share above which a flow without SACK is slowed further: timeouts repeat data that had arrived."""

_HEAD_START_SEGMENTS = 100
"""Segments assumed delivered at the start, about what slow start sends in its first three round trips."""

_CLEAN_FLIGHT_SEGMENTS = 48
"""Segments in flight whose losses are repaired in time at 1 %; losses alone do not slow a flow below that."""

_LEAST_FLIGHT_SEGMENTS = 16
"""Least segments in flight to which timeouts slow a flow, so that it still gets new readings."""

EARLY_SAMPLES_S = 5.0
"""Time at the start in which a transfer is read ten times a second, if losses may change its settings."""

_LEAST_LOSSES = 3
"""Least losses that count; fewer may be chance."""

_MODEL_MARGIN = 1.5
"""Ratio of CUBIC's average rate to the window's up to which losses limit it, because CUBIC oscillates."""

_SHORT_RTT_S = 0.002
"""Round-trip time up to which CUBIC is used: at 0.1 % loss it reaches 200 Mbit/s, and it needs no pacing."""

_SMALL_CHANNEL_BYTES = 131_072
"""Largest channel window that counts as small if no rate is known: the default of 17.10 and later."""

_CHANNEL_BDPS = 2
"""Number of bandwidth-delay products below which a channel's window limits a flow."""

_BY_CHANNEL = "limited by the SSH channel's window"

_WITHOUT = {"bbr": ("cubic", "reno"), "cubic": ("reno",), "reno": ()}


class SenderChoice(Struct, frozen=True, kw_only=True):
    """A choice of congestion control; None keeps the kernel's default.

    Attributes:
        congestion_control: Its name.
        reason: Why, in words.
        may_become_bbr: Whether losses during the transfer are a reason to change to BBR.
        finds_pace: Whether the transfer searches for its pace, because there is no cap.
    """

    congestion_control: str | None
    reason: str
    may_become_bbr: bool = False
    finds_pace: bool = False

    @property
    def candidates(self) -> tuple[str, ...]:
        """Congestion controls to try in order, until the kernel grants one."""
        if self.congestion_control is None:
            return ()
        return (self.congestion_control, *_WITHOUT.get(self.congestion_control, ()))


def first_candidates(asked: str) -> tuple[str, ...]:
    """Return the congestion controls to try for a new connection, in order; empty keeps the kernel's default.

    With `auto` it is CUBIC, even if the host's default is BBR: a connection that started with BBR stays paced.
    """
    first = {"auto": "cubic", "system": None}.get(asked, asked)
    return SenderChoice(congestion_control=first, reason="").candidates


class ChannelLimit(Struct, frozen=True, kw_only=True):
    """The SSH channel that an image goes through.

    Attributes:
        window_bytes: The largest window that the client opened.
        most_bytes_per_s: The transfer's cap, or the whole cap of which it has a share; None without a cap.
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
    """Choose the congestion control of a new transfer.

    Args:
        asked: The profile's value: `auto`, `system`, or a congestion control by name.
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
    """Choose for a link of unknown rate: BBR with a searched pace, see `flashferry.tcp.pacing`."""
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


class LossEstimate(Struct, frozen=True, kw_only=True):
    """Losses of a transfer, as its sender sees them.

    Attributes:
        losses: Segments sent again so far.
        lost_share: Those as a share of all, 0 to 1.
        window_bytes: Largest receive window seen, or the SSH channel's where that is smaller.
        rtt_s: Round-trip time; None if not known.
        mss_bytes: Segment size.
        acked_bytes: What the client acknowledged so far.
        repairs: Losses of a flow without SACK: retransmitted segments, at most one per round trip, because a timeout
            retransmits everything in flight.
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
        """Return the pace at which a flow without SACK loses no more per round trip than it can repair, or None.

        The loss rate is estimated with one loss more than were seen, so that a new flow doubles its rate per round trip
        as in slow start, and stops when its losses require it.
        """
        if not self.rtt_s or self.mss_bytes <= 0:
            return None
        arrived = self.acked_bytes / self.mss_bytes + _HEAD_START_SEGMENTS
        brake = min(1.0, _MOST_AGAIN * arrived / self.losses) if self.losses else 1.0
        in_flight = max(_CLEAN_FLIGHT_SEGMENTS, _HOLES * arrived / (self.repairs + 1)) * brake
        return max(_LEAST_FLIGHT_SEGMENTS, in_flight) * self.mss_bytes / self.rtt_s


UNPACED_SEGMENTS = 10

_SEGMENTS_AT_ONCE = 2

_LEAST_PAUSE_S = 0.001


def initial_pacing_piece(
    written_bytes: int, segment_bytes: int, cap_bytes_per_s: int | None
) -> tuple[int, float] | None:
    """Return how many bytes to write now, and the seconds to wait after them; None once the kernel paces.

    Args:
        written_bytes: Bytes of the copy written so far.
        segment_bytes: Payload of a full segment on this connection, > 0.
        cap_bytes_per_s: The pacing cap in force; without one (None) writes are not delayed.
    """
    if cap_bytes_per_s is None or written_bytes >= UNPACED_SEGMENTS * segment_bytes:
        return None
    piece_bytes = _SEGMENTS_AT_ONCE * segment_bytes
    pause_s = piece_bytes / cap_bytes_per_s
    return (piece_bytes, pause_s) if pause_s >= _LEAST_PAUSE_S else None


def channel_limit(reading: ChannelReading | None, cap: Cap | None) -> ChannelLimit | None:
    """Return the limit by an SSH channel; None without a channel, or if its window is unknown."""
    if reading is None or not reading.window_bytes:
        return None
    most = None if cap is None else max(cap.bytes_per_s, cap.shared_bytes_per_s or 0)
    return ChannelLimit(window_bytes=reading.window_bytes, most_bytes_per_s=most)


_AT_THE_END = {
    Phase.YIELD: "at the end CUBIC, for another flow's queue stood on it",
    Phase.FREE: "at the end without a pace, for this host or the path delays what is sent",
}


class Tuning:
    """Congestion control and pacing of one data connection.

    Args:
        connection: The data connection.
        profile: Socket settings of the sender.
        info: A first reading of the connection, with the negotiated options.
        cap_known: Whether a pacing cap holds for this transfer.
        channel: The SSH channel that the image goes through; None where it goes straight into the socket.
    """

    def __init__(
        self,
        connection: socket.socket,
        profile: SenderProfile,
        info: TcpInfo,
        *,
        cap_known: bool,
        channel: ChannelLimit | None = None,
    ) -> None:
        self._socket = connection
        self._channel = channel
        self._rtt_s = info.min_rtt_s or info.rtt_s
        self._is_paced = False
        self._profile = profile
        self._cap: Cap | None = None
        self._shared_cap_bytes_per_s: int | None = None
        self._gave_up_bbr = self._is_patient = False
        self._has_sack = info.sack
        self._slowed_to_bytes_per_s: int | None = None
        self._copy: PacedCopy | None = None
        self._pace_bytes_per_s: int | None = None
        self._phase = Phase.SEARCH
        self.refused = ""
        sockets.set_notsent_lowat(connection, profile.notsent_lowat_bytes)
        sockets.set_unacked_limit(connection, profile.unacked_limit_s)
        if profile.dscp:
            sockets.set_dscp(connection, profile.dscp)
        self._choose = partial(
            choose_sender,
            profile.congestion_control,
            sack=info.sack,
            window_scaling=info.window_scaling,
            cap_known=cap_known,
            rtt_s=self._rtt_s if channel is not None else info.rtt_s,
        )
        self._ask_for(self._choose(channel=channel))

    def apply_cap(self, cap: Cap | None) -> None:
        """Set the pacing cap at once."""
        self._cap = cap
        if cap is not None and cap.shared_bytes_per_s is not None:
            self._shared_cap_bytes_per_s = cap.shared_bytes_per_s
        self._put_pace()

    @property
    def cap_bytes_per_s(self) -> int | None:
        """The pacing cap in force, payload bytes per second; None for none."""
        return self._cap.bytes_per_s if self._cap is not None else None

    @property
    def wants_pace(self) -> bool:
        """Whether the transfer searches for its pace: there is no cap, and the kernel granted BBR."""
        return self._choice.finds_pace and not self.refused

    def find_pace(self, site: SitePace, info: TcpInfo, now_s: float) -> None:
        """Start searching for the pace, together with the other transfers of the site."""
        self._copy = site.join(info, now_s, self._follow)

    def check_pace(self, info: TcpInfo, now_s: float) -> float | None:
        """Pass a reading to the search for a pace.

        Returns:
            Seconds until it needs the next reading; None if the transfer does not search.
        """
        return None if self._copy is None else self._copy.take(info, now_s)

    def end_pace(self) -> None:
        """Leave the site's share to its other transfers; the pace in force stays."""
        if self._copy is not None:
            self._copy.leave()

    @property
    def found_link_bytes_per_s(self) -> int | None:
        """Link rate found by the search; None without a search or result."""
        found = self._copy.site.found_bytes_per_s if self._copy is not None else None
        return None if found is None else int(found)

    @property
    def own_pace(self) -> OwnPace | None:
        """Result of the search for a pace; None without a search."""
        if self._pace_bytes_per_s is None:
            return None
        return OwnPace(found_link_bytes_per_s=self.found_link_bytes_per_s)

    def _follow(self, pace_bytes_per_s: int, phase: Phase) -> None:
        """Apply a pace; while another flow shares the link use CUBIC, and return to BBR when it has ended."""
        if self._gave_up_bbr:
            return
        pace = None if phase is Phase.FREE else pace_bytes_per_s
        if pace != self._pace_bytes_per_s:
            self._pace_bytes_per_s = pace
            self._put_pace()
        before, self._phase = self._phase, phase
        if (phase is Phase.YIELD) is not (before is Phase.YIELD):
            sockets.set_congestion_control(self._socket, "cubic" if phase is Phase.YIELD else "bbr")
        elif phase is Phase.FREE and before is not Phase.FREE:
            # BBR's estimate was made under our pace. Setting BBR again restarts it with its start-up.
            sockets.set_congestion_control(self._socket, "cubic")
            sockets.set_congestion_control(self._socket, "bbr")

    def be_patient(self) -> None:
        """Let the kernel wait for a closed window for `give_up_after_s`. Idempotent."""
        if not self._is_patient:
            self._is_patient = sockets.set_unacked_limit(self._socket, self._profile.give_up_after_s)

    def give_up_bbr(self) -> None:
        """Fall back to CUBIC, once, because BBR retransmits too much for too long."""
        for_s = self._profile.fall_back_after_s
        self._give_up_bbr(f"more than {FALL_BACK_SHARE:.0%} was sent again for {for_s:g} s")

    @property
    def samples_early(self) -> bool:
        """Whether readings in the first seconds may change the settings, see `reconsider`."""
        return self._decides and (self._choice.may_become_bbr or not self._has_sack)

    def reconsider(self, estimate: LossEstimate) -> None:
        """Change the congestion control, once, or the pace, if losses require it and the profile is `auto`."""
        self._see_channel(estimate.channel_window_bytes)
        if not self._decides:
            return
        if self._choice.may_become_bbr and estimate.holds_cubic_back():
            reason = f"{self._choice.reason} at first; then losses held CUBIC back, and a cap is known"
            self._ask_for(SenderChoice(congestion_control="bbr", reason=reason))
            self._put_pace_late()
        if not self._has_sack and self._choice.congestion_control == "bbr":
            self._slow_to(estimate.repairable_bytes_per_s())

    def in_force(self) -> str:
        """Return the congestion control in force; empty if the socket is gone."""
        try:
            return sockets.congestion_control(self._socket)
        except OSError:
            return ""

    def report(self) -> SenderReport:
        """Return the requested settings and those in force."""
        return SenderReport(
            congestion_control_asked=self._profile.congestion_control,
            congestion_control_chosen=self._choice.congestion_control,
            congestion_control=self.in_force(),
            reason="; ".join(filter(None, (self._choice.reason, *self._changes_in_words(), self.refused))),
            cap_asked_bytes_per_s=self._cap.bytes_per_s if self._cap else None,
            cap_bytes_per_s=self._cap_in_force(),
            cap_source=self._cap.source if self._cap else "",
            shared_cap_bytes_per_s=self._shared_cap_bytes_per_s,
            pace_bytes_per_s=self._pace_bytes_per_s,
            found_link_bytes_per_s=self.found_link_bytes_per_s,
        )

    @property
    def _decides(self) -> bool:
        return self._cap is not None and self._profile.congestion_control == "auto" and not self._gave_up_bbr

    def _slow_to(self, bytes_per_s: float | None) -> None:
        """Limit the pace to what can be repaired; the socket is only changed if the pace changes."""
        before = self._least_pace()
        self._slowed_to_bytes_per_s = None if bytes_per_s is None else int(bytes_per_s)
        if self._least_pace() != before:
            self._put_pace()

    def _put_pace(self) -> None:
        """Set the pace in the kernel, unless the channel's window limits the rate anyway: pacing takes CPU time."""
        if not self._is_kept_by_channel:
            pace = self._least_pace()
            self._is_paced = self._is_paced or pace is not None
            sockets.set_cap(self._socket, pace)

    def _put_pace_late(self) -> None:
        if self._channel is not None and not self._is_paced:
            self._put_pace()

    @property
    def _is_kept_by_channel(self) -> bool:
        channel, pace = self._channel, self._least_pace()
        if channel is None or pace is None or self._is_paced or self.in_force().startswith("bbr"):
            return False
        return channel.keeps_below(pace, self._rtt_s)

    def _see_channel(self, window_bytes: int | None) -> None:
        """Handle a larger channel window, by which the transfer may need pacing or BBR."""
        channel = self._channel
        if channel is None or window_bytes is None or window_bytes <= channel.window_bytes:
            return
        self._channel = channel = replace(channel, window_bytes=window_bytes)
        if self._decides and self._choice.may_become_bbr:
            choice = self._choose(channel=channel)
            if choice.congestion_control != self._choice.congestion_control:
                self._ask_for(choice)
        self._put_pace_late()

    def _cap_in_force(self) -> int | None:
        if self._cap is None:
            return None
        return self._cap.bytes_per_s if self._is_kept_by_channel else sockets.cap(self._socket)

    def _least_pace(self) -> int | None:
        cap = self._cap.bytes_per_s if self._cap else None
        paces = (cap, self._slowed_to_bytes_per_s, self._pace_bytes_per_s)
        return min((pace for pace in paces if pace is not None), default=None)

    def _changes_in_words(self) -> tuple[str, ...]:
        return self._slowed_in_words(), self._found_in_words()

    def _found_in_words(self) -> str:
        if self._copy is None:
            return ""
        found = self.found_link_bytes_per_s
        rate = "its rate was not found" if found is None else f"the link carried {coarse_rate(found)}"
        return "; ".join(filter(None, (rate, _AT_THE_END.get(self._phase, ""))))

    def _slowed_in_words(self) -> str:
        slowed, cap = self._slowed_to_bytes_per_s, self._cap
        if slowed is None or cap is None or slowed >= cap.bytes_per_s:
            return ""
        return f"slowed to {coarse_rate(slowed)}, for without SACK one loss is repaired per round trip"

    def _give_up_bbr(self, why: str) -> None:
        if self._gave_up_bbr or not self.in_force().startswith("bbr"):
            return
        self._gave_up_bbr = True
        self.end_pace()
        if self._pace_bytes_per_s is not None:
            self._pace_bytes_per_s = None
            self._put_pace()
        reason = f"{self._choice.reason}; given up, {why}"
        self._slow_to(None)
        self._ask_for(SenderChoice(congestion_control="cubic", reason=reason))

    def _ask_for(self, choice: SenderChoice) -> None:
        self._choice = choice
        self.refused = "; ".join(sockets.set_first_congestion_control(self._socket, choice.candidates))
