"""The copy of a device: what it leaves to be known when it fails, and what becomes of a session that is lost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import CopyFailed, DeviceRefused, DeviceUnreachable, FileExists, NotDelivered
from flashferry.fileserver import TransferState
from flashferry.model.lost_copy_rules import Decision
from flashferry.model.states import State
from flashferry.run.device import copy as device_copy
from flashferry.run.device.copy import copy
from flashferry.transports import PUSH
from tests.unit.run.device.scripted import IMAGE_BYTES, Steps, account, checked, context, order
from tests.unit.store.conftest import TRANSFER


@pytest.fixture(autouse=True)
def nothing_in_the_way(monkeypatch):
    monkeypatch.setattr(device_copy, "refusal_before_copy", lambda *given, **named: None)


def copying(*, pull, found=None):
    """Return a device's run whose copies end as the script says; what recovery finds of a lost one."""
    decision = SimpleNamespace(decision=found, reason="found")
    run = checked(Steps(pull=pull, reconcile=lambda task, lost: decision), context())
    run.context.server.account = account(TransferState.TRANSFERRING, 500)
    return run


def raising(*errors):
    """Return a script that raises these one after the other, then succeeds."""
    left = list(errors)

    def pull(task, **given):
        if left:
            raise left.pop(0)
        return SimpleNamespace(device=SimpleNamespace(duration_s=1.0), wall_s=1.0)

    return pull


def test_a_copy_that_is_done_is_kept():
    """The device is behind it, nothing writes any more, and the ticket is still there to be asked about."""
    run = copying(pull=raising())
    copy(run, order(run.context))
    assert (run.record.state, run.record.pull.wall_s) == (State.COPIED, 1.0)
    assert (run.traces.began, run.traces.may_be_writing) == (True, False)


@pytest.mark.parametrize(("error", "is_theirs"), [(CopyFailed("I/O"), False), (FileExists("exists"), True)])
def test_a_device_that_is_back_at_its_prompt_writes_nothing(error, is_theirs):
    """What the server saw is known all the same; a file in the way is somebody else's."""
    run = copying(pull=raising(error))
    with pytest.raises(type(error)):
        copy(run, order(run.context))
    assert (run.traces.began, run.traces.may_be_writing, run.traces.is_theirs) == (True, False, is_theirs)


def test_a_file_that_came_since_the_check_is_left_alone(monkeypatch):
    """No ticket is issued, nothing is told to the device."""
    monkeypatch.setattr(device_copy, "refusal_before_copy", lambda *given, **named: "x.bin is there")
    run = copying(pull=raising())
    with pytest.raises(DeviceRefused, match=r"since the check: x\.bin is there"):
        copy(run, order(run.context))
    assert run.traces.is_theirs
    assert run.context.server.requests == []


@pytest.mark.parametrize(("found", "copies"), [(Decision.DONE, 1), (Decision.AGAIN, 2)])
def test_a_lost_session_is_no_lost_copy(found, copies):
    """What recovery finds decides: the file is there, or it is copied once more."""
    run = copying(pull=raising(DeviceUnreachable("lost")), found=found)
    copy(run, order(run.context))
    assert run.task.done.count("pull") == copies
    assert run.record.state is State.COPIED


def test_a_copy_that_is_given_up_says_what_was_found():
    """Both in one sentence, and the device may write no more."""
    run = copying(pull=raising(DeviceUnreachable("lost")), found=Decision.GIVE_UP)
    with pytest.raises(DeviceUnreachable, match="lost; found"):
        copy(run, order(run.context))
    assert not run.traces.may_be_writing


@pytest.mark.parametrize(
    ("error", "is_theirs", "may_be_writing"),
    [
        (CopyFailed("I/O"), False, False),
        (FileExists("exists"), True, False),
        (DeviceUnreachable("lost"), False, True),
    ],
)
def test_a_push_that_fails_leaves_to_be_known_what_is_on_flash(error, is_theirs, may_be_writing):
    """A file in the way is not ours; a device whose connection was lost may still write what it has buffered."""
    run = pushing(raising(error), interrupted=lambda: run.task.done == ["pull"])
    with pytest.raises(type(error)):
        copy(run, order(run.context))
    assert (run.traces.is_theirs, run.traces.may_be_writing) == (is_theirs, may_be_writing)
    assert run.traces.began


def test_a_push_that_is_done_is_kept():
    """Nothing writes any more; the device has no figures of its own."""
    run = pushing(raising())
    run.context.server.account = account(TransferState.DELIVERED, IMAGE_BYTES)
    copy(run, order(run.context))
    assert (run.traces.may_be_writing, run.record.pull) == (False, None)
    assert run.record.state is State.COPIED


def pushing(script, **more):
    """Return a device that is pushed to: its ticket is opened, and the push ends as the script says."""
    opened = Steps(pull=lambda task, order: (order.open_account(lambda: None), script(task))[1])
    run = checked(opened, replace(context(), transports=(PUSH,), **more))
    run.checked.version = SimpleNamespace(release="17.12.04a")
    run.checked.facts = SimpleNamespace(model="C8300", serial_number="FDO1", hostname="r1")
    run.context.server.account = account(TransferState.TRANSFERRING, 500)
    return run


@pytest.mark.parametrize(
    ("server_account", "found"),
    [
        (account(TransferState.WAITING, 0), 0),
        (account(TransferState.FAILED, 500), 500),
        (account(TransferState.DELIVERED, IMAGE_BYTES, replace(TRANSFER, offset_bytes=999)), IMAGE_BYTES),
    ],
    ids=["no byte", "a part", "the last byte alone"],
)
def test_a_push_is_no_copy_that_the_device_alone_reports(server_account, found):
    """The device's server reports a whole file of which our side did not send, or see taken, the whole."""
    run = pushing(raising())
    run.context.server.account = server_account
    with pytest.raises(NotDelivered, match=rf"expected 1000 bytes of ours taken, found {found}"):
        copy(run, order(run.context))
