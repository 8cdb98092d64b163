"""What follows the restore: only on a device that is as it was."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome
from flashferry.run.device.finish import DeviceFinish

FAILURE = Failure(step="restore", reason="a line is still there", hint="", kind="RestoreIncomplete")


def finish_of(record):
    """Return the end of a device's run that adds and looks, and what runs its steps."""
    options = SimpleNamespace(to_null=False, add=True, ready=True, remove_partial=False)
    context = SimpleNamespace(options=options, image=Mock(), interrupted=lambda: False)
    keeper, steps = Mock(record=record), Mock()
    return DeviceFinish(context, Mock(), keeper, steps, Mock(is_logged_out=False), Mock()), steps


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.ALREADY_THERE])
def test_a_device_that_is_not_as_it_was_is_left_alone(outcome):
    """The image is there and proven, and lines of ours are too, or may come back: nothing is handed on or added."""
    record = DeviceRecord(host="r1", outcome=outcome, restore_failure=FAILURE, seconds_by_step={})
    finish, steps = finish_of(record)
    finish.finish()
    assert steps.run.call_count == 0
