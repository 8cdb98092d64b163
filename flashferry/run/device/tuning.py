"""The lines of ours on a device: which are in force, on disk before they are sent."""

from __future__ import annotations

from flashferry.model.states import Restored
from flashferry.run.context import RunContext
from flashferry.run.device.dead_man import DeadMan
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.switch_transport_config import change_over
from flashferry.transports import NEIGHBOUR
from tasks.snapshot import Snapshot
from tasks.tcp_config import WINDOW_SIZE, Change, TunePlan, marks_in
from tasks.tune import TUNE, set_again, step_down, tune


class DeviceTuning:
    """Sets a device's lines.

    Attributes:
        in_force: Of the changes planned, those that the device was sent: a speed test measures it as it is first.
    """

    def __init__(self, context: RunContext, events: DeviceEvents, keeper: RecordKeeper, steps: StepRunner) -> None:
        self._context, self._events, self._keeper, self._steps = context, events, keeper, steps
        self._dead_man = DeadMan(context, events, keeper, steps)
        self.in_force: tuple[Change, ...] = ()

    def tune(self, plan: TunePlan, before: Snapshot) -> None:
        """Set the plan's lines; these, or a smaller window where the device takes no other, are on disk beforehand.

        Lines of ours that are in force already, as those of a speed test's first copies, are none that others changed.
        """
        if self.in_force:
            self.change_over(plan, before)
            return
        self._watch((*plan.changes, *plan.channel))
        self._remember(plan.changes)
        self._context.guard.marks = marks_in(plan.changes)
        try:
            self._keeper.keep(TUNE, self._steps.run(TUNE, tune, plan=plan, before=before, remember=self._remember))
        except BaseException:
            if not self._keeper.record.changes:
                # No line was typed: the device is not worth six attempts to restore it.
                self._keeper.update(restored=Restored.UNTOUCHED)
            raise
        self._context.guard.marks = marks_in(self.in_force)
        self._watch(self.in_force)
        self._tell_tuned()
        self._keeper.passed(TUNE)

    def change_over(self, plan: TunePlan, before: Snapshot, *, is_again: bool = False) -> None:
        """Set another transport's lines in place of what is in force (`flashferry.run.device.switch_transport_config`).

        Args:
            plan: What is to be in force.
            before: What the device was before anything was set.
            is_again: Whether the session was lost: the device may have restarted, so that no applet of ours counts.
        """
        if not plan.changes and not self.in_force:
            return
        if plan.changes:
            # Not untouched any more, whatever becomes of it.
            self._keeper.update(restored=Restored.INCOMPLETE)
        self._context.guard.marks = marks_in((*self.in_force, *plan.changes))
        self._watch((*self.in_force, *plan.changes, *plan.channel), is_again=is_again)
        report = self._steps.run(
            TUNE, change_over, held=self.in_force, plan=plan, remember=self._remember, before=before
        )
        self._keeper.keep(TUNE, report)
        self._watch(self.in_force)
        self._tell_tuned()

    def step_down(self) -> None:
        """Set a window that needs no scaling, for a device that failed with the larger one."""
        self._keeper.keep(TUNE, self._steps.run(TUNE, step_down, changes=self.in_force, remember=self._remember))
        self._watch(self.in_force)

    def set_again(self) -> None:
        """Set our lines again where they are gone: a device that restarted is as it was before."""
        if self.in_force:
            self._watch(self.in_force, is_again=True)
            self._keeper.keep(TUNE, self._steps.run(TUNE, set_again, changes=self.in_force, remember=self._remember))

    def hold(self, changes: tuple[Change, ...]) -> None:
        """Have further lines on disk, and known to the applet, before they are typed by somebody else.

        Args:
            changes: Lines that stand beside those in force.
        """
        # Not untouched any more, whatever becomes of it.
        self._keeper.update(restored=Restored.INCOMPLETE)
        self._context.guard.marks = marks_in((*self.in_force, *changes))
        self._watch((*self.in_force, *changes))
        self._remember((*self.in_force, *changes))

    def held(self, changes: tuple[Change, ...], instead: tuple[Change, ...]) -> None:
        """Have lines on disk as they turned out, or without those that were taken back and proven gone."""
        self._remember((*(one for one in self.in_force if one not in changes), *instead))

    @property
    def is_tuned(self) -> bool:
        """Whether lines are in force that change the speed; a source interface only makes the way."""
        return any(change.is_tuning for change in self.in_force)

    @property
    def sets_window(self) -> bool:
        """Whether a window of ours is in force."""
        return any(change.keyword == WINDOW_SIZE for change in self.in_force)

    @property
    def sets_channel(self) -> bool:
        """Whether a window of ours is in force for SSH channels."""
        return any(change.is_channel for change in self.in_force)

    @property
    def may_step_down(self) -> bool:
        """Whether a scaled window is in force that we chose: then a smaller one may help."""
        tuned = TunePlan(changes=self.in_force, may_back_off=self._context.policy.window_bytes is None)
        return tuned.unscaled() is not None

    def _remember(self, changes: tuple[Change, ...]) -> None:
        """Have changes of ours on disk before they are sent; from then on they count as in force."""
        self.in_force = changes
        self._keep_on_disk()

    def _keep_on_disk(self) -> None:
        held = (*self._dead_man.held, *self.in_force)
        self._context.journal.replan(self._context.run_id, self._keeper.record.host, held)
        self._keeper.update(changes=held)

    def _watch(self, changes: tuple[Change, ...], *, is_again: bool = False) -> None:
        """Have the device undo these by itself when nobody does, where that was asked for."""
        self._dead_man.watch(changes, self._keep_on_disk, is_again=is_again)

    def _tell_tuned(self) -> None:
        """Tell what became of our lines where it is not just what was sent."""
        found = self._keeper.record.tune
        assert found is not None
        words = [f"note: {one}" for one in found.other_words]
        if not found.is_marked:
            words.append("note: no mark could be left: another controller would not see that this run has the device")
        if found.channel_as_before and self._keeper.record.transport == NEIGHBOUR.name:
            words.append("note: the device takes no larger blocks: a copy from a neighbour is slow in small ones")
        elif found.channel_as_before:
            words.append(
                "note: the device takes no larger window for its SSH channel: the copy is no faster than the one that "
                f"it has ({'; '.join(found.refused)})"
            )
        for text in words:
            self._events.tell(TUNE.word, "note", text)
