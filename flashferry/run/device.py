"""One device's way through a run, as one Nornir task: restoring is part of it, whatever failed before.

Nornir skips hosts that failed on its next `run`, so a restore in a second run would skip exactly the devices that
need it.
"""

from __future__ import annotations

import time
from dataclasses import replace

from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, session_of
from flashferry.devices.errors import HostKeyRefused, ImageCorrupt, LoginRefused
from flashferry.devices.identity import identity_of, member_serials
from flashferry.fileserver import FileServerError
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, failure_of, sentence_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.planning.given_images import HINT as ONE_PLATFORM
from flashferry.run.context import RunContext
from flashferry.run.device_plan import DevicePlan, plan_device
from flashferry.run.leftover import LeftoverRun
from flashferry.store.leases import lease_by_name, lease_on, leases
from tasks.check import CheckReport, Wanted, check
from tasks.mark import mark_line
from tasks.partial_file import file_at, in_words
from tasks.restore import SETTLE_S, UNKNOWN_SETTLE_S, RestoreReport, restore
from tasks.snapshot import Snapshot, snapshot
from tasks.tcp_config import TcpLines, TunePlan, marks_in
from tasks.tune import tune
from tasks.verify import verify

RESTORE_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses between attempts to restore: a router that reboots takes minutes, one whose vty lines are full seconds."""

LOGINS_REFUSED = 2
"""So many refusals end the attempts: an AAA server may be out for a moment, but many tries lock an account."""


def stage_device(task: Task, context: RunContext) -> Result:
    """Nornir task: take one device through the run and return its DeviceRecord; never raises for a device's fault."""
    return run_device(DeviceRun(task, context))


def run_device(run: DeviceRun) -> Result:
    """Take a device through its run, keep the record in the journal and return it."""
    task, context = run.task, run.context
    record = run.execute()
    try:
        context.journal.record(context.run_id, task.host.name, record)
    except JournalUnusable as error:
        # The report outweighs its copy in the journal.
        record = replace(record, failure=record.failure or failure_of("record", error))
    run.tell_end(record)
    return Result(host=task.host, result=record, changed=record.transfer is not None)


