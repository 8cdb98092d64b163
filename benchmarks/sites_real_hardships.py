"""What is done to a run by real agents in its middle: kills, a broker that is away, a line that is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.report import print_progress
from benchmarks.sites_real_ground import Ground
from benchmarks.sites_real_seen import Sample

CUT_S, BROKER_AWAY_S, AGENT_AWAY_S = 180.0, 15.0, 15.0
_BEGINS_AT_SHARE = 0.5
"""So many of the routers copy, or have the image, when it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that is done.

    Attributes:
        at_s: When, from the first on.
        text: What, for the report.
        act: Does it.
    """

    at_s: float
    text: str
    act: Callable[[], object]


def steps_of(ground: Ground) -> list[Step]:
    """Return what is done, in its order: to another agent each time, where there are as many."""
    one, two, three = (ground.hosts[number % len(ground.hosts)] for number in range(3))
    cut, mend = (lambda: ground.world.cut(three.name)), (lambda: ground.world.mend(three.name))
    return [
        Step(at_s=0.0, text=f"the line of {three.name} cut", act=cut),
        Step(at_s=5.0, text=f"the agent of {one.name} killed -9", act=lambda: one.kill(with_runs=False)),
        Step(at_s=5.0 + AGENT_AWAY_S, text=f"the agent of {one.name} started again", act=one.start),
        Step(at_s=30.0, text=f"agent and runs of {two.name} killed -9", act=lambda: two.kill(with_runs=True)),
        Step(at_s=35.0, text=f"the agent of {two.name} started again", act=two.start),
        Step(at_s=60.0, text="the broker killed -9", act=ground.redis.kill),
        Step(at_s=60.0 + BROKER_AWAY_S, text="the broker started again", act=ground.redis.start),
        Step(at_s=CUT_S, text=f"the line of {three.name} mended", act=mend),
    ]


@dataclass(slots=True)
class Hardships:
    """Does what is due, once enough of the routers copy.

    Args:
        routers: How many there are.
        left: What is to be done.
        done: What was done.
    """

    routers: int
    left: Sequence[Step]
    done: list[str] = field(default_factory=list)
    _first_s: float | None = None
    _began_s: float | None = None

    def look(self, now: Sample) -> None:
        """Do what is due."""
        self._first_s = now.at_s if self._first_s is None else self._first_s
        if self._began_s is None and now.copying + now.whole >= self.routers * _BEGINS_AT_SHARE:
            self._began_s = now.at_s
        while self._began_s is not None and self.left and now.at_s - self._began_s >= self.left[0].at_s:
            step, self.left = self.left[0], self.left[1:]
            said = f"{now.at_s - self._first_s:.0f} s: {step.text}"
            self.done.append(f"{said}, with {now.copying} routers copying and {now.whole} done")
            print_progress(self.done[-1])
            step.act()
