"""The account of a transfer, fed with TCP_INFO bytes made by hand."""

import struct
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.fileserver.ticket_accounts import TicketRequest, issue
from flashferry.fileserver.transfer import Transfer, TransferStart
from flashferry.fileserver.transfer_records import SenderReport, TransferRecord
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity
from flashferry.tcp.sample import ChannelReading
from flashferry.tcp.verdict import KnownLink, VerdictKind

_SIZE = 1_000_000
_SENDER = SenderReport(
    congestion_control_asked="auto",
    congestion_control_chosen="cubic",
    congestion_control="cubic",
    reason="",
    cap_asked_bytes_per_s=None,
    cap_bytes_per_s=None,
)
_PLACES = {
    "probes": (3, "B"),
    "mss": (16, "I"),
    "unacked": (24, "I"),
    "rtt": (68, "I"),
    "max_pacing": (112, "Q"),
    "all_again": (100, "I"),
    "acked": (120, "Q"),
    "min_rtt": (148, "I"),
    "busy": (168, "Q"),
    "rwnd": (176, "Q"),
    "sent": (200, "Q"),
    "again": (208, "Q"),
    "window": (228, "I"),
}


def _info(**values: int) -> bytes:
    raw = bytearray(280)
    for name, value in {"mss": 1460, "rtt": 100_000, "min_rtt": 100_000, "max_pacing": 2**64 - 1, **values}.items():
        offset, code = _PLACES[name]
        struct.pack_into(f"={code}", raw, offset, value)
    return bytes(raw)


def _transfer(offset: int = 0, base: int = 0, end: int | None = None, size: int = _SIZE, **more: Any) -> Transfer:
    image = ImageFile(
        name="a.bin",
        size_bytes=size,
        md5="",
        sha512="",
        path=Path("/a.bin"),
        identity=FileIdentity(device=1, inode=2, size_bytes=size, mtime_ns=3, ctime_ns=4),
    )
    start = TransferStart(
        grant=issue(TicketRequest(image_name="a.bin"), image)[1],
        peer_address="192.0.2.1",
        offset_bytes=offset,
        wall_s=1e9,
        now_s=100.0,
        control_syn=None,
        data_syn=None,
        transport="ftp",
        end_bytes=end,
    )
    return Transfer(start, _info(acked=base), **more)


def _close(transfer: Transfer, now_s: float, raw: bytes | None, **more: Any) -> TransferRecord:
    return transfer.record(outcome="x", raw_info=raw, now_s=now_s, sender=_SENDER, commands=(), **more)


def test_the_syn_of_a_connection_we_opened_is_no_payload() -> None:
    """In active mode the kernel counts our SYN as acknowledged; the FIN is not payload either."""
    transfer = _transfer(base=1)
    transfer.wrote(_SIZE, 100.1)
    transfer.take(_info(acked=_SIZE), 100.5)
    assert (transfer.acked_bytes, transfer.all_acked) == (_SIZE - 1, False)
    transfer.take(_info(acked=_SIZE + 2), 100.6)
    assert (transfer.acked_bytes, transfer.all_acked) == (_SIZE, True)


def test_a_channel_tells_what_waits_and_its_largest_window() -> None:
    """The record keeps the largest window that the client opened, and each sample what waited at its moment."""
    transfer = Transfer(_transfer().start, _info(), ChannelReading(waiting_bytes=0))
    transfer.wrote(_SIZE, 101.0)
    for second, (waiting, window) in enumerate([(9000, 8192), (500, 131_072), (70, 4096)], start=2):
        channel = ChannelReading(waiting_bytes=waiting, window_bytes=window)
        transfer.take(_info(acked=second), 100.0 + second, is_sample=True, channel=channel)
    assert transfer.sample(105.0).channel_waiting_bytes == 70
    record = _close(transfer, 106.0, _info(acked=9), channel=ChannelReading(waiting_bytes=3))
    assert record.channel_window_bytes == 131_072
    assert [sample.channel_waiting_bytes for sample in record.samples] == [0, 9000, 500, 70, 3]


