"""Whether a device is ready to boot an image: a check that changes nothing, one condition each, and the answer."""

from __future__ import annotations

from tasks.readiness.conditions import judge
from tasks.readiness.values import Asked, Condition, Met, Readiness, Verdict

__all__ = ["Asked", "Condition", "Met", "Readiness", "Verdict", "judge"]
