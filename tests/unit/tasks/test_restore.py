"""Putting back: what is shown late, in other words, or comes back later is not called restored."""

from __future__ import annotations

from typing import Any, cast

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, RestoreIncomplete
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession
from tasks import restore as step
from tasks.applet import BYPASS, applet_body
from tasks.restore import RestoreReport, restore_device
from tasks.snapshot import Snapshot, take_snapshot
from tasks.tcp_config import Change
from tests.patience import PATIENCE_S

WINDOW = "ip tcp window-size 1250000"
SACK = "ip tcp selective-ack"
CHANGES = (
    Change(keyword="window-size", before=None, ours=WINDOW, shown=WINDOW),
    Change(keyword="selective-ack", before=None, ours=SACK, shown=SACK),
)
STOCK = ("version 17.12", "hostname r1", "ip http server", "end")
NO_TIMER = "%No Rollback Confirmed Change pending"
TIMER = "Time configured(or reconfigured): now\nTimer type: absolute timer\nTimer value: 1 min\nUser: bob"


class Box:
    """A device whose configuration is a list of lines, shown so many looks late.

    Attributes:
        refused: Lines that it refuses.
        visits: The lines of each configuration session.
    """

    name = "r1"
    platform = IOS_XE

    def __init__(self, *extra: str, late_looks: int = 0) -> None:
        self.running = [*STOCK[:-1], *extra, STOCK[-1]]
        self.startup = list(STOCK)
        self.answers: dict[str, str] = {}
        self.sent: list[str] = []
        self.refused: set[str] = set()
        self.visits: list[tuple[str, ...]] = []
        self.late_looks = late_looks
        self._shown: list[str] | None = None

    def set(self, *lines: str) -> None:
        self.running[-1:-1] = lines

    def configure(self, lines: tuple[str, ...]) -> str:
        if self.late_looks and self._shown is None:
            self._shown = list(self.running)
        self.visits.append(lines)
        answers = []
        for line in lines:
            answers.append(f"r1(config)#{line}")
            self.sent.append(line)
            if line in self.refused:
                answers.append("% Invalid input detected at '^' marker.")
                continue
            wanted = line.removeprefix("no ")
            self.running = [one for one in self.running if not f"{one} ".startswith(f"{wanted} ")]
            if wanted == line:
                self.set(line)
        return "\n".join(answers)

    def running_config(self) -> str:
        if self._shown is not None and self.late_looks > 0:
            self.late_looks -= 1
            return "\n".join(self._shown)
        return "\n".join(self.running)

    def startup_config(self) -> str:
        return "\n".join(self.startup)

    def ask(self, command: str, *, limit_s: float = PATIENCE_S) -> str:
        if command not in self.answers:
            raise DeviceRefused(f"'{command}': % Invalid input")
        return self.answers[command]

    @property
    def session(self) -> DeviceSession:
        return cast("DeviceSession", self)

    def snapshot(self) -> Snapshot:
        return take_snapshot(self.session)

    def put_back(self, before: Snapshot, changes: tuple[Change, ...] = CHANGES, **how: Any) -> RestoreReport:
        return restore_device(self.session, before=before, changes=changes, **how)


@pytest.fixture(autouse=True)
def waited(monkeypatch) -> list[float]:
    """Return the pauses so far; the clock stands still."""
    pauses: list[float] = []
    monkeypatch.setattr(step.time, "sleep", pauses.append)
    monkeypatch.setattr(step.time, "monotonic", lambda: 0.0)
    return pauses


def tuned(*extra: str, late_looks: int = 0) -> tuple[Box, Snapshot]:
    box = Box(*extra, late_looks=late_looks)
    before = box.snapshot()
    box.set(WINDOW, SACK)
    return box, before


def test_our_lines_are_taken_back_and_looked_at_twice(waited):
    """The second look comes after the device settled, not at once."""
    box, before = tuned()
    report = box.put_back(before)
    assert report.is_proven
    assert set(report.commands) == {f"no {WINDOW}", f"no {SACK}"}
    assert tuple(box.running) == STOCK
    assert max(waited) == pytest.approx(step.UNKNOWN_SETTLE_S)


@pytest.mark.parametrize("late_looks", [1, 2, 3])
def test_a_configuration_that_is_shown_late_is_waited_for(late_looks):
    """Our lines are still shown after they were taken back: they are taken back again, until they are gone."""
    box, before = tuned(late_looks=late_looks)
    assert box.put_back(before).is_proven
    assert tuple(box.running) == STOCK


