"""One device's way through a run, as one Nornir task: restoring is part of it, whatever failed before.

Nornir skips hosts that failed on its next `run`, so a restore in a second run would skip exactly the devices that
need it.
"""

from __future__ import annotations

import time
from dataclasses import replace

from nornir.core.task import Result, Task

from ftpserver import FtpServerError, TicketRequest, TransferState
from inventory.errors import FlashferryError
from staging.budget import payload_cap_bytes_per_s
from staging.context import RunContext
from staging.events import Progress
from staging.record import DeviceRecord, Failure, failure_of, sentence_of
from staging.states import Outcome, Restored, State
from staging.steps import StepRunner
from staging.touched import JournalUnusable
from tasks.check import CheckReport, Wanted, check
from tasks.connection import NAME as CONNECTION
from tasks.connection import session_of
from tasks.leftover import leftover
from tasks.pull import PullReport, Source, Witnessed, command_for, copy_limits, pull
from tasks.restore import RestoreReport, restore
from tasks.snapshot import Snapshot, snapshot
from tasks.tune import tune
from tasks.tuning import TunePlan, plan_tune
from tasks.verify import verify
from tcp.path import choose_window

RESTORE_PAUSES_S = (1.0, 3.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses behind attempts to restore: a router that reboots takes minutes, one whose vty lines are full seconds."""

ASSUMED_RTT_S = 0.1
"""Round-trip time taken where the kernel measured none."""

SLOWEST_DEVICE_BYTES_PER_S = 50_000
"""Old flash takes 80 kB/s and an untuned window at 300 ms as much; below this a copy is not worth waiting for."""


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
    return Result(host=task.host, result=record, changed=record.pull is not None)


class DeviceRun(StepRunner):
    """The steps of one device, in their order."""

    def execute(self) -> DeviceRecord:
        """Go through all steps and return the record."""
        try:
            self._check()
            if self._record.outcome not in {Outcome.REFUSED, Outcome.ALREADY_THERE}:
                self._stage()
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' run
            self._fail(error)
        finally:
            self._leave()
        return self._record

    def _leave(self) -> None:
        """Make the ticket worthless and log out; neither may cost the record of what happened."""
        try:
            if self._ticket is not None:
                self._context.server.revoke(self._ticket.ticket_id)
        except FtpServerError:
            pass  # a server that is gone honours no ticket
        try:
            self._task.host.close_connections()
        except Exception as error:  # noqa: BLE001 -- the session goes with the process at the latest
            self._tell("connect", "failed", sentence_of(error))

    def _check(self) -> None:
        image, to_null = self._context.image, self._context.options.to_null
        wanted = None if to_null else Wanted(name=image.name, size_bytes=image.size_bytes, md5=image.md5)
        report: CheckReport = self._do("check", check, wanted=wanted)
        self._update(check=report)
        self._move(State.CHECKED)
        if report.refusal:
            self._update(
                outcome=Outcome.REFUSED,
                failure=Failure(step="check", reason=report.refusal, hint=None, kind="PolicyViolation"),
            )
            self._tell("check", "failed", f"refused: {report.refusal}")
        elif report.already_there:
            self._move(State.DONE)
            self._update(outcome=Outcome.ALREADY_THERE)
            self._tell("check", "done", f"{report.file_system}{image.name} is there already, hash proven")

    def _stage(self) -> None:
        report = self._checked()
        target = "null:" if self._context.options.to_null else f"{report.file_system}{self._context.image.name}"
        # Refuses what no copy command can carry while the device is still as it was.
        command_for(self._source(report, username="x" * 8, password="x" * 16), target)
        before: Snapshot = self._do("snapshot", snapshot)
        plan = self._plan(report, before)
        # Also where nothing is to be changed: the lease keeps a device that a dead run left tuned, or that another run
        # has in its hands, from being taken for one that is fine as it is.
        self._context.journal.touch(
            self._context.run_id,
            self._record.host,
            identity=_identity(report),
            snapshot=before,
            changes=plan.changes,
            target=target,
        )
        restored = Restored.INCOMPLETE if plan.changes else Restored.UNTOUCHED
        self._update(state=State.JOURNALED, restored=restored, changes=plan.changes)
        try:
            self._feed(plan, target)
        except BaseException as error:  # noqa: BLE001 -- whatever happened, restoring comes first
            self._fail(error)
        finally:
            self._restore(before, plan)
            if self._record.failure is not None:
                self._name_leftover(target)

    def _feed(self, plan: TunePlan, target: str) -> None:
        """Tune, copy and verify; whatever it raises, the caller restores."""
        if plan.changes:
            self._update(tune=self._do("tune", tune, plan=plan))
            self._move(State.TUNED)
        self._pull(target)
        if not self._context.options.to_null:
            image = self._context.image
            self._update(verify=self._do("verify", verify, path=target, md5=image.md5, size_bytes=image.size_bytes))
            self._move(State.VERIFIED)
        self._update(outcome=Outcome.DONE)

    def _plan(self, report: CheckReport, before: Snapshot) -> TunePlan:
        options = self._context.options
        if not options.tune:
            return TunePlan(changes=())
        choice = choose_window(
            rtt_s=report.rtt_s or ASSUMED_RTT_S,
            link_rate_bps=self._host.link_rate_bps,
            explicit_bytes=options.window_bytes,
        )
        self._update(window=choice)
        # From the snapshot, not from the check: what somebody set in between is theirs and comes back.
        return plan_tune(before.running, window_bytes=choice.window_bytes)

    def _pull(self, target: str) -> None:
        context, report = self._context, self._checked()
        # A device of a site shares the site's cap with its neighbours; one without a site has its own.
        cap = None if self._host.site else payload_cap_bytes_per_s(self._host.cap_bps)
        # Bound to the address that the SSH session shows; behind a NAT both look the same to us.
        peer = session_of(self._task).peer_address
        self._ticket = context.server.issue_ticket(
            TicketRequest(
                image_name=context.image.name,
                source_addresses=(peer,),
                lifetime_s=24 * 3600,
                tries=1,
                cap_bytes_per_s=cap,
                site=self._host.site or "",
            )
        )
        ticket = self._ticket
        self._move(State.COPYING)
        try:
            done: PullReport = self._do(
                "pull",
                pull,
                source=self._source(report, username=ticket.username, password=ticket.password),
                target=target,
                size_bytes=context.image.size_bytes,
                limits=copy_limits(
                    size_bytes=context.image.size_bytes, expected_bytes_per_s=SLOWEST_DEVICE_BYTES_PER_S
                ),
                witness=self._witness,
                interrupted=context.interrupted,
            )
        finally:
            # The device may be back at its prompt a round trip before the server has its last acknowledgement.
            self._update(transfer=context.server.wait(ticket.ticket_id, 2.0).record)
        self._update(pull=done)
        self._move(State.COPIED)

    def _source(self, report: CheckReport, *, username: str, password: str) -> Source:
        context = self._context
        return Source(
            server=context.options.server_address or self._host.server_address or report.server_address,
            port=context.server.port,
            image=context.image.name,
            username=username,
            password=password,
            vrf=self._host.vrf,
        )

    def _witness(self) -> Witnessed:
        """Return the server's account, and tell who watches."""
        assert self._ticket is not None
        seen = self._context.server.progress(self._ticket.ticket_id)
        if seen.bytes_acked:
            size_bytes = self._context.image.size_bytes
            rate = f", {seen.rate_bytes_per_s / 1e6:.2f} MB/s" if seen.rate_bytes_per_s else ""
            so_far = Progress(
                acked_bytes=seen.bytes_acked, size_bytes=size_bytes, rate_bytes_per_s=seen.rate_bytes_per_s
            )
            self._tell("pull", "progress", f"{seen.bytes_acked / max(size_bytes, 1):.0%} acknowledged{rate}", so_far)
        return Witnessed(
            client_seen=seen.state is not TransferState.WAITING,
            logged_in=seen.state not in {TransferState.WAITING, TransferState.CONNECTED},
            bytes_acked=seen.bytes_acked,
            failure=seen.last_error,
        )

    def _restore(self, before: Snapshot, plan: TunePlan) -> None:
        """Restore and prove. A device that we changed is worth waiting for: it may be rebooting, or its lines full."""
        touched = bool(plan.changes)
        for pause_s in RESTORE_PAUSES_S if touched else RESTORE_PAUSES_S[:1]:
            try:
                report: RestoreReport = self._do("restore", restore, before=before, changes=plan.changes)
            except Exception as error:  # noqa: BLE001 -- the journal keeps the device; the others go on
                self._restore_failed(error, touched=touched)
                self._forget_session()
                time.sleep(pause_s)
            else:
                self._update(restore_failure=None)
                self._restored(report, touched=touched)
                return
        self._move_to_failed()

    def _forget_session(self) -> None:
        """Hang up, so that the next attempt logs in anew: whatever state the session was in is not to be trusted."""
        found = self._task.host.connections.pop(CONNECTION, None)
        if found is not None and found.connection is not None:
            found.connection.abandon()

    def _name_leftover(self, target: str) -> None:
        """Name what a failed copy left on flash; nothing is deleted unless the operator asks."""
        try:
            self._update(partial_file=leftover(session_of(self._task), target))
        except FlashferryError as error:
            self._tell("check", "failed", f"could not look for what the copy left: {error.message}")

    def _restored(self, report: RestoreReport, *, touched: bool) -> None:
        self._update(restore=report)
        if report.is_proven:
            self._update(restored=Restored.RESTORED if touched else Restored.UNTOUCHED)
        elif not touched:
            # Nothing of ours was ever there; what changed is somebody else's work, and is shown as that.
            self._update(restored=Restored.UNTOUCHED)
        else:
            self._update(restored=Restored.FOREIGN_CHANGE)
        self._context.journal.release(self._context.run_id, self._record.host)
        failed = self._record.failure is not None
        self._move(State.RESTORED)
        self._move(State.FAILED if failed else State.DONE)

    def _restore_failed(self, error: Exception, *, touched: bool) -> None:
        self._update(restore_failure=failure_of("restore", error))
        if not touched:
            # Nothing was set, so nothing is left: only the proof is missing.
            self._context.journal.release(self._context.run_id, self._record.host)

    def _checked(self) -> CheckReport:
        assert self._record.check is not None
        return self._record.check


def _identity(report: CheckReport) -> str:
    """Return what the device calls itself: its serial number alone is not unique among virtual routers."""
    return f"{report.facts.serial_number}/{report.facts.hostname}"
