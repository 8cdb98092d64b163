"""Journals with something in them: transfers as the server tells them, devices in hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import SenderReport, TransferRecord
from flashferry.store.transfer_row import STAGE, TransferEntry
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import Verdict
from flashferry.tcp.verdict_rules import VerdictKind

STARTED_S = 1_780_000_000.0

TRANSFER = TransferRecord(
    ticket_id="t1",
    image_name="x.bin",
    peer_address="192.0.2.1",
    outcome="delivered",
    started_at=STARTED_S,
    first_byte_s=0.1,
    last_byte_s=9.9,
    last_ack_s=10.0,
    offset_bytes=0,
    size_bytes=20_000_000,
    bytes_sent=20_000_000,
    bytes_acked=20_000_000,
    duration_s=10.0,
    rate_bytes_per_s=2_000_000.0,
    retransmitted_bytes=0,
    retransmitted_share=0.0,
    min_rtt_s=0.1,
    srtt_s=0.11,
    max_window_bytes=1_250_000,
    control_syn=None,
    data_syn=None,
    mss_bytes=1460,
    sack=True,
    sender=SenderReport(
        congestion_control_asked="auto",
        congestion_control_chosen="bbr",
        congestion_control="bbr",
        reason="SACK and a cap",
        cap_asked_bytes_per_s=None,
        cap_bytes_per_s=None,
    ),
    verdict=Verdict(kind=VerdictKind.BANDWIDTH, share=0.9, sentence="Bandwidth.", evidence=()),
    samples=tuple(
        Sample(
            at_s=at_s,
            rtt_us=100_000,
            snd_mss_bytes=1460,
            snd_cwnd_segments=100,
            unacked_segments=50,
            bytes_acked=int(at_s * 2e6),
        )
        for at_s in (0.0, 5.0, 10.0)
    ),
    commands=("RETR x.bin 226",),
)


@pytest.fixture
def transfer() -> TransferRecord:
    return TRANSFER


@pytest.fixture
def kept() -> Callable[..., TransferEntry]:
    """Return a maker of kept transfers; what it is given of a TransferRecord goes there."""

    def make(
        kind: str = STAGE, *, tuned: bool = True, target: str = "flash:x.bin", verdict: str = "bandwidth", **of_record
    ) -> TransferEntry:
        steady = of_record.pop("steady_bytes_per_s", None)
        record = replace(TRANSFER, **of_record, verdict=replace(TRANSFER.verdict, kind=VerdictKind(verdict)))
        return TransferEntry(
            identity="SN1/r1",
            kind=kind,
            tuned=tuned,
            target=target,
            image=record.image_name,
            record=record,
            steady_bytes_per_s=steady,
        )

    return make
