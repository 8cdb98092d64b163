"""When transfers are looked at."""

import struct
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from flashferry.fileserver.client_session import CommandLog
from flashferry.fileserver.settings import SenderProfile
from flashferry.fileserver.transfer import Transfer
from flashferry.fileserver.transfer_monitor import Watch, to_next_early_sample_s, to_next_moment_s, to_next_sample_s
from flashferry.fileserver.transfer_records import EventKind
from flashferry.fileserver.transfer_reporter import Reporter

_SIZE = 10**9


@pytest.mark.parametrize("now_s", [0.0, 12.34, 99.999, 1e6 + 0.05])
@pytest.mark.parametrize("interval_s", [0.1, 1.0, 60.0])
def test_ticks_fall_on_ten_moments_of_an_interval(now_s: float, interval_s: float) -> None:
    """The next is nearly an interval away, and on a moment that all transfers share."""
    wait_s = to_next_sample_s(now_s, interval_s)
    moments = (now_s + wait_s) / (interval_s / 10)
    assert 0.9 * interval_s - 1e-6 <= wait_s <= interval_s + 1e-6
    assert moments == pytest.approx(round(moments), abs=1e-3)


@pytest.mark.parametrize("now_s", [0.0, 0.05, 12.34, 1e6 + 0.05])
def test_early_looks_fall_on_tenths_of_a_second(now_s: float) -> None:
    """The next is at most a tenth away, never at once, and on a moment that all transfers share."""
    wait_s = to_next_early_sample_s(now_s)
    assert 0 < wait_s <= 0.1 + 1e-6
    assert (now_s + wait_s) * 10 == pytest.approx(round((now_s + wait_s) * 10), abs=1e-3)


@pytest.mark.parametrize("now_s", [0.0, 0.05, 12.34, 1e6 + 0.0199])
@pytest.mark.parametrize("interval_s", [0.02, 0.5])
def test_moments_are_shared_and_never_at_once(now_s: float, interval_s: float) -> None:
    """Two transfers that come at different times are soon looked at together."""
    wait_s = to_next_moment_s(now_s, interval_s)
    moments = (now_s + wait_s) / interval_s
    assert 0.5 * interval_s - 1e-6 <= wait_s <= 1.5 * interval_s + 1e-6
    assert moments == pytest.approx(round(moments), abs=1e-3)


class Rig:
    """A transfer of 1 GB, whose clock and acknowledgements the test moves."""

    def __init__(self, **settings: Any) -> None:
        self.now_s = 100.0
        self.acked_bytes = self.sent_again = 0
        self._timers: list[tuple[float, Any]] = []
        self._settings = SimpleNamespace(
            **{"sample_interval_s": 1.0, "stream_samples": False, "profile": SenderProfile()} | settings
        )
        self.tickets = MagicMock()
        self.tickets.clock.side_effect = lambda: self.now_s
        self.tickets.link_of.return_value = None
        client = SimpleNamespace(
            tickets=self.tickets, client_address="192.0.2.1", command_log=CommandLog(), settings=self._settings
        )
        start = MagicMock(now_s=self.now_s, offset_bytes=0, end_bytes=_SIZE)
        start.grant.request.sample_interval_s = None
        transfer = Transfer(start, self.read())
        transfer.wrote(_SIZE, self.now_s)
        channel = object()
        account = SimpleNamespace(channel=channel, grant=SimpleNamespace(ticket_id="t"))
        tuning = MagicMock(samples_early=False, wants_pace=False)
        tuning.in_force.return_value = "cubic"
        self.fails = False
        reporter = Reporter(client, channel, account, transfer, tuning)
        Watch(client, self, transfer, tuning, reporter).begin()

    def read(self) -> bytes:
        raw = bytearray(280)
        for offset, code, value in (
            (16, "I", 1460), (68, "I", 100_000), (100, "I", self.sent_again), (120, "Q", self.acked_bytes)
        ):  # fmt: skip
            struct.pack_into(f"={code}", raw, offset, value)
        return bytes(raw)

    def call_later(self, seconds: float, call: Any) -> None:
        self._timers.append((self.now_s + seconds, call))

    def fails_for_change(self) -> bool:
        return self.fails

    def give_up(self, silent_s: float) -> None:
        self._timers.clear()
        self.gave_up_after_s = silent_s

    def run(self, seconds: float, bytes_per_s: int) -> list[tuple[EventKind, float]]:
        """Let so many seconds pass at a rate; return what was reported, with its time since then."""
        start_s, start_bytes = self.now_s, self.acked_bytes
        reported: list[tuple[EventKind, float]] = []
        self.tickets.change.side_effect = lambda _, kind, *__, **___: reported.append((kind, self.now_s - start_s))
        while self._timers and (due := min(self._timers, key=lambda each: each[0]))[0] <= start_s + seconds:
            self._timers.remove(due)
            self.now_s = due[0]
            self.acked_bytes = start_bytes + int(bytes_per_s * (self.now_s - start_s))
            due[1]()
        self.now_s = start_s + seconds
        return reported


def test_a_slow_steady_copy_is_reported_every_ten_seconds() -> None:
    """At first every second; a hundred seconds later the 1 GB at 20 kB/s has nothing new to show for ten."""
    rig = Rig()
    assert len(rig.run(10.5, 20_000)) >= 9
    assert 9 <= len(rig.run(100, 20_000)) <= 11


def test_a_fast_copy_is_reported_every_second() -> None:
    """Each second brings a hundredth of the image, which the live view shows."""
    rig = Rig()
    rig.run(10.5, 12_000_000)
    assert len(rig.run(30, 12_000_000)) >= 29


def test_every_reading_is_taken_where_each_is_an_event() -> None:
    """`serve --json` promises them."""
    rig = Rig(stream_samples=True)
    rig.run(10.5, 20_000)
    assert len(rig.run(30, 20_000)) >= 29


def test_a_stall_is_seen_as_soon_as_with_every_reading() -> None:
    """Ten seconds without an acknowledgement, and one at most until the next reading; then its end, as soon."""
    rig = Rig()
    rig.run(60, 20_000)
    kind, after_s = next(each for each in rig.run(30, 0) if each[0] is EventKind.STALLED)
    assert (kind, 9 <= after_s <= 11.2) == (EventKind.STALLED, True)
    _, after_s = rig.run(5, 20_000)[0]
    assert after_s <= 1.2


def test_a_transfer_is_given_up_as_soon_as_with_every_reading() -> None:
    """At the limit, not up to ten seconds later."""
    rig = Rig()
    rig.run(60, 20_000)
    rig.run(1000, 0)
    assert 900 <= rig.gave_up_after_s <= 901.2


def test_losses_are_read_every_second() -> None:
    """What is decided by losses is decided as early as before."""
    rig = Rig()
    rig.run(60, 20_000)
    for _ in range(5):
        rig.sent_again += 1
        assert len(rig.run(1.1, 20_000)) >= 1
