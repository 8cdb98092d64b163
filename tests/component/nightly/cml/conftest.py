"""The stand-in controller as it is found, and what takes labs up on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flashferry.lab.cml.standin import RunningController, standin_controller
from flashferry.nightly.cml.backend import CmlBackend
from tests.component.nightly.cml.standing import CLOCK, NEVER_S, access
from tests.patience import until


@pytest.fixture(scope="module")
def _standin() -> Iterator[RunningController]:
    with standin_controller(clock=CLOCK.monotonic_s) as running:
        yield running


@pytest.fixture
def standin(_standin: RunningController) -> Iterator[RunningController]:
    """Yield the controller with all switches put back, and no lab."""
    _standin.faults.clear()
    yield _standin
    _standin.faults.clear()
    # What comes late comes before the next test.
    CLOCK.sleep(NEVER_S)
    until(lambda: not _standin.web.held, "late requests to be carried out")
    with _standin.controller.lock:
        for lab in _standin.controller.labs():
            _standin.controller.life.forget(lab)
        _standin.controller._labs.clear()


@pytest.fixture
def backend(standin: RunningController) -> Iterator[CmlBackend]:
    with CmlBackend(access(standin), clock=CLOCK, poll_s=0.2) as made:
        yield made