def test_what_is_shown_for_ever_is_not_restored():
    """The lease stays, and the sentence names the lines."""
    box, before = tuned(late_looks=99)
    with pytest.raises(RestoreIncomplete, match=f"still needs 'no {WINDOW}'"):
        box.put_back(before)


def test_lines_that_are_not_shown_are_taken_back_to_be_sure():
    """The device shows a configuration of before they were set: they are in force all the same."""
    box, before = tuned()
    true, stale = box.running_config, ["\n".join(STOCK)]
    box.running_config = lambda: stale.pop() if stale else true()
    assert box.put_back(before).is_proven
    assert tuple(box.running) == STOCK


def test_lines_that_come_back_before_the_second_look_are_taken_back_again():
    """As when a rollback fires just behind our own restore."""
    box, before = tuned()
    true, looks = box.running_config, []

    def look() -> str:
        looks.append(1)
        if len(looks) == 3:
            box.set(WINDOW)
        return true()

    box.running_config = look
    assert box.put_back(before).is_proven
    assert tuple(box.running) == STOCK


def test_nothing_is_sent_to_a_device_that_nothing_was_set_on(waited):
    """Nor is it looked at twice."""
    box = Box()
    report = box.put_back(box.snapshot(), ())
    assert (report.is_proven, report.commands, box.sent) == (True, (), [])
    assert not any(waited)


def test_a_line_that_may_be_ours_in_other_words_keeps_the_lease():
    """Nobody saw what the device made of it: it is left alone, and the device is not let go of."""
    box = Box()
    before = box.snapshot()
    box.set("ip tcp window-size 65535")
    unseen = tuple(replace(change, shown=None) for change in CHANGES)
    with pytest.raises(RestoreIncomplete, match=r"the device shows 'ip tcp window-size 65535'"):
        box.put_back(before, unseen)
    assert "ip tcp window-size 65535" in box.running


def test_a_list_that_is_not_ours_alone_keeps_the_lease_and_what_takes_it_back_is_told():
    """Its entries are somebody's, or our remark was lost: nobody but the operator can know."""
    box = Box()
    before = box.snapshot()
    ours = "access-list 99 remark flashferry-20260101-000000-aaaa"
    change = Change(keyword="access list 99", before=None, ours=ours, shown=ours)
    box.set("access-list 99 permit 10.0.0.0 0.0.0.255", ours)
    with pytest.raises(RestoreIncomplete, match="'access-list 99 permit 10") as raised:
        box.put_back(before, (change,))
    assert "enter 'no access-list 99' by hand, which takes all of that list" in str(raised.value.hint)
    assert box.sent == []
    box.running = [one for one in box.running if "10.0.0.0" not in one]
    box.configure((change.off,))
    box.running = [one for one in box.running if not one.startswith("access-list 99")]
    assert box.put_back(before, (change,)).is_proven


def test_a_new_line_that_may_be_ours_renamed_keeps_the_lease():
    """It belongs to no family of ours, but it holds our word, and nobody saw what became of that."""
    box = Box()
    before = box.snapshot()
    box.set("tcp option selective-ack on")
    unseen = tuple(replace(change, shown=None) for change in CHANGES)
    with pytest.raises(RestoreIncomplete, match="tcp option selective-ack on"):
        box.put_back(before, unseen)


OLD = "ip tcp window-size 8000"
OVER_OLD = (replace(CHANGES[0], before=OLD),)


class Mangling(Box):
    """A device that makes something else of the line that puts back, so many times."""

    def __init__(self, makes: str, *, times: int) -> None:
        super().__init__(OLD)
        self._makes, self._times = makes, times

    def configure(self, lines: tuple[str, ...]) -> str:
        self.running = [one for one in self.running if not one.startswith("ip tcp window-size")]
        self.sent += lines
        self.set(self._makes if self._times > 0 else lines[0])
        self._times -= 1
        return ""


def test_a_line_that_loses_a_digit_on_its_way_back_is_sent_again():
    """`8000` came to be `800` by our own doing: nobody else's line is overwritten when it is mended."""
    box = Mangling("ip tcp window-size 800", times=0)
    before = box.snapshot()
    box.configure((WINDOW,))
    box._times = 1
    assert box.put_back(before, OVER_OLD).is_proven
    assert OLD in box.running


