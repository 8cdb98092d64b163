"""A site's line cut in mid-run, and mended: when, and what is seen meanwhile on both of its sides."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flashferry.core import units
from flashferry.core.safe_quote import counted
from flashferry.lab.demo.harness import print_line, step
from flashferry.lab.demo.sites.output import print_agents

if TYPE_CHECKING:
    from flashferry.lab.world import World

CUT_S = 20.0
"""So long the line is cut: the centre takes a site for silent after ten seconds here."""

_ASK_AFTER_S = 14.0

AskAgents = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns what the centre says of its sites, as `flashferry sites list --no-ask --json` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutSeen:
    """What was seen while a line was cut.

    Attributes:
        seconds: How long it was cut.
        carried_bytes: What the line carried meanwhile, both ways.
        grown_bytes: By how much the files on the site's flash grew meanwhile.
        silent_s: How long the centre had no word of the site when it was asked.
    """

    site: str
    seconds: float
    carried_bytes: int
    grown_bytes: int
    silent_s: float


class Cut:
    """Cuts a site's line once its routers copy beside each other, and mends it some time later.

    Args:
        world: The lab.
        site: Whose line.
        image: What its routers copy.
        ask: Asks the centre.
        number: Of the step that it is.
    """

    def __init__(self, world: World, site: str, image: str, ask: AskAgents, number: int) -> None:
        self._world, self._site, self._image, self._ask, self._number = world, site, image, ask, number
        self._names = [one.name for one in world.devices if one.site == site]
        self._cut_at_s: float | None = None
        self._carried_bytes = self._held_bytes = 0
        self._silent_s: float | None = None
        self.seen: CutSeen | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the line is cut now."""
        return self._cut_at_s is not None and self.seen is None

    def check(self) -> None:
        """Do what is due."""
        if self.seen is not None:
            return
        if self._cut_at_s is None:
            if self._is_time():
                self._cut()
            return
        passed_s = time.monotonic() - self._cut_at_s
        if self._silent_s is None and passed_s >= _ASK_AFTER_S:
            self._silent_s = self._shown()
        elif passed_s >= CUT_S:
            self._mend(passed_s)

    def end(self) -> None:
        """Mend the line if it is still cut."""
        if self.is_cut:
            self._world.mend(self._site)

    def _is_time(self) -> bool:
        """Return whether all routers that are to copy beside each other have started, the first being done already."""
        sizes = [self._held_of(name) for name in self._names]
        return all(sizes) and max(sizes) > min(sizes)

    def _cut(self) -> None:
        step(self._number, f"In mid-run the line of {self._site} is cut, for {CUT_S:.0f} s")
        self._world.cut(self._site)
        self._cut_at_s = time.monotonic()
        self._carried_bytes, self._held_bytes = self._line_bytes(), self._flash_bytes()

    def _shown(self) -> float:
        """Print what the centre says of its sites; return for how long this one is silent."""
        rows = self._ask()
        print_agents(rows)
        last_at = next((one["heard_at"] for one in rows if one["site"] == self._site), None)
        return (datetime.now(UTC) - datetime.fromisoformat(last_at)).total_seconds() if last_at else float("nan")

    def _mend(self, passed_s: float) -> None:
        carried_bytes = self._line_bytes() - self._carried_bytes
        grown_bytes = self._flash_bytes() - self._held_bytes
        self._world.mend(self._site)
        assert self._silent_s is not None
        self.seen = CutSeen(
            site=self._site,
            seconds=passed_s,
            carried_bytes=carried_bytes,
            grown_bytes=grown_bytes,
            silent_s=self._silent_s,
        )
        carried, written = counted(carried_bytes, "byte"), units.size(grown_bytes)
        print_line(
            f"mended after {passed_s:.0f} s, in which the line carried {carried}; flash took {written} all the same"
        )

    def _line_bytes(self) -> int:
        counters = self._world.link_counters(self._site)
        return sum(int(counters[direction]["delivered_bytes"]) for direction in ("to_site", "to_core"))

    def _flash_bytes(self) -> int:
        return sum(self._held_of(name) for name in self._names)

    def _held_of(self, name: str) -> int:
        return sum(file.size_bytes for file in self._world.files(name) if file.name == self._image)
