"""Whether all sites may go on after the canaries. Pure.

Each site goes through the waves of its own devices by itself. What is for the whole fleet alone is decided here: the
first wave, which shows what is wrong with an image before the others have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.states import Outcome, Phase
from flashferry.model.waves import WavePolicy, may_go_on
from flashferry.store.sites.words import DeviceOutcome

FAILED = frozenset(one.value for one in Outcome if one.phase is Phase.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What all sites are to do.

    Attributes:
        goes_on: Whether all of them may begin all that is left.
        stop: Why the run begins nothing more; empty: it goes on.
    """

    goes_on: bool = False
    stop: str = ""


def first_wave(plan: FleetPlan) -> int | None:
    """Return up to which wave sites may begin at first; None: all of them.

    Canaries are canaries for the whole fleet: all sites wait for the few that have one.
    """
    if len(plan.waves) > 1 and (plan.policy.approve or plan.waves[0].is_canary):
        return plan.waves[0].number
    return None


def decide(plan: FleetPlan, approved: int | None, outcomes: Sequence[DeviceOutcome], *, is_stopped: bool) -> Decision:
    """Return what sites are to do now.

    Args:
        plan: The plan.
        approved: Up to which wave they may begin; None: all.
        outcomes: What each device came to.
        is_stopped: Whether it was decided that nothing new begins.
    """
    if is_stopped or approved is None:
        return Decision()
    started = [one for one in outcomes if one.wave <= approved]
    failed = [one.host for one in started if one.outcome in FAILED]
    canaries_failed = len(plan.canaries & set(failed))
    if why := may_go_on(plan.policy, len(started), len(failed), canaries_failed=canaries_failed):
        return Decision(stop=why)
    return Decision(goes_on=not plan.policy.approve and all(one.outcome is not None for one in started))


def wave_that_waits(
    policy: WavePolicy, approved: int | None, outcomes: Sequence[DeviceOutcome], *, is_stopped: bool
) -> int | None:
    """Return the wave that waits for an approval, all before it being through; None where none does.

    Args:
        policy: The plan's.
        approved: Up to which wave sites may begin; None: all.
        outcomes: What each device came to.
        is_stopped: Whether nothing new is to begin.
    """
    if is_stopped or approved is None or not policy.approve:
        return None
    if any(one.outcome is None for one in outcomes if one.wave <= approved):
        return None
    return min((one.wave for one in outcomes if one.wave > approved), default=None)