@pytest.mark.parametrize("makes", ["ip tcp window-size 8760", "ip tcp window-size 65535"])
def test_what_the_device_makes_of_the_line_that_puts_back_keeps_the_lease(makes):
    """It may as well be somebody else's, so it is left alone, told, and not forgotten."""
    box = Mangling(makes, times=0)
    before = box.snapshot()
    box.configure((WINDOW,))
    box._times = 9
    with pytest.raises(RestoreIncomplete, match=f"the device shows '{makes}'"):
        box.put_back(before, OVER_OLD)
    with pytest.raises(RestoreIncomplete, match=f"the device shows '{makes}'"):
        restore_device(box.session, before=before, changes=OVER_OLD, is_again=True)


def test_somebodys_window_that_was_there_before_we_came_back_is_theirs():
    """It is not what our line can have become, for nothing was sent yet."""
    box = Box(OLD)
    before = box.snapshot()
    box.running = [*STOCK[:-1], "ip tcp window-size 30000", "end"]
    report = box.put_back(before, OVER_OLD)
    assert [one.present for one in report.foreign] == ["ip tcp window-size 30000"]
    assert box.sent == []


def test_an_old_line_that_is_shown_no_more_keeps_the_lease_where_ours_was_never_seen():
    """The device may hold ours without showing it: that it shows nothing is not somebody else's doing."""
    box = Box(OLD)
    before = box.snapshot()
    box.running = list(STOCK)
    with pytest.raises(RestoreIncomplete, match="shows no such line"):
        box.put_back(before, (replace(OVER_OLD[0], shown=None),))
    assert box.put_back(before, OVER_OLD).foreign


def test_a_line_of_unproven_authorship_is_left_for_a_decision():
    """It may be a colleague's, or come along with ours: it stays, and the sentence says how to let go of the device."""
    box, before = tuned()
    box.set("snmp-server location rack 7")
    report = box.put_back(before)
    assert (report.held_by, report.is_proven) == (None, False)
    assert report.undecided == (
        "our lines are proven gone; the running configuration differs from the start (new: 'snmp-server location ...'; "
        "gone: none); this awaits a decision"
    )
    assert report.decision("r1") == "To keep it as it is now, run 'flashferry recover --accept r1'"


class Odd(Box):
    """A device of which undoing a line changes another one: what comes, and what goes, with a line."""

    def __init__(self, *extra: str, comes: dict[str, str], goes: dict[str, str]) -> None:
        super().__init__(*extra)
        self._comes, self._goes = comes, goes

    def configure(self, lines: tuple[str, ...]) -> str:
        said = super().configure(lines)
        for line in lines:
            self.running = [one for one in self.running if one != self._goes.get(line)]
            if line in self._comes:
                self.set(self._comes.pop(line))
        return said


BULK = "ip ssh bulk-mode 1250000"
BULK_CHANGE = Change(keyword="ssh bulk-mode", before=None, ours=BULK, shown=BULK)


@pytest.mark.parametrize(
    ("change", "comes", "goes", "extra", "lines_back"),
    [
        pytest.param(
            CHANGES[0],
            {f"no {WINDOW}": "ip tcp window-size 4128"},
            {},
            (),
            ("no ip tcp window-size 4128",),
            id="a default is shown that was not",
        ),
        pytest.param(
            CHANGES[1], {SACK: "ip tcp timestamp"}, {}, (), ("no ip tcp timestamp",), id="one line became two"
        ),
        pytest.param(
            BULK_CHANGE,
            {},
            {BULK: "ip ssh time-out 60"},
            ("ip ssh time-out 60",),
            ("ip ssh time-out 60",),
            id="a neighbour is gone",
        ),
        pytest.param(
            BULK_CHANGE,
            {BULK: "ip ssh window-size 1250000"},
            {},
            (),
            ("no ip ssh window-size 1250000",),
            id="a second word for it stays",
        ),
    ],
)
def test_what_our_own_doing_changed_beside_our_line_is_kept_and_the_way_back_is_named(
    change, comes, goes, extra, lines_back
):
    """Each ended as somebody else's change, and the device was forgotten."""
    box = Odd(*extra, comes=comes, goes=goes)
    before = box.snapshot()
    box.configure((change.ours,))
    report = box.put_back(before, (change,))
    assert not report.is_proven
    assert "proven gone" in str(report.undecided)
    assert report.proposals == lines_back
    assert all(f"'{line}'" in report.decision("r1") for line in lines_back)
    box.configure(lines_back)
    assert box.put_back(before, (change,)).is_proven


def test_a_line_of_the_start_that_is_gone_is_named():
    """Where its text is known; of others only how many."""
    box, before = tuned("ip ssh time-out 60", "ntp server 192.0.2.1")
    box.running = [line for line in box.running if not line.startswith(("ip ssh", "ntp"))]
    report = box.put_back(before)
    assert report.missing == ("ip ssh time-out 60",)
    assert "gone: 'ip ssh time-out 60' and 1 more" in str(report.undecided)


