"""Which applets a device has while our lines change: one that undoes them all, on disk before it is typed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashferry.run.device.dead_man import DeadMan
from tasks.dead_man import DeadManReport
from tasks.tcp_config import Change

WINDOW = Change(keyword="window-size", before=None, ours="ip tcp window-size 4194304")
SACK = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack")
HIDDEN = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack", shown="")


class Run:
    """Stands for what a device's run is made of, and notes in which order things happened."""

    def __init__(self, *reasons: str, is_wanted: bool = True) -> None:
        self.happened: list[Any] = []
        self.told: list[str] = []
        self._reasons = list(reasons)
        context = SimpleNamespace(
            policy=SimpleNamespace(dead_man=is_wanted), image=SimpleNamespace(size_bytes=50_000_000)
        )
        events = SimpleNamespace(tell=lambda step, status, text: self.told.append(text))
        keeper = SimpleNamespace(keep=lambda step, report: None)
        self.dead_man = DeadMan(cast("Any", context), cast("Any", events), cast("Any", keeper), cast("Any", self))

    def run(self, step: object, task: object, **given: Any) -> DeadManReport:
        self.happened.append(("typed", given["change"].keyword, given["undo"], given["instead_of"]))
        reason = self._reasons.pop(0) if self._reasons else ""
        return DeadManReport(
            name=given["change"].keyword,
            is_armed=not reason,
            countdown_s=given["countdown_s"],
            undo=given["undo"],
            reason=reason,
        )

    def remember(self) -> None:
        self.happened.append(tuple(one.keyword for one in self.dead_man.held))

    def watch(self, *changes: Change, is_again: bool = False) -> None:
        self.dead_man.watch(changes, self.remember, is_again=is_again)

    @property
    def typed(self) -> list[Any]:
        return [one for one in self.happened if one[:1] == ("typed",)]


def test_the_journal_has_an_applet_before_it_is_typed():
    """A kill at any moment leaves one that recovery knows."""
    run = Run()
    run.watch(WINDOW, SACK)
    name = run.dead_man.held[0].keyword
    undo = ("no ip tcp window-size 4194304", "no ip tcp selective-ack")
    assert run.happened == [(name,), ("typed", name, undo, None), (name,)]
    assert "in 46 min" in run.told[0]


def test_one_that_undoes_all_that_is_there_stays():
    """A line less is no reason for another one."""
    run = Run()
    run.watch(WINDOW, SACK)
    run.watch(WINDOW)
    assert len(run.typed) == 1


def test_a_default_that_the_device_does_not_show_is_not_switched_off():
    """What was learnt when the lines were set: the applet of before would switch it off, so there is a new one."""
    run = Run()
    run.watch(WINDOW, SACK)
    first = run.dead_man.held[0]
    run.watch(WINDOW, HIDDEN)
    (second,) = run.dead_man.held
    assert run.typed[1] == ("typed", second.keyword, ("no ip tcp window-size 4194304", "ip tcp selective-ack"), first)
    assert run.happened[-3] == (first.keyword, second.keyword)


def test_a_device_that_restarted_gets_one_anew():
    """Its applet is gone with our lines."""
    run = Run()
    run.watch(WINDOW)
    run.watch(WINDOW, is_again=True)
    assert len(run.typed) == 2


@pytest.mark.parametrize("is_wanted", [True, False])
def test_nothing_is_typed_that_nobody_needs(is_wanted):
    """Without the option, or where no line of ours is set."""
    run = Run(is_wanted=is_wanted)
    run.watch(*(() if is_wanted else (WINDOW,)))
    assert run.happened == []


def test_a_device_that_takes_none_is_asked_once():
    """It is said, and the journal has none of it afterwards."""
    run = Run("no EEM")
    run.watch(WINDOW)
    run.watch(WINDOW, SACK)
    assert (len(run.typed), run.dead_man.held, run.happened[-1]) == (1, (), ())
    assert run.told == ["note: staged without a dead-man: no EEM"]


def test_an_older_one_stays_where_a_new_one_is_not_taken():
    """What it does is better than nothing, it is still ours to remove, and nobody is told that there is none."""
    run = Run("", "no room for it")
    run.watch(WINDOW)
    first = run.dead_man.held
    run.watch(WINDOW, SACK)
    assert run.dead_man.held == first
    assert run.told[1] == f"note: {first[0].keyword} counts on, and does not know all of our lines: no room for it"