def test_without_a_channel_nothing_is_said_of_one() -> None:
    """FTP has no channel, no cipher and no MAC: None and empty."""
    transfer = _transfer()
    transfer.wrote(_SIZE, 101.0)
    record = _close(transfer, 102.0, _info(acked=9))
    assert (record.channel_window_bytes, record.cipher, record.mac, record.client) == (None, "", "", "")
    assert {sample.channel_waiting_bytes for sample in record.samples} == {None}


def test_written_is_not_acknowledged() -> None:
    """The last byte in the kernel's hands is not the last byte delivered."""
    transfer = _transfer(offset=400_000)
    assert transfer.to_send_bytes == 600_000
    transfer.wrote(600_000, 100.1)
    assert (transfer.all_written, transfer.all_acked) == (True, False)


def test_times_and_rates_are_those_of_acknowledgements() -> None:
    """The rate is acknowledged bytes from the first byte to the last acknowledgement, without waits around them."""
    transfer = _transfer()
    transfer.wrote(_SIZE, 101.0)
    transfer.take(_info(acked=500_000), 102.0, is_sample=True)
    assert transfer.rate_bytes_per_s == pytest.approx(500_000)
    transfer.take(_info(acked=_SIZE), 103.0, is_sample=True)
    record = _close(transfer, 110.0, _info(acked=_SIZE + 1))
    assert (record.first_byte_s, record.last_byte_s, record.last_ack_s) == (1.0, 1.0, 3.0)
    assert (record.duration_s, record.rate_bytes_per_s) == (2.0, 500_000)


def test_nothing_acknowledged_is_no_progress() -> None:
    """Only a new acknowledgement moves the moment of the last progress."""
    transfer = _transfer()
    transfer.wrote(1000, 101.0)
    transfer.take(_info(acked=500), 102.0)
    transfer.take(_info(acked=500), 150.0)
    assert transfer.progressed_s == 102.0


def _running(bytes_per_s: int) -> Transfer:
    """Return a transfer of 1 MB that has run for two seconds at a rate, with a reading at the end of each."""
    transfer = _transfer()
    transfer.wrote(_SIZE, 100.0)
    for second in (1, 2):
        transfer.take(_info(acked=bytes_per_s * second), 100.0 + second, is_sample=True)
    return transfer


