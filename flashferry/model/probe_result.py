"""What a speed test of one device found, and its attempt to fetch a tiny file from us (`check --reach`)."""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.devices.cpu import CpuUse
from flashferry.fileserver import SenderReport, TransferRecord
from flashferry.tcp.probing import steady_bytes_per_s, too_short
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.tuning_benefit import Worth
from flashferry.tcp.verdict import Verdict
from inventory.transport_policy import USUAL
from tasks.connectivity import ConnectivityReport
from tasks.copy import CopyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One timed copy to `null:`, with the device as it is or tuned.

    Attributes:
        size_bytes: What was copied.
        copies: How many copies it took to find that size; the last one counts.
        device_bytes_per_s: Rate by the device's own line, or None where its session was lost and the copy went on.
        server_bytes_per_s: Rate from first byte to last acknowledgement, by the server.
        steady_bytes_per_s: Rate behind the first quarter, where the start is over: what a long copy runs at.
        duration_s: First byte to last acknowledgement.
        rtt_s: Least round-trip time.
        syn: The SYN of the device's data connection: what its settings come to on the wire.
        sender: What our side asked of the kernel and got.
        verdict: What limited it.
        too_short: Why it is no measurement, in words; empty where it is one.
    """

    size_bytes: int
    copies: int
    device_bytes_per_s: float | None
    server_bytes_per_s: float
    steady_bytes_per_s: float
    duration_s: float
    rtt_s: float | None
    syn: SynOptions | None
    sender: SenderReport
    verdict: Verdict
    too_short: str = ""

    @property
    def measured_bytes_per_s(self) -> float | None:
        """The rate that may be shown, forecast from and compared; None where the copy was too short to carry one."""
        return None if self.too_short else self.steady_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportArm:
    """One transport of a speed test that compares them: a timed copy to `null:`, tuned as a run would tune it.

    Attributes:
        transport: Its name.
        arm: The copy, or None where it failed.
        image_s: Forecast for the image in seconds, its flash included where that is known; None where it was not timed.
        ceiling_bytes_per_s: What the windows that were seen let through at the least round-trip time, the SSH channel's
            included; None where they were not seen.
        cpu: How busy the device was right behind the copy, or None: not read.
        reason: Why it failed; else empty.
        is_best: Whether it was the fastest.
    """

    transport: str
    arm: Arm | None = None
    image_s: float | None = None
    ceiling_bytes_per_s: float | None = None
    cpu: CpuUse | None = None
    reason: str = ""
    is_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """Both arms of a speed test, and what follows; or an arm for each transport.

    Attributes:
        image_bytes: Size of the image that the forecast is for.
        as_is: The copy with the device's own settings, or None where it was not asked for or failed.
        tuned: The copy while tuned, or None.
        as_is_s: Forecast for the image as it is, in seconds; None where that was not measured.
        tuned_s: Forecast for the image tuned, in seconds; None where that was not measured.
        worth: Whether tuning is worth it, or None where not both arms were measured.
        by_transport: What each transport came to, where they were compared, in the order in which they were tried.
    """

    image_bytes: int
    as_is: Arm | None = None
    tuned: Arm | None = None
    as_is_s: float | None = None
    tuned_s: float | None = None
    worth: Worth | None = None
    by_transport: tuple[TransportArm, ...] = ()

    @property
    def undecided(self) -> str:
        """Why there is no gain although both arms were run: which was too short; empty elsewhere."""
        if self.worth is not None or self.as_is is None or self.tuned is None:
            return ""
        arms = (("as it is", self.as_is), ("tuned", self.tuned))
        return "; ".join(f"{name}: {arm.too_short}" for name, arm in arms if arm.too_short)


CAVEAT = "A copy to null: writes no flash; to flash it cannot be faster, and on old routers it is much slower."
"""What no speed test without flash can know."""


def window_ceiling_bytes_per_s(seen: TransferRecord) -> float | None:
    """Return what the windows that were seen let through; None where none was, or no round trip."""
    windows = [one for one in (seen.max_window_bytes, seen.channel_window_bytes) if one]
    return min(windows) / seen.min_rtt_s if windows and seen.min_rtt_s else None


def arm_of(pull: CopyReport | None, seen: TransferRecord, copies: int) -> Arm:
    """Return an arm from the device's and the server's account of its last copy."""
    return Arm(
        size_bytes=seen.bytes_acked,
        copies=copies,
        device_bytes_per_s=float(pull.device.rate_bytes_per_s) if pull else None,
        server_bytes_per_s=seen.rate_bytes_per_s,
        steady_bytes_per_s=steady_bytes_per_s(seen.samples) or seen.rate_bytes_per_s,
        duration_s=seen.duration_s,
        rtt_s=seen.min_rtt_s,
        syn=seen.data_syn or seen.control_syn,
        sender=seen.sender,
        verdict=seen.verdict,
        too_short=too_short(size_bytes=seen.bytes_acked, duration_s=seen.duration_s, rtt_s=seen.min_rtt_s),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Connectivity:
    """Whether a device can fetch a file from us, and what that showed.

    Attributes:
        report: Whether it can, and what is in the way.
        syn: The SYN of its data connection, or of its control connection where we called it back: what its TCP
            settings come to on the wire.
        rtt_s: Least round-trip time of the copy, or None.
        mode: `passive` or `active`, or None where no data connection was asked for.
        transport: By what it was tried.
    """

    report: ConnectivityReport
    syn: SynOptions | None
    rtt_s: float | None
    mode: str | None
    transport: str = USUAL

    @property
    def is_reached(self) -> bool:
        """Return whether a run could copy this way."""
        return self.report.copied is not None and self.report.hindrance is None
