"""A device that is made to serve: order of lines, proof, refusals, and the way back whatever came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import pytest

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.session import DeviceSession
from tasks import neighbours, tune
from tasks.dead_man import undo_lines
from tasks.neighbours import ServicePlan, entries_for, permit, service_plan, set_service
from tasks.read_config import read_running, read_startup
from tasks.restore_plan import plan_restore
from tasks.run_marker import mark_line
from tasks.snapshot import holds_ours
from tasks.tcp_config import Change
from tests.patience import PATIENCE_S

PATH = "bootflash:image.bin"
MARK = mark_line("20260101-000000-aaaa", "ops@here")
INVALID = "% Invalid input detected at '^' marker."


class Router:
    """Takes serving lines as IOS does, and shows lists as flat lines or as a section."""

    name = "r1"
    platform = IOS_XE

    def __init__(self, *lines: str, is_section: bool = False, refuses: Callable[[str], bool] = lambda _: False) -> None:
        self.lines = list(lines)
        self.sent: list[str] = []
        self.saved: tuple[str, ...] = ()
        self.shown: Callable[[list[str]], Iterable[str]] = lambda lines: lines
        self._is_section, self._refuses = is_section, refuses

    def configure(self, lines: tuple[str, ...]) -> str:
        out = []
        for line in lines:
            self.sent.append(line)
            out.append(f"{line}\nr1(config)#")
            if self._refuses(line):
                out.append(INVALID)
            elif line.startswith("no access-list "):
                self.lines = [one for one in self.lines if not one.startswith(f"{line.removeprefix('no ')} ")]
            elif line.startswith("no "):
                start = line.removeprefix("no ")
                self.lines = [one for one in self.lines if not f"{one} ".startswith(f"{start} ")]
            else:
                self.lines.append(line.replace(" host ", " "))
        return "\n".join(out)

    def running_config(self) -> str:
        lines = list(self.shown(self.lines))
        shown = [one for one in lines if not self._is_section or not one.startswith("access-list ")]
        if self._is_section and len(shown) < len(lines):
            rows = [one.split(maxsplit=2) for one in lines if one.startswith("access-list ")]
            shown += [f"ip access-list standard {rows[0][1]}", *(f" {at}0 {row[2]}" for at, row in enumerate(rows, 1))]
        return "\n".join(["version 17.12", "hostname r1", *shown, "end"])

    def startup_config(self) -> str:
        return "\n".join(["version 17.12", *self.saved, "end"])

    def ask(self, command: str, *, limit_s: float = PATIENCE_S) -> str:
        raise AssertionError(command, limit_s)


def session(router: Router) -> DeviceSession:
    return cast("DeviceSession", router)


def planned(router: Router, *addresses: str) -> ServicePlan:
    on = session(router)
    return service_plan(on, read_running(on), read_startup(on), PATH, MARK, addresses or ("10.0.0.2",))


def let(router: Router, plan: ServicePlan, address: str) -> str:
    on = session(router)
    return permit(on, plan, entries_for(on, plan.number, (address,))).reason


def undone(router: Router, changes: tuple[Change, ...], *, is_sure: bool = False) -> tuple[str, ...]:
    seen = read_running(session(router))
    plan = plan_restore(changes, seen.tcp, others=seen.lines, is_sure=is_sure)
    return (*plan.commands, *plan.closing)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (neighbours, tune):
        monkeypatch.setattr(module, "LATE_PAUSES_S", (0.0,))


@pytest.mark.parametrize("is_section", [False, True])
def test_it_serves_behind_its_list_and_is_undone_in_front_of_it(is_section):
    """A list that is not there would permit everybody: it is typed first, and taken back last, before the mark."""
    router = Router(is_section=is_section)
    before = router.running_config()
    plan = planned(router, "10.0.0.2", "10.0.0.3")
    report = set_service(session(router), plan)
    assert report.reason == ""
    assert [line.split()[0] for line in router.sent] == ["alias", *["access-list"] * 3, "tftp-server"]
    assert router.sent[-1] == "tftp-server bootflash:image.bin 99"
    commands = undone(router, report.changes)
    assert [line.split()[1] for line in commands] == ["tftp-server", "access-list", "alias"]
    router.configure(commands)
    assert router.running_config() == before
    assert undone(router, report.changes) == ()


def test_the_applet_undoes_in_the_same_order():
    """It sends what the restore would."""
    plan = planned(Router())
    assert [line.split()[1] for line in undo_lines(plan.changes)] == ["tftp-server", "access-list", "alias"]


@pytest.mark.parametrize("is_section", [False, True])
def test_lines_that_nobody_read_back_are_undone(is_section):
    """The run was killed right behind typing them: the journal has them without how they are shown."""
    router = Router(is_section=is_section)
    plan = planned(router)
    set_service(session(router), plan)
    assert all(change.shown is None for change in plan.changes)
    assert len(undone(router, plan.changes)) == 3


def test_a_number_that_somebody_else_took_meanwhile_is_left_alone():
    """Behind a restart, say: a list of that number that is not ours stays."""
    router = Router()
    plan = planned(router)
    router.lines = ["access-list 99 permit 192.0.2.1"]
    assert undone(router, plan.changes) == ()


def test_further_addresses_are_let_in_where_the_lines_are_still_there():
    """On a device that restarted a list of one line would be all that is left: it gets none."""
    router = Router()
    plan = planned(router)
    set_service(session(router), plan)
    assert let(router, plan, "10.0.0.3") == ""
    assert "access-list 99 permit 10.0.0.3" in router.lines
    router.lines = []
    assert "gone" in let(router, plan, "10.0.0.4")
    assert router.lines == []


@pytest.mark.parametrize("refused", ["tftp-server", "access-list 99 permit", "access-list 99 remark"])
def test_a_device_that_does_not_take_a_line_serves_nobody(refused):
    """All of it is taken back at once, and proven gone."""
    router = Router(refuses=lambda line: line.startswith(refused))
    before = router.running_config()
    report = set_service(session(router), planned(router))
    assert "does not take" in report.reason
    assert (report.changes, router.running_config()) == ((), before)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("tftp-server flash:image.bin",), "it serves that file already"),
        (tuple(f"access-list {number} permit any" for number in range(1, 100)), "no number is left"),
    ],
)
def test_a_device_that_had_better_not_serve(lines, words):
    """It says why; nothing is typed."""
    router = Router(*lines)
    assert words in planned(router).reason
    assert router.sent == []


@pytest.mark.parametrize("saved", ["access-list 99 permit 10.0.0.9", "ip access-list standard 99"])
def test_a_number_of_the_startup_configuration_is_not_free_either(saved):
    """Behind a restart somebody's list would stand there, and be taken for ours."""
    router = Router()
    router.saved = (saved,)
    assert planned(router).number == 98


