"""When waiting for a copy makes no sense any more, by a clock of the test's own."""

from __future__ import annotations

from functools import partial

import pytest

from flashferry.devices.errors import CopyFailed, CopyStopped, DeviceUnreachable, OutputNotUnderstood, TransferStalled
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports import USUAL, transport_named
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.transport import Offer, ServerView, Transport
from tasks.copy import CopyLimits, CopyWatch, copy_limits, least_rate_bytes_per_s

SIZE_BYTES = 100_000_000
LIMITS = CopyLimits(start_s=45, stall_s=60, total_s=1000, end_s=300)


class Rig:
    """A watch whose clock, server and device the test moves."""

    def __init__(self, size_bytes: int = SIZE_BYTES, transport: Transport = USUAL) -> None:
        self.now_s = 0.0
        self.acked_bytes = 0
        self.interrupted = False
        offer = Offer(transport=transport, server="192.0.2.1", port=21, image="x.bin", username="q7Zk", password="Gf4t")
        self.dialogue = CopyDialogue(
            prompt_pattern=r"(?m)^r1#\s*$",
            offer=offer,
            target="flash:x.bin",
            platform=IOS_XE,
            clock=lambda: self.now_s,
        )
        self.watch = CopyWatch("r1", self.dialogue, size_bytes, LIMITS, self._witness, lambda: self.interrupted)

    def _witness(self) -> ServerView:
        return ServerView(client_seen=True, logged_in=True, acked_bytes=self.acked_bytes, failure=None)

    def after(self, seconds: float, *, acked_bytes: int = 0, heard: str = "") -> None:
        """Let time pass, bytes flow and the device speak, then look."""
        self.now_s += seconds
        self.acked_bytes += acked_bytes
        if heard:
            self.dialogue.take(heard)
        self.watch.check()


def test_no_first_byte():
    """Three quarters of a minute without a byte end the copy, with the reason."""
    rig = Rig()
    rig.after(44)
    with pytest.raises(TransferStalled, match="no byte was taken within 45 s: the device logged in but opened no data"):
        rig.after(2)


def test_no_progress():
    """A minute without a byte or a mark ends the copy; a mark alone keeps it."""
    rig = Rig()
    rig.after(10, acked_bytes=1_000_000)
    rig.after(59, heard="!")
    rig.after(59)
    with pytest.raises(TransferStalled, match="no progress for 60 s after 1000000 bytes"):
        rig.after(2)


def test_silence_behind_the_last_byte_is_longer_allowed():
    """A device that checks a sum without a mark is waited for; then the session is taken for lost, not the copy."""
    rig = Rig()
    rig.after(10, acked_bytes=SIZE_BYTES)
    rig.after(290)
    with pytest.raises(DeviceUnreachable, match="was delivered, but the session has been silent for 305 s"):
        rig.after(15)


def test_the_limit_in_all():
    """A copy that began fast and then crawls ends at the limit."""
    rig = Rig()
    rig.after(1, acked_bytes=1)
    rig.after(40, acked_bytes=90_000_000)
    for _ in range(19):
        rig.after(50, acked_bytes=1000)
    with pytest.raises(TransferStalled, match="in 1000 s, the limit"):
        rig.after(50, acked_bytes=1000)


def test_a_measured_rate_that_is_lower_lengthens_the_limit():
    """100 MB at 15 kB/s take nearly two hours: no failure as long as they flow."""
    rig = Rig()
    for _ in range(6600 // 50):
        rig.after(50, acked_bytes=750_000)
    assert rig.now_s > LIMITS.total_s


def test_interruption_and_unknown_questions_end_the_wait():
    """The operator is heard at the next look; a question without an answer after five seconds."""
    rig = Rig()
    rig.interrupted = True
    with pytest.raises(CopyStopped, match="the operator interrupted"):
        rig.after(1)
    asked = Rig()
    asked.after(1, heard="Proceed with the frobnication? [yes/no]: ")
    with pytest.raises(OutputNotUnderstood, match="frobnication"):
        asked.after(6)


def test_a_password_that_was_refused_ends_the_copy():
    """Typed once, asked for twice: a failed copy with what to look at; silence behind the first time is a login."""
    rig = Rig(transport=transport_named("scp"))
    rig.dialogue.take("Password: ")
    assert rig.dialogue.due == "Gf4t\n"
    rig.dialogue.typed()
    rig.after(30)
    rig.after(0, heard="\r\nPassword: ")
    with pytest.raises(CopyFailed, match="asks for the password again") as caught:
        rig.after(6)
    assert "SSH-3-NO_MATCH" in str(caught.value.hint)
    assert rig.dialogue.due is None


def test_limits_scale_with_size_and_expected_rate():
    """A gigabyte at 50 kB/s has 22 hours and 14 minutes, one at 5 MB/s a quarter of an hour; the end scales as well."""
    slow = copy_limits(size_bytes=10**9, expected_bytes_per_s=50_000)
    fast = copy_limits(size_bytes=10**9, expected_bytes_per_s=5e6)
    assert (slow.total_s, fast.total_s) == (80_120, 920)
    assert fast.end_s == 2120


def test_an_untuned_device_on_a_satellite_may_be_slower_than_slow_flash():
    """4128 bytes per 600 ms are 6.9 kB/s, which is healthy there; tuned, slow flash is the least."""
    least_rate = partial(
        least_rate_bytes_per_s,
        flash_bytes_per_s=IOS_XE.defaults.flash_bytes_per_s,
        window_bytes=IOS_XE.defaults.window_bytes,
    )
    assert least_rate(rtt_s=0.6, tuned=False) == pytest.approx(6880)
    assert least_rate(rtt_s=0.6, tuned=True) == 50_000
    assert least_rate(rtt_s=0.01, tuned=False) == 50_000
    assert least_rate(rtt_s=0.6, tuned=True, channel_window_bytes=8192) == pytest.approx(6826.7, rel=1e-3)
