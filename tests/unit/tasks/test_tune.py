"""Setting the lines: what was refused, what is not shown, and stepping down to a smaller window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, OutputNotUnderstood
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from flashferry.transports import USUAL
from tasks import tcp_config
from tasks import tune as tune_step
from tasks.read_config import fingerprint
from tasks.run_marker import SHOW_OUR_LINES
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TcpLines, TunePlan
from tasks.tune import apply_plan, reapply, tune, without_scaling

plan_tune = partial(tcp_config.plan_tune, platform=IOS_XE, transport=USUAL)

Unless = Callable[[Callable[[str], str]], bool]

INVALID = "% Invalid input detected at '^' marker."


class Router:
    """Takes configuration lines as IOS does, but for those that a rule refuses or ignores."""

    name = "r1"
    platform = IOS_XE

    def __init__(
        self,
        *,
        refuses: Callable[[str], bool] = lambda line: False,
        ignores: Callable[[str], bool] = lambda line: False,
    ) -> None:
        self.lines: dict[str, str] = {}
        self.saved: tuple[str, ...] = ()
        self.sent: list[tuple[str, ...]] = []
        self._refuses, self._ignores = refuses, ignores

    def configure(self, lines: tuple[str, ...], *, unless: Unless | None = None) -> str:
        if unless is not None and unless(self.shows_there):
            return ""
        self.sent.append(lines)
        out = ["Enter configuration commands, one per line.  End with CNTL/Z."]
        for line in lines:
            out.append(f"r1(config)#{line}")
            if self._refuses(line):
                out += ["                       ^", INVALID, ""]
            elif line.startswith("no "):
                self.lines.pop(line.split()[3], None)
                self.lines.pop(line.split()[2], None)
            elif not self._ignores(line):
                self.lines[line.split()[2]] = line
        return "\n".join([*out, "r1(config)#end", "r1#"])

    def shows_there(self, command: str) -> str:
        assert command == f"do {SHOW_OUR_LINES}"
        return "\n".join(self.lines.values())

    def running_config(self) -> str:
        return "\n".join(["version 17.12", *self.lines.values(), "end"])

    def startup_config(self) -> str:
        return "\n".join(["version 17.12", *self.saved, "end"])

    @property
    def session(self) -> DeviceSession:
        return cast("DeviceSession", self)


def window_above(limit_bytes: int) -> Callable[[str], bool]:
    return lambda line: "window-size" in line and int(line.split()[-1]) > limit_bytes


def plan(window_bytes: int = 1_250_000, *, may_back_off: bool = True, extras: tuple[str, ...] = ()) -> TunePlan:
    return plan_tune(TcpLines(lines=()), window_bytes=window_bytes, extras=extras, may_back_off=may_back_off)


@pytest.mark.parametrize(
    ("limit_bytes", "taken"), [(2_000_000, 1_250_000), (700_000, 625_000), (100_000, 78_125), (65_535, 65_535)]
)
def test_a_window_is_halved_until_the_device_takes_it(limit_bytes, taken):
    """The largest step that it takes is in force, and every step was remembered before it was sent."""
    router = Router(refuses=window_above(limit_bytes))
    remembered: list[tuple[Change, ...]] = []
    report = apply_plan(router.session, plan(), remember=remembered.append)
    assert report.running.window_bytes == taken
    assert report.not_shown == ()
    *steps, last = remembered
    assert [changes[0].ours for changes in steps] == [lines[0] for lines in router.sent[1:]]
    assert [change.shown for change in last] == [f"ip tcp window-size {taken}", "ip tcp selective-ack"]
    assert all(line.endswith(INVALID) for line in report.refused)
    assert len(report.refused) == len(steps)


def test_a_window_that_was_asked_for_is_not_made_smaller():
    """The operator's own value is taken or told, never replaced."""
    router = Router(refuses=window_above(700_000))
    with pytest.raises(DeviceRefused, match=r"'ip tcp window-size 1250000': % Invalid input"):
        apply_plan(router.session, plan(may_back_off=False))
    assert len(router.sent) == 1


def test_a_device_that_takes_no_window_at_all_is_told():
    """Where even 65535 is refused the step fails and names it; the other lines are left to the restore."""
    router = Router(refuses=window_above(0))
    with pytest.raises(DeviceRefused, match="window-size 65535"):
        apply_plan(router.session, plan())
    assert router.lines == {"selective-ack": "ip tcp selective-ack"}


