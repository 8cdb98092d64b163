"""What follows the restore of a device that has the image: handed on to its members, added where that is asked for.

The device is as it was by then, and nobody's: no lease is held. Whoever dies here leaves a device that is staged; the
next run finds the image there, and does what is left.
"""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.devices.identity import identity_of
from flashferry.images.file_name import read_file_name
from flashferry.model.doubts import doubts_about
from flashferry.model.record import DeviceRecord
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.waiting import HashSlot
from flashferry.store.staged import doubts
from tasks.add import ADD, AddReport, add
from tasks.check_report import Wanted
from tasks.distribute import DISTRIBUTE, DistributionReport, distribute, has_members
from tasks.readiness import Readiness
from tasks.readiness.look import READY, ready


class DeviceFinish:
    """Does what follows a device's restore."""

    def __init__(
        self,
        context: RunContext,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        hash_slot: HashSlot,
    ) -> None:
        self._context, self._events, self._keeper = context, events, keeper
        self._steps, self._login, self._hash_slot = steps, login, hash_slot

    def finish(self) -> None:
        """Go through the steps; the first that fails is the device's failure, which stays restored."""
        if not self._has_image() or self._context.to_null:
            return
        path = f"{self._keeper.checked.file_system}{self._context.image.name}"
        try:
            self._distribute(path)
            if self._context.policy.add:
                self._add(path)
        except FlashferryError as error:
            self._keeper.take_failure(error)
            self._keeper.move_to_failed()
        if self._is_asked_for and self._has_image() and not self._context.interrupted():
            self._look_whether_ready()

    @property
    def _is_asked_for(self) -> bool:
        return self._context.policy.add or self._context.policy.ready

    def _has_image(self) -> bool:
        record = self._keeper.record
        is_there = record.outcome.is_good and record.failure is None
        # A device that is not as it was, or may not stay so, is still in our hands: first it is recovered.
        return is_there and record.restore_failure is None

    def _look_whether_ready(self) -> None:
        """Look at the device as a whole; whatever is found, or not, the image is there and the device restored."""
        record, check = self._keeper.record, self._keeper.checked
        try:
            if self._login.is_logged_out:
                self._login.connect()
            found: Readiness = self._steps.run(
                READY,
                ready,
                wanted=Wanted.of(self._context.image, is_insisted=self._context.policy.any_image),
                proven=_proven(record),
                failed_add=self._failed_before() if record.added is None else None,
                signature=self._context.policy.verify_signature,
                expected_members=tuple(member.number for member in check.version.members) or None,
                known_bytes_per_s=self._context.hash_speeds.get(record.host),
                interrupted=self._context.interrupted,
                hashing=self._hash_slot.in_check,
            )
        except FlashferryError as error:
            self._keeper.note(f"whether it is ready to boot the image could not be looked at: {error.message}")
            return
        self._keeper.keep(READY, found)
        self._events.note_fact(READY.word, "readiness", found)

    def _distribute(self, path: str) -> None:
        if not self._has_members(path):
            return
        report: DistributionReport | None = self._steps.run(
            DISTRIBUTE,
            distribute,
            path=path,
            image=self._context.image.of_record(),
            remove_partial=self._context.policy.remove_partial,
            interrupted=self._context.interrupted,
            tell=lambda line: self._events.tell(DISTRIBUTE.word, "note", line),
        )
        self._keeper.keep(DISTRIBUTE, report)

    def _has_members(self, path: str) -> bool:
        """Return whether it may have other members. A look that fails takes nothing from what was done by then."""
        try:
            if self._login.is_logged_out:
                self._login.connect()
            return has_members(self._login.session(), path)
        except FlashferryError as error:
            self._keeper.note(f"whether other members lack the image could not be looked at: {error.message}")
            return False

    def _add(self, path: str) -> None:
        image = self._context.image
        release = read_file_name(image.inside or "").image_release or read_file_name(image.name).image_release
        report: AddReport = self._steps.run(
            ADD,
            add,
            path=path,
            release=release,
            size_bytes=image.size_bytes,
            failed_before=self._failed_before(),
            tell=lambda line: self._events.tell(ADD.word, "note", line),
        )
        self._keeper.keep(ADD, report)
        self._events.note_fact(ADD.word, "added", report)

    def _failed_before(self) -> str | None:
        """Return why the image may lack parts where it is listed as added, by an earlier run of this journal."""
        names = (self._keeper.record.host, identity_of(self._keeper.checked.facts))
        known = doubts_about(doubts(self._context.journal.directory, *names), *names, self._context.image.name)
        return known.of_add


def _proven(record: DeviceRecord) -> dict[str, str]:
    """Return the digests that a device computed in this run, by the file's path: its own, and those of its members."""
    own = record.verify or (record.check.proof if record.check is not None else None)
    found = {own.path: own.digest} if own is not None else {}
    return found | {one.path: one.digest for one in (record.distribution.copies if record.distribution else ())}
