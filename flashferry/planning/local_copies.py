"""Images that cross a site's link once and then go round its LAN: from a depot, or from device to device. Pure.

Facts
-----
- A depot takes an image at what the link gives to copies, and gives it its name once the whole SHA-512 is right. Hashes
  ran at 0.6 to 1.4 GB/s on servers; a small host at a site is taken for a third of the slowest of these.
- Neighbours serve by TFTP (RFC 1350): one block, then its acknowledgement. With blocks of 8,192 bytes, the most that
  IOS takes (`ip tftp blocksize`), and a millisecond of round trip it cannot pass 8 MB/s; what a router's CPU and flash
  leave of that was not published. A quarter is taken for granted.
- A device that serves three at a time fills a site of 20 in three steps, and a step costs a copy and a hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ASSUMED_LAN_RATE_BPS = 100e6
"""Rate of a site's LAN where none is stated: the management port of a router that is old enough to be slow."""

LAN_ASSUMED = "assumed, for the inventory does not state it"

LAN_RTT_S = 0.001
"""Round trip between a device and its depot, or its neighbour."""

PROOF_BYTES_PER_S = 200e6
"""How fast a depot hashes what it has taken."""

SYNC_ROUND_TRIPS = 9.0
"""Before a depot takes at full rate: connection and request 3, the start of a BBR flow 6 (`simulation`)."""

NEIGHBOUR_BYTES_PER_S = 2e6
"""What one of them gets of it at most."""


ImageKey = tuple[str | None, int]
"""An image: its name, and its size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """An image on its way to a depot, in seconds from the start of the run.

    Attributes:
        size_bytes: Its size.
        begins_s: Its first byte.
        received_s: Its last byte.
        proven_s: It is proven, and devices may pull it.
    """

    size_bytes: int
    begins_s: float
    received_s: float
    proven_s: float


def syncs(images: Iterable[ImageKey], *, from_s: float, bytes_per_s: float, rtt_s: float) -> dict[ImageKey, Sync]:
    """Return when each image is at a depot: one after the other, for two at once would both come late.

    Args:
        images: The images in the order in which devices need them; one that comes again is there already.
        from_s: When the first one may begin.
        bytes_per_s: What the link gives to copies, > 0.
        rtt_s: Round trip to the depot.
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
    """Return the key of the LAN behind a link; the blank keeps it apart from the names of sites."""
    return f"lan {link}"
