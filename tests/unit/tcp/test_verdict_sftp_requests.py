"""Verdicts on transfers whose client asks for every piece: how much it asks for at a time may be the limit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import KnownLink, VerdictKind, classify_transfer
from tests.unit.tcp.flows import flow_of

_LINK = KnownLink(bytes_per_s=6.08e6)
_ASKED = 32_850


def _asking(asked: int | None = _ASKED, *, notsent: int = 0, waiting: int = 0, **flow: Any) -> list[Sample]:
    """A flow of one piece per round trip: at every other reading it is on its way, at the others it has come."""
    return [
        replace(
            sample,
            notsent_bytes=notsent,
            channel_waiting_bytes=waiting,
            asked_bytes=None if asked is None else asked * (index % 2),
        )
        for index, sample in enumerate(flow_of(**{"rate": 213_000.0, **flow}))
    ]


@pytest.mark.parametrize("link", [_LINK, None])
@pytest.mark.parametrize("control", ["bbr", "cubic"])
@pytest.mark.parametrize("app_limited", [True, False])
def test_a_client_that_asks_for_little_at_a_time_is_named_as_what_limits(
    app_limited: bool, control: str, link: KnownLink | None
) -> None:
    """With how much it asked for, what came of that, and what helps; neither unknown nor our server."""
    samples = _asking(app_limited=app_limited)
    verdict = classify_transfer(samples, congestion_control=control, link=link, channel_window_bytes=1_250_000)
    assert (verdict.kind, verdict.share) == (VerdictKind.SLOW_RECEIVER, 1.0)
    assert verdict.sentence == (
        "Slow receiver, 100% of the time: its SFTP client asked for at most 32.9 kB at a time, and for more only when "
        "that had come: with a round trip of 100 ms it took 0.213 MB/s."
    )
    assert verdict.advice.startswith("No window and no line helps: take SCP")
    assert "asked for by SFTP and not yet there 32.9 kB at most" in verdict.evidence


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"asked": None, "app_limited": True}, VerdictKind.SERVER),
        ({"waiting": 90_000, "app_limited": True}, VerdictKind.SSH_WINDOW),
        ({"window": 16_384, "in_flight": 16_384, "rwnd": 0.9, "notsent": 16_384}, VerdictKind.WINDOW),
        ({"asked": 2_100_000, "app_limited": True}, VerdictKind.SERVER),
        ({"asked": 800_000, "rate": 6.0e6, "rtt_ms": 133.0}, VerdictKind.BANDWIDTH),
        ({"max_pacing_rate_bytes_per_s": 213_000}, VerdictKind.CAP),
    ],
    ids=["need not ask", "channel", "tcp window", "asks for much", "fills the link", "cap"],
)
def test_another_cause_is_named_although_the_client_asks(more: dict[str, Any], kind: VerdictKind) -> None:
    """Its requests count only where all are in flight, go round once per round trip, and nothing else is full."""
    window = 32_768 if kind is VerdictKind.SSH_WINDOW else 1_250_000
    verdict = classify_transfer(_asking(**more), congestion_control="bbr", link=_LINK, channel_window_bytes=window)
    assert verdict.kind is kind
    assert "SFTP client asked" not in verdict.sentence


@given(asked=st.integers(4096, 4_000_000), part=st.floats(0.36, 1.0), rtt_ms=st.floats(5.0, 600.0))
def test_requests_that_go_round_are_the_limit_whatever_their_size(asked: int, part: float, rtt_ms: float) -> None:
    """All of it in flight, and a third of it or more per round trip of an empty path."""
    samples = _asking(asked, seconds=20, rate=part * asked / (rtt_ms / 1e3), rtt_ms=rtt_ms, least_ms=rtt_ms)
    verdict = classify_transfer(samples, congestion_control="bbr", channel_window_bytes=2**31)
    assert (verdict.kind, "SFTP client asked" in verdict.sentence) == (VerdictKind.SLOW_RECEIVER, True)
