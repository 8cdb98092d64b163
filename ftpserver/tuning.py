"""Applying a profile to a data connection, and saying what the kernel made of it."""

import socket
from typing import TYPE_CHECKING

from ftpserver import sockets
from ftpserver.records import SenderReport
from ftpserver.sender import FALL_BACK_SHARE, LossSight, SenderChoice, choose_sender

if TYPE_CHECKING:
    from ftpserver.caps import Cap
    from ftpserver.settings import SenderProfile
    from tcp.info import TcpInfo


class Tuning:
    """The sender's side of one data connection.

    Args:
        connection: The data connection.
        profile: How to send.
        info: A first reading of the connection: it tells what was negotiated.
        cap_known: Whether a pacing cap holds for this transfer.
    """

    def __init__(
        self, connection: socket.socket, profile: "SenderProfile", info: "TcpInfo", *, cap_known: bool
    ) -> None:
        self._socket = connection
        self._profile = profile
        self._cap: Cap | None = None
        self._shared_cap_bytes_per_s: int | None = None
        self._gave_up_bbr = False
        self._has_sack = info.sack
        self.refused = ""
        sockets.set_notsent_lowat(connection, profile.notsent_lowat_bytes)
        sockets.set_unacked_limit(connection, profile.unacked_limit_s)
        if profile.dscp:
            sockets.set_dscp(connection, profile.dscp)
        self._ask_for(
            choose_sender(
                profile.congestion_control,
                sack=info.sack,
                window_scaling=info.window_scaling,
                cap_known=cap_known,
            )
        )

    def apply_cap(self, cap: "Cap | None") -> None:
        """Put a pacing cap in force, now."""
        self._cap = cap
        if cap is not None and cap.shared_bytes_per_s is not None:
            self._shared_cap_bytes_per_s = cap.shared_bytes_per_s
        sockets.set_cap(self._socket, cap.bytes_per_s if cap else None)

    def be_patient(self) -> None:
        """Let the kernel wait for a closed window as long as we would ourselves."""
        sockets.set_unacked_limit(self._socket, self._profile.give_up_after_s)

    def give_up_bbr(self) -> None:
        """Fall back to CUBIC, once, where BBR sends too much again and again."""
        for_s = self._profile.fall_back_after_s
        self._give_up_bbr(f"more than {FALL_BACK_SHARE:.0%} was sent again for {for_s:g} s")

    def reconsider(self, sight: LossSight) -> None:
        """Change the congestion control, once, where losses show that another one does better under `auto`."""
        if self._cap is None or self._profile.congestion_control != "auto" or self._gave_up_bbr:
            return
        if self._choice.may_become_bbr and sight.holds_cubic_back():
            reason = f"{self._choice.reason} at first; then losses held CUBIC back, and a cap is known"
            self._ask_for(SenderChoice(congestion_control="bbr", reason=reason))
        elif not self._has_sack and self._choice.congestion_control == "bbr":
            # What a small window lets through in a round trip is less than what the cap does.
            rate_bytes_per_s = min(self._cap.bytes_per_s, sight.window_bytes / (sight.rtt_s or 1.0))
            if sight.outruns_repairs(rate_bytes_per_s):
                self._give_up_bbr(f"without SACK its losses ({sight.lost_share:.1%}) would outrun their repair")

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
            reason=f"{self._choice.reason}; {self.refused}" if self.refused else self._choice.reason,
            cap_asked_bytes_per_s=self._cap.bytes_per_s if self._cap else None,
            cap_bytes_per_s=sockets.cap(self._socket),
            cap_source=self._cap.source if self._cap else "",
            shared_cap_bytes_per_s=self._shared_cap_bytes_per_s,
        )

    def _give_up_bbr(self, why: str) -> None:
        if self._gave_up_bbr or not self.in_force().startswith("bbr"):
            return
        self._gave_up_bbr = True
        reason = f"{self._choice.reason}; given up, {why}"
        self._ask_for(SenderChoice(congestion_control="cubic", reason=reason))

    def _ask_for(self, choice: SenderChoice) -> None:
        self._choice = choice
        refusals = []
        for name in choice.candidates:
            refusal = sockets.set_congestion_control(self._socket, name)
            if not refusal:
                break
            refusals.append(refusal)
        self.refused = "; ".join(refusals)
