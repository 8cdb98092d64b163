"""What a cell of the matrix must end in, by rule: a function of kill point and fault, never taken from an output. Pure.

Three sentences are the whole rule. What was there before is there after, but for what a colleague did. What a colleague
did stays and is named, if we had the router in our hands then; the journal holds the router until the operator accepts
that, or a line of ours that was never shown. While a line of ours is where it could come back from, the journal holds
the router.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.e2e.matrix.faults import Fault
from tests.e2e.matrix.points import ALL, APPLET, NEITHER, KillPoint, between, is_behind

_APPLET_IS_THERE = between("dead-man.body", "restore.startup")
"""It is taken back with the mark, and before it, once our lines are proven gone."""

_APPLET_COUNTS = between("dead-man.proof", "restore.startup")


_BEHIND_RESTORE = {"distribute", "add"}


class Reach(StrEnum):
    """Whether a run comes to its kill point."""

    YES = "yes"
    NO = "no"
    PERHAPS = "perhaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be found.

    Attributes:
        reach: Whether the run is killed.
        pending: Whether the journal holds the device when the run is over.
        first_is_incomplete: Whether the first recovery must say that it could not restore.
        may_be_incomplete: Whether it may say so, because the router is away for a while.
        extra_line: Whether a colleague's line stands in the running configuration, and nothing else is different.
        foreign_window: Whether a colleague's window stands there instead of the router's own.
        saved: Lines of ours that a colleague saved: until somebody saves again the journal holds the router.
        named: Whether what the colleague did must be named.
        awaits: Whether the journal holds the router until the operator accepts what is left.
        hidden: Whether that is a line of ours that the router took and never showed.
        fails_at: As in `Fault`; None where the run was killed before that step behind the restore.
        removed: Whether somebody removes the image behind the last step: a run that is done says so of a moment before.
    """

    reach: Reach
    pending: bool
    first_is_incomplete: bool
    may_be_incomplete: bool
    extra_line: bool
    foreign_window: bool
    saved: frozenset[str]
    named: bool
    fails_at: str | None
    awaits: bool = False
    hidden: bool = False
    removed: bool = False


def reach(point: KillPoint, fault: Fault) -> Reach:
    """Return whether a run with this fault comes to a point; a run that is not killed is taken as not coming there."""
    if point.trigger is None or point.name in fault.never or point.needs not in fault.has:
        return Reach.NO
    return Reach.PERHAPS if point.name in fault.perhaps else Reach.YES


def expected(point: KillPoint, fault: Fault) -> Expectation:
    """Return what a cell must end in."""
    killed = reach(point, fault)
    ends_itself = killed is Reach.NO
    strikes = fault.strikes.keys()
    saved = _saved(point, fault, ends_itself=ends_itself) if "other_user_saves" in strikes else frozenset()
    changed = "other_user_configures" in strikes or bool(saved)
    in_hand = ends_itself or point.leased or is_behind(point, fault.strikes_at)
    # Without its mark on the router a run sent no line: its recovery types nothing, and no lock is in its way.
    locked = fault.locks and (ends_itself or (point.leased and is_behind(point, "tune.started")))
    stuck = bool(_stuck(point, fault, ends_itself=ends_itself)) or locked
    hidden = fault.name == "ignored line" and (ends_itself or is_behind(point, "tune.reread"))
    awaits = hidden or (in_hand and "other_user_configures" in strikes)
    held = stuck or bool(saved) or awaits
    fails_at = fault.fails_at if ends_itself or _is_told(point, fault) else None
    return Expectation(
        reach=killed,
        pending=held or (point.leased and not ends_itself),
        first_is_incomplete=held,
        may_be_incomplete="reboot" in {**fault.strikes, **fault.strikes_at_kill},
        extra_line=fault.name == "foreign line",
        foreign_window=fault.name == "foreign value",
        saved=saved,
        named=changed and in_hand,
        fails_at=fails_at,
        awaits=awaits,
        hidden=hidden,
        removed=fault.removes and fails_at is None,
    )


def _is_told(point: KillPoint, fault: Fault) -> bool:
    """Return whether the record of a run that was killed at a point tells of the step where its fault ends it.

    From the end of the lease on there is a record, that of a device that has the image; what fails behind the restore
    is told by the last one alone.
    """
    return fault.fails_at not in _BEHIND_RESTORE or is_behind(point, "add.done")


def ours_by(point: KillPoint, fault: Fault) -> frozenset[str]:
    """Return which of our lines are in force at a point, the applet among them."""
    applet = {APPLET} if fault.dead_man and point.name in _APPLET_IS_THERE else NEITHER
    return (point.ours | applet) - fault.never_set


def equals_start_by_itself(point: KillPoint, fault: Fault) -> bool:
    """Return whether a router is as before when the applet has run behind a kill, without any recovery."""
    return fault.fires and (point.name in _APPLET_COUNTS or not ours_by(point, fault))


def strikes_at_kill(point: KillPoint, fault: Fault) -> dict[str, object]:
    """Return the events of the lab that are still to come when a run was killed at a point."""
    still = {} if is_behind(point, fault.strikes_at) else dict(fault.strikes)
    return still if is_behind(point, "pull.quarter") else still | dict(fault.strikes_at_kill)


def _saved(point: KillPoint, fault: Fault, *, ends_itself: bool) -> frozenset[str]:
    """Return the lines of ours that are in force when the colleague saves."""
    struck_in_run = ends_itself or is_behind(point, fault.strikes_at)
    return (ALL - fault.never_set) if struck_in_run else ours_by(point, fault)


def _stuck(point: KillPoint, fault: Fault, *, ends_itself: bool) -> frozenset[str]:
    """Return the lines of ours that are in force when the run is over, and cannot be taken back."""
    were_set = ALL if ends_itself or is_behind(point, "tune.between") else point.ours
    return were_set & fault.stuck
