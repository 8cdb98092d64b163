"""What a cell of the activation's matrix must end in: a function of kill point and fault, never of an output. Pure.

Three sentences are the whole rule. A device is restarted by one command of ours at most, and by none where the run was
killed before it. A device that was restarted ends as its column says, whoever brings it there; one that was not ends as
it was. Until it has ended, the journal holds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.model.activation import ActivationOutcome
from tests.e2e.matrix.activation.faults import Fault
from tests.e2e.matrix.activation.points import ENDED, KillPoint, Mode, is_behind
from tests.e2e.matrix.finding import Ending

_OLD_AGAIN = frozenset({ActivationOutcome.ROLLED_BACK, ActivationOutcome.CAME_BACK_OLD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be found.

    Attributes:
        ending: How the run ends.
        pending: Whether the journal holds the device then.
        outcomes: One of these is told in the end, and the lab sees it.
        must_be_incomplete: Whether the first recovery must say that it could not bring the device to an end.
        may_be_incomplete: Whether it may say so.
        recovery_dies: Whether the first recovery is killed; None: it depends.
        fault_is_met: Whether the lab must have seen what the column is named after; None: it depends.
    """

    ending: Ending
    pending: bool
    outcomes: frozenset[ActivationOutcome]
    must_be_incomplete: bool
    may_be_incomplete: bool
    recovery_dies: bool | None
    fault_is_met: bool | None


def expected(point: KillPoint, fault: Fault) -> Expectation:
    """Return what a cell must end in."""
    is_killed = point.trigger is not None
    restarts = False if fault.is_not_activated else point.restarts
    keeps = _waits_for_a_colleague(point, fault)
    return Expectation(
        ending=Ending.KILLED if is_killed else Ending.DONE,
        pending=(is_killed and point != ENDED) or fault.stays_away or fault.is_held,
        outcomes=_outcomes(point, fault, restarts=restarts),
        must_be_incomplete=keeps or (fault.stays_away and restarts is True),
        may_be_incomplete=keeps or fault.is_held or fault.stays_away or point.is_gone or fault.rolls_back,
        recovery_dies=_recovery_dies(point, fault),
        fault_is_met=_is_met(point, fault, restarts=restarts),
    )


def _outcomes(point: KillPoint, fault: Fault, *, restarts: bool | None) -> frozenset[ActivationOutcome]:
    ends_in = frozenset({fault.ends_in})
    if fault.ends_in is ActivationOutcome.ROLLED_BACK and point.trigger is not None:
        # Who looks behind the timer's restart cannot tell it from one that ended with the old image.
        ends_in = _OLD_AGAIN
    if fault.alone and point.name in {"committing.sent", "ended"}:
        is_known = point == ENDED
        ends_in = frozenset({ActivationOutcome.COMMITTED}) | (frozenset() if is_known else ends_in)
    as_it_was = frozenset({ActivationOutcome.NOT_ACTIVATED})
    if restarts is None:
        return ends_in | as_it_was
    return ends_in if restarts else as_it_was


def _waits_for_a_colleague(point: KillPoint, fault: Fault) -> bool:
    """Return whether our boot line is saved, no restart is to come, and a colleague's line is not ours to save."""
    by_us, by_them = {"reloading.kept", "reloading.asked"}, {"ordering.typed"}
    if fault.is_held:
        # Where no line of ours was typed, a recovery may as well leave the colleague's order and let go.
        return is_behind(fault.mode, point, "ordering.typed")
    is_saved = point.name in by_us or (point.name in by_them and "other_user_saves" in fault.strikes)
    return is_saved and "other_user_configures" in fault.strikes


def _recovery_dies(point: KillPoint, fault: Fault) -> bool | None:
    """Return whether a recovery enters a phase: one commits what runs and waits for it, one puts a boot order back."""
    if not fault.kills_recovery:
        return False
    if fault.mode is Mode.BUNDLE:
        # Where nothing was sent yet, there is no boot order to put back.
        return point.restarts is False and point.name != "intended"
    # Away, the first one may find nobody; a commit that was sent may have been done.
    return None if point.is_gone or point.name == "committing.sent" else point.restarts


def _is_met(point: KillPoint, fault: Fault, *, restarts: bool | None) -> bool | None:
    if fault.must_tell is None:
        return False
    if fault.tells_before_restart:
        return True
    if fault.alone and point.name in {"committing.sent", "ended"}:
        return None
    if fault.is_not_activated:
        return None if point.name in {"intended", "activating.kept", "activating.sent", "ordering.kept"} else True
    if fault.strikes_at == "settling":
        is_reached = is_behind(fault.mode, point, "activating.sent")
        return (None if point.restarts is None else True) if is_reached else False
    return restarts
