"""Plans for programs and for pages: JSON types."""

from __future__ import annotations

from collections import Counter

from flashferry.core.codec import to_json
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.service.plans.config_lines import WORDS, expected_lines
from flashferry.service.plans.diff import PlanDifference, forecast_end
from flashferry.store.service.plans import StoredPlan


def object_of(digest: str) -> str:
    """Return what the audit calls a plan."""
    return f"plan:{digest}"


def told_plan(plan: StoredPlan, why_not: str | None = None) -> dict[str, object]:
    """Return a plan in its row.

    Args:
        plan: The plan.
        why_not: Why it may not be begun now, empty where it may; None: nobody looked, and nothing is said of it.
    """
    told = dict(to_json(plan))
    if why_not is not None:
        told |= {"is_startable": not why_not, "why_not": why_not}
    return told


def told_content(plan: FleetPlan) -> dict[str, object]:
    """Return what a plan says, with the lines that it has a run set, and its forecast end."""
    lines = expected_lines(plan)
    told = dict(to_json(plan))
    told |= {
        "forecast_end": forecast_end(plan),
        "actions": {action.value: count for action, count in sorted(Counter(d.action for d in plan.devices).items())},
        "not_tuned": sum(not device.tune for device in plan.of(Action.STAGE)),
        "lines": [{"lines": list(one), "devices": hosts} for one, hosts in _by_lines(lines).items()],
        "lines_are": WORDS,
    }
    return told


def told_difference(found: PlanDifference, old: str, new: str) -> dict[str, object]:
    """Return what differs between two plans, named by their digests."""
    return {"before": old, "after": new, "is_none": found.is_none} | dict(to_json(found))


def _by_lines(lines: dict[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    """Return the devices by the lines they are to be given: most of a site have the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for host, ones in lines.items():
        found.setdefault(ones, []).append(host)
    return found
