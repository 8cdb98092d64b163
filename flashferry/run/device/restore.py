"""Restore a device, with several attempts, and record the result in record and journal."""

from __future__ import annotations

import time

from flashferry.core.errors import Kind
from flashferry.devices.connection import recent_of
from flashferry.devices.errors import HostKeyRefused, LoginRefused
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Restored, State
from flashferry.run.device.copy_recovery import record_partial_file
from flashferry.run.device.device_run import DeviceRun
from tasks.restore import RESTORE, SETTLE_S, STEP, UNKNOWN_SETTLE_S, RestoreReport
from tasks.restore import restore as restore_task
from tasks.snapshot import Snapshot

RESTORE_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses between attempts: a router that reboots takes minutes; one whose vty lines are full, seconds."""

LOGINS_REFUSED = 2
"""Refused logins that end the attempts: an AAA server may be out for a moment, but many tries lock an account."""


def restore(run: DeviceRun, before: Snapshot) -> None:
    """Restore and prove. Repeated for a device that we changed: it may be rebooting, or its vty lines full."""
    is_changed = run.record.restored is not Restored.UNTOUCHED
    refused = 0
    for pause_s in (*RESTORE_PAUSES_S, None) if is_changed else (None,):
        try:
            report: RestoreReport = run.run_step(
                RESTORE,
                restore_task,
                before=before,
                changes=run.record.changes,
                settle_s=_settle_s(run),
                is_again=run.record.restore_failure is not None,
            )
        except Exception as error:  # noqa: BLE001 -- the journal keeps the device; the others go on
            _record_failure(run, error, is_changed=is_changed)
            run.drop_session()
            refused += isinstance(error, LoginRefused)
            if pause_s is None or refused == LOGINS_REFUSED or isinstance(error, HostKeyRefused):
                break
            time.sleep(pause_s)
        else:
            run.update(restore_failure=None)
            _record_report(run, report, is_changed=is_changed)
            return
    run.move_to_failed()


def _settle_s(run: DeviceRun) -> float:
    """Return how long to wait before the last reading, from how late the device showed our lines."""
    tuned = run.record.tune
    return UNKNOWN_SETTLE_S if tuned is None else SETTLE_S + 2 * tuned.late_s


def _record_report(run: DeviceRun, report: RestoreReport, *, is_changed: bool) -> None:
    """Record the result of the restore and end the lease.

    The lease stays if our lines may come back, or if the device differs from the start without proof that others
    changed it. If no line of ours was ever set, all differences are the work of others.
    """
    run.keep(RESTORE, report)
    _note_lost_applet(run, report)
    has_failed = run.record.failure is not None
    if is_changed and not report.is_proven:
        # The journal keeps the device for recovery, or until the operator decides.
        failure = held(report, run.record.host)
        run.update(restore_failure=failure)
        run.note_event(RESTORE.word, failure.reason)
        if has_failed:
            record_partial_file(run)
        run.move_to_failed()
        return
    run.update(restored=Restored.RESTORED if is_changed else Restored.UNTOUCHED)
    if has_failed:
        record_partial_file(run)
    run.context.journal.release(run.context.run_id, run.record.host, run.record)
    run.passed(RESTORE)
    run.move(State.FAILED if has_failed else State.DONE)


def _note_lost_applet(run: DeviceRun, report: RestoreReport) -> None:
    """Add a note if an armed applet was gone before the restore."""
    armed = run.record.dead_man
    if report.applet_was_gone and armed is not None and armed.is_armed:
        run.note(
            f"{armed.name} was gone before the restore: its {armed.countdown_s // 60} min were over, or the device "
            "restarted; a copy that had started went on as it was"
        )


def _record_failure(run: DeviceRun, error: Exception, *, is_changed: bool) -> None:
    run.update(restore_failure=failure_of(RESTORE.word, error, recent_of(run.task).lines()))
    if not is_changed:
        # Nothing was set: only the proof is missing.
        run.context.journal.release(run.context.run_id, run.record.host)


def held(report: RestoreReport, host: str) -> Failure:
    """Return why the journal keeps a device whose restore is not proven, and how to release it."""
    if report.held_by is not None:
        return Failure(step=STEP, reason=report.held_by, hint=report.held_hint, kind=Kind.RESTORE_INCOMPLETE)
    return Failure(step=STEP, reason=str(report.undecided), hint=report.decision(host), kind=Kind.RESTORE_INCOMPLETE)
