"""A clock that the tests turn by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest


@dataclass(slots=True)
class HandClock:
    """Seconds, as the test says."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> HandClock:
    """A clock that stands still."""
    return HandClock()
