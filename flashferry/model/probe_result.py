"""Results of speed tests, SSH sweeps and connectivity checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

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
    worth: TuningDecision | None = None
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

"""What is offered, one by one. Triple DES is left out: 42 s of processor for a gigabyte, and 64-bit blocks."""

MACS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
    "hmac-sha1",
    "hmac-sha1-96",
)

"""The same; MD5 is left out."""

COPIES = 3

"""Copies of each, by default."""

CLEAR_RATIO = 1.15

"""Medians that differ by less count as equal: copies of one kind differ by as much."""

WIDE_SPREAD = 1.3

"""Most over least of one kind: beyond it the medians say little, and that is said."""

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

"""What a copy is bound by whose device was the limit: its crypto, where another cipher is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """How a sweep is made.

    Attributes:
        copies: Of each cipher and MAC, >= 1.
        keeps: Whether the fastest is kept for devices of the same model, where one is clearly the fastest.
        seed: Of the order in each round.
    """

    copies: int = COPIES
    keeps: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCopy:
    """One timed copy.

    Attributes:
        cipher: In force.
        mac: In force; empty where the cipher authenticates by itself.
        rate_bytes_per_s: What was copied over the time without the login.
        verdict: What limited it.
    """

    cipher: str
    mac: str
    rate_bytes_per_s: float
    verdict: VerdictKind


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """What was found of one cipher, or one MAC.

    Attributes:
        name: It.
        copies: How many were timed.
        median_bytes_per_s: Median of their rates; None where none was timed.
        least_bytes_per_s: The least of them.
        most_bytes_per_s: The most.
        bound_by: What limited most of them: `link`, `window`, `device`, `loss`, `our side`, `not known`; empty without.
        refused: Why there is none: the device has it not, or the copy failed; empty where there are.
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
        """Return most over least; None without copies."""
        if not self.least_bytes_per_s or self.most_bytes_per_s is None:
            return None
        return self.most_bytes_per_s / self.least_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSweep:
    """A sweep of one device.

    Attributes:
        ciphers: A row per cipher, the fastest first, those without copies last.
        macs: The same for MACs under `mac_cipher`; none where no cipher with a MAC was taken.
        mac_cipher: The cipher that they were compared under; empty where they were not.
        size_bytes: Size of each copy.
        login_s: What a device's own clock counts before the first byte: a tiny copy's time; None where it gave none.
        device_ciphers: The device's own list, as far as a refusal showed it; empty where it refused nothing.
        device_macs: The same.
        compression: What is to be said of it.
        best_cipher: The one that is clearly the fastest; empty where none is.
        best_mac: The same.
        conclusion: What follows, in a sentence.
        is_kept: Whether it was kept for devices of this model.
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
    """Return what some copies say of a cipher or a MAC."""
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
    """Return rows, the fastest first; what was refused comes last, in its order."""
    return tuple(sorted(rows, key=lambda row: -(row.median_bytes_per_s or 0.0)))


def authenticates_itself(cipher: str) -> bool:
    """Return whether a cipher needs no MAC."""
    return "gcm" in cipher or "poly1305" in cipher


def best_of(rows: Sequence[SweepRow]) -> str:
    """Return the fastest, where it clearly differs from the slowest and the device is what limits the slower ones.

    Of those that are as fast as the fastest the first in the usual order is taken: it is no slower, and modern.
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


def conclusion_of(rows: Sequence[SweepRow], best: str, *, what: str = "cipher") -> str:
    """Say in a sentence what follows from rows of ciphers or MACs."""
    timed = [row for row in rows if row.median_bytes_per_s]
    if not timed:
        return f"No {what} was timed."
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
        return f"No {what} clearly differs from another at {exact_rate(top)}, bound by: {bound}.{doubt}"
    return (
        f"{fastest.name} was the fastest at {exact_rate(top)}, {slowest.name} the slowest at {exact_rate(least)}, "
        f"bound by: {slowest.bound_by}, which is not the device: nothing to choose by.{doubt}"
    )


def _doubt(timed: Sequence[SweepRow]) -> str:
    wide = [row.name for row in timed if (row.spread or 1.0) > WIDE_SPREAD]
    if not wide:
        return ""
    return f" Copies by {', '.join(wide)} scatter by more than {WIDE_SPREAD:g}: measure again on a quiet path."