MARK = "alias exec flashferry-20261122-101112-abcd me@here"
MARKED = (Change(keyword="flashferry-20261122-101112-abcd", before=None, ours=MARK, shown=MARK), *CHANGES)
APPLET = "event manager applet FLASHFERRY-3F2A"
ARMED = (Change(keyword="FLASHFERRY-3F2A", before=None, ours=APPLET), *MARKED)
OTHERS = "alias exec flashferry-20261122-2 you@there"


def marked(*extra: str) -> tuple[Box, Snapshot]:
    box = Box(*extra)
    before = box.snapshot()
    box.set(MARK, WINDOW, SACK)
    return box, before


def test_mark_and_applet_go_last_in_a_session_of_their_own():
    """Until the lines are proven gone others are kept off, and the applet counts."""
    box, before = marked()
    box.set(APPLET)
    report = box.put_back(before, ARMED)
    assert report.is_proven
    assert not report.applet_was_gone
    assert box.visits == [(f"no {WINDOW}", f"no {SACK}"), (f"no {APPLET}", f"no {MARK.rpartition(' ')[0]}")]


def test_an_applet_that_ran_is_told_where_nothing_was_left_to_be_typed():
    """It took lines back without a look, maybe one of a colleague's too: the start does not prove that it did not."""
    box = Box()
    report = box.put_back(box.snapshot(), ARMED, needs_mark=True)
    assert (report.is_proven, report.applet_was_gone, box.visits) == (True, True, [])


@pytest.mark.parametrize("is_again", [False, True])
def test_a_refused_undo_leaves_mark_and_applet_standing(is_again):
    """Without them a second controller would take our line for the device's own."""
    box, before = marked()
    box.set(APPLET)
    box.refused = {f"no {SACK}"}
    with pytest.raises(RestoreIncomplete, match=f"still needs 'no {SACK}'"):
        box.put_back(before, ARMED, is_again=is_again)
    assert (MARK in box.running, APPLET in box.running, WINDOW in box.running) == (True, True, False)


@pytest.mark.parametrize("settle_s", [step.SETTLE_S, step.UNKNOWN_SETTLE_S])
def test_a_mark_that_stays_is_not_restored(settle_s):
    """Every later run would be refused."""
    box, before = marked()
    box.refused = {f"no {MARK.rpartition(' ')[0]}"}
    with pytest.raises(RestoreIncomplete, match="still needs 'no alias exec flashferry-20261122-101112-abcd'"):
        box.put_back(before, MARKED, settle_s=settle_s)


@pytest.mark.parametrize("shown", [None, "alias exec flashferry-20261122-1011 me@here"])
def test_a_mark_of_which_the_device_keeps_the_beginning_is_ours(shown):
    """It keeps 24 characters of an alias's name: our own mark counted as another run's, and for ever."""
    box = Box()
    before = box.snapshot()
    short = "alias exec flashferry-20261122-1011 me@here"
    box.set(short, WINDOW, SACK)
    changes = (replace(MARKED[0], shown=shown), *CHANGES)
    box.configure, plain = (lambda lines: plain(tuple(_as_kept(line) for line in lines))), box.configure
    assert box.put_back(before, changes, needs_mark=True).is_proven
    assert tuple(box.running) == STOCK


def _as_kept(line: str) -> str:
    return "no alias exec flashferry-20261122-1011 me@here" if line.startswith("no alias exec flash") else line


@pytest.mark.parametrize(
    ("shown", "there", "said"),
    [
        pytest.param((MARK,), (WINDOW,), "is not on the device any more", id="the mark is gone"),
        pytest.param((MARK,), (OTHERS, WINDOW, SACK), "run 20261122-2 of you@there", id="another run's"),
        pytest.param((MARK,), (MARK, OTHERS, WINDOW, SACK), "run 20261122-2 of you@there", id="another's beside it"),
        pytest.param((None,), (OTHERS, WINDOW), "run 20261122-2 of you@there", id="another's, ours never seen"),
        pytest.param((None,), (WINDOW, SACK), "was to leave", id="the run died before it typed; equal lines"),
    ],
)
def test_a_recovery_reads_marks_before_it_types(shown, there, said):
    """An old journal took away the operator's equal line, and another run's."""
    box = Box()
    before = box.snapshot()
    box.set(*there)
    changes = (replace(MARKED[0], shown=shown[0]), *CHANGES)
    report = box.put_back(before, changes, needs_mark=True)
    assert (box.visits, report.is_proven) == ([], False)
    assert said in str(report.undecided)
    assert "nothing was typed" in str(report.undecided)
    assert (f"'no {WINDOW}'" in report.decision("r1")) == (OTHERS not in there), "nor is the operator to type it"
    accepted = box.put_back(before, changes, needs_mark=True, is_accepted=True)
    assert (box.visits, accepted.left != ()) == ([], True)