def test_a_window_before_that_is_larger_than_the_next_step_stays():
    """Stepping down ends at what the device has already."""
    router = Router(refuses=window_above(500_000))
    router.lines["window-size"] = "ip tcp window-size 400000"
    wanted = plan_tune(TcpLines(lines=("ip tcp window-size 400000",)), window_bytes=700_000, may_back_off=True)
    remembered: list[tuple[Change, ...]] = []
    report = apply_plan(router.session, wanted, remember=remembered.append)
    assert report.running.window_bytes == 400_000
    assert [[change.keyword for change in changes] for changes in remembered] == [["selective-ack"]] * 2


def test_an_extra_that_is_refused_is_told_with_the_way_out():
    """The sentence names the very line that was refused, not all of them."""
    router = Router(refuses=lambda line: "timestamp" in line)
    with pytest.raises(DeviceRefused, match=r"does not take 'ip tcp timestamp'") as caught:
        apply_plan(router.session, plan(extras=("timestamps",)))
    assert caught.value.hint == "Stage this device without --extra timestamps"


def test_a_refusal_that_belongs_to_no_line_is_never_lost():
    """A transcript without echoes: what is not there afterwards was refused, whatever line the words stand at."""
    router = Router(refuses=lambda line: "selective-ack" in line)
    with_echoes = router.configure
    router.configure = lambda lines: "\n".join(  # type: ignore[method-assign]
        text for text in with_echoes(lines).splitlines() if "(config)#" not in text
    )
    with pytest.raises(DeviceRefused, match="does not take 'ip tcp selective-ack'"):
        apply_plan(router.session, plan())


def test_a_line_that_is_never_shown_is_taken_back_at_once(monkeypatch):
    """Nobody could tell later whether it is gone; the window goes with it, and the device is refused."""
    pauses: list[float] = []
    monkeypatch.setattr("tasks.tune.time.sleep", pauses.append)
    router = Router(ignores=lambda line: "selective-ack" in line)
    with pytest.raises(DeviceRefused, match=r"accepts 'ip tcp selective-ack' without an error and does not show it"):
        apply_plan(router.session, plan())
    assert router.lines == {}
    assert router.sent[-2:] == [("no ip tcp selective-ack",), ("no ip tcp window-size 1250000",)]
    assert len(pauses) == 1, "the window is shown, so the device is not late by much"


def test_a_line_that_is_never_shown_stays_in_the_journal_as_such(monkeypatch):
    """It was taken back, and nothing shows that it is gone: the restore must not call that proven."""
    monkeypatch.setattr("tasks.tune.time.sleep", lambda seconds: None)
    router = Router(ignores=lambda line: "selective-ack" in line)
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused):
        apply_plan(router.session, plan(), remember=remembered.append)
    assert [(one.keyword, one.is_hidden) for one in remembered[-1]] == [("window-size", False), ("selective-ack", True)]


def test_a_session_lost_while_an_unseen_line_is_taken_back_leaves_it_as_unseen(monkeypatch):
    """The device never showed it: that it is not shown at the restore does not prove that it is gone."""
    monkeypatch.setattr("tasks.tune.time.sleep", lambda seconds: None)
    router = Router(ignores=lambda line: "selective-ack" in line)
    plain = router.configure

    def lost_at_the_undoing(lines: tuple[str, ...], **rest: Unless) -> str:
        if lines == ("no ip tcp selective-ack",):
            raise DeviceUnreachable("lost")
        return plain(lines, **rest)

    router.configure = lost_at_the_undoing  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceUnreachable):
        apply_plan(router.session, plan(), remember=remembered.append)
    assert [(one.keyword, one.is_hidden) for one in remembered[-1]] == [("window-size", False), ("selective-ack", True)]


@pytest.mark.parametrize("again", [reapply, without_scaling])
def test_a_line_that_was_never_shown_is_not_forgotten_for_others(again):
    """Nothing more is set: the journal goes on to have it, and the restore does not call it gone."""
    router = Router()
    window, *others = plan().changes
    held = (window, *(replace(one, is_hidden=True) for one in others))
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused, match="'ip tcp selective-ack' was accepted without an error and is not shown"):
        again(router.session, held, remember=remembered.append)
    assert (router.sent, remembered) == ([], [])