@pytest.mark.parametrize(
    ("bytes_per_s", "seen", "is_steady"),
    [
        (1000, {"acked": 3000}, True),
        (1000, {"acked": 2000}, True),
        (1000, {"acked": 3000, "all_again": 1}, False),
        (1000, {"acked": 2000 + _SIZE // 100}, False),
        (0, {"acked": 0}, True),
    ],
    ids=[
        "the same rate",
        "a step of a small window",
        "something was sent again",
        "a hundredth of the image",
        "a stall",
    ],
)
def test_a_reading_need_not_be_taken_while_nothing_changes(
    bytes_per_s: int, seen: dict[str, int], is_steady: bool
) -> None:
    """A retransmission or a hundredth of the image is news; the bytes of every reading count at once."""
    transfer = _running(bytes_per_s)
    assert transfer.is_steady(_info(**seen), 103.0) is is_steady
    assert transfer.acked_bytes == seen["acked"]
    assert transfer.progressed_s == (103.0 if seen["acked"] > 2 * bytes_per_s else 102.0 if bytes_per_s else 100.0)
    assert transfer.sampled_s == 102.0


@pytest.mark.parametrize(("bytes_per_s", "is_steady"), [(400_000, True), (700_000, False), (100_000, False)])
def test_a_rate_that_changes_by_a_third_is_news(bytes_per_s: int, is_steady: bool) -> None:
    """Whether it rises or falls."""
    transfer = _transfer(size=10**9)
    transfer.wrote(10**9, 100.0)
    transfer.take(_info(acked=400_000), 101.0, is_sample=True)
    assert transfer.is_steady(_info(acked=400_000 + bytes_per_s), 102.0) is is_steady


@pytest.mark.parametrize(
    ("values", "closed"), [({"window": 0}, True), ({"window": 500, "probes": 2}, True), ({"window": 500}, False)]
)
def test_a_closed_window_is_seen(values: dict[str, int], closed: bool) -> None:
    """A window of nothing, or probes under way, mean a client that is alive and cannot take more."""
    transfer = _transfer()
    transfer.take(_info(**values), 101.0)
    assert transfer.zero_window is closed


def test_an_hour_takes_no_more_memory_than_a_minute() -> None:
    """Readings are thinned evenly; times still span the whole and the counters' sum is kept."""
    transfer = _transfer()
    transfer.wrote(_SIZE, 100.0)
    for second in range(1, 3601):
        transfer.take(
            _info(acked=second * 200, sent=second * 200, busy=second * 10**6, window=4128),
            100.0 + second,
            is_sample=True,
        )
    record = _close(transfer, 3700.0, _info(acked=720_000, sent=720_000, busy=3600 * 10**6, window=4128))
    assert len(record.samples) <= 50
    assert record.samples[0].at_s == 0.0
    assert record.samples[-1].at_s == 3600.0
    gaps = {round(b.at_s - a.at_s) for a, b in zip(record.samples[1:], record.samples[2:], strict=False)}
    assert max(gaps) <= 2 * 128
    assert record.samples[-1].bytes_acked - record.samples[0].bytes_acked == 720_000


def test_the_largest_window_and_the_losses_are_kept() -> None:
    """The record has the largest window seen, although it shrank later, and what was sent again."""
    transfer = _transfer()
    transfer.wrote(_SIZE, 100.0)
    for second, window in enumerate((20_000, 60_000, 5_000), start=1):
        transfer.take(_info(acked=1000 * second, sent=2000 * second, again=100 * second, window=window), 100.0 + second)
    record = _close(transfer, 104.0, None)
    assert record.max_window_bytes == 60_000
    assert (record.retransmitted_bytes, record.retransmitted_share) == (300, 0.05)


def test_heavy_loss_must_last_ten_seconds() -> None:
    """More than 5 % in every reading of ten seconds counts; one better reading starts the wait anew."""
    transfer = _transfer()
    sent = again = 0
    for second in range(1, 31):
        sent += 1000
        again += 20 if second == 9 else 80
        transfer.take(_info(sent=sent, again=again), 100.0 + second, is_sample=True)
        assert transfer.loses_heavily(100.0 + second) is (second >= 20)


def test_no_more_is_counted_as_repaired_than_one_a_round_trip() -> None:
    """Without SACK what a timeout sends again beyond that had mostly arrived; a lull gives no credit for later."""
    transfer = _transfer()
    for at_s, all_again, repairs in (
        (100.2, 1, 1),
        (100.25, 1, 1),
        (100.3, 200, 2),
        (100.35, 201, 2),
        (101.35, 203, 4),
        (109.35, 203, 4),
        (109.4, 250, 5),
    ):
        transfer.take(_info(all_again=all_again, rtt=100_000), at_s)
        assert (transfer.loss_estimate.losses, transfer.loss_estimate.repairs) == (all_again, repairs)


def test_a_transfer_that_never_began_has_a_record_too() -> None:
    """Without a byte sent there are no times and no rate, and the verdict says it is too short."""
    record = _close(_transfer(), 100.5, None)
    assert (record.first_byte_s, record.duration_s, record.rate_bytes_per_s) == (None, 0.0, 0.0)
    assert record.verdict.kind is VerdictKind.TOO_SHORT


def test_the_verdict_so_far_is_that_of_the_readings_so_far() -> None:
    """Under way a full window is named as at the end; one reading names nothing."""
    transfer = _transfer()
    assert transfer.limited_by("cubic") is None
    transfer.wrote(_SIZE - 1, 100.0)
    for second in range(1, 9):
        busy = second * 1_000_000
        transfer.take(
            _info(acked=second * 40_000, sent=second * 40_000, unacked=3, window=4128, busy=busy, rwnd=busy),
            100.0 + second,
            is_sample=True,
        )
    assert transfer.limited_by("cubic") is VerdictKind.WINDOW


@pytest.mark.parametrize(("asked_bytes_per_s", "kind"), [(40_000, VerdictKind.CAP), (80_000, VerdictKind.RANDOM_LOSS)])
def test_a_pace_below_the_cap_is_judged_as_lowered_for_losses(asked_bytes_per_s: int, kind: VerdictKind) -> None:
    """The same readings at the same pace: what the sender was allowed tells whether the cap or its losses held it."""
    transfer = _transfer()
    transfer.wrote(_SIZE - 1, 100.0)
    for second in range(1, 13):
        sent = second * 40_000
        transfer.take(
            _info(acked=sent, sent=sent, again=sent // 25, window=900_000, busy=second * 1_000_000, max_pacing=40_000),
            100.0 + second,
            is_sample=True,
        )
    sender = replace(_SENDER, congestion_control="bbr", cap_asked_bytes_per_s=asked_bytes_per_s, cap_bytes_per_s=40_000)
    record = transfer.record(outcome="x", raw_info=None, now_s=112.0, sender=sender, commands=())
    assert record.verdict.kind is kind


@pytest.mark.parametrize(("found", "kind"), [(41_000, VerdictKind.BANDWIDTH), (None, VerdictKind.TOO_SHORT)])
def test_a_pace_of_the_transfer_s_own_teaches_only_what_it_found(found: int | None, kind: VerdictKind) -> None:
    """Its verdict is the link where a rate was found, and otherwise nothing that a link is learned from."""
    transfer = _transfer()
    transfer.wrote(_SIZE - 1, 100.0)
    for second in range(1, 13):
        sent = second * 40_000
        transfer.take(
            _info(acked=sent, sent=sent, again=0, window=900_000, busy=second * 1_000_000, max_pacing=40_000),
            100.0 + second,
            is_sample=True,
        )
    sender = replace(_SENDER, congestion_control="bbr", pace_bytes_per_s=40_000, found_link_bytes_per_s=found)
    record = transfer.record(outcome="x", raw_info=None, now_s=112.0, sender=sender, commands=())
    assert record.verdict.kind is kind


def test_a_link_that_is_known_to_carry_more_is_never_the_verdict() -> None:
    """The same readings, under way and at the end: full where nobody knows the link, and not where it has room."""
    transfer = _transfer()
    transfer.wrote(_SIZE - 1, 100.0)
    for second in range(1, 13):
        sent = second * 40_000
        transfer.take(
            _info(acked=sent, sent=sent, window=900_000, busy=second * 1_000_000, rtt=200_000),
            100.0 + second,
            is_sample=True,
        )
    sender = replace(_SENDER, congestion_control="bbr")
    link = KnownLink(bytes_per_s=400_000)
    assert transfer.limited_by("bbr") is VerdictKind.BANDWIDTH
    assert transfer.limited_by("bbr", None, link) is VerdictKind.UNKNOWN
    given: dict[str, Any] = {"outcome": "x", "raw_info": None, "now_s": 112.0, "sender": sender, "commands": ()}
    assert transfer.record(**given).verdict.kind is VerdictKind.BANDWIDTH
    assert transfer.record(**given, link=link).verdict.kind is VerdictKind.UNKNOWN


def test_a_part_of_an_image_ends_where_it_was_asked_to() -> None:
    """What is to be sent is what lies between both ends, and all of it is acknowledged there."""
    transfer = _transfer(offset=1000, end=3000)
    transfer.wrote(2000, 100.5)
    transfer.take(_info(acked=2000), 101.0)
    assert (transfer.to_send_bytes, transfer.all_written, transfer.all_acked) == (2000, True, True)


def test_what_goes_over_the_connection_beside_the_image_is_none_of_its_progress() -> None:
    """Bytes before the image count for nothing, and an estimate never exceeds what was written."""
    transfer = _transfer(base=7, base_acked_bytes=1, payload_of=lambda acked: acked - 300)
    transfer.wrote(1000, 100.5)
    found = []
    for acked in (1, 201, 301, 801, 1301, 9999):
        transfer.take(_info(acked=acked), 101.0)
        found.append(transfer.acked_bytes)
    assert found == [0, 0, 0, 500, 1000, 1000]


def test_a_record_says_by_what_it_was_fetched() -> None:
    """As the start of the transfer said."""
    assert _close(_transfer(), 101.0, None).transport == "ftp"