UNSEEN = (ARMED[0], *(replace(one, shown=None) for one in MARKED))
"""The journal of a run that was killed before it saw its mark."""

UNDO = tuple(one.off for one in (*CHANGES, MARKED[0]))


def applet_on(box: Box, *, undo: tuple[str, ...] = UNDO, name: str = ARMED[0].keyword, rest: str = BYPASS) -> list[str]:
    """Set an applet as a device shows it; return its lines, the first one among them."""
    body = applet_body(name, undo, 5400, configure="configure terminal")
    lines = [f"event manager applet {name}{rest}", *(f" {line}" for line in body)]
    box.set(*lines)
    plain = box.configure

    def configure(typed: tuple[str, ...]) -> str:
        said = plain(typed)
        if f"no event manager applet {name}" in typed:
            box.running = [line for line in box.running if line not in lines]
        return said

    box.configure = configure  # type: ignore[method-assign]
    return lines


@pytest.mark.parametrize("rest", [BYPASS, ""])
def test_an_applet_of_a_run_that_died_before_its_mark_is_taken_back(rest):
    """It was armed before the mark, and names it: it proves whose the device is, and would fire much later."""
    box = Box()
    before = box.snapshot()
    applet_on(box, rest=rest)
    assert box.put_back(before, UNSEEN, needs_mark=True).is_proven
    assert tuple(box.running) == STOCK


def test_an_applet_with_more_lines_than_the_journal_has_proves_the_device_ours():
    """It is armed with every line that may be tried; the journal has those that are about to be typed."""
    box = Box()
    before = box.snapshot()
    applet_on(box, undo=("no ip ssh window-size", *UNDO))
    assert box.put_back(before, UNSEEN, needs_mark=True).is_proven
    assert tuple(box.running) == STOCK


def test_the_operators_own_line_from_before_ours_is_no_line_like_ours():
    """A device that has a window already is the usual one: its applet proves as much."""
    own = "ip tcp window-size 8000"
    box = Box()
    box.set(own)
    before, there = box.snapshot(), tuple(box.running)
    changes = [replace(one, before=own) if one.keyword == "window-size" else one for one in UNSEEN]
    applet_on(box, undo=tuple(own if line.startswith("no ip tcp window-size") else line for line in UNDO))
    assert box.put_back(before, changes, needs_mark=True).is_proven
    assert tuple(box.running) == there


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda lines: lines[:-1], id="without its last line"),
        pytest.param(lambda lines: lines[:1], id="its first line alone"),
        pytest.param(lambda lines: [line for line in lines if SACK not in line], id="an action is gone"),
        pytest.param(lambda lines: [line.replace(SACK, "ip tcp timestamp") for line in lines], id="an action changed"),
        pytest.param(lambda lines: [*lines, ' action 900 cli command "reload"'], id="an action more"),
        pytest.param(lambda lines: [line.replace("1112-abcd", "1112-dcba") for line in lines], id="another mark"),
        pytest.param(lambda lines: [line.replace("3F2A", "3F2B") for line in lines], id="another name"),
    ],
)
def test_an_applet_that_is_not_whole_and_ours_proves_nothing(spoil):
    """Nothing is typed; the operator decides."""
    box = Box()
    before = box.snapshot()
    lines = applet_on(box)
    box.running = [line for line in box.running if line not in lines]
    box.set(*spoil(lines))
    report = box.put_back(before, UNSEEN, needs_mark=True)
    assert (box.visits, report.is_proven) == ([], False)
    assert "this awaits a decision" in str(report.undecided)


def test_an_applet_that_does_not_name_our_mark_proves_nothing():
    """Whole as it is, it may be of a journal that has nothing to do with what stands there now."""
    box = Box()
    before = box.snapshot()
    applet_on(box, undo=UNDO[:-1])
    assert not box.put_back(before, UNSEEN, needs_mark=True).is_proven
    assert box.visits == []


def test_a_line_like_ours_beside_our_applet_awaits_a_decision():
    """The mark comes before any line: with no mark there, a colleague may have entered it."""
    box = Box()
    before = box.snapshot()
    applet_on(box)
    box.set(WINDOW)
    report = box.put_back(before, UNSEEN, needs_mark=True)
    assert (box.visits, report.is_proven) == ([], False)
    assert "this awaits a decision" in str(report.undecided)
    assert WINDOW in box.running