def test_a_line_that_is_shown_late_is_waited_for(monkeypatch):
    """A configuration that is some seconds behind shows our lines in the end; how late it was is told."""
    now = [0.0]
    router = Router()
    shown = [[], [], []]
    monkeypatch.setattr("tasks.tune.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr("tasks.tune.time.monotonic", lambda: now[0])
    true = router.running_config
    router.running_config = lambda: (  # type: ignore[method-assign]
        "version 17.12\nend" if shown and shown.pop() == [] else true()
    )
    report = apply_plan(router.session, plan())
    assert report.running.window_bytes == 1_250_000
    assert report.late_s == 3.5
    assert report.not_shown == ()


def test_a_default_that_is_not_shown_needs_no_line_of_ours(monkeypatch):
    """`no` of it is a line there, so it is on by itself: it is switched on again, and forgotten."""
    monkeypatch.setattr("tasks.tune.time.sleep", lambda seconds: None)
    router = Router(ignores=lambda line: line == "ip tcp selective-ack")
    plain = router.configure

    def configure(lines: tuple[str, ...]) -> str:
        said = plain(lines)
        for line in lines:
            if line == "no ip tcp selective-ack":
                router.lines["selective-ack"] = line
            elif line == "ip tcp selective-ack":
                router.lines.pop("selective-ack", None)
        return said

    router.configure = configure  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    report = apply_plan(router.session, plan(), remember=remembered.append)
    assert router.lines == {"window-size": "ip tcp window-size 1250000"}
    assert report.not_shown == ("ip tcp selective-ack",)
    assert [(change.keyword, change.shown) for change in remembered[-1]] == [
        ("window-size", "ip tcp window-size 1250000"),
        ("selective-ack", ""),
    ]


@pytest.mark.parametrize(
    "shown", ["ip tcp window-size 65535", "ip tcp window-size 1249280", "ip tcp window-size 125000"]
)
def test_a_window_in_other_words_is_tied_to_ours(shown):
    """Clamped, rounded, or with a digit lost: what the device made of it is on disk, and told."""
    router = Router()
    plain = router.configure

    def configure(lines: tuple[str, ...]) -> str:
        said = plain(lines)
        if "window-size" in router.lines:
            router.lines["window-size"] = shown
        return said

    router.configure = configure  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    report = apply_plan(router.session, plan(), remember=remembered.append)
    assert remembered[-1][0].shown == shown
    assert report.other_words == (f"'ip tcp window-size 1250000' is shown as '{shown}'",)


def test_a_line_in_words_of_another_family_is_tied_by_what_is_new():
    """The whole configuration tells which line came with ours."""
    router = Router(ignores=lambda line: "selective-ack" in line)
    before = Snapshot(
        running=TcpLines(lines=()),
        startup=TcpLines(lines=()),
        running_fingerprint=fingerprint(router.running_config(), salt="s"),
        salt="s",
    )
    plain = router.configure

    def configure(lines: tuple[str, ...], **rest: Unless) -> str:
        said = plain(lines, **rest)
        if "ip tcp selective-ack" in lines:
            router.lines["sack"] = "tcp option selective-ack on"
        return said

    router.configure = configure  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    apply_plan(router.session, plan(), before=before, remember=remembered.append)
    assert remembered[-1][1].shown == "tcp option selective-ack on"


MARK = "alias exec flashferry-20261122-1 me@here"
OTHERS = "alias exec flashferry-20261122-2 you@there"


def marked() -> TunePlan:
    return plan_tune(TcpLines(lines=()), window_bytes=1_250_000, mark=MARK)


def test_a_device_that_takes_no_mark_is_tuned_without_one():
    """AAA may allow the lines that matter only; what is forgotten is taken back to be sure."""
    router = Router(refuses=lambda line: line.startswith("alias"))
    remembered: list[tuple[Change, ...]] = []
    report = apply_plan(router.session, marked(), remember=remembered.append)
    assert not report.is_marked
    assert [change.keyword for change in remembered[-1]] == ["window-size", "selective-ack"]
    assert ("no alias exec flashferry-20261122-1",) in router.sent


def taken(router: Router) -> Snapshot:
    return Snapshot(
        running=TcpLines(lines=()),
        startup=TcpLines(lines=()),
        running_fingerprint=fingerprint(router.running_config(), salt="s"),
        salt="s",
    )


@pytest.mark.parametrize("line", ["ip tcp window-size 30000", OTHERS], ids=["a colleague's window", "another run"])
def test_what_was_changed_since_the_snapshot_is_not_overwritten(line):
    """Read in configuration mode right before our first line: nothing is sent, and nothing is to be taken back."""
    router = Router()
    before = taken(router)
    router.lines["window-size"] = line
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused, match="was changed since the snapshot"):
        apply_plan(router.session, marked(), before=before, remember=remembered.append)
    assert (router.sent, remembered, router.lines) == ([], [()], {"window-size": line})


