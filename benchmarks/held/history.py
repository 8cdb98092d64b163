"""What earlier runs measured, one line of JSON for each figure and run, and how the newest stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from flashferry.nightly.trend import PastNight, Side, trend_of

HISTORY = Path(__file__).parents[1] / "results" / "held.jsonl"
_SIDES = {Side.WITHIN: "as usual", Side.WORSE: "lower than usual", Side.BETTER: "higher than usual", Side.UNJUDGED: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A figure as a run found it.

    Attributes:
        at: When, ISO 8601 in UTC.
        commit: The commit that was checked out, with `+` where there were changes.
        name: The figure.
        unit: Its unit.
        values: The tries, in their order.
        verdict: `held` or `not held`.
    """

    at: str
    commit: str
    name: str
    unit: str
    values: tuple[float, ...]
    verdict: str

    @property
    def median(self) -> float:
        """The middle of the tries, which is what counts."""
        return median(self.values)


def append(entry: Entry, path: Path = HISTORY) -> None:
    """Add a line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(entry)) + "\n")


def read(path: Path = HISTORY) -> Iterator[Entry]:
    """Yield what was kept, the oldest first."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            kept = json.loads(line)
            yield Entry(**{**kept, "values": tuple(kept["values"])})


def trend(value: float, past: Sequence[float]) -> str:
    """Return where a median lies beside those of earlier runs; empty with too few of them."""
    judged: list[PastNight] = []
    for earlier in past:
        judged.append(PastNight(value=earlier, side=trend_of(earlier, judged).side))
    return _SIDES[trend_of(value, judged).side]
