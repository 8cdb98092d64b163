"""Where an activation is killed: in each phase that the journal knows, and between them. Pure.

The points of a mode stand in the order in which a run passes them, those that follow a rollback or a taking back last.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flashferry.model.activation import Phase


class Mode(StrEnum):
    """How a device boots."""

    INSTALL = "install"
    BUNDLE = "bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtPhase:
    """When a phase is on disk, before its first command."""

    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class AtCommand:
    """At the n-th text for the device that fits a pattern: before it is sent, or after."""

    pattern: str
    nth: int = 1
    after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AtNote:
    """When the run tells something that begins so."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRestart:
    """When the device goes down for the n-th time, by the lab's own eyes."""

    nth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRelease:
    """When the lease has ended."""


Trigger = AtPhase | AtCommand | AtNote | AtRestart | AtRelease


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A place where the run is killed.

    Attributes:
        name: Short, and unique in its mode.
        says: For the table's row.
        trigger: What it is recognized by; None: the run is not killed.
        restarts: Whether the device is restarted for us by then: False, True, or None where that depends on how far a
            command came that was sent in the moment of the kill.
        is_gone: Whether the device may be away when somebody recovers at once.
    """

    name: str
    says: str
    trigger: Trigger | None
    restarts: bool | None = True
    is_gone: bool = False


NO_KILL = KillPoint(name="none", says="not killed", trigger=None)
INTENDED = KillPoint(
    name="intended", says="intended: the entry is on disk", trigger=AtPhase(phase=Phase.INTENDED), restarts=False
)
AWAY = KillPoint(name="away", says="while the device is away", trigger=AtRestart(), is_gone=True)
SETTLING = KillPoint(name="settling", says="back, and settling", trigger=AtNote(text="back with "))
ENDED = KillPoint(name="ended", says="the lease has ended", trigger=AtRelease())

POINTS: dict[Mode, tuple[KillPoint, ...]] = {
    Mode.INSTALL: (
        NO_KILL,
        INTENDED,
        KillPoint(
            name="activating.kept",
            says="activating: on disk, before `install activate`",
            trigger=AtPhase(phase=Phase.ACTIVATING),
            restarts=False,
        ),
        KillPoint(
            name="activating.sent",
            says="activating: `install activate` sent",
            trigger=AtCommand(pattern="^install activate", after=True),
            restarts=None,
            is_gone=True,
        ),
        AWAY,
        SETTLING,
        KillPoint(
            name="committing.kept",
            says="committing: on disk, before `install commit`",
            trigger=AtPhase(phase=Phase.COMMITTING),
        ),
        KillPoint(
            name="committing.sent",
            says="committing: `install commit` sent",
            trigger=AtCommand(pattern="^install commit", after=True),
        ),
        KillPoint(
            name="rolling.kept",
            says="rolling back: on disk, the device's timer counts",
            trigger=AtPhase(phase=Phase.ROLLING_BACK),
        ),
        KillPoint(
            name="rolling.away",
            says="rolling back: while the timer's restart lasts",
            trigger=AtRestart(nth=2),
            is_gone=True,
        ),
        ENDED,
    ),
    Mode.BUNDLE: (
        NO_KILL,
        INTENDED,
        KillPoint(
            name="ordering.kept",
            says="boot order: on disk, before its line",
            trigger=AtPhase(phase=Phase.ORDERING),
            restarts=False,
        ),
        KillPoint(
            name="ordering.typed",
            says="boot order: typed, before `write memory`",
            trigger=AtCommand(pattern="^write memory"),
            restarts=False,
        ),
        KillPoint(
            name="reloading.kept",
            says="reloading: on disk, before `reload`",
            trigger=AtPhase(phase=Phase.RELOADING),
            restarts=False,
        ),
        KillPoint(
            name="reloading.asked",
            says="reloading: `reload` sent, its question is open",
            trigger=AtCommand(pattern="^reload", after=True),
            restarts=False,
        ),
        AWAY,
        SETTLING,
        KillPoint(
            name="taking.kept",
            says="taking back: on disk, before the lines of before",
            trigger=AtPhase(phase=Phase.TAKING_BACK),
        ),
        KillPoint(
            name="taking.typed",
            says="taking back: typed, before `write memory`",
            trigger=AtCommand(pattern="^write memory", nth=2),
        ),
        ENDED,
    ),
}
BY_NAME = {mode: {point.name: point for point in points} for mode, points in POINTS.items()}


def is_behind(mode: Mode, point: KillPoint, name: str) -> bool:
    """Return whether a point comes with, or later than, the one named; not being killed comes later than all."""
    order = list(BY_NAME[mode])
    return point.trigger is None or order.index(point.name) >= order.index(name)
