"""Conditions of links as the interface has them: keys, bounds, and what is refused.

Bounds are those of the description of CML 2.9: bandwidth 0 to 10,000,000 kbit/s with 0 for none; latency, jitter,
limit and gap 0 to 10,000, whole; everything in percent 0 to 100, with fractions. Any other key is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashferry.lab.cml.runtime import Condition
from flashferry.lab.cml.texts import refused

WHOLE = {"bandwidth": 10_000_000, "latency": 10_000, "jitter": 10_000, "limit": 10_000, "gap": 10_000}
"""Whole numbers and the most that each may be."""

PERCENT = frozenset(
    {
        "loss",
        "delay_corr",
        "loss_corr",
        "duplicate",
        "duplicate_corr",
        "reorder_prob",
        "reorder_corr",
        "corrupt_prob",
        "corrupt_corr",
    }
)
"""Shares, 0 to 100."""

_NAMED = frozenset({"bandwidth", "latency", "jitter", "loss", "enabled"})


def checked(requested: object) -> dict[str, Any]:
    """Return a condition as it was sent, if it is one.

    Raises Refused: it has an unknown key, or a value of a wrong type or out of its bounds.
    """
    if not isinstance(requested, dict):
        raise refused("bad_condition", why=f"expected an object, found {type(requested).__name__}")
    for key, value in requested.items():
        if (why := _objection(str(key), value)) is not None:
            raise refused("bad_condition", why=why)
    return dict(requested)


def merged(held: Mapping[str, Any] | None, change: Mapping[str, Any], *, is_enabled_by_default: bool) -> dict[str, Any]:
    """Return a condition after a PATCH: what is not named stays, what is null goes back to nothing."""
    before = {"bandwidth": 0, "latency": 0, "jitter": 0, "loss": 0.0, "enabled": is_enabled_by_default}
    both = {**before, **(held or {}), **change}
    return {key: before.get(key) if value is None else value for key, value in both.items() if _is_shown(key, value)}


def as_condition(held: Mapping[str, Any]) -> Condition:
    """Return it as a runtime takes it."""
    return Condition(
        bandwidth_kbps=held.get("bandwidth") or 0,
        latency_ms=held.get("latency") or 0,
        jitter_ms=held.get("jitter") or 0,
        loss_percent=float(held.get("loss") or 0),
        is_enabled=bool(held.get("enabled", True)),
        others={key: value for key, value in held.items() if key not in _NAMED},
    )


def as_json(condition: Condition | None) -> dict[str, Any] | None:
    """Return what the interface says of a condition in force."""
    if condition is None:
        return None
    return {
        "bandwidth": condition.bandwidth_kbps,
        "latency": condition.latency_ms,
        "jitter": condition.jitter_ms,
        "loss": condition.loss_percent,
        "enabled": condition.is_enabled,
        **condition.others,
    }


def _is_shown(key: str, value: object) -> bool:
    return key in _NAMED or value is not None


def _objection(key: str, value: object) -> str | None:
    if key == "enabled":
        return None if isinstance(value, bool) else f"enabled: expected true or false, found {value!r}"
    if key not in WHOLE and key not in PERCENT:
        return f"additional properties are not allowed ({key!r} was unexpected)"
    if value is None:
        return None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if key in WHOLE:
        most = WHOLE[key]
        return None if is_whole and 0 <= value <= most else f"{key}: expected a whole number 0..{most}, found {value!r}"  # type: ignore[operator]
    if (is_whole or isinstance(value, float)) and 0 <= value <= 100:  # type: ignore[operator]
        return None
    return f"{key}: expected 0..100, found {value!r}"
