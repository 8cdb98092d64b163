"""What a device's attempt to fetch a tiny file from us showed."""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.tcp.syn import SynOptions
from tasks.connectivity import ReachReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Whether a device can fetch a file from us, and what that showed.

    Attributes:
        report: Whether it can, and what is in the way.
        syn: The SYN of its data connection, or of its control connection where we called it back: what its TCP
            settings come to on the wire.
        rtt_s: Least round-trip time of the copy, or None.
        mode: `passive` or `active`, or None where no data connection was asked for.
    """

    report: ReachReport
    syn: SynOptions | None
    rtt_s: float | None
    mode: str | None
