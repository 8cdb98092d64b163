"""Which applets a device has while our lines change: one that undoes them all, on disk before it is typed."""

from __future__ import annotations

from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tune import arm_applet
from tasks.dead_man import DeadManReport
from tasks.tcp_config import Change
from tests.unit.run.device.scripted import Steps, context

WINDOW = Change(keyword="window-size", before=None, ours="ip tcp window-size 4194304")
SACK = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack")
HIDDEN = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack", shown="")


class Armed:
    """A device's run with applets; notes in which order things happened."""

    def __init__(self, *reasons: str, dead_man: bool = True) -> None:
        self.happened: list[Any] = []
        self.events: list[Any] = []
        self._reasons = list(reasons)
        steps = Steps(**{"dead-man": self._typed})
        given = context(dead_man=dead_man)
        image = replace(given.image, size_bytes=50_000_000)
        self.run = DeviceRun(steps, replace(given, image=image, emit=self.events.append))
        self.run.context.journal.replan = self._stored

    def _typed(self, task: object, **given: Any) -> DeadManReport:
        self.happened.append(("typed", given["change"].keyword, given["undo"], given["instead_of"]))
        reason = self._reasons.pop(0) if self._reasons else ""
        return DeadManReport(
            name=given["change"].keyword,
            is_armed=not reason,
            countdown_s=given["countdown_s"],
            undo=given["undo"],
            reason=reason,
        )

    def _stored(self, run_id: str, host: str, changes: tuple[Change, ...]) -> None:
        self.happened.append(tuple(one.keyword for one in changes))

    def arm(self, *changes: Change, may_have_restarted: bool = False) -> None:
        arm_applet(self.run, changes, may_have_restarted=may_have_restarted)

    @property
    def typed(self) -> list[Any]:
        return [one for one in self.happened if one[:1] == ("typed",)]

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if event.status == "note"]


def test_the_journal_has_an_applet_before_it_is_typed():
    """A kill at any moment leaves one that recovery knows."""
    one = Armed()
    one.arm(WINDOW, SACK)
    name = one.run.applets[0].keyword
    undo = ("no ip tcp window-size 4194304", "no ip tcp selective-ack")
    assert one.happened == [(name,), ("typed", name, undo, None), (name,)]
    assert "in 46 min" in one.notes[0]


def test_one_that_undoes_all_that_is_there_stays():
    """A line less is no reason for another one."""
    one = Armed()
    one.arm(WINDOW, SACK)
    one.arm(WINDOW)
    assert len(one.typed) == 1


def test_a_default_that_the_device_does_not_show_is_not_switched_off():
    """What was learnt when the lines were set: the applet of before would switch it off, so there is a new one."""
    one = Armed()
    one.arm(WINDOW, SACK)
    first = one.run.applets[0]
    one.arm(WINDOW, HIDDEN)
    (second,) = one.run.applets
    assert one.typed[1] == ("typed", second.keyword, ("no ip tcp window-size 4194304", "ip tcp selective-ack"), first)
    assert one.happened[-3] == (first.keyword, second.keyword)


def test_a_device_that_restarted_gets_one_anew():
    """Its applet is gone with our lines."""
    one = Armed()
    one.arm(WINDOW)
    one.arm(WINDOW, may_have_restarted=True)
    assert len(one.typed) == 2


@pytest.mark.parametrize("dead_man", [True, False])
def test_no_applet_is_typed_without_need(dead_man):
    """Without the option, or where no line of ours is set."""
    one = Armed(dead_man=dead_man)
    one.arm(*(() if dead_man else (WINDOW,)))
    assert one.happened == []


def test_a_device_that_takes_none_is_asked_once():
    """The report has it, and the journal has none of it afterwards."""
    one = Armed("no EEM")
    one.arm(WINDOW)
    one.arm(WINDOW, SACK)
    assert (len(one.typed), one.run.applets, one.happened[-1]) == (1, (), ())
    assert one.notes == ["note: staged without a dead-man: no EEM"]


def test_an_older_one_stays_where_a_new_one_is_not_taken():
    """It is better than nothing and still ours to remove; the report does not say that there is none."""
    one = Armed("", "no room for it")
    one.arm(WINDOW)
    first = one.run.applets
    one.arm(WINDOW, SACK)
    assert one.run.applets == first
    assert one.notes[1] == f"note: {first[0].keyword} counts on, and does not know all of our lines: no room for it"
