"""How much of a site's link a copy may take. Pure."""

from __future__ import annotations

MTU_BYTES = 1500
HEADERS_BYTES = 40
"""IPv4 and TCP header without options, as in every data segment to a device that does not use timestamps."""


def payload_cap_bytes_per_s(cap_bps: float | None) -> int | None:
    """Return a cap on the link as a rate of payload, which is what the kernel paces by; None stays None.

    Args:
        cap_bps: Bits per second on the link, IP headers included.
    """
    return None if cap_bps is None else int(cap_bps / 8 * (MTU_BYTES - HEADERS_BYTES) / MTU_BYTES)
