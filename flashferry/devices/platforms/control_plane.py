"""What the control plane of a Catalyst takes of a copy: a policer's verdict gets the policer's name. Pure.

Facts
-----
* Packets to a Catalyst 9000 itself pass the policer of its control plane, class `system-cpp-police-forus`, counted in
  packets a second: 1000 by default on a C9300 with 17.18.3, where push by SCP and `copy https:` both stopped at
  1.4 MB/s whatever window, bulk mode or cipher; with 10,000 it took 7.3 MB/s
  (cisco-open/intelligent-release-image-staging). 4000 is the default that other releases print, 5.8 MB/s at 1460 bytes
  each. Which release has which is not known, nor whether the management port escapes it.
* It keeps the switch's processor free for what the network needs, such as routing protocols: its rate is never ours to
  change.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from flashferry.core.units import exact_rate
from flashferry.tcp.verdict_rules import VerdictKind

if TYPE_CHECKING:
    from flashferry.tcp.verdict import Verdict

CLASS = "system-cpp-police-forus"
"""The class of the policer that packets to the switch itself are in."""

DEFAULT_PACKETS_PER_S = (1000, 4000)
"""Rates that it has by default, as far as they were seen."""

_CATALYST = re.compile(r"^(?:C9[2-6]\d\d|C9KV)", re.IGNORECASE)
_LEAST, _MOST = 0.85, 1.05
"""Of the policer's rate: what is sent again takes a part of it."""


def policed_packets_per_s(model: str, rate_bytes_per_s: float, mss_bytes: int | None) -> int | None:
    """Return the policer's rate in packets a second that a copy's rate comes to, or None.

    Only a Catalyst 9000 switch such as `C9300-48P` has it.
    """
    if not _CATALYST.match(model) or not mss_bytes:
        return None
    packets_per_s = rate_bytes_per_s / mss_bytes
    return next((limit for limit in DEFAULT_PACKETS_PER_S if _LEAST <= packets_per_s / limit <= _MOST), None)


def named(verdict: Verdict, *, model: str, rate_bytes_per_s: float, mss_bytes: int | None) -> Verdict:
    """Return a policer's verdict with the name of the device's control plane, where its rate is that; else as it is."""
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
