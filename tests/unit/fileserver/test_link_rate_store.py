"""Link rates of sites kept between runs."""

import json
import logging
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.fileserver.link_rate_store import SiteRates, delivery_of, network_of
from flashferry.fileserver.transfer_records import SenderReport, TransferRecord
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import Verdict, VerdictKind

_STARTED = 1_000_000.0


def _record(rate: int = 5_000_000, kind: VerdictKind = VerdictKind.BANDWIDTH, seconds: int = 20) -> TransferRecord:
    samples = tuple(
        Sample(at_s=s, rtt_us=1, snd_mss_bytes=1460, snd_cwnd_segments=1, unacked_segments=0, bytes_acked=s * rate)
        for s in range(seconds + 1)
    )
    return TransferRecord(
        ticket_id="t",
        image_name="a.bin",
        peer_address="192.0.2.77",
        outcome="delivered",
        started_at=_STARTED,
        first_byte_s=0.5,
        last_byte_s=seconds,
        last_ack_s=seconds + 0.5,
        offset_bytes=0,
        size_bytes=seconds * rate,
        bytes_sent=seconds * rate,
        bytes_acked=seconds * rate,
        duration_s=float(seconds),
        rate_bytes_per_s=float(rate),
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
        verdict=Verdict(kind=kind, share=1.0, sentence="", evidence=()),
        samples=samples,
        commands=(),
    )


def test_a_record_becomes_a_delivery() -> None:
    """Its end in wall-clock time, its sustained rate, and what limited it."""
    delivery = delivery_of(_record())
    assert delivery is not None
    assert (delivery.ended_at, delivery.sustained_bytes_per_s) == (_STARTED + 20.5, 5_000_000)
    assert (delivery.kind, delivery.peer_address) == (VerdictKind.BANDWIDTH, "192.0.2.77")


@pytest.mark.parametrize("wrong", [{"last_ack_s": None}, {"duration_s": 0.9}, {"mss_bytes": None}])
def test_a_transfer_that_hardly_was_tells_nothing(wrong: dict[str, None]) -> None:
    """Without an acknowledged byte, a second or a segment size there is nothing to learn."""
    assert delivery_of(replace(_record(), **wrong)) is None
    rates = SiteRates()
    rates.note("branch", replace(_record(), **wrong))
    assert rates.sites() == ()


def test_a_rate_is_learned_and_outlives_the_run(tmp_path: Path) -> None:
    """What one run learned the next one reads from the file, for that site alone."""
    path = tmp_path / "new" / "rates.json"
    SiteRates(path).note("branch", _record())
    again = SiteRates(path)
    learned = again.learned("branch", _STARTED + 3600)
    assert learned is not None
    assert learned.rate_bps == pytest.approx(5e6 * 8 * 1500 / 1460)
    assert again.learned("elsewhere", _STARTED + 3600) is None
    assert again.sites() == ("branch",)


def test_files_stay_small() -> None:
    """Of each site the latest 32 transfers, and the thousand sites last heard of."""
    rates = SiteRates()
    for number in range(1100):
        rates.note(str(number), _record(seconds=1))
    for _ in range(40):
        rates.note("100", _record(seconds=1))
    assert len(rates.sites()) == 1000
    assert rates.sites()[-1] == "100"
    assert len(rates._sites["100"]) == 32


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 5}', '{"a": [{"kind": "x"}]}', '{"a": ["b"]}'])
def test_a_damaged_file_is_done_without(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is reported, and rates are learned anew."""
    path = tmp_path / "rates.json"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        rates = SiteRates(path)
    assert rates.sites() == ()
    assert "link rates are learned again" in caplog.text
    rates.note("branch", _record())
    assert list(json.loads(path.read_text())) == ["branch"]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.0/24"),
        ("::ffff:10.1.2.3", "10.1.2.0/24"),
        ("2001:db8:1:2::3", "2001:db8:1::/48"),
        ("fe80::1%eth0", "fe80::/48"),
    ],
)
def test_a_client_s_network_stands_for_its_site(address: str, network: str) -> None:
    """The /24 or /48, with IPv4 mapped into IPv6 as IPv4."""
    assert network_of(address) == network
