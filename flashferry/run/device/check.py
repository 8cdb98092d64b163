"""Looking at a device, and deciding by what is there whether it is staged."""

from __future__ import annotations

from dataclasses import replace

from flashferry.core.errors import Kind
from flashferry.devices.identity import identity_of, member_serials
from flashferry.model.doubts import COPY_HINT, Doubts, doubts_about
from flashferry.model.record import Failure
from flashferry.model.states import Outcome, State
from flashferry.planning.image_platforms import HINT as ONE_PLATFORM
from flashferry.run.context import RunContext
from flashferry.run.device.copy_recovery import CopyRecovery
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyTraces
from flashferry.run.device.waiting import HashSlot
from flashferry.store.leases import lease_by_name, lease_on, leases
from flashferry.store.staged import doubts
from inventory.host_view import HostView
from tasks.check import CHECK, CheckReport, Wanted, check
from tasks.check_report import ProvenFile
from tasks.partial_file import file_at, in_words


class DeviceCheck:
    """Checks a device, once and again where it was logged out."""

    def __init__(
        self,
        context: RunContext,
        host: HostView,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        hash_slot: HashSlot,
        traces: CopyTraces,
        recovery: CopyRecovery,
    ) -> None:
        self._context, self._host, self._events, self._keeper = context, host, events, keeper
        self._steps, self._login, self._hash_slot = steps, login, hash_slot
        self._traces, self._recovery = traces, recovery

    def ask_lease(self) -> None:
        """Ask who has the device in hand before anything is said of it: what a dead run left tuned may even be done.

        Raises:
            DeviceRefused: Another run has it, or left it before it was proven restored.
        """
        session = self._login.session()
        held = leases(self._context.journal.directory, besides=self._context.run_id)
        if not held:
            return
        found = lease_by_name(held, self._host)
        found = found or lease_on(held, session.facts(), member_serials(session.show_version()))
        if found is not None:
            raise found.refusal(self._host.name)

    def check(self) -> None:
        """Look at the device, and decide by what is there."""
        report = self._look()
        if report.refusal and self._remove_own_leftover(report):
            report = self._look()
        self._keeper.passed(CHECK)
        self.decide(report)

    def recheck(self) -> None:
        """Log in and look again where it was logged out: what was seen then need not hold any more."""
        if self._login.is_logged_out:
            self._login.connect()
            self.decide(self._look())

    def decide(self, report: CheckReport) -> None:
        """Take a refusal, or an image that is there already, for the device's end."""
        refusal, hint = self._refusal(report)
        if refusal:
            self._keeper.update(
                outcome=Outcome.REFUSED,
                failure=Failure(step=CHECK.word, reason=refusal, hint=hint, kind=Kind.POLICY_VIOLATION),
            )
            word = Outcome.REFUSED
            self._events.tell(CHECK.word, "failed", f"{word.label}: {refusal}", outcome=word.value)
        elif report.already_there:
            self._keeper.move(State.DONE)
            self._keeper.update(outcome=Outcome.ALREADY_THERE)
            name = self._context.image.name
            self._events.tell(CHECK.word, "done", f"{report.file_system}{name} is there already, hash proven")

    def _look(self) -> CheckReport:
        image, to_null = self._context.image, self._context.to_null
        wanted = None
        if not to_null:
            wanted = Wanted.of(image, is_insisted=self._context.policy.any_image, adds=self._context.policy.add)
            wanted = replace(wanted, proven=self._proven())
        report: CheckReport = self._steps.run(
            CHECK,
            check,
            wanted=wanted,
            signature=self._context.policy.verify_signature,
            interrupted=self._context.interrupted,
            hashing=self._hash_slot.in_check,
        )
        if report.already_there and (note := self._known(report).of_name):
            report = replace(report, notes=(*report.notes, note))
        self._keeper.keep(CHECK, report)
        for note in report.notes:
            self._events.tell(CHECK.word, "note", f"note: {note}")
        return report

    def _proven(self) -> ProvenFile | None:
        """Return the file as the device proved it in an earlier wave; None where it is to be proven anew."""
        proof, board = self._context.proof, self._context.board
        if proof is None or board is None:
            return None
        return ProvenFile(report=proof, modified=board.stamp_of(self._host.name))

    def _remove_own_leftover(self, report: CheckReport) -> bool:
        """Remove what this run's own broken copy left before it was resumed; tell whether that was done.

        Only with leave, and only if it is to the byte what was found there when the device was restored.
        """
        if self._context.leftover is None or not self._context.policy.remove_partial:
            return False
        target = f"{report.file_system}{self._context.image.name}"
        file = file_at(self._login.session(), target)
        is_short = file.size_bytes is not None and file.size_bytes < self._context.image.size_bytes
        if not is_short or in_words(file) != self._context.leftover:
            return False
        assert file.size_bytes is not None
        # By the record of the run's former process, to the byte.
        self._traces.sent_bytes = file.size_bytes
        self._recovery.remove(target)
        self._keeper.note(f"removed what this run's broken copy had left: {in_words(file)}")
        return True

    def _refusal(self, report: CheckReport) -> tuple[str | None, str | None]:
        """Return why a device must not be staged and what to do about it; None for each that there is not."""
        if drift := self._drift(report):
            return drift, None
        if report.already_there and (doubt := self._doubt(report)):
            return doubt, COPY_HINT
        if report.refusal or report.already_there or self._context.policy.any_image:
            return report.refusal, report.refusal_hint
        shared = self._context.given.refusal(self._context.image.name, self._host.name, report.image)
        return shared, ONE_PLATFORM if shared else None

    def _doubt(self, report: CheckReport) -> str | None:
        """Return why the device's proof of a file that is there already does not count, or None."""
        return self._known(report).of_file(f"{report.file_system}{self._context.image.name}")

    def _known(self, report: CheckReport) -> Doubts:
        """Return what earlier runs of this journal saw of the device and the image."""
        image, names = self._context.image.name, (self._host.name, identity_of(report.facts))
        return doubts_about(doubts(self._context.journal.directory, *names), *names, image)

    def _drift(self, report: CheckReport) -> str | None:
        """Return why this is not the device that was planned; a router that was exchanged needs a plan of its own."""
        planned, found = self._context.identity, identity_of(report.facts)
        if planned is None or planned == found:
            return None
        return f"the plan was made for {planned} (serial number/host name), this is {found}: make the plan anew"