def test_a_colleagues_window_that_comes_between_two_tries_is_not_overwritten():
    """A smaller window replaces what is there as the first one does; what was set of the plan stays in the journal."""
    router = Router(refuses=window_above(700_000))
    before = taken(router)
    readings = router.running_config

    def comes_after_the_reading() -> str:
        text = readings()
        if router.sent:
            router.lines["window-size"] = "ip tcp window-size 30000"
        return text

    router.running_config = comes_after_the_reading  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused, match="no smaller window was set"):
        apply_plan(router.session, plan(), before=before, remember=remembered.append)
    assert (len(router.sent), router.lines["window-size"]) == (1, "ip tcp window-size 30000")
    assert [one.ours for one in remembered[-1]] == ["ip tcp window-size 625000", "ip tcp selective-ack"]


def test_a_colleagues_line_after_a_restart_is_not_overwritten():
    """Our lines are set again: what stands there by then is read once more in the same session."""
    router = Router()
    readings = router.running_config

    def comes_after_the_reading() -> str:
        text = readings()
        router.lines["selective-ack"] = "no ip tcp selective-ack"
        return text

    router.running_config = comes_after_the_reading  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused, match="found 'no ip tcp selective-ack'"):
        reapply(router.session, marked().changes, remember=remembered.append)
    assert (router.sent, remembered) == ([], [()])


def test_an_edit_in_a_submode_is_none_of_our_lines():
    """`ip tcp adjust-mss` of an interface is shown by the filter, and stands where no line of ours goes."""
    router = Router()
    before = taken(router)
    router.shows_there = lambda command: " ip tcp adjust-mss 1360\n ip tcp window-size 9"  # type: ignore[method-assign]
    assert apply_plan(router.session, marked(), before=before).running.window_bytes == 1_250_000
    assert len(router.sent) == 1


def test_a_line_in_a_banner_does_not_count_as_a_change():
    """The filtered reading has no sections; the whole configuration tells."""
    router = Router()
    before = taken(router)
    router.shows_there = lambda command: "ip tcp window-size 30000"  # type: ignore[method-assign]
    assert apply_plan(router.session, marked(), before=before).running.window_bytes == 1_250_000


def test_a_device_that_gives_no_command_in_configuration_mode_is_tuned():
    """AAA may not allow `do`: then the snapshot is what is known."""
    router = Router()
    before = taken(router)
    router.shows_there = lambda command: INVALID  # type: ignore[method-assign]
    assert apply_plan(router.session, marked(), before=before).running.window_bytes == 1_250_000


def test_a_mark_of_which_the_device_keeps_the_beginning_is_our_own():
    """Its own mark is no other run's: it is tied to what the device shows, by which it is taken back."""
    mark = "alias exec flashferry-20261122-101112-abcd me@here"
    router = Router()
    plain = router.configure

    def configure(lines: tuple[str, ...], **rest: Unless) -> str:
        said = plain(lines, **rest)
        if mark in lines:
            router.lines.pop("flashferry-20261122-101112-abcd")
            router.lines["short"] = "alias exec flashferry-20261122-1011 me@here"
        return said

    router.configure = configure  # type: ignore[method-assign]
    remembered: list[tuple[Change, ...]] = []
    wanted = plan_tune(TcpLines(lines=()), window_bytes=1_250_000, mark=mark)
    assert apply_plan(router.session, wanted, remember=remembered.append).is_marked
    assert remembered[-1][0].shown == router.lines["short"]
    assert remembered[-1][0].off == "no alias exec flashferry-20261122-1011"


def test_a_mark_that_is_not_shown_is_taken_back_and_forgotten(monkeypatch):
    """It would be no mark, and nobody could prove it gone."""
    monkeypatch.setattr("tasks.tune.time.sleep", lambda seconds: None)
    router = Router(ignores=lambda line: line.startswith("alias"))
    assert not apply_plan(router.session, marked()).is_marked
    assert router.sent[-1] == ("no alias exec flashferry-20261122-1",)


def test_who_finds_another_mark_beside_its_own_does_not_go_on():
    """Two controllers started in the same moment: the restore takes the lines back, and the mark once they are gone."""
    router = Router()
    router.lines["other"] = OTHERS
    with pytest.raises(DeviceRefused, match=r"run 20261122-2 of you@there holds this device"):
        apply_plan(router.session, marked())
    assert router.lines["flashferry-20261122-1"] == MARK
    assert len(router.sent) == 1


def test_a_refusal_that_is_not_the_marks_does_not_have_it_forgotten():
    """Without echoes any words are put down to the first line, which is the mark: it is there all the same."""
    router = Router(refuses=lambda line: "selective-ack" in line)
    with_echoes = router.configure
    router.configure = lambda lines: "\n".join(  # type: ignore[method-assign]
        text for text in with_echoes(lines).splitlines() if "(config)#" not in text
    )
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused):
        apply_plan(router.session, marked(), remember=remembered.append)
    assert remembered == []
    assert "flashferry-20261122-1" in router.lines


