"""Decide whether all sites continue after the canaries. Pure.

Each site runs the waves of its own devices. Only the fleet's first wave is decided here: it shows what is wrong with an
image before other devices get it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.states import Outcome, Phase
from flashferry.model.waves import WavePolicy, may_go_on
from flashferry.store.sites.words import DeviceOutcome

FAILED = frozenset(one.value for one in Outcome if one.phase is Phase.FAILED)


class Decision(Struct, frozen=True, kw_only=True):
    """Whether all sites continue with all waves, or why the run starts nothing more (empty: it does)."""

    goes_on: bool = False
    stop: str = ""


def first_wave(plan: FleetPlan) -> int | None:
    """Return the wave up to which sites can start at first; None: all.

    Canaries count for the whole fleet: all sites wait for the few that have one.
    """
    if len(plan.waves) > 1 and (plan.policy.approve or plan.waves[0].is_canary):
        return plan.waves[0].number
    return None


def decide(plan: FleetPlan, approved: int | None, outcomes: Sequence[DeviceOutcome], *, is_stopped: bool) -> Decision:
    """Decide what sites do now.

    Args:
        plan: The plan.
        approved: The last approved wave; None: all.
        outcomes: The outcome of each device.
        is_stopped: Whether the run was stopped.
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
    """Return the wave that waits for an approval, all before it being finished; None: none.

    Args:
        policy: The plan's.
        approved: The last approved wave; None: all.
        outcomes: The outcome of each device.
        is_stopped: Whether the run was stopped.
    """
    if is_stopped or approved is None or not policy.approve:
        return None
    if any(one.outcome is None for one in outcomes if one.wave <= approved):
        return None
    return min((one.wave for one in outcomes if one.wave > approved), default=None)
