"""The first segments of a copy under a cap: the kernel does not pace them, so we do. No sockets, no clock.

Facts
-----

- Linux sends the first ten segments of a connection without pacing (`tcp_update_skb_after_send`, net/ipv4/tcp_output.c,
  after the packet scheduler fq). That is 14.6 kB at once: nothing beside a fast link, but where eight routers share
  4 Mbit/s and begin together it is a quarter of what all may take in a second.
- It sends at least two segments at a time from there on (`net.ipv4.tcp_min_tso_segs`), and so does this.
"""

UNPACED_SEGMENTS = 10
_SEGMENTS_AT_ONCE = 2
_LEAST_PAUSE_S = 0.001


def opening_piece(written_bytes: int, segment_bytes: int, cap_bytes_per_s: int | None) -> tuple[int, float] | None:
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
