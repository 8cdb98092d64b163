"""Restoring: how often it is tried, and what is on disk when the lease ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.devices.errors import DeviceUnreachable, HostKeyRefused, LoginRefused
from flashferry.model.record import failure_of
from flashferry.model.states import Restored
from flashferry.run.device import leftover, restore
from flashferry.run.device.restore import RESTORE_PAUSES_S
from flashferry.run.device.way import parts_of
from tests.unit.run.device.scripted import Clock, Steps, account, checked, context, order


def restoring(monkeypatch, *answers, is_changed=True):
    """Return a run whose attempts to restore end one after the other as given, and the pauses between them."""
    clock, given = Clock(monkeypatch, restore), iter(answers)

    def attempt(task, **arguments):
        raise next(given)

    parts = parts_of(Steps(restore=attempt), context())
    if is_changed:
        parts.keeper.update(restored=Restored.INCOMPLETE)
    parts.restore.restore(SimpleNamespace())
    return parts, clock.slept


def test_no_pause_behind_the_last_attempt(monkeypatch):
    """A pause has an attempt behind it, or nobody should wait for it."""
    parts, slept = restoring(monkeypatch, *[DeviceUnreachable("down")] * 10)
    assert slept == list(RESTORE_PAUSES_S)
    assert len(parts.task.done) == len(slept) + 1
    assert parts.keeper.record.restored is Restored.INCOMPLETE
    assert restoring(monkeypatch, DeviceUnreachable("down"), is_changed=False)[1] == []


@pytest.mark.parametrize(("error", "attempts"), [(HostKeyRefused("other key"), 1), (LoginRefused("password"), 2)])
def test_refused_logins_are_not_repeated(monkeypatch, error, attempts):
    """A changed key will not change back, and wrong passwords lock an account: the journal keeps the device."""
    parts, _ = restoring(monkeypatch, *[error] * 10)
    assert parts.task.done == ["restore"] * attempts
    assert parts.keeper.record.restored is Restored.INCOMPLETE


@pytest.mark.parametrize(
    ("found", "named"), [("flash:x.bin, 10 bytes", "flash:x.bin, 10 bytes"), (OSError("gone"), None)]
)
def test_what_a_copy_left_is_on_disk_when_the_lease_ends(monkeypatch, found, named):
    """Killed right behind that, the run knows the file for its own; and no look at the flash can keep the lease."""

    def look(session, target):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(leftover, "describe_partial_file", look)
    parts, kept = checked(Steps(), context()), []
    parts.context.server.account = account()
    parts.traces.order, parts.traces.ticket = order(parts.context), parts.context.server.issue_ticket(None)
    parts.traces.began = True
    parts.keeper.update(failure=failure_of("verify", DeviceUnreachable("lost")))
    monkeypatch.setattr(parts.context.journal, "release", lambda run_id, host, record: kept.append(record))
    parts.restore.succeeded(SimpleNamespace(is_proven=True, held_by=None, applet_was_gone=False), is_changed=True)
    assert [record.partial_file for record in kept] == [named]
