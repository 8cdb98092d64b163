"""Restoring a device, with as many attempts as that is worth, and what its end means for record and journal."""

from __future__ import annotations

import time

from nornir.core.task import Task

from flashferry.core.errors import Kind
from flashferry.devices.connection import recent_of
from flashferry.devices.errors import HostKeyRefused, LoginRefused
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Restored, State
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.partial_file import Leftover
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from tasks.restore import RESTORE, SETTLE_S, STEP, UNKNOWN_SETTLE_S, RestoreReport, restore
from tasks.snapshot import Snapshot

RESTORE_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses between attempts to restore: a router that reboots takes minutes, one whose vty lines are full seconds."""

LOGINS_REFUSED = 2
"""So many refusals end the attempts: an AAA server may be out for a moment, but many tries lock an account."""


class DeviceRestore:
    """Brings a device's configuration back and proves it."""

    def __init__(
        self,
        task: Task,
        context: RunContext,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        leftover: Leftover,
    ) -> None:
        self._task, self._context, self._events, self._keeper = task, context, events, keeper
        self._steps, self._login, self._leftover = steps, login, leftover

    def restore(self, before: Snapshot) -> None:
        """Restore and prove. A device that we changed is worth waiting for: it may be rebooting, or its lines full."""
        is_changed = self._keeper.record.restored is not Restored.UNTOUCHED
        refused = 0
        for pause_s in (*RESTORE_PAUSES_S, None) if is_changed else (None,):
            try:
                report: RestoreReport = self._steps.run(
                    RESTORE,
                    restore,
                    before=before,
                    changes=self._keeper.record.changes,
                    settle_s=self._settle_s,
                    is_again=self._keeper.record.restore_failure is not None,
                )
            except Exception as error:  # noqa: BLE001 -- the journal keeps the device; the others go on
                self._failed(error, is_changed=is_changed)
                self._login.forget()
                refused += isinstance(error, LoginRefused)
                if pause_s is None or refused == LOGINS_REFUSED or isinstance(error, HostKeyRefused):
                    break
                time.sleep(pause_s)
            else:
                self._keeper.update(restore_failure=None)
                self.succeeded(report, is_changed=is_changed)
                return
        self._keeper.move_to_failed()

    @property
    def _settle_s(self) -> float:
        """Return how long after the last line the device is looked at again: by how late it showed ours."""
        tuned = self._keeper.record.tune
        return UNKNOWN_SETTLE_S if tuned is None else SETTLE_S + 2 * tuned.late_s

    def succeeded(self, report: RestoreReport, *, is_changed: bool) -> None:
        """Take what restoring found into record and journal.

        The lease ends, unless our lines may come back, or the device differs from the start and not by others' proven
        doing: where nothing of ours was ever set, all that differs is theirs.
        """
        self._keeper.keep(RESTORE, report)
        self._tell_dead_man(report)
        if is_changed and not report.is_proven:
            self._keep_lease(report)
            return
        self._keeper.update(restored=Restored.RESTORED if is_changed else Restored.UNTOUCHED)
        has_failed = self._keeper.record.failure is not None
        if has_failed:
            self._leftover.name_so_far()
        self._context.journal.release(self._context.run_id, self._keeper.record.host, self._keeper.record)
        self._keeper.passed(RESTORE)
        self._keeper.move(State.FAILED if has_failed else State.DONE)

    def _tell_dead_man(self, report: RestoreReport) -> None:
        """Tell where the device had no applet of ours any more, although one was counting."""
        armed = self._keeper.record.dead_man
        if report.applet_was_gone and armed is not None and armed.is_armed:
            self._keeper.note(
                f"{armed.name} was gone before the restore: its {armed.countdown_s // 60} min were over, or the device "
                "restarted; a copy that had begun went on as it was"
            )

    def _keep_lease(self, report: RestoreReport) -> None:
        """Have the journal keep the device, for another look or the operator's decision."""
        failure = held(report, self._keeper.record.host)
        self._keeper.update(restore_failure=failure)
        self._events.tell(RESTORE.word, "note", f"note: {failure.reason}")
        if self._keeper.record.failure is not None:
            self._leftover.name_so_far()
        self._keeper.move_to_failed()

    def _failed(self, error: Exception, *, is_changed: bool) -> None:
        self._keeper.update(restore_failure=failure_of(RESTORE.word, error, recent_of(self._task).lines()))
        if not is_changed:
            # Nothing was set, so nothing is left: only the proof is missing.
            self._context.journal.release(self._context.run_id, self._keeper.record.host)


def held(report: RestoreReport, host: str) -> Failure:
    """Return why a device whose restore is not proven stays in the journal, and what lets go of it.

    Args:
        report: What restoring it came to.
        host: Its name in the inventory.
    """
    if report.held_by is not None:
        return Failure(step=STEP, reason=report.held_by, hint=report.held_hint, kind=Kind.RESTORE_INCOMPLETE)
    return Failure(step=STEP, reason=str(report.undecided), hint=report.decision(host), kind=Kind.RESTORE_INCOMPLETE)