def test_a_mark_that_stands_is_not_set_again():
    """It is the run's own, with its lines for the copy."""
    assert planned(Router(MARK)).changes[0].ours.startswith("access-list")


def test_a_startup_configuration_that_holds_them_is_a_threat():
    """Somebody saved while it served."""
    router = Router()
    plan = planned(router)
    assert not holds_ours(plan.changes, router.running_config(), IOS_XE)
    set_service(session(router), plan)
    router.lines.remove(MARK)
    assert holds_ours(plan.changes, router.running_config(), IOS_XE)


THEIRS = ("access-list 99 permit 192.0.2.0 0.0.0.255", "access-list 99 deny any log")


def states(router: Router, changes: tuple[Change, ...]):
    seen = read_running(session(router))
    return plan_restore(changes, seen.tcp, others=seen.lines)


@pytest.mark.parametrize("is_section", [False, True])
def test_a_list_of_that_number_that_is_somebody_elses_is_never_taken_back(is_section):
    """The device restarted, and somebody made a list: nothing of ours is there, in whatever form it is shown."""
    router = Router(is_section=is_section)
    report = set_service(session(router), planned(router))
    router.lines = list(THEIRS)
    plan = states(router, report.changes)
    assert (plan.commands, len(plan.foreign), plan.uncertain) == ((), 1, ())
    assert not holds_ours(report.changes, router.running_config(), IOS_XE)


@pytest.mark.parametrize("is_section", [False, True])
def test_a_list_with_somebodys_entries_beside_ours_is_told_and_not_taken_back(is_section):
    """What takes back a list takes all of it; the device stays in the journal, until somebody has looked."""
    router = Router(is_section=is_section)
    report = set_service(session(router), planned(router))
    router.lines.append(THEIRS[0])
    plan = states(router, report.changes)
    assert not any("access-list" in line for line in plan.commands)
    assert [one.present for one in plan.uncertain] == [THEIRS[0]]
    assert holds_ours(report.changes, router.running_config(), IOS_XE)


