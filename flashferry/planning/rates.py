"""How fast a copy and a hash may be: measured, else as of like devices, else assumed in words that say so. Pure.

What is assumed of a platform it says itself (`Defaults`). Untuned, a copy runs at one window per round trip.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from flashferry.devices.platforms import platform_named
from flashferry.devices.platforms.platform import Defaults
from flashferry.planning.scenario import Rate
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import USUAL

_LINK = frozenset({VerdictKind.CAP, VerdictKind.BANDWIDTH})
_PATH = _LINK | {VerdictKind.WINDOW, VerdictKind.SSH_WINDOW, VerdictKind.RANDOM_LOSS, VerdictKind.POLICER}
"""What a way over the WAN has, and one over a LAN has not: a window per round trip, losses, somebody's policer."""
_LIKE = 0.9


class Expected(Protocol):
    """What is expected of a copy (`flashferry.store.history.Expectation`)."""

    @property
    def bytes_per_s(self) -> float:
        """Return the rate."""
        ...

    @property
    def source(self) -> str:
        """Return where it comes from."""
        ...


class Measured(Protocol):
    """A timed copy of a device (`flashferry.store.measurement.Measurement`)."""

    @property
    def tuned(self) -> bool:
        """Return whether it was tuned."""
        ...

    @property
    def counts(self) -> bool:
        """Return whether it says something about the next one."""
        ...

    @property
    def is_limited_by_device(self) -> bool:
        """Return whether the device itself was the limit."""
        ...

    @property
    def whole_bytes_per_s(self) -> float:
        """Return its rate."""
        ...

    @property
    def verdict(self) -> str:
        """Return what limited it."""
        ...

    @property
    def transport(self) -> str:
        """Return by what it was fetched."""
        ...


class Past(Protocol):
    """What is known of earlier copies (`flashferry.store.history.History`)."""

    def of(self, host: str) -> tuple[Measured, ...]:
        """Return a device's copies, the oldest first."""
        ...

    def expected(self, host: str, *, tuned: bool, size_bytes: int, transport: str) -> Expected | None:
        """Return what a copy to flash may be expected to run at, or None."""
        ...

    def fastest(self, host: str, transports: Iterable[str], *, size_bytes: int) -> tuple[str, Expected] | None:
        """Return by which of some transports it was the fastest, or None where nothing is known."""
        ...

    def shown_not_to_gain(self, host: str, transport: str) -> str | None:
        """Return why tuning gains nothing, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A device whose rates are wanted.

    Attributes:
        host: Inventory name.
        model: Its model, or None.
        platform: Name of its platform.
        size_bytes: Size of its image.
        rtt_s: Round-trip time, or None where the kernel measured none.
        cap_bytes_per_s: What the copies over its link may take, or None.
        transport: By what it is to fetch.
        ceiling_bytes_per_s: What its windows are likely to let through by that, tuned; None where nothing is assumed of
            them.
        is_local: Whether it is to pull over its site's LAN; the round trip and the cap are then those of that.
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


def measured_rate(past: Past, subject: Subject, *, tuned: bool) -> Rate | None:
    """Return what earlier copies of this device tell, or None."""
    found = past.expected(subject.host, tuned=tuned, size_bytes=subject.size_bytes, transport=subject.transport)
    if found is None:
        return None
    cap = subject.cap_bytes_per_s
    copies = [one for one in past.of(subject.host) if one.transport == subject.transport]
    kinds = _PATH if subject.is_local else _LINK
    if cap is None or not _is_of_link(copies, found.bytes_per_s, tuned=tuned, kinds=kinds):
        return Rate(bytes_per_s=found.bytes_per_s, source=found.source)
    # What it got beside others then is no limit of its own now.
    limit = "its way over the WAN" if subject.is_local else "its link or our cap"
    words = f"{found.source}, with {limit} as the limit"
    return Rate(bytes_per_s=max(cap, found.bytes_per_s), source=words, is_of_link=True)


def _is_of_link(
    copies: Iterable[Measured], expected_bytes_per_s: float, *, tuned: bool, kinds: Collection[str]
) -> bool:
    """Return whether an expectation comes from a copy that its link held back and not the device."""
    like = [one for one in copies if one.counts and one.tuned == tuned]
    if not like:
        return False
    newest = like[-1]
    was_full = newest.verdict in kinds and not newest.is_limited_by_device
    return was_full and expected_bytes_per_s >= _LIKE * newest.whole_bytes_per_s


def bounded_rate(rate: Rate, subject: Subject, by_model: Mapping[str, tuple[float, ...]]) -> Rate:
    """Return a rate that the link gave, but no more than devices of the same model were seen to take by themselves."""
    others = by_model.get(subject.model or "")
    if not rate.is_of_link or not others or median(others) >= rate.bytes_per_s:
        return rate
    words = f"{rate.source}; assumed: by itself as fast as {_count(others, subject.model)}"
    return Rate(bytes_per_s=median(others), source=words, is_assumed=True)


def assumed_rate(subject: Subject, *, tuned: bool, by_model: Mapping[str, tuple[float, ...]]) -> Rate:
    """Return what to take for granted of a device of which nothing was measured, in words that say so.

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
        rate, words = median(others), f"assumed: as fast as {_count(others, subject.model)}"
        return Rate(bytes_per_s=rate if cap is None else min(rate, cap), source=words, is_assumed=True)
    if tuned and cap is not None:
        words = "assumed: tuned it takes all that its link gives to copies; how fast its flash is nobody knows yet"
        return Rate(bytes_per_s=cap, source=words, is_assumed=True, is_of_link=True)
    return _one_window(subject, tuned=tuned)


