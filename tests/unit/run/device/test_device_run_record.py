"""The record of a device's run: which failure it keeps, and as what."""

from __future__ import annotations

import pytest

from flashferry.core.errors import kind_of
from flashferry.core.values import replace
from flashferry.devices.errors import (
    CopyStopped,
    DeviceRefused,
    HashStopped,
    ImageCorrupt,
    Interrupted,
    OutputNotUnderstood,
    TransferStalled,
)
from flashferry.fileserver import FileServerError
from flashferry.model.states import Outcome
from flashferry.run.device.device_run import DeviceRun
from tests.unit.run.device.scripted import Steps, context


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Interrupted("before this step"), Outcome.INTERRUPTED),
        (CopyStopped("the operator interrupted the copy"), Outcome.INTERRUPTED),
        (HashStopped("interrupted by the operator"), Outcome.INTERRUPTED),
        (TransferStalled("no progress for 60 s"), Outcome.FAILED),
        (ImageCorrupt("another hash"), Outcome.FAILED),
        (DeviceRefused("no"), Outcome.FAILED),
        (OutputNotUnderstood("no digest"), Outcome.FAILED),
        (FileServerError("gone"), Outcome.FAILED),
        (ZeroDivisionError(), Outcome.ERROR),
    ],
)
@pytest.mark.parametrize("closing", [None, "its time is over"])
def test_only_what_the_stop_did_is_told_as_a_stop(error, outcome, closing):
    """After Ctrl-C or the end of the window a wrong hash is a wrong hash: nobody would look at the file else."""
    run = DeviceRun(Steps(), replace(context(), interrupted=lambda: True, closing=lambda: closing))
    run.take_failure(error)
    is_closed = closing is not None and outcome is Outcome.INTERRUPTED
    assert run.record.outcome is outcome
    assert run.record.failure.kind == ("WindowClosed" if is_closed else kind_of(error))
