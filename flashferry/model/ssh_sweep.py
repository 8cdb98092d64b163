"""What a sweep over SSH's ciphers and MACs found between a device and our server, and what follows from it. Pure.

Facts
-----
* A device picks from its own list the first that our server has (RFC 4253 7.1), so offering it one alone is offering it
  one to take or to leave; its configuration stays as it is.
* A cipher that authenticates by itself (GCM, ChaCha20-Poly1305) has no MAC: MACs differ under CTR and CBC alone.
* Where link or window is the limit every cipher is as fast: which one costs the device less does not show in its rate.
* Copies of one and the same kind differ by some per cent; on busy machines by a factor (measured: 385 to 876 MB/s).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from flashferry.core.units import exact_rate
from flashferry.tcp.verdict_rules import VerdictKind

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