def test_a_line_that_could_not_be_put_back_is_not_touched():
    """Words that we never type are refused before anything is sent."""
    router = Router()
    strange = TcpLines(lines=("ip tcp window-size 4128; reload",))
    with pytest.raises(DeviceRefused, match="expected a line for 'window-size' that can be put back"):
        apply_plan(router.session, plan_tune(strange, window_bytes=1_250_000))
    assert router.sent == []


def test_somebody_elses_window_ends_the_stepping_down():
    """A line that is neither ours nor as before is nothing to try smaller windows on."""
    router = Router(refuses=window_above(500_000))
    router.lines["window-size"] = "ip tcp window-size 99999"
    with pytest.raises(DeviceRefused, match="window-size 1250000"):
        apply_plan(router.session, plan())
    assert len(router.sent) == 1


def test_a_window_that_the_device_failed_with_is_taken_back_first():
    """At each moment the device holds what was remembered or what was before: a crash leaves nothing behind."""
    router = Router()
    tuned = plan(may_back_off=True)
    apply_plan(router.session, tuned)
    held: list[str | None] = []
    remembered: list[tuple[Change, ...]] = []

    def remember(changes: tuple[Change, ...]) -> None:
        held.append(router.lines.get("window-size"))
        remembered.append(changes)

    report = without_scaling(router.session, tuned.changes, remember=remember)
    assert held == [None, "ip tcp window-size 65535"]
    assert report.running.window_bytes == 65_535
    assert remembered[0][0].ours == "ip tcp window-size 65535"


def test_a_window_that_cannot_be_taken_back_is_not_forgotten():
    """Somebody else's line stays, and so does the journal's entry."""
    router = Router()
    tuned = plan(may_back_off=True)
    apply_plan(router.session, tuned)
    router.lines["window-size"] = "ip tcp window-size 99999"
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused, match="could not be taken back"):
        without_scaling(router.session, tuned.changes, remember=remembered.append)
    assert remembered == []
    assert router.lines["window-size"] == "ip tcp window-size 99999"


def test_a_window_that_somebody_saved_is_not_forgotten():
    """A reload would bring it back: the journal goes on to have it, so that the restore sees it."""
    router = Router()
    tuned = plan(may_back_off=True)
    apply_plan(router.session, tuned)
    router.saved = ("ip tcp window-size 1250000",)
    remembered: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceRefused, match="the configuration was saved while our lines were set"):
        without_scaling(router.session, tuned.changes, remember=remembered.append)
    assert remembered == []


def test_which_line_was_refused():
    """A refusal belongs to the line whose echo stands before it."""
    lines = ("ip tcp window-size 1250000", "ip tcp selective-ack", "ip tcp timestamp")
    text = f"r1(config)#{lines[0]}\nr1(config)#{lines[1]}\nCommand authorization failed.\n\nr1(config)#{lines[2]}\n"
    assert refusals(text, lines) == {lines[1]: "Command authorization failed."}
    assert refusals("Command authorization failed.\n", lines) == {lines[0]: "Command authorization failed."}


@pytest.mark.parametrize(("typed", "remembered"), [(0, [()]), (1, [])])
def test_a_tune_that_typed_no_line_is_no_tune(monkeypatch, typed, remembered):
    """Configuration mode was not reached: nothing is left to undo. One line typed is enough for the opposite."""
    session = SimpleNamespace(name="r1", lines_sent=5)

    def configure(lines):
        session.lines_sent += typed
        raise OutputNotUnderstood("no prompt")

    session.configure = configure
    monkeypatch.setattr(tune_step, "session_of", lambda task: session)
    kept: list[tuple[Change, ...]] = []
    plan = plan_tune(TcpLines(lines=()), window_bytes=1_250_000, may_back_off=False)
    with pytest.raises(OutputNotUnderstood):
        tune(cast(Any, SimpleNamespace(host=None)), plan, remember=kept.append)
    assert kept == remembered


def test_a_tune_without_a_session_is_no_tune(monkeypatch):
    """The login before it failed: no line of ours can be there."""

    def no_session(task):
        raise DeviceUnreachable("down")

    monkeypatch.setattr(tune_step, "session_of", no_session)
    kept: list[tuple[Change, ...]] = []
    with pytest.raises(DeviceUnreachable):
        tune(cast(Any, SimpleNamespace(host=None)), TunePlan(changes=()), remember=kept.append)
    assert kept == [()]