@pytest.mark.parametrize("is_section", [False, True])
def test_a_single_host_that_somebody_let_in_beside_ours_stays_with_the_list(is_section):
    """It is told, and nothing of the list is taken back; the file is served to nobody any more."""
    router = Router(is_section=is_section)
    plan = planned(router)
    report = set_service(session(router), plan)
    router.lines.append("access-list 99 permit 192.0.2.77")
    found = states(router, report.changes)
    assert [line.split()[1] for line in found.commands] == ["tftp-server"]
    assert [one.present for one in found.uncertain] == ["access-list 99 permit 192.0.2.77"]
    assert "others are among them" in let(router, plan, "10.0.0.3")
    # The journal of an early release has no entries: each single host counts as ours then.
    early = tuple(change for change in report.changes if not change.is_entry)
    assert (len(states(router, early).commands), states(router, early).uncertain) == (2, ())


def test_who_is_let_in_later_is_ours_as_well():
    """The journal has the entries of both; the whole list is taken back."""
    router = Router()
    before = router.running_config()
    plan = planned(router)
    set_service(session(router), plan)
    entries = entries_for(session(router), plan.number, ("10.0.0.3",))
    report = permit(session(router), plan, entries)
    assert [(one.ours, one.shown) for one in report.changes] == [
        ("access-list 99 permit host 10.0.0.3", "access-list 99 permit 10.0.0.3")
    ]
    assert len(states(router, plan.changes).uncertain) == 1
    router.configure(undone(router, (*plan.changes, *report.changes)))
    assert router.running_config() == before


def test_who_is_let_in_already_is_not_typed_again():
    """A child that comes back; the lines are looked at all the same."""
    router = Router()
    plan = planned(router)
    set_service(session(router), plan)
    sent = len(router.sent)
    assert permit(session(router), plan, ()).reason == ""
    router.lines = []
    assert "gone" in permit(session(router), plan, ()).reason
    assert len(router.sent) == sent


@pytest.mark.parametrize("is_section", [False, True])
def test_a_list_is_ours_in_whatever_order_it_is_shown(is_section):
    """Some releases show hosts in the order of their own; the remark then stands behind them."""
    router = Router(is_section=is_section)
    router.shown = reversed
    before = router.running_config()
    report = set_service(session(router), planned(router, "10.0.0.2", "10.0.0.3"))
    assert report.reason == ""
    router.configure(undone(router, report.changes))
    assert router.running_config() == before


def test_a_number_that_was_taken_between_look_and_typing_gets_nothing():
    """An applet is armed in between, which takes seconds."""
    router = Router()
    plan = planned(router)
    router.lines = list(THEIRS)
    report = set_service(session(router), plan)
    assert "meanwhile" in report.reason
    assert (report.changes, router.sent, router.lines) == ((), [], list(THEIRS))


def test_a_number_that_is_taken_while_we_type_keeps_its_list_and_the_journal_its_device():
    """Nobody can lock it; what the moment brought is not undone with somebody's lines, and not forgotten."""
    router = Router()
    plan = planned(router)

    def meanwhile(line: str) -> bool:
        router.lines += THEIRS if line.startswith("access-list") and not set(THEIRS) & set(router.lines) else ()
        return False

    router._refuses = meanwhile
    report = set_service(session(router), plan)
    assert "does not show" in report.reason
    assert set(THEIRS) <= set(router.lines)
    assert report.changes == plan.changes
    assert [one.keyword for one in states(router, report.changes).uncertain] == ["access list 99"]
    assert not any(line.startswith("tftp-server") for line in router.lines)


def test_a_file_line_that_is_shown_in_other_words_is_taken_back_at_once():
    """It serves nobody then; and nothing of it is left because it does not look like ours."""
    router = Router()
    router.shown = lambda lines: [f"{one} alias x" if one.startswith("tftp-server") else one for one in lines]
    before = router.running_config()
    report = set_service(session(router), planned(router))
    assert "does not show" in report.reason
    assert (report.changes, router.running_config()) == ((), before)


def test_lines_that_somebody_saved_before_they_were_taken_back_are_not_forgotten():
    """The startup configuration holds them: the restore has to look, and to say so."""
    router = Router(refuses=lambda line: line.startswith("tftp-server"))
    plan = planned(router)
    router.saved = ("access-list 99 remark flashferry-20260101-000000-aaaa",)
    report = set_service(session(router), plan)
    assert report.changes == plan.changes
    assert undone(router, report.changes) == ()


def test_a_device_that_another_controller_has_in_hand_serves_nobody():
    """Its mark stands there; ours beside it would tell a third one the wrong name."""
    router = Router(mark_line("20260101-000000-bbbb", "ops@there"))
    assert "20260101-000000-bbbb of ops@there" in planned(router).reason
    router = Router()
    plan = planned(router)
    router.lines.append(mark_line("20260101-000000-bbbb", "ops@there"))
    assert "holds this device" in set_service(session(router), plan).reason
    assert router.sent == []