def test_our_applet_beside_another_runs_mark_proves_nothing():
    """That run has the device now: its lines are equal to ours."""
    box = Box()
    before = box.snapshot()
    applet_on(box)
    box.set(OTHERS, WINDOW, SACK)
    report = box.put_back(before, UNSEEN, needs_mark=True)
    assert (box.visits, report.is_proven) == ([], False)
    assert "run 20261122-2 of you@there" in str(report.undecided)


def test_a_device_without_our_mark_that_is_as_it_was_is_proven():
    """It restarted, or its applet took our lines back: there is nothing to decide."""
    box = Box()
    report = box.put_back(box.snapshot(), MARKED, needs_mark=True)
    assert (report.is_proven, box.visits) == (True, [])


@pytest.mark.parametrize("line", ["ip tcp timestamp", "ip tcp window-size 99999"])
def test_a_difference_that_is_left_when_our_lines_and_our_mark_are_gone_is_reported_as_that(line):
    """There is nothing to type, also where another value stands in the place of our line."""
    box = Box()
    before = box.snapshot()
    box.set(line)
    report = box.put_back(before, MARKED, needs_mark=True)
    assert (report.not_typed, box.visits, report.proposals) == (None, [], (f"no {line}",))
    assert str(report.undecided).startswith("our lines are proven gone; ")


def test_a_device_that_takes_no_mark_is_recovered():
    """The journal has none either."""
    box, before = tuned()
    assert box.put_back(before, CHANGES, needs_mark=True).is_proven
    assert tuple(box.running) == STOCK


def test_a_device_on_which_the_run_died_before_its_mark_is_proven():
    """Nothing was typed, and nothing is shown."""
    box = Box()
    report = box.put_back(box.snapshot(), (replace(MARKED[0], shown=None), *CHANGES), needs_mark=True)
    assert (report.is_proven, box.visits) == (True, [])


def test_nothing_is_typed_by_a_doubtful_journal():
    """A copy of the folder: the run may be alive where it was taken from."""
    box, before = marked()
    report = box.put_back(before, MARKED, needs_mark=True, doubt="this journal is a copy")
    assert (box.visits, MARK in box.running) == ([], True)
    assert str(report.undecided).startswith("this journal is a copy; nothing was typed; ")


def test_a_run_does_not_type_where_another_took_its_device():
    """It restarted, and another run set its lines: they are equal to ours, and its own."""
    box = Box()
    before = box.snapshot()
    box.set(OTHERS, WINDOW, SACK)
    assert not box.put_back(before, MARKED).is_proven
    assert box.visits == []


def test_a_line_that_was_never_shown_is_not_called_gone():
    """`nobody could prove it gone` and `restored` exclude each other: the weaker holds, until it is accepted."""
    box = Box()
    before = box.snapshot()
    hidden = (replace(CHANGES[0], shown=None, is_hidden=True),)
    report = box.put_back(before, hidden)
    assert (report.is_proven, report.hidden, report.running_difference.added) == (False, (WINDOW,), ())
    assert "cannot be proven" in str(report.undecided)
    assert "proven gone" not in str(report.undecided)


def test_an_accepted_device_loses_our_mark_whatever_else_stays():
    """The operator takes what cannot be taken back; the next run is not refused by a mark of ours."""
    box, before = marked()
    box.refused = {f"no {SACK}"}
    report = box.put_back(before, MARKED, is_accepted=True)
    assert (report.left, MARK in box.running, SACK in box.running) == ((SACK,), False, True)
    assert not report.is_proven


def test_a_startup_that_changed_is_not_the_start():
    """Also where it holds no line of ours, and the running configuration is equal."""
    box, before = tuned()
    box.startup.insert(-1, "ip tcp synwait-time 5")
    report = box.put_back(before)
    assert (report.held_by, bool(report.running_difference), report.is_proven) == (None, False, False)
    assert "startup configuration" in str(report.undecided)


@pytest.mark.parametrize("settle_s", [0.5, 6.0])
def test_the_last_look_comes_once_the_device_has_settled(waited, settle_s):
    """As long after the last line as the caller says, by how late the device showed ours."""
    box, before = tuned()
    assert box.put_back(before, settle_s=settle_s).is_proven
    assert max(waited) == pytest.approx(settle_s)