def _count(others: tuple[float, ...], model: str | None) -> str:
    return f"another {model}" if len(others) == 1 else f"the median of {len(others)} other {model}"


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


def hash_rate(subject: Subject, speeds: Mapping[str, float], models: Mapping[str, str | None]) -> tuple[float, bool]:
    """Return how fast a device hashes in bytes per second, and whether that was measured on it or one of its model.

    Args:
        subject: The device.
        speeds: Measured speeds by device.
        models: Model of each device.
    """
    seen = _seen(subject, speeds, models)
    return (seen, True) if seen is not None else (_defaults(subject).typical_hash_bytes_per_s, False)


def flash_rate(subject: Subject, speeds: Mapping[str, float], models: Mapping[str, str | None]) -> Rate:
    """Return how fast a device copies inside the box; the arguments are those of `hash_rate`."""
    usual = _defaults(subject).typical_flash_bytes_per_s
    words = f"inside the box they copy {usual / 1e6:.2g} MB/s, as was published of other flash"
    return _measured_or(subject, speeds, models, usual, words)


def add_rate(subject: Subject, speeds: Mapping[str, float], models: Mapping[str, str | None]) -> Rate:
    """Return how fast `install add` goes through an image; the arguments are those of `hash_rate`."""
    usual = _defaults(subject).typical_add_bytes_per_s
    words = f"'install add' goes through {usual / 1e6:.2g} MB/s, as on a C8000V"
    return _measured_or(subject, speeds, models, usual, words)


def _measured_or(
    subject: Subject, speeds: Mapping[str, float], models: Mapping[str, str | None], usual: float, words: str
) -> Rate:
    seen = _seen(subject, speeds, models)
    if seen is not None:
        return Rate(bytes_per_s=seen, source="measured on it, or on others of its model")
    return Rate(bytes_per_s=usual, source=f"assumed: {words}", is_assumed=True)


def _seen(subject: Subject, speeds: Mapping[str, float], models: Mapping[str, str | None]) -> float | None:
    """Return a speed that was measured on a device, else the median of its model's; None where there is none."""
    if (own := speeds.get(subject.host)) is not None:
        return own
    like = [speed for host, speed in speeds.items() if subject.model and models.get(host) == subject.model]
    return median(like) if like else None


def _defaults(subject: Subject) -> Defaults:
    return platform_named(subject.platform).defaults


def by_model(rates: Iterable[tuple[str | None, Rate]]) -> dict[str, tuple[float, ...]]:
    """Return measured rates by model; those that the link gave say nothing about a model."""
    found: dict[str, tuple[float, ...]] = {}
    for model, rate in rates:
        if model is not None and not rate.is_of_link:
            found[model] = (*found.get(model, ()), rate.bytes_per_s)
    return found
