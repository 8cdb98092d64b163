"""Apply a profile to a data connection, and report what the kernel made of it.

Facts
-----

- Linux sends the first ten segments of a connection without pacing (`tcp_update_skb_after_send`,
  net/ipv4/tcp_output.c, after the packet scheduler fq). That is 14.6 kB at once: nothing beside a fast link, but where
  eight routers share 4 Mbit/s and begin together it is a quarter of what all may take in a second. So those of a
  transfer under a cap are paced here.
- It sends at least two segments at a time from there on (`net.ipv4.tcp_min_tso_segs`), and so does this.
"""

import socket
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from flashferry.core.units import coarse_rate
from flashferry.fileserver import sockets
from flashferry.fileserver.congestion_control import (
    FALL_BACK_SHARE,
    ChannelLimit,
    LossEstimate,
    SenderChoice,
    choose_sender,
)
from flashferry.fileserver.records import SenderReport
from flashferry.tcp.pacing import Phase
from flashferry.tcp.verdict import OwnPace

if TYPE_CHECKING:
    from flashferry.fileserver.rate_limits import Cap
    from flashferry.fileserver.settings import SenderProfile
    from flashferry.fileserver.site_pace import PacedCopy, SitePace
    from flashferry.tcp.info import TcpInfo
    from flashferry.tcp.sample import ChannelReading

UNPACED_SEGMENTS = 10
_SEGMENTS_AT_ONCE = 2
_LEAST_PAUSE_S = 0.001


def initial_pacing_piece(
    written_bytes: int, segment_bytes: int, cap_bytes_per_s: int | None
) -> tuple[int, float] | None:
    """Return how many bytes to hand over now, and the seconds to wait after them; None where the kernel paces.

    Args:
        written_bytes: What of the copy was handed over already.
        segment_bytes: Payload of a full segment on this connection, > 0.
        cap_bytes_per_s: The pacing cap in force; None for none, and then nothing is held back.
    """
    if cap_bytes_per_s is None or written_bytes >= UNPACED_SEGMENTS * segment_bytes:
        return None
    piece_bytes = _SEGMENTS_AT_ONCE * segment_bytes
    pause_s = piece_bytes / cap_bytes_per_s
    return (piece_bytes, pause_s) if pause_s >= _LEAST_PAUSE_S else None


def channel_limit(reading: "ChannelReading | None", cap: "Cap | None") -> ChannelLimit | None:
    """Return what an SSH channel may limit a transfer to; None where there is none, or its window is not known."""
    if reading is None or not reading.window_bytes:
        return None
    most = None if cap is None else max(cap.bytes_per_s, cap.shared_bytes_per_s or 0)
    return ChannelLimit(window_bytes=reading.window_bytes, most_bytes_per_s=most)


_AT_THE_END = {
    Phase.YIELD: "at the end CUBIC, for another flow's queue stood on it",
    Phase.FREE: "at the end without a pace, for this host or the path delays what is sent",
}


class Tuning:
    """The sender's side of one data connection.

    Args:
        connection: The data connection.
        profile: How to send.
        info: A first reading of the connection: it has what was negotiated.
        cap_known: Whether a pacing cap holds for this transfer.
        channel: The SSH channel that the image goes through; None where it goes straight into the socket.
    """

    def __init__(
        self,
        connection: socket.socket,
        profile: "SenderProfile",
        info: "TcpInfo",
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
        self._gave_up_bbr = False
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

    def apply_cap(self, cap: "Cap | None") -> None:
        """Put a pacing cap in force, now."""
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
        """Whether the pace is to be found in the transfer: none is stated, and the kernel granted BBR."""
        return self._choice.finds_pace and not self.refused

    def find_pace(self, site: "SitePace", info: "TcpInfo", now_s: float) -> None:
        """Find the pace from now on, together with the other transfers of the site.

        Args:
            site: Their pace.
            info: A reading of this connection.
            now_s: Monotonic time.
        """
        self._copy = site.join(info, now_s, self._follow)

    def check_pace(self, info: "TcpInfo", now_s: float) -> float | None:
        """Let the search see a reading; return the seconds until the next, None where no pace is looked for."""
        return None if self._copy is None else self._copy.take(info, now_s)

    def end_pace(self) -> None:
        """Leave the site's share to its other transfers; the pace in force stays."""
        if self._copy is not None:
            self._copy.leave()

    @property
    def found_link_bytes_per_s(self) -> int | None:
        """What the link was found to carry; None where that was not looked for or is not known."""
        found = self._copy.site.found_bytes_per_s if self._copy is not None else None
        return None if found is None else int(found)

    @property
    def own_pace(self) -> OwnPace | None:
        """The pace that is looked for here; None where it is not."""
        if self._pace_bytes_per_s is None:
            return None
        return OwnPace(found_link_bytes_per_s=self.found_link_bytes_per_s)

    def _follow(self, pace_bytes_per_s: int, phase: Phase) -> None:
        """Take a pace; beside another flow go on as one of the same kind, and come back when it is gone."""
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
            # Its own estimate was made under our pace. Chosen anew it begins with its start-up.
            sockets.set_congestion_control(self._socket, "cubic")
            sockets.set_congestion_control(self._socket, "bbr")

    def be_patient(self) -> None:
        """Let the kernel wait for a closed window as long as we would ourselves."""
        sockets.set_unacked_limit(self._socket, self._profile.give_up_after_s)

    def give_up_bbr(self) -> None:
        """Fall back to CUBIC, once, where BBR sends too much again and again."""
        for_s = self._profile.fall_back_after_s
        self._give_up_bbr(f"more than {FALL_BACK_SHARE:.0%} was sent again for {for_s:g} s")

    @property
    def samples_early(self) -> bool:
        """Whether the first seconds may give reason to change something, see `reconsider`."""
        return self._decides and (self._choice.may_become_bbr or not self._has_sack)

    def reconsider(self, estimate: LossEstimate) -> None:
        """Change the congestion control, once, or the pace, where losses ask for it and `auto` leaves it to us."""
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
        """Say what was asked for and what is in force."""
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
        """Keep the pace below what can be repaired; only what makes a difference is set."""
        before = self._least_pace()
        self._slowed_to_bytes_per_s = None if bytes_per_s is None else int(bytes_per_s)
        if self._least_pace() != before:
            self._put_pace()

    def _put_pace(self) -> None:
        """Have the kernel keep the pace; not where the channel's window keeps it by itself, for pacing costs there."""
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
        """Take in that the client opened a larger window: it may be faster now than its cap, or worth BBR."""
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
