"""Bringing the image to a device that is in our hands: tune, copy, verify."""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import ImageCorrupt
from flashferry.model.states import Outcome
from flashferry.run.context import RunContext
from flashferry.run.device.copy import DeviceCopy
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyOrder
from flashferry.run.device.transport_fallback import TransportFall
from flashferry.run.device.tuning import DeviceTuning
from flashferry.run.device.waiting import CopySlot, HashSlot
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.source import NeighbourSource
from tasks.copy import COPY
from tasks.partial_file import file_at
from tasks.snapshot import Snapshot
from tasks.step import Delivered, Step
from tasks.steps import DELIVERY
from tasks.tune import TUNE
from tasks.verify import VERIFY, verify


class Delivery:
    """What a staging run does to a device between journal and restore."""

    def __init__(
        self,
        context: RunContext,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        slot: CopySlot,
        hash_slot: HashSlot,
        tuning: DeviceTuning,
        copy: DeviceCopy,
        fall: TransportFall,
        source: NeighbourSource,
    ) -> None:
        self._fall, self._source = fall, source
        self._context, self._keeper, self._steps, self._login = context, keeper, steps, login
        self._slot, self._hash_slot, self._tuning, self._copy = slot, hash_slot, tuning, copy
        # What a step of the list takes beyond its own task.
        self._ways = {TUNE.word: self._tune, COPY.word: self._bring, VERIFY.word: self._prove}

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Go through the steps of a delivery in the order of their list; whatever one raises, the caller restores."""
        for step in DELIVERY:
            self._ways.get(step.word, self._by_itself)(step, plan, before)
        self._keeper.update(outcome=Outcome.DONE)

    def _tune(self, _step: Step, plan: DevicePlan, before: Snapshot) -> None:
        if plan.tune.changes:
            self._tuning.tune(plan.tune, before)

    def _bring(self, _step: Step, plan: DevicePlan, before: Snapshot) -> None:
        bringing: DevicePlan | None = plan
        if self._source.is_neighbour:
            bringing = self._source.fetch(CopyOrder(image=self._context.image, target=plan.target), before)
        while bringing is not None:
            try:
                self._copy.copy(CopyOrder(image=self._context.image, target=bringing.target))
            except FlashferryError as error:
                bringing = self._fall.next_plan(error, before)
                if bringing is None:
                    raise
            else:
                break
        self._slot.free()

    def _prove(self, step: Step, plan: DevicePlan, _before: Snapshot) -> None:
        if self._context.to_null:
            return
        self._source.proving()
        with self._hash_slot.held(), self._source.blamed_for_other_bytes():
            self.verify(plan.target)
        self._keeper.passed(step)

    def _by_itself(self, step: Step, plan: DevicePlan, _before: Snapshot) -> None:
        """Do a step that needs nothing of the run."""
        assert step.task is not None, f"{step.word}: a step of a delivery has a task, or a way of its own here"
        given = Delivered(image=self._context.image, target=plan.target, interrupted=self._context.interrupted)
        self._keeper.keep(step, self._steps.run(step, step.task, given=given))
        self._keeper.passed(step)

    def verify(self, target: str) -> None:
        """Have the device prove what it copied."""
        image = self._context.image
        report = self._steps.run(
            VERIFY,
            verify,
            path=target,
            md5=image.md5,
            sha512=image.sha512,
            size_bytes=image.size_bytes,
            signature=self._context.policy.verify_signature,
            known_bytes_per_s=self._context.hash_speeds.get(self._keeper.record.host),
            interrupted=self._context.interrupted,
        )
        self._keeper.keep(VERIFY, report)

    def final_check(self, target: str) -> None:
        """See that the image is there in the end: somebody may have taken it, or a stack's `flash:` lead elsewhere.

        One `dir`, of which the size counts; the hash is proven. A device that cannot be looked at any more is what it
        was proven to be.
        """
        try:
            file = file_at(self._login.session(), target)
        except FlashferryError as error:
            self._keeper.note(f"could not look at {target} once more: {error.message}")
            return
        if file.size_bytes == self._context.image.size_bytes:
            if self._context.board is not None:
                self._context.board.keep_stamp(self._keeper.record.host, file.modified)
            return
        seen = "no such file" if file.size_bytes is None else f"{file.size_bytes:,} bytes"
        self._keeper.take_failure(
            ImageCorrupt(
                f"{target} was proven by its hash; in the end expected {self._context.image.size_bytes:,} bytes there, "
                f"found {seen}",
                host=self._keeper.record.host,
                step=VERIFY.word,
                hint="Find out who else works there, or which member of a stack became active; then stage again",
            )
        )
        self._keeper.move_to_failed()
