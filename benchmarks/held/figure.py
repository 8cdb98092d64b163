"""What a held figure is, where all of them are found, and the band that each must stay inside."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

FOLDER = Path(__file__).parent
BANDS = FOLDER / "bands.toml"
_MODULE_OF_FIGURES = "figures_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One measurement.

    Attributes:
        name: The figure's name, which is its key in `bands.toml`.
        value: What was measured.
        unit: `ratio`, `s`, `bytes/s` and the like.
    """

    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure that is held.

    Attributes:
        name: Its name.
        unit: Its unit.
        doc: One sentence: what is measured.
        function: Measures it once.
    """

    name: str
    unit: str
    doc: str
    function: Callable[[], float]

    def measure(self) -> Value:
        """Measure once."""
        return Value(name=self.name, value=float(self.function()), unit=self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """What the median of a figure's tries may be; None leaves that side open.

    Attributes:
        least: The smallest value.
        most: The largest value.
        why: Where the limits come from.
    """

    least: float | None
    most: float | None
    why: str

    def holds(self, value: float) -> bool:
        """Return whether a median is inside."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        sides = ((">=", self.least), ("<=", self.most))
        return " and ".join(f"{sign} {limit:g}" for sign, limit in sides if limit is not None)


_registered: dict[str, Figure] = {}


def figure(unit: str) -> Callable[[Callable[[], float]], Callable[[], Value]]:
    """Register a function that measures a figure once; its name is the figure's."""

    def register(function: Callable[[], float]) -> Callable[[], Value]:
        name = function.__name__
        assert name not in _registered, f"two figures are called {name}"
        doc = (function.__doc__ or "").strip().partition("\n")[0]
        _registered[name] = found = Figure(name=name, unit=unit, doc=doc, function=function)
        return found.measure

    return register


def all_figures() -> dict[str, Figure]:
    """Return the figures of all modules `figures_*` of this folder, by name."""
    for name in _modules():
        import_module(f"benchmarks.held.{name}")
    return dict(sorted(_registered.items()))


def _modules() -> Iterator[str]:
    return (found.name for found in iter_modules([str(FOLDER)]) if found.name.startswith(_MODULE_OF_FIGURES))


def read_bands(path: Path = BANDS) -> dict[str, Band]:
    """Return the bands by the figure's name.

    Raises:
        ValueError: A band limits nothing, or does not say where its limits come from.
    """
    bands = {}
    for name, given in tomllib.loads(path.read_text(encoding="utf-8")).items():
        band = Band(least=given.get("least"), most=given.get("most"), why=given.get("why", ""))
        if (band.least is None and band.most is None) or not band.why or set(given) - {"least", "most", "why"}:
            raise ValueError(f"{path}: {name}: expected least or most, and why; found {sorted(given)}")
        bands[name] = band
    return bands
