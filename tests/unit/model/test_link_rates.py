"""What links carry: stated in the inventory, or learned from earlier transfers and kept between runs."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import SenderReport, TransferRecord
from flashferry.model.link_rates import STATED, LinkRates, copy_share
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import Verdict
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.host_view import HostView

STARTED_S = 1_000_000.0
SECONDS = 20
RATE_BYTES_PER_S = 6_000_000
LINK_BPS = RATE_BYTES_PER_S * 8 * 1500 / 1460
HOST = HostView(
    name="r1",
    address="192.0.2.77",
    port=22,
    platform="ios",
    site="branch",
    link_rate_bps=None,
    cap_share=0.5,
    server_address=None,
    vrf=None,
    is_cap_share_stated=True,
)
PEER = "192.0.2.77"
TRANSFER = TransferRecord(
    ticket_id="t",
    image_name="a.bin",
    peer_address=PEER,
    outcome="delivered",
    started_at=STARTED_S,
    first_byte_s=0.5,
    last_byte_s=SECONDS,
    last_ack_s=SECONDS + 0.5,
    offset_bytes=0,
    size_bytes=SECONDS * RATE_BYTES_PER_S,
    bytes_sent=SECONDS * RATE_BYTES_PER_S,
    bytes_acked=SECONDS * RATE_BYTES_PER_S,
    duration_s=float(SECONDS),
    rate_bytes_per_s=float(RATE_BYTES_PER_S),
    retransmitted_bytes=0,
    retransmitted_share=0.0,
    min_rtt_s=0.1,
    srtt_s=0.1,
    max_window_bytes=1_000_000,
    control_syn=None,
    data_syn=None,
    mss_bytes=1460,
    sack=True,
    sender=SenderReport(
        congestion_control_asked="auto",
        congestion_control_chosen="bbr",
        congestion_control="bbr",
        reason="",
        cap_asked_bytes_per_s=None,
        cap_bytes_per_s=None,
    ),
    verdict=Verdict(kind=VerdictKind.BANDWIDTH, share=1.0, sentence="", evidence=()),
    samples=tuple(
        Sample(
            at_s=second,
            rtt_us=1,
            snd_mss_bytes=1460,
            snd_cwnd_segments=1,
            unacked_segments=0,
            bytes_acked=second * RATE_BYTES_PER_S,
        )
        for second in range(SECONDS + 1)
    ),
    commands=(),
)


def rates(folder, *, hours_later: float = 3.0) -> LinkRates:
    return LinkRates(folder, wall=lambda: STARTED_S + hours_later * 3600)


def test_a_stated_rate_wins(tmp_path):
    """What the operator says is not overruled by what was seen."""
    links = rates(tmp_path)
    links.note(HOST, TRANSFER)
    found = links.of(replace(HOST, link_rate_bps=1e6), PEER)
    assert found is not None
    assert (found.rate_bps, found.source) == (1e6, STATED)
    assert links.learned_site_caps([HOST, replace(HOST, name="r2", link_rate_bps=1e6)]) == {}


def test_a_rate_is_learned_and_kept_for_the_next_run(tmp_path):
    """Rate, age, client and verdict come from the file of an earlier run; the site's copies share a part of it."""
    rates(tmp_path).note(HOST, TRANSFER)
    later = rates(tmp_path)
    found = later.of(HOST, PEER)
    assert found is not None
    assert found.rate_bps == pytest.approx(LINK_BPS, rel=0.01)
    assert "learned 3 h ago from 192.0.2.77 (verdict bandwidth)" in found.source
    cap = later.learned_site_caps([HOST])["branch"]
    assert cap.bytes_per_s == pytest.approx(RATE_BYTES_PER_S / 2, rel=0.01)
    assert cap.source.startswith("50% of ")


def test_an_old_rate_is_forgotten(tmp_path):
    """After a week a rate says nothing."""
    rates(tmp_path).note(HOST, TRANSFER)
    assert rates(tmp_path, hours_later=8 * 24).of(HOST, PEER) is None


def test_a_device_without_a_site_learns_by_its_network(tmp_path):
    """Its /24 stands for a site; another network knows nothing."""
    links, alone = rates(tmp_path), replace(HOST, site=None)
    links.note(alone, TRANSFER)
    assert links.of(alone, "192.0.2.1") is not None
    assert links.of(alone, "198.51.100.1") is None
    assert links.of(HOST, PEER) is None
    cap = links.cap(alone, PEER)
    assert cap is not None
    assert cap.bytes_per_s == pytest.approx(RATE_BYTES_PER_S / 2, rel=0.01)
    assert links.learned_site_caps([alone]) == {}


def test_a_learned_rate_holds_nothing_back_unless_a_share_is_stated(tmp_path):
    """It serves plans; the copies find their pace themselves, for the link may carry more by now."""
    links, free = rates(tmp_path), replace(HOST, is_cap_share_stated=False)
    links.note(free, TRANSFER)
    links.note(replace(free, site=None), TRANSFER)
    assert links.learned_site_caps([free]) == {}
    assert links.cap(replace(free, site=None), PEER) is None
    assert copy_share(free, links.of(free, PEER)) == 0.98
    assert copy_share(HOST, links.of(HOST, PEER)) == 0.5
    stated = replace(free, link_rate_bps=1e6)
    assert copy_share(stated, links.of(stated, PEER)) == 0.5
    assert links.cap(stated, PEER) is not None


def test_a_copy_that_its_window_held_back_shows_no_link():
    """Only a verdict that names the link teaches its rate."""
    links = LinkRates(wall=lambda: STARTED_S + 60)
    links.note(HOST, replace(TRANSFER, verdict=replace(TRANSFER.verdict, kind=VerdictKind.WINDOW)))
    assert links.of(HOST, PEER) is None
    assert links.cap(HOST, PEER) is None
