"""Plans as JSON types, for API and pages."""

from __future__ import annotations

from collections import Counter

from flashferry.core.codec import to_json
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.service.plans.config_lines import WORDS, expected_lines
from flashferry.service.plans.diff import PlanDifference, forecast_end
from flashferry.store.service.plans import StoredPlan


def object_of(digest: str) -> str:
    """Return the object of audit entries."""
    return f"plan:{digest}"


def plan_json(plan: StoredPlan, why_not: str | None = None) -> dict[str, object]:
    """Return a plan's row; with `why_not` (empty: none) also whether it can start."""
    details = dict(to_json(plan))
    if why_not is not None:
        details |= {"is_startable": not why_not, "why_not": why_not}
    return details


def plan_content_json(plan: FleetPlan) -> dict[str, object]:
    """Return a plan's content, with its configuration lines and forecast end."""
    lines = expected_lines(plan)
    details = dict(to_json(plan))
    details |= {
        "forecast_end": forecast_end(plan),
        "actions": {action.value: count for action, count in sorted(Counter(d.action for d in plan.devices).items())},
        "not_tuned": sum(not device.tune for device in plan.of(Action.STAGE)),
        "lines": [{"lines": list(one), "devices": hosts} for one, hosts in _by_lines(lines).items()],
        "lines_are": WORDS,
    }
    return details


def difference_json(found: PlanDifference, old: str, new: str) -> dict[str, object]:
    """Return the differences between two plans, named by their digests."""
    return {"before": old, "after": new, "is_none": found.is_none} | dict(to_json(found))


def _by_lines(lines: dict[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    """Return devices by their configuration lines: most of a site have the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for host, ones in lines.items():
        found.setdefault(ones, []).append(host)
    return found
