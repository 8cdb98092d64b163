"""Statistics of one transfer: from readings of TCP_INFO to progress and record. No sockets."""

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flashferry.fileserver.socket_tuning import FALL_BACK_AFTER_S, FALL_BACK_SHARE, LossEstimate
from flashferry.fileserver.transfer_records import SenderReport, TransferRecord
from flashferry.tcp.sample import ChannelReading, Sample, SampleSeries
from flashferry.tcp.tcp_info import TcpInfo, parse_progress, parse_tcp_info
from flashferry.tcp.verdict import VerdictKind, classify_transfer

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.ticket_accounts import TicketGrant
    from flashferry.tcp.syn import SynOptions
    from flashferry.tcp.verdict import KnownLink, OwnPace

_READINGS_SO_FAR = 16
"""Readings for an interim verdict: enough to find a cause, in a third of the time that all of them take."""

_STEADY_SHARE = 0.25
_STEADY_BYTES = 64 * 1024
"""A copy is steady while it keeps to its last rate within this share, and within as many bytes: a receiver with a small
window acknowledges in steps."""

_STEP_SHARE = 0.01
"""Part of the image after which a reading is due in any case: its whole percents are shown one by one."""


_parsed = lru_cache(maxsize=16)(parse_tcp_info)
"""Parsed readings of the transfers at work now; the others keep theirs as bytes, a quarter of the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStart:
    """Values that are known at the start of a transfer.

    Attributes:
        grant: The ticket.
        peer_address: The client.
        offset_bytes: Offset in the image of the first byte sent.
        wall_s: Wall-clock time, seconds since 1970.
        now_s: Monotonic time, the origin of all offsets.
        control_syn: SYN of the control connection.
        data_syn: SYN of the data connection.
        cipher: Name of the cipher of an encrypted transfer, as its protocol calls it; empty in clear text.
        mac: Name of its MAC; empty without one, as with ciphers that authenticate by themselves.
        client: SSH version or User-Agent of the client; empty if unknown.
        transport: Name of the transport, one of `ListenerSettings.transports`.
        end_bytes: Offset of the first byte of the image that is not sent; None sends it to its end.
    """

    grant: "TicketGrant"
    peer_address: str
    offset_bytes: int
    wall_s: float
    now_s: float
    control_syn: "SynOptions | None"
    data_syn: "SynOptions | None"
    cipher: str = ""
    mac: str = ""
    client: str = ""
    transport: str
    end_bytes: int | None = None


class Transfer:
    """Statistics of one transfer.

    Args:
        start: Values known at its start.
        raw_info: TCP_INFO at that time, as the kernel returned it.
        channel: The SSH channel at that time; None without a channel.
        payload_of: Returns how many of the acknowledged bytes are of the image; None counts all.
        base_acked_bytes: Acknowledged bytes before those that `payload_of` counts; None takes them from `raw_info`.
    """

    def __init__(
        self,
        start: TransferStart,
        raw_info: bytes,
        channel: ChannelReading | None = None,
        *,
        payload_of: "Callable[[int], int] | None" = None,
        base_acked_bytes: int | None = None,
    ) -> None:
        self.start = start
        self._payload_of = payload_of
        self._raw_info = raw_info
        self.acked_bytes = 0
        self.rate_bytes_per_s = 0.0
        self.written_bytes = 0
        self.progressed_s = start.now_s
        self._base_acked = (self.info.bytes_acked or 0) if base_acked_bytes is None else base_acked_bytes
        self._first_byte_s: float | None = None
        self._last_byte_s: float | None = None
        self._last_ack_s: float | None = None
        self._max_window_bytes = self.info.snd_wnd_bytes
        self._rate_from = (start.now_s, 0)
        self._heavy_loss_since_s: float | None = None
        self._loss_from = (0, 0)
        self._repairs = 0
        self._repairs_from = (start.now_s, self.info.total_retrans_segments)
        self._round_trips = 1.0
        self._channel = channel
        self._channel_window_bytes = channel.window_bytes if channel is not None else None
        self._readings = SampleSeries(start.now_s, raw_info, channel)

    @property
    def info(self) -> TcpInfo:
        """The last reading taken."""
        return _parsed(self._raw_info)

    @property
    def to_send_bytes(self) -> int:
        """Payload of this transfer: the image from its offset to the end of the image or of the requested range."""
        end_bytes = self.start.end_bytes
        if end_bytes is None:
            end_bytes = self.start.grant.image.size_bytes
        return end_bytes - self.start.offset_bytes

    @property
    def all_written(self) -> bool:
        """Whether the last byte was handed to the kernel."""
        return self.written_bytes >= self.to_send_bytes

    @property
    def all_acked(self) -> bool:
        """Whether the client acknowledged the last byte."""
        return self.all_written and self.acked_bytes >= self.to_send_bytes

    @property
    def retransmitted_share(self) -> float | None:
        """Retransmitted part of all bytes sent; None if unknown."""
        if not self.info.bytes_sent or self.info.bytes_retrans is None:
            return None
        return self.info.bytes_retrans / self.info.bytes_sent

    @property
    def loss_estimate(self) -> LossEstimate:
        """Its losses so far."""
        return LossEstimate(
            losses=self.info.total_retrans_segments,
            lost_share=self.retransmitted_share or 0.0,
            window_bytes=min(self._max_window_bytes or 0, self._channel_window_bytes or sys.maxsize),
            rtt_s=self.info.rtt_s,
            mss_bytes=self.info.snd_mss_bytes,
            acked_bytes=self.acked_bytes,
            repairs=self._repairs,
            channel_window_bytes=self._channel_window_bytes,
        )

    @property
    def zero_window(self) -> bool:
        """Whether the client has closed its receive window."""
        return self.info.snd_wnd_bytes == 0 or self.info.probes > 0

    def wrote(self, count: int, now_s: float) -> None:
        """Count `count` more bytes as written to the kernel."""
        if self._first_byte_s is None:
            self._first_byte_s = self.progressed_s = now_s
            self._rate_from = (now_s, 0)
        self.written_bytes += count
        self._last_byte_s = now_s

    def take(
        self, raw_info: bytes, now_s: float, *, is_sample: bool = False, channel: ChannelReading | None = None
    ) -> None:
        """Add a reading.

        Args:
            raw_info: TCP_INFO as the kernel returned it.
            now_s: Monotonic time of the reading.
            is_sample: Whether it is a regular reading, which is stored and used for the present rate.
            channel: The SSH channel at the same time; None without an open channel.
        """
        self._raw_info = raw_info
        self._count_repairs(now_s)
        self._count_acked(self.info.bytes_acked or 0, now_s)
        self._max_window_bytes = max(self._max_window_bytes or 0, self.info.snd_wnd_bytes or 0) or None
        self._channel = channel
        if channel is not None:
            self._channel_window_bytes = max(self._channel_window_bytes or 0, channel.window_bytes or 0) or None
        if is_sample:
            self._measure_rate(now_s)
            self._watch_loss(now_s)
            self._readings.add(now_s, raw_info, channel, all_written=self.all_written)

    def is_steady(self, raw_info: bytes, now_s: float) -> bool:
        """Count what a reading acknowledges, and return whether it shows nothing else that is new.

        Then it need not be taken: since the last regular one nothing was retransmitted, less than a hundredth of the
        image was acknowledged, and the rate has not changed.

        Args:
            raw_info: TCP_INFO as the kernel returned it.
            now_s: Monotonic time of the reading.
        """
        acked, retransmitted = parse_progress(raw_info)
        self._count_acked(acked, now_s)
        then_s, before_bytes = self._rate_from
        moved, expected = self.acked_bytes - before_bytes, self.rate_bytes_per_s * (now_s - then_s)
        return (
            retransmitted == self.info.total_retrans_segments
            and moved < _STEP_SHARE * self.to_send_bytes
            and abs(moved - expected) <= max(_STEADY_BYTES, _STEADY_SHARE * expected)
        )

    @property
    def sampled_s(self) -> float:
        """Time of the last regular reading, or of the first byte."""
        return self._rate_from[0]

    def sample(self, now_s: float) -> Sample:
        """Return the last reading as a sample."""
        return Sample.from_info(
            max(0.0, now_s - self._origin_s),
            self.info,
            all_written=self.all_written,
            channel_waiting_bytes=self._channel.waiting_bytes if self._channel is not None else None,
            asked_bytes=self._channel.asked_bytes if self._channel is not None else None,
        )

    def limited_by(
        self, congestion_control: str | None, own_pace: "OwnPace | None" = None, link: "KnownLink | None" = None
    ) -> VerdictKind | None:
        """Return what has limited the transfer so far, by some of its readings; None while unknown."""
        samples = self._readings.samples(self._origin_s, most=_READINGS_SO_FAR)
        kind = classify_transfer(
            samples,
            congestion_control=congestion_control,
            own_pace=own_pace,
            link=link,
            channel_window_bytes=self._channel_window_bytes,
        ).kind
        return None if kind is VerdictKind.TOO_SHORT else kind

    def loses_heavily(self, now_s: float, for_s: float = FALL_BACK_AFTER_S) -> bool:
        """Return whether more than 5 % was retransmitted in every reading of the last `for_s` seconds."""
        return self._heavy_loss_since_s is not None and now_s - self._heavy_loss_since_s >= for_s

    def record(
        self,
        *,
        outcome: str,
        raw_info: bytes | None,
        now_s: float,
        sender: SenderReport,
        commands: tuple[str, ...],
        link: "KnownLink | None" = None,
        channel: ChannelReading | None = None,
    ) -> TransferRecord:
        """Return the record of the finished transfer.

        Args:
            outcome: `delivered`, or why not.
            raw_info: The last reading; None if the socket was closed already.
            now_s: Monotonic time.
            sender: Requested socket options and those in force.
            commands: The session's commands, masked.
            link: Rate of its link and of our concurrent transfers over it; None if unknown.
            channel: The SSH channel at the end; None without an open channel.
        """
        if raw_info is not None:
            self.take(raw_info, now_s, channel=channel)
            self._readings.add_last(now_s, raw_info, channel, all_written=self.all_written)
        samples = self._readings.samples(self._origin_s)
        return TransferRecord(
            outcome=outcome,
            sender=sender,
            verdict=classify_transfer(
                samples,
                congestion_control=sender.congestion_control,
                shared_cap_bytes_per_s=sender.shared_cap_bytes_per_s,
                slowed_for_loss=sender.is_slowed,
                own_pace=sender.own_pace,
                link=link,
                channel_window_bytes=self._channel_window_bytes,
                cipher=self.start.cipher,
            ),
            samples=samples,
            commands=commands,
            **self._given(),
            **self._moved(now_s),
            **self._seen_on_the_wire(),
        )

    def _given(self) -> dict[str, Any]:
        """Return the fields of the record that were known at the start."""
        start, image = self.start, self.start.grant.image
        return {
            "ticket_id": start.grant.ticket_id,
            "image_name": image.name,
            "size_bytes": image.size_bytes,
            "peer_address": start.peer_address,
            "started_at": start.wall_s,
            "offset_bytes": start.offset_bytes,
            "control_syn": start.control_syn,
            "data_syn": start.data_syn,
            "cipher": start.cipher,
            "mac": start.mac,
            "client": start.client,
            "transport": start.transport,
        }

    def _moved(self, now_s: float) -> dict[str, Any]:
        """Return the fields of the record about bytes and times."""
        first = self._first_byte_s
        duration_s = (self._last_ack_s or now_s) - first if first is not None else 0.0
        return {
            "first_byte_s": self._offset(first),
            "last_byte_s": self._offset(self._last_byte_s),
            "last_ack_s": self._offset(self._last_ack_s),
            "bytes_sent": self.written_bytes,
            "bytes_acked": self.acked_bytes,
            "duration_s": duration_s,
            "rate_bytes_per_s": self.acked_bytes / duration_s if duration_s > 0 else 0.0,
        }

    def _seen_on_the_wire(self) -> dict[str, Any]:
        """Return the fields of the record from TCP_INFO."""
        return {
            "retransmitted_bytes": self.info.bytes_retrans,
            "retransmitted_share": self.retransmitted_share,
            "min_rtt_s": self.info.min_rtt_s,
            "srtt_s": self.info.rtt_s,
            "max_window_bytes": self._max_window_bytes,
            "mss_bytes": self.info.snd_mss_bytes or None,
            "sack": self.info.sack,
            "channel_window_bytes": self._channel_window_bytes,
        }

    @property
    def _origin_s(self) -> float:
        return self._first_byte_s if self._first_byte_s is not None else self.start.now_s

    def _offset(self, moment_s: float | None) -> float | None:
        return None if moment_s is None else moment_s - self.start.now_s

    def _count_acked(self, bytes_acked: int, now_s: float) -> None:
        acked = max(bytes_acked - self._base_acked, 0)
        if self._payload_of is not None:
            acked = max(self._payload_of(acked), 0)
        acked = min(acked, self.written_bytes)
        if acked > self.acked_bytes:
            self.progressed_s = self._last_ack_s = now_s
        self.acked_bytes = acked

    def _measure_rate(self, now_s: float) -> None:
        then_s, acked = self._rate_from
        if now_s > then_s:
            self.rate_bytes_per_s = (self.acked_bytes - acked) / (now_s - then_s)
            self._rate_from = (now_s, self.acked_bytes)

    def _count_repairs(self, now_s: float) -> None:
        """Count retransmissions, at most one per round trip: further ones repeat segments that were not lost."""
        then_s, before = self._repairs_from
        self._repairs_from = (now_s, self.info.total_retrans_segments)
        passed = (now_s - then_s) / self.info.rtt_s if self.info.rtt_s else 0.0
        self._round_trips = min(self._round_trips + passed, max(1.0, passed))
        repaired = min(self.info.total_retrans_segments - before, int(self._round_trips))
        self._round_trips -= repaired
        self._repairs += repaired

    def _watch_loss(self, now_s: float) -> None:
        sent, again = self._loss_from
        self._loss_from = (self.info.bytes_sent or 0, self.info.bytes_retrans or 0)
        new_sent, new_again = self._loss_from[0] - sent, self._loss_from[1] - again
        if new_sent > 0 and new_again / new_sent <= FALL_BACK_SHARE:
            self._heavy_loss_since_s = None
        elif new_sent > 0 and self._heavy_loss_since_s is None:
            self._heavy_loss_since_s = now_s
