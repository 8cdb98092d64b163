"""Results of speed tests, connectivity checks and sweeps over SSH ciphers; the fastest cipher is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from flashferry.core.units import exact_rate
from flashferry.devices.session import CpuUse
from flashferry.fileserver import SenderReport, TransferRecord
from flashferry.tcp.speed_test_size import steady_bytes_per_s, too_short
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.tuning_benefit import TuningDecision
from flashferry.tcp.verdict import Verdict
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import USUAL
from tasks.connectivity import ConnectivityReport
from tasks.copy import CopyReport

CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    "aes128-cbc",
    "aes192-cbc",
    "aes256-cbc",
)
"""Tested ciphers. Triple DES is excluded: 42 s of processor time per gigabyte, and 64-bit blocks."""

MACS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
    "hmac-sha1-96",
)
"""Tested MACs, without MD5."""

COPIES = 3
"""Default number of copies of each."""

CLEAR_RATIO = 1.15
"""Medians that differ by less count as equal, because repeated copies differ as much."""

WIDE_SPREAD = 1.3
"""Highest over lowest rate of one cipher above which the medians are reported as uncertain."""

_BOUND = {
    VerdictKind.CAP: "link",
    VerdictKind.BANDWIDTH: "link",
    VerdictKind.POLICER: "link",
    VerdictKind.RANDOM_LOSS: "loss",
    VerdictKind.WINDOW: "window",
    VerdictKind.SSH_WINDOW: "window",
    VerdictKind.SLOW_RECEIVER: "device",
    VerdictKind.SERVER: "our side",
}

_UNKNOWN = "not known"

DEVICE = "device"
"""Limit "device": its encryption, if another cipher is faster."""


class SweepOptions(Struct, frozen=True, kw_only=True):
    """Options of a sweep over SSH ciphers.

    Attributes:
        copies: Copies per cipher and MAC, >= 1.
        keeps: Whether a clearly fastest cipher is stored for devices of the model.
        seed: Seed of the order in each round.
    """

    copies: int = COPIES
    keeps: bool = False
    seed: int = 0


class SweepCopy(Struct, frozen=True, kw_only=True):
    """One timed copy.

    Attributes:
        mac: Empty with an authenticating cipher.
        rate_bytes_per_s: Copied bytes over the time without login.
        verdict: What limited it.
    """

    cipher: str
    mac: str
    rate_bytes_per_s: float
    verdict: VerdictKind


class SweepRow(Struct, frozen=True, kw_only=True):
    """Result for one cipher or MAC.

    Attributes:
        copies: Number of timed copies.
        median_bytes_per_s: None without copies.
        least_bytes_per_s: None without copies.
        most_bytes_per_s: None without copies.
        bound_by: What limited most copies: `link`, `window`, `device`, `loss`, `our side`, `not known`; empty for none.
        refused: Why there are no copies: the device lacks it, or the copy failed; else empty.
    """

    name: str
    copies: int = 0
    median_bytes_per_s: float | None = None
    least_bytes_per_s: float | None = None
    most_bytes_per_s: float | None = None
    bound_by: str = ""
    refused: str = ""

    @property
    def spread(self) -> float | None:
        """Return highest over lowest rate; None without copies."""
        if not self.least_bytes_per_s or self.most_bytes_per_s is None:
            return None
        return self.most_bytes_per_s / self.least_bytes_per_s


class SshSweep(Struct, frozen=True, kw_only=True):
    """Result of a sweep over a device's ciphers and MACs.

    Attributes:
        ciphers: The fastest first, those without copies last.
        macs: The same under `mac_cipher`; empty if no cipher with a MAC was accepted.
        mac_cipher: Cipher for the comparison of MACs; empty for none.
        size_bytes: Size of each copy.
        login_s: Duration of a tiny copy by the device's clock, which counts before the first byte; None if unknown.
        device_ciphers: The device's own list, if a refusal showed it; else empty.
        device_macs: The same for MACs.
        compression: Note about compression.
        best_cipher: The clearly fastest; empty for none.
        best_mac: The same for MACs.
        conclusion: The conclusion in a sentence.
        is_kept: Whether it was stored for devices of this model.
    """

    ciphers: tuple[SweepRow, ...] = ()
    macs: tuple[SweepRow, ...] = ()
    mac_cipher: str = ""
    size_bytes: int = 0
    login_s: float | None = None
    device_ciphers: tuple[str, ...] = ()
    device_macs: tuple[str, ...] = ()
    compression: str = ""
    best_cipher: str = ""
    best_mac: str = ""
    conclusion: str = ""
    is_kept: bool = False


def row_of(name: str, copies: Sequence[SweepCopy], refused: str = "") -> SweepRow:
    """Summarise the copies of a cipher or a MAC."""
    if not copies:
        return SweepRow(name=name, refused=refused or "no copy was timed")
    rates = [one.rate_bytes_per_s for one in copies]
    bounds = Counter(_BOUND.get(one.verdict, _UNKNOWN) for one in copies)
    return SweepRow(
        name=name,
        copies=len(copies),
        median_bytes_per_s=median(rates),
        least_bytes_per_s=min(rates),
        most_bytes_per_s=max(rates),
        bound_by=bounds.most_common(1)[0][0],
    )


def ranked(rows: Iterable[SweepRow]) -> tuple[SweepRow, ...]:
    """Return rows, the fastest first; refused ones last."""
    return tuple(sorted(rows, key=lambda row: -(row.median_bytes_per_s or 0.0)))


def authenticates_itself(cipher: str) -> bool:
    """Return whether a cipher needs no MAC."""
    return "gcm" in cipher or "poly1305" in cipher


def best_of(rows: Sequence[SweepRow]) -> str:
    """Return the fastest, if it clearly differs from the slowest and the device limits the slower ones; else empty.

    Among those that are as fast as the fastest, the first in the usual order is returned.
    """
    timed = [row for row in rows if row.median_bytes_per_s]
    if len(timed) < 2:
        return ""
    top = max(row.median_bytes_per_s or 0.0 for row in timed)
    slowest = min(timed, key=lambda row: row.median_bytes_per_s or 0.0)
    if top < CLEAR_RATIO * (slowest.median_bytes_per_s or 0.0) or slowest.bound_by != DEVICE:
        return ""
    usual = {name: place for place, name in enumerate((*CIPHERS, *MACS))}
    as_fast = [row for row in timed if top < CLEAR_RATIO * (row.median_bytes_per_s or 0.0)]
    return min(as_fast, key=lambda row: usual.get(row.name, len(usual))).name


def conclusion_of(rows: Sequence[SweepRow], best: str) -> str:
    """Return the conclusion from rows of ciphers, in a sentence."""
    timed = [row for row in rows if row.median_bytes_per_s]
    if not timed:
        return "No cipher was timed."
    if len(timed) == 1:
        return f"The device takes {timed[0].name} alone of those offered: there is nothing to choose."
    ordered = ranked(timed)
    fastest, slowest = ordered[0], ordered[-1]
    top, least = fastest.median_bytes_per_s or 0.0, slowest.median_bytes_per_s or 1.0
    doubt = _doubt(timed)
    if best:
        rate = next(row.median_bytes_per_s or 0.0 for row in timed if row.name == best)
        return (
            f"{best} gives {exact_rate(rate)}, {rate / least:.1f}x that of {slowest.name}: the device's crypto is what "
            f"limits the slower ones.{doubt}"
        )
    if top < CLEAR_RATIO * least:
        bound = Counter(row.bound_by for row in timed).most_common(1)[0][0]
        return f"No cipher clearly differs from another at {exact_rate(top)}, bound by: {bound}.{doubt}"
    return (
        f"{fastest.name} was the fastest at {exact_rate(top)}, {slowest.name} the slowest at {exact_rate(least)}, "
        f"bound by: {slowest.bound_by}, which is not the device: nothing to choose by.{doubt}"
    )


def _doubt(timed: Sequence[SweepRow]) -> str:
    wide = [row.name for row in timed if (row.spread or 1.0) > WIDE_SPREAD]
    if not wide:
        return ""
    return f" Copies by {', '.join(wide)} scatter by more than {WIDE_SPREAD:g}: measure again on a quiet path."


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
        syn: SYN of its data connection, or of its control connection in active mode, which shows its TCP settings; None
            if our server received none.
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