def test_a_log_line_in_the_output_is_no_difference():
    """It is read again, a few times at most."""
    box, before = tuned()
    true, looks = box.running_config, []

    def look() -> str:
        looks.append(1)
        noise = "hostname r1*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console"
        return true().replace("hostname r1", noise) if len(looks) == 3 else true()

    box.running_config = look
    assert box.put_back(before).is_proven


ARCHIVE = "archive"


def test_a_pending_rollback_keeps_the_lease():
    """It was armed while our lines were in force, and puts them back when nobody confirms."""
    box, before = tuned(ARCHIVE)
    box.answers = {"show archive config rollback timer": TIMER, "show archive": ""}
    report = box.put_back(before)
    assert not report.is_proven
    assert (report.passes, report.running_difference) == (True, report.running_difference)
    assert "armed by 'bob'" in str(report.held_by)
    box.answers["show archive config rollback timer"] = NO_TIMER
    assert box.put_back(before).is_proven


def test_somebodys_lock_keeps_the_lease():
    """Who holds it may be about to roll back."""
    box, before = tuned("configuration mode exclusive auto")
    lock = "Parser Configure Lock\nUser : bob\nTTY : 2\nType : EXCLUSIVE\nState : LOCKED\nUser debug info : configure\n"
    box.answers = {"show configuration lock": lock}
    report = box.put_back(before)
    assert (report.is_proven, report.passes) == (False, True)
    assert "locked by user 'bob'" in str(report.held_by)


def test_a_startup_configuration_with_our_lines_keeps_the_lease():
    """A reload would bring them back; the hint says what to do, and nothing is saved by us."""
    box, before = tuned()
    box.startup = list(box.running)
    report = box.put_back(before)
    assert (report.is_proven, report.passes, report.startup_changed) == (False, False, True)
    assert "a reload would bring them back" in str(report.held_by)
    box.startup = list(STOCK)
    assert box.put_back(before).is_proven


@pytest.mark.parametrize(
    ("held", "is_held"), [((*STOCK[:-1], WINDOW, "end"), True), (STOCK, False)], ids=["with our lines", "without"]
)
def test_an_archive_file_that_was_made_meanwhile(held, is_held):
    """Whoever goes back to it brings our lines back, if it has any of them; files of before are none's business."""
    box = Box(ARCHIVE)
    box.answers = {
        "show archive config rollback timer": NO_TIMER,
        "show archive": " Archive #  Name\n   1        flash:old-1 <- Most Recent\n",
    }
    before = box.snapshot()
    assert before.archives == ("flash:old-1",)
    box.set(WINDOW, SACK)
    box.answers["show archive"] = "   1        flash:old-1\n   2        flash:new-2 <- Most Recent\n"
    box.answers["more flash:new-2"] = "\n".join(held)
    report = box.put_back(before)
    assert (report.held_by is not None) is is_held
    assert not is_held or "flash:new-2" in str(report.held_by)


def test_an_archive_file_that_may_not_be_read_counts_as_one_with_our_lines():
    """It was made while they were set, and nobody can see that they are not in it."""
    box = Box(ARCHIVE)
    box.answers = {"show archive config rollback timer": NO_TIMER, "show archive": " Archive #  Name\n"}
    before = box.snapshot()
    box.set(WINDOW, SACK)
    box.answers["show archive"] = "   1        flash:new-1 <- Most Recent\n"
    assert "flash:new-1" in str(box.put_back(before).held_by)


def test_an_archive_file_that_is_no_configuration_counts_as_one_with_our_lines():
    """A banner that does not end may hide them."""
    box = Box(ARCHIVE)
    box.answers = {"show archive config rollback timer": NO_TIMER, "show archive": " Archive #  Name\n"}
    before = box.snapshot()
    box.set(WINDOW, SACK)
    box.answers["show archive"] = "   1        flash:new-1 <- Most Recent\n"
    box.answers["more flash:new-1"] = f"version 17.12\nbanner motd ^C\n{WINDOW}\nend"
    assert "flash:new-1" in str(box.put_back(before).held_by)


def test_a_device_with_a_pending_rollback_is_not_taken_in_hand():
    """It was armed between the check and now."""
    box = Box(ARCHIVE)
    box.answers = {"show archive config rollback timer": TIMER, "show archive": ""}
    with pytest.raises(DeviceRefused, match="armed by 'bob'"):
        box.snapshot()


def test_a_device_with_another_runs_mark_is_not_taken_in_hand():
    """Its lines are that run's, and would be taken for the device's own."""
    box = Box("alias exec flashferry-20261122-1 you@there", WINDOW)
    with pytest.raises(DeviceRefused, match="run 20261122-1 of you@there"):
        box.snapshot()


