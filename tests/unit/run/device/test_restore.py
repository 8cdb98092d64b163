"""Restoring: how often it is tried, and what is on disk when the lease ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceUnreachable, HostKeyRefused, LoginRefused
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.record import failure_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.run.device import copy_recovery, restore
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.restore import RESTORE_PAUSES_S
from tasks.read_config import Difference
from tasks.restore import SETTLE_S, UNKNOWN_SETTLE_S, RestoreReport
from tasks.tcp_config import TcpLines
from tests.unit.run.device.scripted import Clock, Steps, account, checked, context, order

PROVEN = RestoreReport(
    commands=("no ip tcp selective-ack",),
    foreign=(),
    running=TcpLines(lines=()),
    running_difference=Difference(added=(), gone=0, reordered=False),
    startup_changed=False,
)
DIFFERENT = replace(PROVEN, running_difference=Difference(added=("snmp-server location ...",), gone=0, reordered=False))


def ended(monkeypatch, report, *, is_changed=True, **record):
    """Return a run whose restore came to a report, what the restore was given, and the leases that ended."""
    given, released = {}, []

    def put_back(task, **arguments):
        given.update(arguments)
        return report

    run = DeviceRun(Steps(restore=put_back), context())
    monkeypatch.setattr(run.context.journal, "release", lambda run_id, host, kept=None: released.append((host, kept)))
    run.update(state=State.JOURNALED, restored=Restored.INCOMPLETE if is_changed else Restored.UNTOUCHED)
    run.update(**record)
    restore.restore(run, SimpleNamespace())
    return run.record, given, released


def test_a_proven_restore_ends_the_lease(monkeypatch):
    """With the record in the same write."""
    record, _, released = ended(monkeypatch, PROVEN)
    assert (record.restored, record.restore_failure, record.state) == (Restored.RESTORED, None, State.DONE)
    assert [(host, kept.restored) for host, kept in released] == [("r1", Restored.RESTORED)]


@pytest.mark.parametrize(
    ("report", "reason", "hint"),
    [
        pytest.param(
            replace(PROVEN, held_by="a rollback is pending", held_hint="wait"),
            "a rollback is pending",
            "wait",
            id="our lines may come back",
        ),
        pytest.param(DIFFERENT, "our lines are proven gone", "recover --accept r1", id="a difference"),
        pytest.param(replace(PROVEN, startup_changed=True), "startup configuration", "--accept r1", id="the startup"),
        pytest.param(replace(PROVEN, hidden=("ip x",)), "cannot be proven", "--accept r1", id="a hidden line"),
    ],
)
def test_what_is_not_proven_keeps_the_lease(monkeypatch, report, reason, hint):
    """The record, the failure and the exit code say so, and how the device is let go of."""
    record, _, released = ended(monkeypatch, report)
    assert (released, record.restored, record.state) == ([], Restored.INCOMPLETE, State.FAILED)
    assert reason in record.restore_failure.reason
    assert hint in record.restore_failure.hint
    assert not record.is_staged_and_restored
    assert exit_code([Outcome.DONE], restored=[record.restored]) is ExitCode.RESTORE_INCOMPLETE


@pytest.mark.parametrize("report", [PROVEN, DIFFERENT, replace(PROVEN, held_by="a rollback is pending")])
def test_the_lease_of_a_device_on_which_nothing_was_set_ends(monkeypatch, report):
    """All that differs is somebody else's: nothing was sent."""
    record, _, released = ended(monkeypatch, report, is_changed=False)
    assert (record.restored, record.restore_failure) == (Restored.UNTOUCHED, None)
    assert [host for host, _ in released] == ["r1"]


def test_the_lease_of_an_unchanged_device_ends_without_a_proof(monkeypatch):
    """It cannot be reached any more: nothing is left on it."""
    released = []
    clock = Clock(monkeypatch, restore)
    run = DeviceRun(Steps(restore=lambda task, **arguments: _raise(DeviceUnreachable("down"))), context())
    monkeypatch.setattr(run.context.journal, "release", lambda run_id, host, kept=None: released.append(host))
    restore.restore(run, SimpleNamespace())
    assert (released, clock.slept) == (["r1"], [])


def _raise(error):
    raise error


@pytest.mark.parametrize(("tune", "settle_s"), [(None, UNKNOWN_SETTLE_S), (1.5, SETTLE_S + 3.0), (0.0, SETTLE_S)])
def test_the_device_is_given_the_time_that_it_took_to_show_our_lines(monkeypatch, tune, settle_s):
    """Twice of it, and a little; where that is not known, longer."""
    found = None if tune is None else SimpleNamespace(late_s=tune)
    _, given, _ = ended(monkeypatch, PROVEN, tune=found)
    assert given["settle_s"] == settle_s


def restoring(monkeypatch, *answers, is_changed=True):
    """Return a run whose attempts to restore end one after the other as given, and the pauses between them."""
    clock, given = Clock(monkeypatch, restore), iter(answers)

    def attempt(task, **arguments):
        raise next(given)

    run = DeviceRun(Steps(restore=attempt), context())
    if is_changed:
        run.update(restored=Restored.INCOMPLETE)
    restore.restore(run, SimpleNamespace())
    return run, clock.slept


def test_no_pause_behind_the_last_attempt(monkeypatch):
    """A pause has an attempt behind it, or nobody should wait for it."""
    run, slept = restoring(monkeypatch, *[DeviceUnreachable("down")] * 10)
    assert slept == list(RESTORE_PAUSES_S)
    assert len(run.task.done) == len(slept) + 1
    assert run.record.restored is Restored.INCOMPLETE
    assert restoring(monkeypatch, DeviceUnreachable("down"), is_changed=False)[1] == []


@pytest.mark.parametrize(("error", "attempts"), [(HostKeyRefused("other key"), 1), (LoginRefused("password"), 2)])
def test_refused_logins_are_not_repeated(monkeypatch, error, attempts):
    """A changed key will not change back, and wrong passwords lock an account: the journal keeps the device."""
    run, _ = restoring(monkeypatch, *[error] * 10)
    assert run.task.done == ["restore"] * attempts
    assert run.record.restored is Restored.INCOMPLETE


@pytest.mark.parametrize(
    ("found", "named"), [("flash:x.bin, 10 bytes", "flash:x.bin, 10 bytes"), (OSError("gone"), None)]
)
def test_what_a_copy_left_is_on_disk_when_the_lease_ends(monkeypatch, found, named):
    """Killed right behind that, the run knows the file for its own; and no look at the flash can keep the lease."""

    def look(session, target):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(copy_recovery, "describe_partial_file", look)
    run, kept = checked(Steps(restore=lambda task, **arguments: PROVEN), context()), []
    run.context.server.account = account()
    run.traces.order, run.traces.ticket = order(run.context), run.context.server.issue_ticket(None)
    run.traces.began = True
    run.update(failure=failure_of("verify", DeviceUnreachable("lost")))
    monkeypatch.setattr(run.context.journal, "release", lambda run_id, host, record: kept.append(record))
    restore.restore(run, SimpleNamespace())
    assert [record.partial_file for record in kept] == [named]
