"""Axes: round ticks, units that people read, and no more points than a line can show. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

_TICKS = 5
_MINUTES_FROM_S = 180.0
_RATES = ((1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
_LEAST_IN_MB = 1e4
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from 0 to its last tick.

    Attributes:
        end: Value at its end, > 0, in its unit.
        step: Distance of its ticks, > 0.
        unit: Unit of what it shows.
        divisor: What a value in base units (bytes, seconds, bytes per second) is divided by.
        names: What stands at 0, 1, 2, ... instead of figures: dates of nights, say; empty for figures.
    """

    end: float
    step: float
    unit: str
    divisor: float
    names: tuple[str, ...] = ()

    @property
    def ticks(self) -> tuple[float, ...]:
        """Return the ticks, in the axis's unit, 0 first."""
        return tuple(number * self.step for number in range(round(self.end / self.step) + 1))

    def share(self, value: float) -> float:
        """Return where a value in base units lies, 0 to 1."""
        return min(1.0, max(0.0, value / self.divisor / self.end))

    def label(self, tick: float) -> str:
        """Return a tick in figures, with as many decimals as the step asks for; or its name, where it has one."""
        if self.names:
            return self.names[round(tick)]
        decimals = max(0, -math.floor(math.log10(self.step) + 1e-9))
        return f"{tick:.{decimals}f}"

    def label_of(self, value: float) -> str:
        """Return a value in base units in figures, with the unit: `5.43 MB/s`."""
        return f"{value / self.divisor:.3g} {self.unit}"


def rate_axis(largest_bytes_per_s: float) -> Axis:
    """Return an axis for rates of payload: in MB/s, as every text has them, unless that were zeros and no figures."""
    return _axis(largest_bytes_per_s, _RATES[:1] if largest_bytes_per_s >= _LEAST_IN_MB else _RATES)


def size_axis(largest_bytes: float) -> Axis:
    """Return an axis for bytes."""
    return _axis(largest_bytes, _SIZES)


def rtt_axis(largest_s: float) -> Axis:
    """Return an axis for round-trip times."""
    return _axis(largest_s, _TIMES)


def seconds_axis(largest_s: float) -> Axis:
    """Return an axis for what devices take to do something: in seconds, as every text has it, however short it is."""
    return _axis(largest_s, _TIMES[:1])


def time_axis(duration_s: float) -> Axis:
    """Return an axis that ends with the transfer, not at a round figure behind it; minutes from three on."""
    length_s = duration_s if duration_s > 0 else 1.0
    divisor, unit = (60.0, "min") if length_s >= _MINUTES_FROM_S else (1.0, "s")
    return Axis(end=length_s / divisor, step=_step(length_s / divisor), unit=unit, divisor=divisor)


def named_axis(names: Sequence[str]) -> Axis:
    """Return an axis for places that have names, one behind the other: nights, say; at least one of them."""
    end = max(1, len(names) - 1)
    named = tuple(names) if len(names) > 1 else (*names, *names)
    return Axis(end=end, step=math.ceil(end / _TICKS), unit="", divisor=1.0, names=named)


def _axis(largest: float, units: Sequence[tuple[float, str]]) -> Axis:
    divisor, unit = next((one for one in units if largest >= one[0]), units[-1])
    value = largest / divisor if largest > 0 else 1.0
    step = _step(value)
    return Axis(end=math.ceil(value / step - 1e-9) * step, step=step, unit=unit, divisor=divisor)


def _step(length: float) -> float:
    """Return the step of 1, 2 or 5 times a power of ten that gives about five ticks."""
    rough = length / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))


def thinned(points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """Return at most so many points: of each stretch its least and its greatest, so that no spike is lost.

    Args:
        points: Points in the order of their time.
        most: How many may stay, >= 4.
    """
    if len(points) <= most:
        return tuple(points)
    inner, stretches = points[1:-1], (most - 2) // 2
    kept: list[Point] = [points[0]]
    for number in range(stretches):
        part = inner[number * len(inner) // stretches : (number + 1) * len(inner) // stretches]
        if part:
            low, high = min(part, key=_height), max(part, key=_height)
            kept += sorted({low, high})
    return (*kept, points[-1])


def evenly(count: int, most: int) -> tuple[int, ...]:
    """Return which of so many readings to keep, first and last among them; >= 2 may stay."""
    if count <= most:
        return tuple(range(count))
    return tuple(round(number * (count - 1) / (most - 1)) for number in range(most))


def _height(point: Point) -> float:
    return point[1]
