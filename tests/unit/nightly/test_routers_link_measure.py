"""What is measured through a link is held against what was planned, however the controller counts latency."""

from __future__ import annotations

import math

import pytest

from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.routers import Pings, allowed_losses, judge_link, ping


def pings(rtt_ms, lost=0):
    return Pings(answers_s=(rtt_ms / 1e3,) * (20 - lost), sent=20)


@pytest.mark.parametrize(
    ("latency_ms", "rtt_ms", "fits", "told"),
    [
        (50, 50.4, True, "latency counts once per round trip"),
        (50, 100.9, True, "latency counts in each direction"),
        (50, 54.9, True, "once"),
        (50, 55.9, False, "expected a round trip of 50 or 100 ms, found 55.9 ms"),
        (50, 89.5, False, "found 89.5 ms"),
        (50, 110.5, False, "found 110.5 ms"),
        (50, 0.7, False, "found 0.7 ms"),
        (0, 1.2, True, "1.2 ms, 0 of 20 lost"),
        (0, 8.0, False, "expected a round trip of 0 or 0 ms"),
        (2, 3.0, True, "3.0 ms, 0 of 20 lost"),
    ],
)
def test_latency_may_count_once_or_twice_and_nothing_else(latency_ms, rtt_ms, fits, told):
    """Within ten per cent, or what a virtual router takes by itself; which it was is told where that shows."""
    found = judge_link(LinkCondition(latency_ms=latency_ms), pings(rtt_ms))
    assert (found.is_as_planned, told in found.sentence) == (fits, True)


def test_a_slow_links_own_time_for_a_packet_counts():
    """84 bytes at 64 kbit/s are 10.5 ms in each direction."""
    assert judge_link(LinkCondition(bandwidth_kbps=64, latency_ms=20), pings(61.0)).is_as_planned


def test_jitter_widens_what_fits():
    assert judge_link(LinkCondition(latency_ms=50, jitter_ms=20), pings(112.0)).is_as_planned


@pytest.mark.parametrize(("loss_percent", "allowed"), [(0.0, 1), (0.01, 1), (1.0, 3), (10.0, 10), (100.0, 20)])
def test_losses_are_held_against_chance(loss_percent, allowed):
    """One of twenty is never a finding; more than what comes once in a thousand nights is."""
    assert allowed_losses(loss_percent, 20) == allowed


@pytest.mark.parametrize("loss_percent", [0.5, 2.0, 5.0, 20.0])
def test_a_link_that_loses_as_planned_is_called_off_once_in_a_thousand_nights(loss_percent):
    """The rest of the binomial distribution, computed apart."""
    lost = 1 - (1 - loss_percent / 100) ** 2
    allowed = allowed_losses(loss_percent, 20)
    more = sum(math.comb(20, k) * lost**k * (1 - lost) ** (20 - k) for k in range(allowed + 1, 21))
    assert more <= 0.001
    assert judge_link(LinkCondition(latency_ms=5, loss_percent=loss_percent), pings(10, allowed)).is_as_planned
    assert not judge_link(LinkCondition(latency_ms=5, loss_percent=loss_percent), pings(10, allowed + 1)).is_as_planned


def test_a_link_that_answers_nothing_is_off():
    assert judge_link(LinkCondition(), pings(1, 20)).sentence == "none of 20 pings was answered"


def test_this_host_answers_its_own_pings():
    """By ICMP, or by TCP where that is not granted: then nobody listens here, and each is lost."""
    found = ping("127.0.0.1", port=1, planned=LinkCondition(), count=2)
    assert found.sent == 2
    assert found.is_tcp or found.rtt_ms < 100


def test_a_name_that_nobody_knows_answers_no_ping():
    assert ping("no-such-router.invalid", port=22, planned=LinkCondition(), count=2).rtt_ms is None
