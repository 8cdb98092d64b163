"""Whether a device is ready to boot an image: one condition for each requirement, and a verdict. Changes nothing."""

from __future__ import annotations

from tasks.readiness.conditions import judge
from tasks.readiness.values import Asked, Condition, Met, Readiness, Verdict

__all__ = ["Asked", "Condition", "Met", "Readiness", "Verdict", "judge"]
