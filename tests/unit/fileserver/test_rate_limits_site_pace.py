"""Copies of a site that share a pace, on readings made by hand."""

from __future__ import annotations

from flashferry.core.values import replace
from flashferry.fileserver.rate_limits import PacedCopy, SitePace, SitePaces
from flashferry.tcp.pacing import Phase
from flashferry.tcp.tcp_info import TcpInfo, parse_tcp_info
from tests.unit.tcp.path_model import MSS_BYTES

_INFO = replace(
    parse_tcp_info(bytes(280)), snd_mss_bytes=MSS_BYTES, rtt_us=100_000, min_rtt_us=100_000, snd_wnd_bytes=2_500_000
)


class _Copy:
    """One copy whose counters are moved on by hand."""

    def __init__(self, site: SitePace, now_s: float = 0.0) -> None:
        self.info: TcpInfo = _INFO
        self.paces: list[int] = []
        self.paced: PacedCopy = site.join(self.info, now_s, self._apply)

    def _apply(self, pace_bytes_per_s: int, _phase: Phase) -> None:
        self.paces.append(pace_bytes_per_s)

    def moved(self, segments: int, *, rtt_ms: float = 100.0, waited_us: int = 0) -> TcpInfo:
        self.info = replace(
            self.info,
            rtt_us=int(rtt_ms * 1000),
            delivered_segments=(self.info.delivered_segments or 0) + segments,
            bytes_sent=(self.info.bytes_sent or 0) + segments * MSS_BYTES,
            rwnd_limited_us=(self.info.rwnd_limited_us or 0) + waited_us,
        )
        return self.info


def _run(copies: dict[_Copy, float], seconds: float, now_s: float = 0.0) -> float:
    """Deliver to each copy at its rate, or at its pace if that is less; return the time then."""
    end_s = now_s + seconds
    while now_s < end_s:
        now_s += 0.02
        for copy, rate in copies.items():
            held = rate < copy.paces[-1]
            got = min(rate, copy.paces[-1]) * 0.02 / MSS_BYTES
            copy.paced.take(copy.moved(round(got), waited_us=20_000 if held else 0), now_s)
    return now_s


def test_copies_of_a_site_get_equal_shares() -> None:
    """Also one that comes later, at once, and the one that is left gets all."""
    site = SitePace()
    first, second = _Copy(site), _Copy(site)
    now_s = _run({first: 1e12, second: 1e12}, 1.0)
    assert abs(first.paces[-1] - second.paces[-1]) <= 2
    assert first.paces[-1] > 1e6
    both = first.paces[-1] + second.paces[-1]
    third = _Copy(site, now_s)
    assert abs(first.paces[-1] - both / 3) <= 2
    assert abs(third.paces[-1] - both / 3) <= 2
    second.paced.leave()
    third.paced.leave()
    assert abs(first.paces[-1] - both) <= 4


def test_what_a_slow_receiver_leaves_goes_to_the_others() -> None:
    """It keeps a quarter more than it takes; the rest is its neighbour's."""
    site = SitePace()
    slow, quick = _Copy(site), _Copy(site)
    _run({slow: 200_000, quick: 1e9}, 2.0)
    assert slow.paces[-1] >= 1.2 * 200_000
    assert quick.paces[-1] > 2 * slow.paces[-1]
    assert site.found_bytes_per_s is None


def test_a_queue_that_only_one_copy_sees_is_not_the_link_s() -> None:
    """It lies behind the link that they share, and so shows nothing of it."""
    site = SitePace()
    one, other = _Copy(site), _Copy(site)
    now_s = 0.0
    for _ in range(50):
        now_s += 0.02
        one.paced.take(one.moved(20, rtt_ms=200.0), now_s)
        other.paced.take(other.moved(20), now_s)
    assert site.found_bytes_per_s is None


def test_one_that_has_left_is_told_nothing_more() -> None:
    """Its socket may be somebody else's by then."""
    site = SitePace()
    gone, left = _Copy(site), _Copy(site)
    gone.paced.leave()
    told = len(gone.paces)
    _run({left: 1e9}, 0.5)
    gone.paced.leave()
    assert len(gone.paces) == told


def _find(site: SitePace, now_s: float = 0.0) -> float:
    """Let a copy run into a full link of 3 MB/s, and leave again; return the time then."""
    copy = _Copy(site, now_s)
    queue_s = 0.0
    for _ in range(200):
        now_s += 0.02
        sent = min(copy.paces[-1], 1e9) * 0.02
        queue_s = max(0.0, queue_s + (sent - 60_000) / 3e6)
        copy.paced.take(copy.moved(int(min(sent, 60_000) // MSS_BYTES), rtt_ms=100 + queue_s * 1e3), now_s)
    copy.paced.leave()
    return now_s


def test_a_later_copy_begins_nearer_to_what_was_found_for_its_site_alone() -> None:
    """After a copy has found the rate the next one begins at half of it; another site knows nothing of that."""
    paces = SitePaces()
    now_s = _find(paces.of("branch", 0.0))
    later, elsewhere = _Copy(paces.of("branch", now_s + 60), now_s + 60), _Copy(paces.of("far", now_s), now_s)
    assert 1.2e6 < later.paces[0] < 1.6e6
    assert elsewhere.paces[0] < 0.5e6


def test_after_an_hour_what_was_found_is_forgotten() -> None:
    """A link may be another one by then."""
    paces = SitePaces()
    now_s = _find(paces.of("branch", 0.0))
    assert _Copy(paces.of("branch", now_s + 3700), now_s + 3700).paces[0] < 0.5e6
