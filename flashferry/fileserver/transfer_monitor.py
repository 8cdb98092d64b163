"""Periodic readings of a running transfer: progress, stalls, and changes of congestion control or pace after losses.

Transfers are read at common moments, so that a thousand wake the loop hardly more often than one. A slow copy keeps its
rate for hours: of most of its readings only the acknowledged bytes are counted. One in ten seconds is taken, stored and
reported, and each that shows a change. All times are monotonic, in seconds.
"""

from typing import TYPE_CHECKING, Protocol

from flashferry.fileserver.socket_tuning import EARLY_SAMPLES_S
from flashferry.tcp.tcp_info import parse_tcp_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.protocol import Client
    from flashferry.fileserver.socket_tuning import Tuning
    from flashferry.fileserver.transfer import Transfer
    from flashferry.fileserver.transfer_reporter import Reporter
    from flashferry.tcp.sample import ChannelReading

_MOMENTS = 10
_EARLY_S = 0.1
_STEADY_READINGS = 10
_MOST_STEADY_S = 10.0
_LIMIT_SHARE = 0.2
"""Part of `SenderProfile.unacked_limit_s` after which a reading is taken: a closed window has to be seen before it."""


def to_next_sample_s(now_s: float, interval_s: float) -> float:
    """Return the seconds to a transfer's next reading; all readings fall on ten moments of an interval.

    So with an interval of a second, a thousand transfers wake the loop, and the parent, ten times a second.
    """
    grid_s = interval_s / _MOMENTS
    return (now_s // grid_s + _MOMENTS) * grid_s - now_s


def to_next_early_sample_s(now_s: float) -> float:
    """Return the seconds to the next early reading, of which there are ten a second: more than 0, at most 0.1."""
    return (now_s // _EARLY_S + 1) * _EARLY_S - now_s


def to_next_moment_s(now_s: float, interval_s: float) -> float:
    """Return the seconds to a multiple of an interval, at least half and at most one and a half intervals away.

    So transfers that share a link are read at the same moments.
    """
    wait_s = (now_s // interval_s + 1) * interval_s - now_s
    return wait_s if wait_s >= interval_s / 2 else wait_s + interval_s


class Watched(Protocol):
    """Interface of a data connection to the monitor."""

    def read(self) -> bytes | None:
        """Return TCP_INFO as bytes; None if the transfer has ended."""

    def call_later(self, seconds: float, call: "Callable[[], None]") -> None:
        """Call `look` after some seconds."""

    def fails_for_change(self) -> bool:
        """End the transfer if its image changed on disk; return whether it did."""

    def give_up(self, silent_s: float) -> None:
        """End a transfer of which nothing was acknowledged for `silent_s` seconds."""


class Watch:
    """Reads one transfer at the sampling moments of the server, and ten times a second at its start.

    Args:
        client: The client.
        watched: Its data connection.
        transfer: Its statistics.
        tuning: Its socket tuning.
        reporter: Reports its progress.
        channel: Returns the state of the SSH channel; None without a channel.
    """

    def __init__(
        self,
        client: "Client",
        watched: Watched,
        transfer: "Transfer",
        tuning: "Tuning",
        reporter: "Reporter",
        channel: "Callable[[], ChannelReading | None] | None" = None,
    ) -> None:
        self._client, self._watched = client, watched
        self._channel = channel
        self._transfer, self._tuning, self._reporter = transfer, tuning, reporter
        own, settings = transfer.start.grant.request.sample_interval_s, client.settings
        self._interval_s = settings.sample_interval_s if own is None else own
        self._steady_s = min(
            _STEADY_READINGS * self._interval_s, _MOST_STEADY_S, _LIMIT_SHARE * settings.profile.unacked_limit_s
        )
        if settings.stream_samples:
            # Each reading is an event of its own.
            self._steady_s = 0.0

    def begin(self) -> None:
        """Start the readings, which end when the connection is closed."""
        now_s = self._transfer.start.now_s
        self._watched.call_later(to_next_sample_s(now_s, self._interval_s), self._sample)
        if self._tuning.samples_early:
            self._tuning.reconsider(self._transfer.loss_estimate)
            self._watched.call_later(to_next_early_sample_s(now_s), self._sample_early)
        if self._tuning.wants_pace:
            self._check_pace()

    def _read_channel(self) -> "ChannelReading | None":
        return self._channel() if self._channel is not None else None

    def _sample(self) -> None:
        raw_info = self._watched.read()
        if raw_info is None:
            return
        now_s: float = self._client.tickets.clock()
        self._watched.call_later(to_next_sample_s(now_s, self._interval_s), self._sample)
        if self._may_skip(raw_info, now_s):
            return
        self._transfer.take(raw_info, now_s, is_sample=True, channel=self._read_channel())
        if not self._watched.fails_for_change():
            self._judge_pace(now_s)

    def _may_skip(self, raw_info: bytes, now_s: float) -> bool:
        """Return whether a reading shows nothing new; the first ones are all taken."""
        # Readings come a little early or late, up to a tenth of the interval.
        until_s = now_s + self._interval_s / 2 - self._steady_s
        transfer = self._transfer
        if transfer.start.now_s > until_s:
            return False
        is_steady = transfer.is_steady(raw_info, now_s)
        return is_steady and transfer.sampled_s > until_s and not self._reporter.is_due(now_s)

    def _sample_early(self) -> None:
        """Pass a reading to the loss policy before the first samples; it is not stored or reported."""
        raw_info = self._watched.read()
        if raw_info is None:
            return
        now_s: float = self._client.tickets.clock()
        self._transfer.take(raw_info, now_s, channel=self._read_channel())
        self._tuning.reconsider(self._transfer.loss_estimate)
        if self._tuning.samples_early and now_s - self._transfer.start.now_s < EARLY_SAMPLES_S:
            self._watched.call_later(to_next_early_sample_s(now_s), self._sample_early)

    def _check_pace(self) -> None:
        """Pass a reading to the search for a pace, at its own interval; it is not stored."""
        raw_info = self._watched.read()
        if raw_info is None:
            return
        now_s: float = self._client.tickets.clock()
        wait_s = self._tuning.check_pace(parse_tcp_info(raw_info), now_s)
        if wait_s is not None:
            self._watched.call_later(to_next_moment_s(now_s, wait_s), self._check_pace)

    def _judge_pace(self, now_s: float) -> None:
        transfer, tuning = self._transfer, self._tuning
        silent_s = now_s - transfer.progressed_s
        profile = self._client.settings.profile
        if silent_s >= profile.give_up_after_s:
            self._watched.give_up(silent_s)
            return
        if transfer.zero_window:
            tuning.be_patient()
        if transfer.loses_heavily(now_s, profile.fall_back_after_s):
            tuning.give_up_bbr()
        tuning.reconsider(transfer.loss_estimate)
        self._reporter.progress(now_s)
