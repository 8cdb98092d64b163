"""Verdicts on flows measured over emulated links, where the cause is known because it was set."""

import json
from pathlib import Path
from typing import Any

import pytest

from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import VerdictKind, classify_transfer

_CAPTURE = json.loads((Path(__file__).parents[2] / "captures" / "flows.json").read_text(encoding="utf-8"))
_FLOWS = {flow["name"]: flow for flow in _CAPTURE["flows"]}
_W, _S, _L, _B, _P = (
    VerdictKind.WINDOW,
    VerdictKind.SLOW_RECEIVER,
    VerdictKind.RANDOM_LOSS,
    VerdictKind.BANDWIDTH,
    VerdictKind.POLICER,
)
# Under CUBIC a queue of five packets looks like random loss, and its advice says so. Under BBR random loss does not
# limit, and a policer that allows short bursts looks like the link it stands for. A reader that always leaves the same
# third of its buffer unread, from the first byte on, shows nothing but a smaller window.
_EXPECTED = {
    "window64k rtt40": (_W, _W),
    "window64k lan slow 100k/s": (_S, _S),
    "window64k lan slow 1M/s": (_S, _S),
    "window64k lan slow 4M/s": (_S, _S),
    "bigwindow slow 500k/s": (_S, _S),
    "slow 500k/s 64k rtt40": (_W, _W),
    "loss 0.5%": (_L, _B),
    "loss 0.05%": (_L, _B),
    "link full": (_B, _B),
    "link full, queue 20": (_B, _B),
    "link, queue 5": (_L, _B),
    "policer burst 15k": (_P, _B),
    "policer burst 64k": (_P, _P),
    "policer burst 200k": (_P, _P),
    "cap": (VerdictKind.CAP, VerdictKind.CAP),
}


def _samples(flow: dict[str, Any], count: int | None = None) -> list[Sample]:
    rows = flow["readings"][:count]
    return [Sample(**dict(zip(_CAPTURE["fields"], row, strict=True))) for row in rows]


@pytest.mark.parametrize("name", _FLOWS)
def test_the_cause_that_was_set_is_the_one_named(name: str) -> None:
    """Each measured flow is judged as what was done to it, for most of its time."""
    flow = _FLOWS[name]
    control, _, case = name.partition(" ")
    verdict = classify_transfer(_samples(flow), congestion_control=flow["congestion_control"])
    assert verdict.kind is _EXPECTED[case][control == "bbr"]
    assert verdict.share > 0.6


@pytest.mark.parametrize("name", [name for name in _FLOWS if "slow" in name or "window" in name])
@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_a_short_look_is_right_or_says_that_it_is_short(name: str, count: int) -> None:
    """The first seconds of a flow give the verdict of the whole or none, never another one."""
    flow = _FLOWS[name]
    whole = classify_transfer(_samples(flow), congestion_control=flow["congestion_control"])
    short = classify_transfer(_samples(flow, count), congestion_control=flow["congestion_control"])
    assert short.kind in (whole.kind, VerdictKind.TOO_SHORT, VerdictKind.UNKNOWN)
    assert (short.kind is VerdictKind.TOO_SHORT) == (count < 5)