def test_a_default_is_not_touched_and_its_opposite_keeps_the_lease():
    """We tried the default by switching it off and on: a rollback may bring that moment back, or somebody means it."""
    default = (Change(keyword="selective-ack", before=None, ours=SACK, shown=""),)
    box = Box()
    before = box.snapshot()
    assert box.put_back(before, default).is_proven
    assert box.sent == []
    box.set(f"no {SACK}")
    with pytest.raises(RestoreIncomplete, match=f"shows 'no {SACK}'"):
        box.put_back(before, default)
    assert f"no {SACK}" in box.running


def lost_at(box: Box, closing: tuple[str, ...], *, done: int) -> None:
    """Have the box lose the session in the visit that removes mark and applet, once so many of its lines were taken."""
    plain = box.configure

    def configure(lines: tuple[str, ...]) -> str:
        if set(closing) & set(lines):
            box.configure = plain  # type: ignore[method-assign]
            plain(lines[:done])
            raise DeviceUnreachable("lost")
        return plain(lines)

    box.configure = configure  # type: ignore[method-assign]


@pytest.mark.parametrize("done", [0, 1, 2], ids=["before the applet", "before the mark", "after both"])
@pytest.mark.parametrize("needs_mark", [False, True], ids=["the run goes on", "a recovery"])
def test_a_session_lost_between_the_proof_and_the_marks_removal_leaves_nothing(done, needs_mark):
    """The lines are gone by then: the next attempt takes what is left, and types nothing where there is none."""
    box, before = marked()
    box.set(APPLET)
    lost_at(box, (f"no {APPLET}",), done=done)
    with pytest.raises(DeviceUnreachable):
        box.put_back(before, ARMED)
    assert (MARK in box.running, APPLET in box.running) == (done < 2, done < 1)
    box.visits.clear()
    assert box.put_back(before, ARMED, is_again=True, needs_mark=needs_mark).is_proven
    assert tuple(box.running) == STOCK
    assert not needs_mark or bool(box.visits) == (done < 2)


def test_of_two_lines_the_one_that_is_refused_keeps_mark_and_applet_until_it_goes():
    """The other one is gone in the meantime; once the refusal is lifted the same journal ends it."""
    box, before = marked()
    box.set(APPLET)
    box.refused = {f"no {WINDOW}"}
    with pytest.raises(RestoreIncomplete, match=f"still needs 'no {WINDOW}'"):
        box.put_back(before, ARMED)
    assert (WINDOW in box.running, SACK in box.running) == (True, False)
    assert {MARK, APPLET} <= set(box.running)
    box.refused = set()
    assert box.put_back(before, ARMED, is_again=True, needs_mark=True).is_proven
    assert tuple(box.running) == STOCK


def test_a_line_that_is_back_once_the_mark_is_gone_is_taken_back_too():
    """It is read after the last line: a colleague's script, or the device itself, sets it again right after."""
    box, before = marked()
    plain = box.configure

    def configure(lines: tuple[str, ...]) -> str:
        said = plain(lines)
        if f"no {MARK.rpartition(' ')[0]}" in lines:
            box.configure = plain  # type: ignore[method-assign]
            box.set(SACK)
        return said

    box.configure = configure  # type: ignore[method-assign]
    assert box.put_back(before, MARKED).is_proven
    assert tuple(box.running) == STOCK


@pytest.mark.parametrize("beneath", [" ip tcp adjust-mss 1360", " ip address 192.0.2.9 255.255.255.0"])
def test_what_our_undoing_changed_beneath_an_interface_keeps_the_lease(beneath):
    """No line of the first column: the whole configuration is compared."""
    box = Odd("interface Loopback7", comes={f"no {SACK}": beneath}, goes={})
    before = box.snapshot()
    box.configure((SACK,))
    report = box.put_back(before, (CHANGES[1],))
    assert not report.is_proven
    assert "differs from the start" in str(report.undecided)


def test_a_hidden_line_is_the_weaker_word_also_beside_lines_that_are_proven_gone():
    """One sentence: what cannot be proven, and not that our lines are proven gone."""
    box, before = marked()
    changes = (*MARKED, Change(keyword="timestamp", before=None, ours="ip tcp timestamp", is_hidden=True))
    report = box.put_back(before, changes)
    assert (report.is_proven, report.hidden) == (False, ("ip tcp timestamp",))
    assert "cannot be proven" in str(report.undecided)
    assert "proven gone" not in str(report.undecided)
    assert box.put_back(before, changes, is_accepted=True).hidden == ("ip tcp timestamp",)
