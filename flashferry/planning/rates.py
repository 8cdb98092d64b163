"""Rates of copies and hashes: measured, else of similar devices, else assumed, which the text states. Pure.

Assumptions are defined per platform (`Defaults`). Untuned, a copy transfers one window per round trip.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from flashferry.devices.platforms import platform_named
from flashferry.devices.platforms.platform import Defaults
from flashferry.planning.scenario import Rate
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import USUAL

if TYPE_CHECKING:
    from flashferry.store.history import History
    from flashferry.store.measurements import Measurement

_LINK = frozenset({VerdictKind.CAP, VerdictKind.BANDWIDTH})
_PATH = _LINK | {VerdictKind.WINDOW, VerdictKind.SSH_WINDOW, VerdictKind.RANDOM_LOSS, VerdictKind.POLICER}
"""Verdicts of a WAN path that do not apply to a LAN."""
_LIKE = 0.9


class ModelRate(NamedTuple):
    """Median of the rates measured on devices of one model, in bytes/s, and their number."""

    bytes_per_s: float
    devices: int


@dataclass(frozen=True, slots=True)
class Speeds:
    """Measured speeds in bytes/s, by host, and the median by model."""

    own: Mapping[str, float]
    by_model: Mapping[str, float]

    @classmethod
    def of(cls, own: Mapping[str, float], models: Mapping[str, str | None]) -> Speeds:
        """Make it from measured speeds and models by host."""
        found: dict[str, list[float]] = {}
        for host, speed in own.items():
            if model := models.get(host):
                found.setdefault(model, []).append(speed)
        return cls(own=own, by_model={model: median(speeds) for model, speeds in found.items()})

    def get(self, subject: Subject) -> float | None:
        """Return the speed of a device, else the median of its model; None for none."""
        return self.own.get(subject.host, self.by_model.get(subject.model or ""))


class Subject(Struct, frozen=True, kw_only=True):
    """A device whose rates are estimated.

    Attributes:
        model: None if unknown.
        platform: Name of its platform.
        size_bytes: Size of its image.
        rtt_s: Round-trip time; None if the kernel measured none.
        cap_bytes_per_s: Rate limit of the copies over its link; None for none.
        transport: Transport of its copy.
        ceiling_bytes_per_s: Rate that its tuned windows probably allow with it; None for no limit.
        is_local: Whether it copies over its site's LAN, of which round-trip time and limit then are.
    """

    host: str
    model: str | None
    platform: str
    size_bytes: int
    rtt_s: float | None
    cap_bytes_per_s: float | None
    transport: str = USUAL
    ceiling_bytes_per_s: float | None = None
    is_local: bool = False


def measured_rate(past: History, subject: Subject, *, tuned: bool) -> Rate | None:
    """Return the rate by earlier copies of this device; None for none."""
    found = past.expected(subject.host, tuned=tuned, size_bytes=subject.size_bytes, transport=subject.transport)
    if found is None:
        return None
    cap = subject.cap_bytes_per_s
    copies = [one for one in past.of(subject.host) if one.transport == subject.transport]
    kinds = _PATH if subject.is_local else _LINK
    if cap is None or not _is_of_link(copies, found.bytes_per_s, tuned=tuned, kinds=kinds):
        return Rate(bytes_per_s=found.bytes_per_s, source=found.source)
    # A share beside other copies is not the device's own limit.
    limit = "its way over the WAN" if subject.is_local else "its link or our cap"
    words = f"{found.source}, with {limit} as the limit"
    return Rate(bytes_per_s=max(cap, found.bytes_per_s), source=words, is_of_link=True)


def _is_of_link(
    copies: Iterable[Measurement], expected_bytes_per_s: float, *, tuned: bool, kinds: Collection[str]
) -> bool:
    """Return whether an expected rate is from a copy that the link limited, not the device."""
    like = [one for one in copies if one.counts and one.tuned == tuned]
    if not like:
        return False
    newest = like[-1]
    was_full = newest.verdict in kinds and not newest.is_limited_by_device
    return was_full and expected_bytes_per_s >= _LIKE * newest.whole_bytes_per_s


def bounded_rate(rate: Rate, subject: Subject, by_model: Mapping[str, ModelRate]) -> Rate:
    """Limit a rate of the link to what devices of the model reached by themselves."""
    others = by_model.get(subject.model or "")
    if not rate.is_of_link or others is None or others.bytes_per_s >= rate.bytes_per_s:
        return rate
    words = f"{rate.source}; assumed: by itself as fast as {_count(others, subject.model)}"
    return Rate(bytes_per_s=others.bytes_per_s, source=words, is_assumed=True)


def assumed_rate(subject: Subject, *, tuned: bool, by_model: Mapping[str, ModelRate]) -> Rate:
    """Return the rate to assume for a device without measurements.

    Args:
        subject: The device.
        tuned: Whether its copy will be tuned.
        by_model: Measured rates of other devices by model, with the same tuning.
    """
    cap, most = subject.cap_bytes_per_s, subject.ceiling_bytes_per_s
    if tuned and most is not None and most < (cap if cap is not None else float("inf")):
        words = f"assumed: by {subject.transport} its windows let no more through"
        return Rate(bytes_per_s=most, source=words, is_assumed=True)
    if others := by_model.get(subject.model or ""):
        rate, words = others.bytes_per_s, f"assumed: as fast as {_count(others, subject.model)}"
        return Rate(bytes_per_s=rate if cap is None else min(rate, cap), source=words, is_assumed=True)
    if tuned and cap is not None:
        words = "assumed: tuned it takes all that its link gives to copies; the speed of its flash is not known yet"
        return Rate(bytes_per_s=cap, source=words, is_assumed=True, is_of_link=True)
    return _one_window(subject, tuned=tuned)


def _count(others: ModelRate, model: str | None) -> str:
    return f"another {model}" if others.devices == 1 else f"the median of {others.devices} other {model}"


def _one_window(subject: Subject, *, tuned: bool) -> Rate:
    window = _defaults(subject).typical_window_bytes
    rtt_s = subject.rtt_s or ASSUMED_RTT_S
    rate = window / rtt_s
    if subject.cap_bytes_per_s is not None:
        rate = min(rate, subject.cap_bytes_per_s)
    why = "its link's rate is not known, so as slow as untuned" if tuned else "untuned and never measured"
    return Rate(
        bytes_per_s=rate,
        source=f"assumed: {why}, a window of {window / 1e3:.1f} kB per round trip",
        is_assumed=True,
    )


def hash_rate(subject: Subject, speeds: Speeds) -> tuple[float, bool]:
    """Return the hashing speed of a device in bytes/s, and whether it was measured on the device or its model."""
    seen = speeds.get(subject)
    return (seen, True) if seen is not None else (_defaults(subject).typical_hash_bytes_per_s, False)


def flash_rate(subject: Subject, speeds: Speeds) -> Rate:
    """Return the speed of copies inside a device."""
    usual = _defaults(subject).typical_flash_bytes_per_s
    words = f"inside the box they copy {usual / 1e6:.2g} MB/s, as was published of other flash"
    return _measured_or(subject, speeds, usual, words)


def add_rate(subject: Subject, speeds: Speeds) -> Rate:
    """Return the speed of `install add`."""
    usual = _defaults(subject).typical_add_bytes_per_s
    words = f"'install add' goes through {usual / 1e6:.2g} MB/s, as on a C8000V"
    return _measured_or(subject, speeds, usual, words)


def _measured_or(subject: Subject, speeds: Speeds, usual: float, words: str) -> Rate:
    seen = speeds.get(subject)
    if seen is not None:
        return Rate(bytes_per_s=seen, source="measured on it, or on others of its model")
    return Rate(bytes_per_s=usual, source=f"assumed: {words}", is_assumed=True)


def _defaults(subject: Subject) -> Defaults:
    return platform_named(subject.platform).defaults


def by_model(rates: Iterable[tuple[str | None, Rate]]) -> dict[str, ModelRate]:
    """Return measured rates by model, without those that the link limited."""
    found: dict[str, list[float]] = {}
    for model, rate in rates:
        if model is not None and not rate.is_of_link:
            found.setdefault(model, []).append(rate.bytes_per_s)
    return {model: ModelRate(bytes_per_s=median(each), devices=len(each)) for model, each in found.items()}
