"""What was found in a cell of the activation's matrix: values only, by the lab's own eyes and from what was told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.e2e.matrix.finding import Configurations, Ending, Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A device as the lab has it.

    Attributes:
        configurations: Its two configurations.
        runs: What it runs, or ran last.
        packages: Letters of its packages' states, by version; empty in bundle mode.
        happened: All that happened to it.
    """

    configurations: Configurations
    runs: str
    packages: dict[str, str]
    happened: tuple[str, ...]

    @property
    def is_up(self) -> bool:
        """Return whether it came back from its last restart."""
        ends = [one for one in self.happened if one.startswith(("restart: ", "boot: ", "stays at"))]
        return not ends or ends[-1].startswith("boot: ")

    @property
    def ports_down(self) -> tuple[str, ...]:
        """Return what was told of ports at its last start."""
        starts = [at for at, one in enumerate(self.happened) if one.startswith("boot: ")]
        return tuple(one for one in self.happened[starts[-1] :] if one.startswith("port down: ")) if starts else ()

    def count(self, start: str) -> int:
        """Return how often something happened that begins so."""
        return sum(one.startswith(start) for one in self.happened)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found in a cell.

    Attributes:
        ending: How the run ended.
        said: The end of its standard error.
        record: The device's record: the run's, or the journal's where the run was killed; None: nowhere.
        recoveries: One `recover` after another, until one has nothing more to do; that one is the last.
        statuses: What `status` had to recover: in front of each recovery, and behind the last one.
        before: The device before.
        ended: The device when the run had ended, and what struck then had struck.
        alone: The device when its own timer was over, where nobody looked until then; None elsewhere.
        after: The device after.
        seen: What a colleague saw then, by command; empty: nobody got in.
        still_held: How many devices the journal holds at the end.
        leaks: Where a secret was found.
        seconds: Wall time of the cell.
    """

    ending: Ending
    said: str
    record: dict[str, Any] | None
    recoveries: tuple[Recovery, ...]
    statuses: tuple[bool, ...]
    before: Truth
    ended: Truth
    alone: Truth | None
    after: Truth
    seen: dict[str, str]
    still_held: int
    leaks: tuple[str, ...]
    seconds: float = field(compare=False)

    @property
    def told(self) -> list[dict[str, Any]]:
        """Return each record that tells what became of the activation; the last word comes last."""
        found = [self.record] if self.record is not None else []
        found += [record for recovery in self.recoveries for record in recovery.records]
        return [one for one in found if one.get("activation")]
