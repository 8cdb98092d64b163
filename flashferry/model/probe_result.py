"""Results of speed tests and connectivity checks."""

from __future__ import annotations

from msgspec import Struct

from flashferry.devices.session import CpuUse
from flashferry.fileserver import SenderReport, TransferRecord
from flashferry.tcp.speed_test_size import steady_bytes_per_s, too_short
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.tuning_benefit import TuningDecision
from flashferry.tcp.verdict import Verdict
from inventory.transport_policy import USUAL
from tasks.connectivity import ConnectivityReport
from tasks.copy import CopyReport


class Arm(Struct, frozen=True, kw_only=True):
    """One timed copy to `null:`, with the device's own settings or tuned.

    Attributes:
        size_bytes: Copied bytes.
        copies: Number of copies that determined this size; the last one counts.
        device_bytes_per_s: As the device printed it; None if its session was lost and the copy continued.
        server_bytes_per_s: From first byte to last acknowledgement, measured by the server.
        steady_bytes_per_s: After the first quarter, which includes slow start: the rate of a long copy.
        duration_s: First byte to last acknowledgement.
        rtt_s: Least round-trip time.
        syn: SYN of the device's data connection, which shows its TCP settings.
        sender: Socket options that our side requested and got.
        verdict: What limited it.
        too_short: Why it is no valid measurement; empty if it is.
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
        """The rate for display and forecasts; None if the copy was too short."""
        return None if self.too_short else self.steady_bytes_per_s


class TransportArm(Struct, frozen=True, kw_only=True):
    """A timed, tuned copy to `null:` by one of several transports.

    Attributes:
        arm: The copy; None if it failed.
        image_s: Forecast for the image, flash included if known; None if the copy was not timed.
        ceiling_bytes_per_s: Highest rate that the observed windows allow at the least round-trip time, the SSH
            channel's window included; None if unknown.
        cpu: CPU load of the device right after the copy; None if not read.
        reason: Why it failed; else empty.
    """

    transport: str
    arm: Arm | None = None
    image_s: float | None = None
    ceiling_bytes_per_s: float | None = None
    cpu: CpuUse | None = None
    reason: str = ""
    is_best: bool = False


class ProbeResult(Struct, frozen=True, kw_only=True):
    """Result of a speed test: with and without tuning, or by transport.

    Attributes:
        image_bytes: Size of the image of the forecast.
        as_is: Copy with the device's own settings; None if not requested or failed.
        tuned: Tuned copy; None likewise.
        as_is_s: Forecast for the image without tuning; None if not measured.
        tuned_s: Forecast for the image with tuning; None if not measured.
        worth: Whether tuning is useful; None if not both were measured.
        by_transport: Results by transport in the order of the tests, if transports were compared.
    """

    image_bytes: int
    as_is: Arm | None = None
    tuned: Arm | None = None
    as_is_s: float | None = None
    tuned_s: float | None = None
    worth: TuningDecision | None = None
    by_transport: tuple[TransportArm, ...] = ()

    @property
    def undecided(self) -> str:
        """Why there is no gain although both copies ran: which was too short; else empty."""
        if self.worth is not None or self.as_is is None or self.tuned is None:
            return ""
        arms = (("as it is", self.as_is), ("tuned", self.tuned))
        return "; ".join(f"{name}: {arm.too_short}" for name, arm in arms if arm.too_short)


CAVEAT = "A copy to null: writes no flash; to flash it cannot be faster, and on old routers it is much slower."
"""Limitation of a speed test that writes no flash."""


def window_ceiling_bytes_per_s(seen: TransferRecord) -> float | None:
    """Return the highest rate that the observed windows allow; None if window or round-trip time is unknown."""
    windows = [one for one in (seen.max_window_bytes, seen.channel_window_bytes) if one]
    return min(windows) / seen.min_rtt_s if windows and seen.min_rtt_s else None


def arm_of(pull: CopyReport | None, seen: TransferRecord, copies: int) -> Arm:
    """Return a measurement from the device's and the server's report of its last copy."""
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


class Connectivity(Struct, frozen=True, kw_only=True):
    """Whether a device can copy a file from us.

    Attributes:
        report: The result, and the cause of a failure.
        syn: SYN of its data connection, or of its control connection in active mode, which shows its TCP settings.
        rtt_s: Least round-trip time of the copy; None if unknown.
        mode: `passive` or `active`; None if there was no data connection.
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