class DeviceRun(LeftoverRun):
    """The steps of one device, in their order."""

    _before: Snapshot | None = None

    def execute(self) -> DeviceRecord:
        """Go through all steps and return the record."""
        try:
            self._connect()
            self._ask_lease()
            self._check()
            if self._is_to_be_staged:
                self._wait_and_stage()
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' run
            self._fail(error)
        finally:
            self._leave()
        return self._record

    @property
    def _is_to_be_staged(self) -> bool:
        return self._record.outcome not in {Outcome.REFUSED, Outcome.ALREADY_THERE}

    def tell_end(self, record: DeviceRecord) -> None:
        """Tell that this device is through, and what became of it."""
        failure = record.failure or record.restore_failure
        good = record.outcome in {Outcome.DONE, Outcome.ALREADY_THERE} and failure is None
        self._tell(
            "device",
            "done" if good else "failed",
            record.outcome.value if failure is None else f"{record.outcome.value}: {failure.step}: {failure.reason}",
            outcome=record.outcome.value,
            restored=record.restored.value,
            failure=failure.kind if failure else None,
        )

    def _leave(self) -> None:
        """Make the ticket worthless and log out; neither may cost the record of what happened."""
        try:
            if self._ticket is not None:
                self._context.server.revoke(self._ticket.ticket_id)
        except FileServerError:
            pass  # a server that is gone honours no ticket
        try:
            self._task.host.close_connections()
        except Exception as error:  # noqa: BLE001 -- the session goes with the process at the latest
            self._tell("connect", "failed", sentence_of(error))

    def _ask_lease(self) -> None:
        """Ask who has the device in hand before anything is said of it: what a dead run left tuned may even be done.

        Raises:
            DeviceRefused: Another run has it, or left it before it was proven restored.
        """
        session = session_of(self._task)
        held = leases(self._context.journal.directory, besides=self._context.run_id)
        if not held:
            return
        found = lease_by_name(held, self._host)
        found = found or lease_on(held, session.facts(), member_serials(session.show_version()))
        if found is not None:
            raise found.refusal(self._record.host)

    def _check(self) -> None:
        """Look at the device, and decide by what is there."""
        report = self._look()
        if report.refusal and self._remove_own_leftover(report):
            report = self._look()
        self._move(State.CHECKED)
        self._judge(report)

    def _remove_own_leftover(self, report: CheckReport) -> bool:
        """Remove what this run's own broken copy left before it was resumed; tell whether that was done.

        Only with leave, and only if it is to the byte what was found there when the device was restored.
        """
        if self._context.leftover is None or not self._context.options.remove_partial:
            return False
        target = f"{report.file_system}{self._context.image.name}"
        file = file_at(session_of(self._task), target)
        is_short = file.size_bytes is not None and file.size_bytes < self._context.image.size_bytes
        if not is_short or in_words(file) != self._context.leftover:
            return False
        assert file.size_bytes is not None
        # By the record of the run's former process, to the byte.
        self._sent_bytes = file.size_bytes
        self._remove(target)
        self._update(notes=(*self._record.notes, f"removed what this run's broken copy had left: {in_words(file)}"))
        return True

    def _look(self) -> CheckReport:
        image, to_null = self._context.image, self._context.options.to_null
        wanted = None
        if not to_null:
            wanted = Wanted.of(image, is_insisted=self._context.options.any_image)
        seal, interrupted = self._context.options.verify_signature, self._context.interrupted
        report: CheckReport = self._do(
            "check", check, wanted=wanted, signature=seal, interrupted=interrupted, hashing=self._hash_slot
        )
        self._update(check=report)
        for note in report.notes:
            self._tell("check", "note", f"note: {note}")
        return report

    def _judge(self, report: CheckReport) -> None:
        """Take a refusal, or an image that is there already, for the device's end."""
        refusal, hint = self._refusal(report)
        if refusal:
            self._update(
                outcome=Outcome.REFUSED,
                failure=Failure(step="check", reason=refusal, hint=hint, kind=Kind.POLICY_VIOLATION),
            )
            self._tell("check", "failed", f"refused: {refusal}")
        elif report.already_there:
            self._move(State.DONE)
            self._update(outcome=Outcome.ALREADY_THERE)
            name = self._context.image.name
            self._tell("check", "done", f"{report.file_system}{name} is there already, hash proven")

    def _refusal(self, report: CheckReport) -> tuple[str | None, str | None]:
        """Return why a device must not be staged and what to do about it; None for each that there is not."""
        if drift := self._drift(report):
            return drift, None
        if report.refusal or report.already_there or self._context.options.any_image:
            return report.refusal, report.refusal_hint
        shared = self._context.given.refusal(self._context.image.name, self._record.host, report.image)
        return shared, ONE_PLATFORM if shared else None

    def _drift(self, report: CheckReport) -> str | None:
        """Return why this is not the device that was planned; a router that was exchanged needs a plan of its own."""
        planned, found = self._context.identity, identity_of(report.facts)
        if planned is None or planned == found:
            return None
        return f"the plan was made for {planned} (serial number/host name), this is {found}: make the plan anew"

    def _come_back(self) -> None:
        """Log in and look again where it was logged out: what was seen then need not hold any more."""
        if self._is_logged_out:
            self._connect()
            self._judge(self._look())

    def _wait_and_stage(self) -> None:
        """Wait for a slot, untouched; then stage."""
        report = self._checked()
        # Refuses what no copy command can carry while the device is still as it was.
        self._planned(report, report.running)
        if self._context.untuned_because is not None:
            self._update(notes=(*self._record.notes, f"not tuned: {self._context.untuned_because}"))
        self._take_copy_slot(self._come_back)
        try:
            self._come_back()
            if self._is_to_be_staged:
                self._stage()
        finally:
            self._free_copy_slot()

    def _stage(self) -> None:
        report = self._checked()
        before: Snapshot = self._do("snapshot", snapshot)
        self._before = before
        # From the snapshot, not from the check: what somebody set in between is theirs and comes back.
        plan = self._planned(report, before.running)
        # Also where nothing is to be changed: the lease keeps a device that a dead run left tuned, or that another run
        # has in its hands, from being taken for one that is fine as it is.
        self._context.journal.acquire_lease(
            self._context.run_id,
            self._record.host,
            identity=identity_of(report.facts),
            snapshot=before,
            changes=plan.tune.changes,
            target=plan.target,
            members=member_serials(session_of(self._task).show_version()),
        )
        restored = Restored.INCOMPLETE if plan.tune.changes else Restored.UNTOUCHED
        self._update(state=State.JOURNALED, restored=restored, window=plan.window, changes=plan.tune.changes)
        try:
            self._feed(plan.tune, plan.target)
        except BaseException as error:  # noqa: BLE001 -- whatever happened, restoring comes first
            self._fail(error)
        finally:
            self._free_copy_slot()
            self._restore(before)
            if self._record.failure is not None:
                self._see_to_leftover(plan.target)
        if self._record.outcome is Outcome.DONE and not self._context.options.to_null:
            self._look_once_more(plan.target)

    def _look_once_more(self, target: str) -> None:
        """See that the image is there in the end: somebody may have taken it, or a stack's `flash:` lead elsewhere.

        One `dir`, of which the size counts; the hash is proven. A device that cannot be looked at any more is what it
        was proven to be.
        """
        try:
            found = file_at(session_of(self._task), target).size_bytes
        except FlashferryError as error:
            self._update(notes=(*self._record.notes, f"could not look at {target} once more: {error.message}"))
            return
        if found == self._context.image.size_bytes:
            return
        seen = "no such file" if found is None else f"{found:,} bytes"
        self._fail(
            ImageCorrupt(
                f"{target} was proven by its hash; in the end expected {self._context.image.size_bytes:,} bytes there, "
                f"found {seen}",
                host=self._record.host,
                step="verify",
                hint="Find out who else works there, or which member of a stack became active; then stage again",
            )
        )
        self._move_to_failed()

    def _planned(self, report: CheckReport, before: TcpLines) -> DevicePlan:
        context = self._context
        link = context.links.of(self._host, session_of(self._task).peer_address)
        self._update(link_rate=link)
        return plan_device(
            device=self._host,
            check=report,
            before=before,
            options=context.options,
            link=link,
            image=context.image.name,
            port=context.server.port,
            mark=mark_line(context.run_id, context.owner),
        )

    def _feed(self, plan: TunePlan, target: str) -> None:
        """Tune, copy and verify; whatever it raises, the caller restores."""
        if plan.changes:
            self._tune(plan)
        self._pull(target)
        self._free_copy_slot()
        if not self._context.options.to_null:
            with self._hashing():
                self._verify(target)
            self._move(State.VERIFIED)
        self._update(outcome=Outcome.DONE)

    def _verify(self, target: str) -> None:
        image = self._context.image
        self._update(
            verify=self._do(
                "verify",
                verify,
                path=target,
                md5=image.md5,
                sha512=image.sha512,
                size_bytes=image.size_bytes,
                signature=self._context.options.verify_signature,
                known_bytes_per_s=self._context.hash_speeds.get(self._record.host),
                interrupted=self._context.interrupted,
            )
        )

    def _tune(self, plan: TunePlan) -> None:
        """Set the plan's lines; these, or a smaller window where the device takes no other, are on disk beforehand."""
        self._remember(plan.changes)
        self._context.guard.marks = marks_in(plan.changes)
        self._update(tune=self._do("tune", tune, plan=plan, before=self._before, remember=self._remember))
        self._tell_tuned()
        self._move(State.TUNED)

    def _tell_tuned(self) -> None:
        """Tell what became of our lines where it is not just what was sent."""
        found = self._record.tune
        assert found is not None
        words = [f"note: {one}" for one in found.other_words]
        if not found.is_marked:
            words.append("note: no mark could be left: another controller would not see that this run has the device")
        for text in words:
            self._tell("tune", "note", text)

    def _restore(self, before: Snapshot) -> None:
        """Restore and prove. A device that we changed is worth waiting for: it may be rebooting, or its lines full."""
        touched = self._record.restored is not Restored.UNTOUCHED
        refused = 0
        for pause_s in (*RESTORE_PAUSES_S, None) if touched else (None,):
            try:
                report: RestoreReport = self._do(
                    "restore",
                    restore,
                    before=before,
                    changes=self._record.changes,
                    settle_s=self._settle_s,
                    is_again=self._record.restore_failure is not None,
                )
            except Exception as error:  # noqa: BLE001 -- the journal keeps the device; the others go on
                self._restore_failed(error, touched=touched)
                self._forget_session()
                refused += isinstance(error, LoginRefused)
                if pause_s is None or refused == LOGINS_REFUSED or isinstance(error, HostKeyRefused):
                    break
                time.sleep(pause_s)
            else:
                self._update(restore_failure=None)
                self._restored(report, touched=touched)
                return
        self._move_to_failed()

    @property
    def _settle_s(self) -> float:
        """Return how long after the last line the device is looked at again: by how late it showed ours."""
        tuned = self._record.tune
        return UNKNOWN_SETTLE_S if tuned is None else SETTLE_S + 2 * tuned.late_s

    def _restored(self, report: RestoreReport, *, touched: bool) -> None:
        self._update(restore=report)
        if report.held_by is not None and touched:
            # Our lines are gone and may come back: the journal keeps the device, for another look.
            self._update(
                restore_failure=Failure(
                    step="restore", reason=report.held_by, hint=report.held_hint, kind=Kind.RESTORE_INCOMPLETE
                )
            )
            self._tell("restore", "note", f"note: {report.held_by}")
            if self._record.failure is not None:
                self._name_leftover()
            self._move_to_failed()
            return
        if report.is_proven:
            self._update(restored=Restored.RESTORED if touched else Restored.UNTOUCHED)
        elif not touched:
            # Nothing of ours was ever there; what changed is somebody else's work, and is shown as that.
            self._update(restored=Restored.UNTOUCHED)
        else:
            self._update(restored=Restored.FOREIGN_CHANGE)
        if self._record.failure is not None:
            self._name_leftover()
        self._context.journal.release(self._context.run_id, self._record.host, self._record)
        failed = self._record.failure is not None
        self._move(State.RESTORED)
        self._move(State.FAILED if failed else State.DONE)

    def _restore_failed(self, error: Exception, *, touched: bool) -> None:
        self._update(restore_failure=failure_of("restore", error, recent_of(self._task).lines()))
        if not touched:
            # Nothing was set, so nothing is left: only the proof is missing.
            self._context.journal.release(self._context.run_id, self._record.host)
