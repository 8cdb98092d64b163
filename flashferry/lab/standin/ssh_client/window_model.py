"""What a channel with a receive window carries at most: the arithmetic, to hold a measured rate against.

A sender may have sent at most the window and what refills have granted. A receiver that refills once a share of the
window is used up grants less often than a byte comes, so a window carries less than itself per round trip. With ``q``
bytes per refill and ``n`` whole refills in a window, refill ``k+1`` needs refill ``k+1-n`` and the bytes between to be
sent at the link's rate: ``n`` refills per round trip and that time.

Measured on the published WAN without loss, packets of 32 KiB, refills at the half, by a sender with CUBIC: 0.080 MB/s
for 8 KiB (0.081 calculated), 0.56 for 64 KiB (0.59), 0.85 for 128 KiB (0.89), 2.53 for 512 KiB (2.66). BBR paces what
such a window lets out, and carries 0.071, 0.44, 0.77 and 2.54.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.ssh_client.figures import Refill


def is_due(refill: Refill, *, used_bytes: int, window_bytes: int, packet_bytes: int) -> bool:
    """Return whether a receiver that has used up so much of its window opens it again.

    Args:
        refill: Its rule.
        used_bytes: What has come and was consumed since the last refill.
        window_bytes: The window when it is open.
        packet_bytes: Largest SSH packet.
    """
    if not used_bytes:
        return False
    if refill == "packet":
        return True
    over_half = window_bytes - used_bytes < window_bytes / 2
    return over_half or (refill == "three packets" and used_bytes > 3 * packet_bytes)


def refill_bytes(refill: Refill, *, window_bytes: int, packet_bytes: int, sent_bytes: int | None = None) -> int:
    """Return how many bytes come between two refills when the sender's packets hold ``sent_bytes``."""
    piece = min(sent_bytes or packet_bytes, packet_bytes, window_bytes)
    used = 0
    while not is_due(refill, used_bytes=used, window_bytes=window_bytes, packet_bytes=packet_bytes):
        used = min(used + piece, window_bytes)
    return used


def rate_bytes_per_s(
    refill: Refill, *, window_bytes: int, packet_bytes: int, rtt_s: float, link_bytes_per_s: float,
    sent_bytes: int | None = None,
) -> float:  # fmt: skip
    """Return what the channel carries at most, in bytes of payload per second.

    Args:
        refill: The receiver's rule.
        window_bytes: The channel's receive window.
        packet_bytes: Largest SSH packet that the receiver takes.
        rtt_s: Round trip, > 0.
        link_bytes_per_s: What the path carries without a window.
        sent_bytes: What the sender puts into a packet; None for the largest.
    """
    each = refill_bytes(refill, window_bytes=window_bytes, packet_bytes=packet_bytes, sent_bytes=sent_bytes)
    count = window_bytes // each
    period_s = rtt_s + ((count + 1) * each - window_bytes) / link_bytes_per_s
    return min(link_bytes_per_s, count * each / period_s)
