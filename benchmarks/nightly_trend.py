"""How often the judging of nights cries wolf, and how soon it finds a drop: `python -m benchmarks.nightly_trend`.

No lab and no clock: copies are drawn as copies over one link were seen to spread (a normal distribution around the
level, and of each hundred so many low by 10 to 40 %), and each night is judged by the nights before it with what
`flashferry nightly` uses. `--docs FILE` puts the tables between the markers of a document.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from flashferry.nightly.trend import COPIES, RATE, SECONDS, Course, PastNight, Rule, trend_of

SECTION = "nightly-trend"
LEVEL = 5.0e6
OUTLIERS = 0.05
Level = Callable[[int], float]
"""What a copy of a night runs at, as a share of the usual; nights are counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How copies of a night spread.

    Attributes:
        spread: One standard deviation, as a share of the level.
        outliers: The share of copies that is worse by 10 to 40 %.
        copies: How many copies a night has.
    """

    spread: float
    outliers: float = OUTLIERS
    copies: int = COPIES


def steady(_night: int) -> float:
    """Return the level of nights without any change."""
    return 1.0


def changed(factor: float, first: int = 20) -> Level:
    """Return levels that change from a night on."""
    return lambda night: factor if night >= first else 1.0


def courses(nights: int, seed: int, noise: Noise, level: Level = steady, *, rule: Rule = RATE) -> list[Course]:
    """Return what is said of each of some simulated nights of one series, the first one first."""
    chance = random.Random(seed)
    past: list[PastNight] = []
    found: list[Course] = []
    for night in range(1, nights + 1):
        value = median(_copy(chance, noise, level(night), rule) for _ in range(noise.copies))
        told = trend_of(value, past, rule, copies=noise.copies)
        past.append(PastNight(value=value, side=told.side))
        found.append(told.course)
    return found


def _copy(chance: random.Random, noise: Noise, level: float, rule: Rule) -> float:
    value = max(0.0, chance.gauss(1.0, noise.spread)) * LEVEL * level
    if chance.random() >= noise.outliers:
        return value
    worse = chance.uniform(0.1, 0.4)
    return value * (1 - worse if rule.is_more_better else 1 + worse)


def share_of(course: Course, series: Sequence[Sequence[Course]]) -> float:
    """Return the share of all nights of some series of which this was said."""
    return sum(one is course for found in series for one in found) / sum(len(found) for found in series)


def found_by(course: Course, night: int, series: Sequence[Sequence[Course]]) -> float:
    """Return the share of some series in which this was said of a night, or of one before it from the 20th on."""
    return sum(course in found[19:night] for found in series) / len(series)


NOISES = (
    Noise(spread=0.01),
    Noise(spread=0.03),
    Noise(spread=0.03, copies=2),
    Noise(spread=0.03, copies=1),
    Noise(spread=0.06, outliers=0.1),
)
CHANGES = (0.95, 0.90, 0.80)


def _lines(seeds: int) -> Iterator[str]:
    heads = " | ".join(f"{1 - change:.0%} lower" for change in CHANGES)
    yield f"| noise of a copy | nights amber | nights red | series with a red one | {heads} | 30% higher |"
    yield f"|---|---|---|---|{'---|' * (len(CHANGES) + 1)}"
    for noise in NOISES:
        series = [courses(200, seed, noise) for seed in range(seeds)]
        struck = sum(Course.WORSE_AGAIN in found for found in series) / seeds
        amber, red = share_of(Course.WORSE_ONCE, series), share_of(Course.WORSE_AGAIN, series)
        changes = [_found(seeds, noise, change, Course.WORSE_AGAIN) for change in CHANGES]
        cells = [
            f"{amber:.2%}",
            f"{red:.3%}",
            f"{struck:.1%}",
            *changes,
            _found(seeds, noise, 1.3, Course.BETTER_AGAIN),
        ]
        yield f"| {_told(noise)} | {' | '.join(cells)} |"
    yield ""
    yield "| noise of a time | nights amber | nights red | half as long again, red by night 22 |"
    yield "|---|---|---|---|"
    for noise in (Noise(spread=0.05, copies=2), Noise(spread=0.15, copies=2)):
        series = [courses(200, seed, noise, rule=SECONDS) for seed in range(seeds)]
        amber, red = share_of(Course.WORSE_ONCE, series), share_of(Course.WORSE_AGAIN, series)
        longer = [courses(30, seed, noise, changed(1.5), rule=SECONDS) for seed in range(seeds)]
        yield f"| {_told(noise)} | {amber:.2%} | {red:.3%} | {found_by(Course.WORSE_AGAIN, 22, longer):.1%} |"


def _found(seeds: int, noise: Noise, change: float, course: Course) -> str:
    series = [courses(30, seed, noise, changed(change)) for seed in range(seeds)]
    return f"{found_by(course, 22, series):.1%}"


def _told(noise: Noise) -> str:
    count = f"{noise.copies} {'copy' if noise.copies == 1 else 'copies'}"
    return f"{noise.spread:.0%}, {noise.outliers:.0%} of copies 10 to 40% worse; {count}"


def main() -> None:
    """Simulate, print the tables, and put them into a document where one is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="series per cell")
    parser.add_argument("--docs", type=Path, help="document with markers for the tables")
    given = parser.parse_args()
    text = "\n".join(_lines(given.seeds))
    print(text)
    if given.docs is not None:
        from flashferry.lab.experiment.harness import put

        put(given.docs, SECTION, text)


if __name__ == "__main__":
    main()
