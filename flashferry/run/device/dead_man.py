"""The applet that a device has while lines of ours are set: armed before them, made anew where they become others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flashferry.reports.facts import fact_of, sentence_of
from flashferry.run.context import RunContext
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from tasks.applet import applet_line, new_name
from tasks.copy_watch import SLOWEST_BYTES_PER_S
from tasks.dead_man import DEAD_MAN, DeadManReport, countdown_s, dead_man, undo_lines
from tasks.tcp_config import Change

Remember = Callable[[], None]
"""Puts what is held on disk."""


class DeadMan:
    """Has the device undo our lines by itself, where that was asked for and the device takes it.

    Attributes:
        held: The applets that are on the device, or may be: for the journal, beside the lines themselves.
    """

    def __init__(self, context: RunContext, events: DeviceEvents, keeper: RecordKeeper, steps: StepRunner) -> None:
        self._context, self._events, self._keeper, self._steps = context, events, keeper, steps
        self._is_wanted = bool(context.policy.dead_man)
        self._undo: tuple[str, ...] = ()
        self.held: tuple[Change, ...] = ()

    def watch(self, changes: tuple[Change, ...], remember: Remember, *, is_again: bool = False) -> None:
        """Have an applet that undoes all of these: the one that counts, or a new one in its place.

        Args:
            changes: What is in force, or is about to be sent.
            remember: Called before anything is typed, and once an applet is gone.
            is_again: Whether the device restarted, so that none counts any more.

        Raises:
            DeviceRefused: An applet could not be taken back.
            DeviceUnreachable: The session was lost; an applet may count.
        """
        undo = undo_lines(changes)
        if not self._is_wanted or not undo or (set(undo) <= set(self._undo) and not is_again):
            return
        earlier, name = self.held, new_name(one.ours for one in self.held)
        fresh = Change(keyword=name, before=None, ours=applet_line(name))
        self.held = (*earlier, fresh)
        remember()
        report: DeadManReport = self._steps.run(
            DEAD_MAN,
            dead_man,
            change=fresh,
            undo=undo,
            countdown_s=countdown_s(self._context.image.size_bytes, SLOWEST_BYTES_PER_S),
            instead_of=earlier[-1] if earlier else None,
        )
        self._take(report, fresh, earlier)
        remember()

    def _take(self, report: DeadManReport, fresh: Change, earlier: tuple[Change, ...]) -> None:
        """Take in whether the device took an applet; where it did not, it is staged without."""
        if report.is_armed:
            self._undo, self.held = report.undo, (fresh,)
        else:
            self._is_wanted, self.held = False, earlier
            report = replace(report, earlier=earlier[-1].keyword if earlier else "")
        self._keeper.keep(DEAD_MAN, report)
        self._events.tell(DEAD_MAN.word, "note", f"note: {sentence_of(fact_of('dead_man', report))}")
