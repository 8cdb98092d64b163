"""Results of a sweep over the SSH ciphers and MACs of a device, and the fastest of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

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


def conclusion_of(rows: Sequence[SweepRow], best: str, *, what: str = "cipher") -> str:
    """Return the conclusion from rows of ciphers or MACs, in a sentence."""
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
