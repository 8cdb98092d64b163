"""Copies within a site: from a depot, or from device to device, so that an image crosses the site's link once. Pure.

Facts
-----
- A depot copies an image at the rate that the link leaves for copies, and offers it once its SHA-512 is verified.
  Hashing ran at 0.6 to 1.4 GB/s on servers; for a small host a third of the slowest is assumed.
- Neighbours serve by TFTP (RFC 1350), one acknowledgement per block. With blocks of 8,192 bytes, the most that IOS
  accepts (`ip tftp blocksize`), and 1 ms round-trip time it cannot exceed 8 MB/s; what a router's CPU and flash leave
  of that was not published. A quarter is assumed.
- With three copies per serving device a site of 20 is done in three steps of a copy and a hash each.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

ASSUMED_LAN_RATE_BPS = 100e6
"""Assumed rate of a site's LAN: the management port of an old router."""

LAN_ASSUMED = "assumed, for the inventory does not state it"

LAN_RTT_S = 0.001
"""Assumed round-trip time to a depot or neighbour."""

PROOF_BYTES_PER_S = 200e6
"""Assumed hashing speed of a depot."""

SYNC_ROUND_TRIPS = 9.0
"""Until a depot copies at full rate: connection and request 3, start of a BBR flow 6 (`simulation`)."""

NEIGHBOUR_BYTES_PER_S = 2e6
"""Assumed highest rate from a neighbour."""


ImageKey = tuple[str | None, int]
"""Name and size in bytes of an image."""


class Sync(Struct, frozen=True, kw_only=True):
    """Copy of an image to a depot, in seconds after the start of the run.

    Attributes:
        begins_s: First byte.
        received_s: Last byte.
        proven_s: Verified; devices can copy it.
    """

    size_bytes: int
    begins_s: float
    received_s: float
    proven_s: float


def syncs(images: Iterable[ImageKey], *, from_s: float, bytes_per_s: float, rtt_s: float) -> dict[ImageKey, Sync]:
    """Return when each image is at a depot; they are copied one after the other.

    Args:
        images: In the order in which devices need them; repeated ones are there already.
        from_s: Earliest start.
        bytes_per_s: Rate of the link for copies, > 0.
        rtt_s: Round-trip time to the depot.
    """
    found: dict[ImageKey, Sync] = {}
    free_s = from_s
    for key in dict.fromkeys(images):
        _, size_bytes = key
        begins_s = free_s + SYNC_ROUND_TRIPS * rtt_s
        free_s = begins_s + size_bytes / bytes_per_s
        proven_s = free_s + size_bytes / PROOF_BYTES_PER_S
        found[key] = Sync(size_bytes=size_bytes, begins_s=begins_s, received_s=free_s, proven_s=proven_s)
    return found


def lan_of(link: str) -> str:
    """Return the key of the LAN behind a link; no site can be called so."""
    return f"lan {link}"
