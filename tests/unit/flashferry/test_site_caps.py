"""Caps from learned link rates, with a server that only notes what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashferry.site_caps import LearnedCaps
from ftpserver import EventKind, FtpServer, ServerEvent, SiteRates
from tcp.link_rate import MAX_AGE_S
from tcp.sample import Sample
from tcp.verdict import VerdictKind

NETWORK = "192.0.2.0/24"
NOW_S = 1_000_000.0


@dataclass
class _Server:
    caps: list[tuple[str, int | None, str]] = field(default_factory=list)

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str = "") -> None:
        self.caps.append((site, cap_bytes_per_s, source))


def _record(kind: VerdictKind, rate: int) -> Any:
    samples = tuple(
        Sample(at_s=s, rtt_us=1, snd_mss_bytes=1460, snd_cwnd_segments=1, unacked_segments=0, bytes_acked=s * rate)
        for s in range(11)
    )
    return SimpleNamespace(
        started_at=NOW_S - 10,
        last_ack_s=10.0,
        duration_s=10.0,
        rate_bytes_per_s=float(rate),
        verdict=SimpleNamespace(kind=kind),
        mss_bytes=1460,
        peer_address="192.0.2.7",
        samples=samples,
    )


def _event(kind: EventKind, record: Any = None, address: str | None = "192.0.2.7") -> ServerEvent:
    progress = cast("Any", SimpleNamespace(record=record))
    return ServerEvent(kind=kind, at=NOW_S, text="", peer_address=address, progress=progress)


class _Bench:
    def __init__(self, rates: SiteRates | None = None) -> None:
        self.now_s = NOW_S
        self.server = _Server()
        self.rates = rates or SiteRates()
        self.caps = LearnedCaps(cast("FtpServer", self.server), self.rates, wall=lambda: self.now_s)

    def take(self, *arguments: Any) -> list[str]:
        return list(self.caps.take(_event(*arguments)))


def test_a_transfer_the_link_held_back_caps_its_network() -> None:
    """The next copies share 80 % of it; the notice has rate, age and source, and comes once."""
    bench = _Bench()
    (told,) = bench.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 6_083_333))
    source = "80% of 50 Mbit/s, learned 0 s ago from 192.0.2.7 (verdict bandwidth)"
    assert told == f"{NETWORK}: copies share 4.87 MB/s, {source}"
    ((site, cap, given_source),) = bench.server.caps
    assert (site, given_source) == (NETWORK, source)
    assert cap == pytest.approx(4_866_666, abs=2)
    bench.now_s += 7200
    assert bench.take(EventKind.LOGIN) == []
    assert bench.server.caps[-1][2] == source.replace("0 s", "2 h")


@pytest.mark.parametrize("kind", [VerdictKind.WINDOW, VerdictKind.RANDOM_LOSS, VerdictKind.CAP])
def test_other_transfers_cap_nothing(kind: VerdictKind) -> None:
    """What was limited by something else leaves the network without a cap and without a word."""
    bench = _Bench()
    assert bench.take(EventKind.DONE, _record(kind, 6_000_000)) == []
    assert bench.server.caps == []


def test_an_old_rate_is_lifted() -> None:
    """After its time the cap goes, and that is said once."""
    bench = _Bench()
    bench.take(EventKind.FAILED, _record(VerdictKind.POLICER, 1_000_000))
    bench.now_s += MAX_AGE_S + 1
    assert bench.take(EventKind.LOGIN) == [f"{NETWORK}: the learned link rate is too old, copies run without a cap"]
    assert bench.server.caps[-1][:2] == (NETWORK, None)
    assert bench.take(EventKind.LOGIN) == []


def test_what_is_known_holds_from_the_start() -> None:
    """Rates of an earlier run are in force before the first client comes."""
    first = _Bench()
    first.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 5_000_000))
    second = _Bench(first.rates)
    assert len(list(second.caps.start())) == 1
    assert second.server.caps[0][0] == NETWORK


def test_events_without_a_client_or_a_transfer_change_nothing() -> None:
    """Notices, progress and failed logins are no reason to look."""
    bench = _Bench()
    bench.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 5_000_000))
    del bench.server.caps[:]
    for event in ((EventKind.NOTICE, None, None), (EventKind.PROGRESS,), (EventKind.LOGIN_FAILED,)):
        assert bench.take(*event) == []
    assert bench.server.caps == []
