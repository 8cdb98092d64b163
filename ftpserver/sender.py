"""Which congestion control a transfer gets: a decision on facts, without sockets.

Facts
-----

- With the window fixed, random loss limits CUBIC (about 2.7 MB/s at 0.01 % and 100 ms, RFC 9438); BBR version 1 does
  not slow down on loss and reaches the link.
- BBR without SACK collapses in its start-up losses, and without a cap it starves its neighbours: measured at
  5.5 against 0.43 MB/s for a CUBIC flow beside it.
- A flow limited by its window needs no better congestion control, and BBR would hide that in the kernel's accounts.
"""

from dataclasses import dataclass

FALL_BACK_SHARE = 0.05
"""BBR is given up when more than this part of all bytes is sent again ..."""

FALL_BACK_AFTER_S = 10.0
"""... for so long."""

_WITHOUT = {"bbr": ("cubic", "reno"), "cubic": ("reno",), "reno": ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderChoice:
    """A congestion control to ask for; None leaves the kernel's default."""

    congestion_control: str | None
    reason: str

    @property
    def candidates(self) -> tuple[str, ...]:
        """What to try in turn where the kernel refuses."""
        if self.congestion_control is None:
            return ()
        return (self.congestion_control, *_WITHOUT.get(self.congestion_control, ()))


def choose_sender(asked: str, *, sack: bool, window_scaling: bool, cap_known: bool) -> SenderChoice:
    """Choose the congestion control of a transfer.

    Args:
        asked: The profile's word: `auto`, `system`, or a congestion control by name.
        sack: Whether SACK was negotiated on the data connection.
        window_scaling: Whether the client offered window scaling; without it at most 65535 bytes are in flight.
        cap_known: Whether a pacing cap holds for this transfer.
    """
    if asked == "system":
        return SenderChoice(congestion_control=None, reason="the profile leaves it to the kernel")
    if asked != "auto":
        return SenderChoice(congestion_control=asked, reason="the profile asks for it")
    if not window_scaling:
        return SenderChoice(congestion_control="cubic", reason="limited by an unscaled window")
    if not sack:
        return SenderChoice(congestion_control="cubic", reason="no SACK, on which BBR depends")
    if not cap_known:
        return SenderChoice(congestion_control="cubic", reason="no cap known, without which BBR is unfair")
    return SenderChoice(congestion_control="bbr", reason="SACK, a scaled window and a cap")
