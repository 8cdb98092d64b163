"""Recognises the control-plane policer of a Catalyst as the limit of a copy, and names it in the verdict. Pure.

Facts
-----
* Packets to a Catalyst 9000 itself pass the policer of its control plane, class `system-cpp-police-forus`, counted in
  packets a second: 1000 by default on a C9300 with 17.18.3, where push by SCP and `copy https:` both stopped at
  1.4 MB/s whatever window, bulk mode or cipher; with 10,000 it took 7.3 MB/s
  (cisco-open/intelligent-release-image-staging). 4000 is the default that other releases print, 5.8 MB/s at 1460 bytes
  each. Which release has which is not known, nor whether the management port escapes it.
* It protects the switch's processor for the network's own protocols, so we never change its rate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.core.units import exact_rate
from flashferry.tcp.verdict_rules import VerdictKind

if TYPE_CHECKING:
    from flashferry.tcp.verdict import Verdict

CLASS = "system-cpp-police-forus"
"""Policer class of packets to the switch itself."""

DEFAULT_PACKETS_PER_S = (1000, 4000)
"""Default rates of the policer that were seen."""

_CATALYST = re.compile(r"^(?:C9[2-6]\d\d|C9KV)", re.IGNORECASE)
_LEAST, _MOST = 0.85, 1.05
"""Range of a copy's rate, as a part of the policer's rate, of which retransmissions use some."""


def policed_packets_per_s(model: str, rate_bytes_per_s: float, mss_bytes: int | None) -> int | None:
    """Return the policer's default rate, in packets per second, that a copy's rate corresponds to, or None.

    Only Catalyst 9000 switches such as `C9300-48P` have this policer.
    """
    if not _CATALYST.match(model) or not mss_bytes:
        return None
    packets_per_s = rate_bytes_per_s / mss_bytes
    return next((limit for limit in DEFAULT_PACKETS_PER_S if _LEAST <= packets_per_s / limit <= _MOST), None)


def named(verdict: Verdict, *, model: str, rate_bytes_per_s: float, mss_bytes: int | None) -> Verdict:
    """Return a verdict `policer` that names the control plane, if the rate matches it; else the verdict unchanged."""
    limit = policed_packets_per_s(model, rate_bytes_per_s, mss_bytes)
    if verdict.kind is not VerdictKind.POLICER or limit is None or mss_bytes is None:
        return verdict
    allowed = exact_rate(limit * mss_bytes)
    sentence = (
        f"{verdict.sentence.removesuffix('.')}; most likely the {model}'s own control plane, class '{CLASS}', which "
        f"lets {limit} packets a second through: {limit} x {mss_bytes} bytes = {allowed}."
    )
    advice = (
        f"{verdict.advice} No window, cipher or other transport makes it faster. Never change '{CLASS}': it keeps the "
        "switch's processor free for its routing protocols. Give the copy the time that it takes."
    )
    evidence = (
        *verdict.evidence,
        f"{rate_bytes_per_s / mss_bytes:.0f} full packets a second; policer's default {limit}",
    )
    return replace(verdict, sentence=sentence, advice=advice.strip(), evidence=evidence)
