"""What is tried again: what may pass, on a device that is as it was, and not for ever."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.model.limits import RetryPolicy, may_pass, pause_before_retry
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, Restored


def failed(kind="DeviceUnreachable", **values):
    failure = Failure(step="pull", reason="?", hint=None, kind=kind)
    given = {"outcome": Outcome.FAILED, "restored": Restored.RESTORED, "failure": failure}
    return DeviceRecord(host="r1", seconds_by_step={}, **(given | values))


@pytest.mark.parametrize("kind", ["DeviceUnreachable", "TransferStalled", "DeviceOverloaded", "FlashBusy"])
def test_what_may_pass_is_tried_again(kind):
    """The network and a busy device may be better in a while."""
    assert may_pass(failed(kind))


@pytest.mark.parametrize(
    "kind", ["LoginRefused", "HostKeyRefused", "ImageCorrupt", "DeviceRefused", "PolicyViolation", "ConfigInvalid"]
)
def test_what_was_decided_is_not(kind):
    """A refused login locks the account if it is repeated; a wrong hash needs a look; a refusal stays one."""
    assert not may_pass(failed(kind))


@pytest.mark.parametrize(
    "values",
    [
        {"restored": Restored.INCOMPLETE},
        {"restored": Restored.FOREIGN_CHANGE},
        {"outcome": Outcome.INTERRUPTED},
        {"outcome": Outcome.REFUSED},
        {"partial_file": "flash:x.bin, 10 bytes"},
        {"restore_failure": Failure(step="restore", reason="?", hint=None, kind="DeviceUnreachable")},
    ],
)
def test_a_device_that_is_not_as_it_was_is_left_alone(values):
    """Not proven restored, stopped by the operator, or with a file of ours in the way: no second attempt."""
    assert not may_pass(failed(**values))


def test_a_removed_partial_file_is_in_nobodys_way():
    """What was left is gone with leave, so the next check finds the device as it was."""
    assert may_pass(failed(partial_file="flash:x.bin, 10 bytes", partial_removed=True))


def test_pauses_double_and_end():
    """15, 30 s, then no more; jitter only lengthens them."""
    policy = RetryPolicy(times=2, pause_s=15.0, jitter=0.5)
    assert [pause_before_retry(failed(), attempt, policy, lambda: 0.0) for attempt in (1, 2, 3)] == [15.0, 30.0, None]
    assert pause_before_retry(failed(), 1, policy, lambda: 1.0) == 22.5


def test_a_seed_plays_the_same_run_again():
    """Two runs of one seed pause alike."""
    first, again = (RetryPolicy(seed=7).dice() for _ in range(2))
    assert [first() for _ in range(5)] == [again() for _ in range(5)]


@pytest.mark.parametrize("values", [{"times": 11}, {"times": -1}, {"pause_s": -1.0}, {"jitter": 2.0}])
def test_nonsense_is_refused(values):
    """Limits that make no sense are told in a sentence."""
    with pytest.raises(ConfigInvalid, match="retry: expected"):
        RetryPolicy(**values)
