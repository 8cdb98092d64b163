"""From one transport's lines to another's: what both need stays, the rest goes first, the journal knows all of it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.run.device import tune
from flashferry.run.device.tune import apply_other_plan
from flashferry.transports import transport_named
from tasks import tcp_config
from tasks.read_config import fingerprint
from tasks.restore_plan import plan_restore
from tasks.run_marker import mark_line
from tasks.snapshot import holds_ours
from tasks.tcp_config import Change, TunePlan, tcp_lines
from tasks.tune import apply_plan

MARK = mark_line("RUN1", "me@here")
FTP, HTTP = transport_named("ftp"), transport_named("http")
WINDOW, SACK = "ip tcp window-size 1250000", "ip tcp selective-ack"
FTP_SOURCE, HTTP_SOURCE = "ip ftp source-interface Loopback0", "ip http client source-interface Loopback0"

plan_tune = partial(
    tcp_config.plan_tune, platform=IOS_XE, window_bytes=1_250_000, source_interface="Loopback0", mark=MARK
)


class Router:
    """Keeps configuration lines as they are typed, by all but their value; may lose the session at a line."""

    name = "r1"
    platform = IOS_XE

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.log: list[str] = []
        self.lost_at: str | None = None
        self.keeps: frozenset[str] = frozenset()
        self.startup: list[str] = []

    def configure(self, lines, *, unless=None):
        if unless is not None and unless(lambda command: self.running_config()):
            return ""
        for line in lines:
            if line == self.lost_at:
                raise DeviceUnreachable("lost")
            self.log.append(line)
            if line in self.keeps:
                continue
            if line.startswith("no "):
                stem = line.removeprefix("no ")
                self.lines = [one for one in self.lines if one != stem and not one.startswith(f"{stem} ")]
            else:
                stem = line.rpartition(" ")[0] if line[-1].isdigit() else line
                self.lines = [one for one in self.lines if not one.startswith(stem)] + [line]
        return "\n".join(f"r1(config)#{line}" for line in lines)

    def running_config(self):
        return "\n".join(["version 17.12", *self.lines, "end"])

    def startup_config(self):
        return "\n".join(["version 17.12", *self.startup, "end"])


class OnDisk:
    """The journal's changes, and what was on the router at each time they were written."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.changes: tuple[Change, ...] = ()
        self.written: list[tuple[set[str], list[str]]] = []

    def remember(self, changes):
        self.changes = changes
        self.written.append(({one.ours for one in changes}, list(self.router.lines)))

    def recovered(self) -> list[str]:
        """Return the router's lines once recovery did what the journal has."""
        self.router.lost_at = None
        undo = plan_restore(self.changes, tcp_lines(self.router.running_config(), IOS_XE))
        self.router.configure((*undo.commands, *undo.closing))
        return self.router.lines


def tuned(*before: str) -> tuple[Router, OnDisk, tuple[str, ...]]:
    """Return a router with FTP's lines in force, its journal, and its lines before."""
    router = Router(*before)
    disk = OnDisk(router)
    plan = plan_tune(tcp_lines(router.running_config(), IOS_XE), transport=FTP)
    disk.remember(plan.changes)
    apply_plan(router, plan, remember=disk.remember)
    router.log.clear()
    return router, disk, before


def other(before: tuple[str, ...], transport=HTTP, **more) -> TunePlan:
    return plan_tune(tcp_lines("\n".join(["version 17.12", *before, "end"]), IOS_XE), transport=transport, **more)


def test_what_both_need_stays_and_the_rest_goes_first():
    """The window is not touched; FTP's source line is gone before HTTP's is typed."""
    router, disk, before = tuned()
    apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert set(router.lines) == {WINDOW, SACK, HTTP_SOURCE, MARK}
    assert [line for line in router.log if line != MARK] == [f"no {FTP_SOURCE}", HTTP_SOURCE]
    assert {one.ours for one in disk.changes} == set(router.lines)


def test_a_mark_is_known_as_long_as_it_is_there():
    """A colleague's line comes between: nothing of the other transport is typed, and our own mark is not forgotten."""
    router, disk, before = tuned()
    router.lines.append("ip http client source-interface Loopback9")
    snapshot = SimpleNamespace(startup=None, archives=())
    with pytest.raises(DeviceRefused, match="changed since the snapshot"):
        apply_other_plan(router, disk.changes, other(before), remember=disk.remember, before=snapshot)
    assert MARK in router.lines
    assert {one.ours for one in disk.changes} == {WINDOW, SACK, MARK}


def test_a_line_that_was_never_shown_stays_in_the_journal():
    """Another transport does not need it, and that it is gone cannot be proven: it is not forgotten."""
    router, disk, before = tuned()
    held = tuple(replace(one, is_hidden=one.ours == FTP_SOURCE) for one in disk.changes)
    router.lines.remove(FTP_SOURCE)
    disk.remember(held)
    with pytest.raises(DeviceRefused, match="is not shown"):
        apply_other_plan(router, held, other(before), remember=disk.remember)
    assert (disk.changes, router.log) == (held, [])


def test_the_journal_has_each_line_before_it_is_typed_and_until_it_is_gone():
    """What was written while FTP's line was there has it, what was written before HTTP's has that."""
    router, disk, before = tuned()
    disk.written.clear()
    apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    for on_disk, there in disk.written:
        assert set(there) <= on_disk


@pytest.mark.parametrize("before", [(), ("ip tcp window-size 65535", "ip http client source-interface Vlan1")])
@pytest.mark.parametrize("lost_at", [f"no {FTP_SOURCE}", HTTP_SOURCE, MARK])
def test_a_session_lost_at_any_line_leaves_nothing_that_recovery_does_not_know(before, lost_at):
    """The lines are what they were once recovery went by the journal."""
    router, disk, before = tuned(*before)
    router.lost_at = lost_at
    with pytest.raises(DeviceUnreachable):
        apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert sorted(disk.recovered()) == sorted(before)


def test_a_line_that_was_there_before_comes_back_word_for_word():
    """Not `no`: the device had one of its own."""
    router, disk, before = tuned("ip ftp source-interface Vlan7")
    apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert "ip ftp source-interface Vlan7" in router.lines
    assert sorted(disk.recovered()) == sorted(before)


def test_another_window_takes_the_place_of_the_first_one():
    """The first is proven gone before the journal has the second: neither is taken for somebody else's."""
    router, disk, before = tuned("ip tcp window-size 65535")
    apply_other_plan(router, disk.changes, other(before, window_bytes=2_500_000), remember=disk.remember)
    assert "ip tcp window-size 2500000" in router.lines
    assert sorted(disk.recovered()) == sorted(before)


def test_a_transport_that_needs_no_line_leaves_none():
    """All of ours go, the mark last."""
    router, disk, _ = tuned()
    apply_other_plan(router, disk.changes, TunePlan(changes=()), remember=disk.remember)
    assert (router.lines, disk.changes) == ([], ())
    assert router.log[-1].startswith("no alias exec")


def test_what_is_the_same_is_not_typed_again():
    """Nothing is sent where both transports need the same lines."""
    router, disk, before = tuned()
    apply_other_plan(router, disk.changes, other(before, transport=FTP), remember=disk.remember)
    assert router.log == []


def test_a_line_that_stays_is_told_and_nothing_more_is_set(monkeypatch):
    """A device that keeps FTP's line is left to the restore behind it, with the journal as it was."""
    monkeypatch.setattr(tune, "LATE_PAUSES_S", (0.0,))
    router, disk, before = tuned()
    router.keeps, held = frozenset({f"no {FTP_SOURCE}"}), disk.changes
    with pytest.raises(DeviceRefused, match="could not be taken back for those of the next one"):
        apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert disk.changes == held
    assert HTTP_SOURCE not in router.lines


def test_a_line_that_somebody_changed_meanwhile_is_theirs():
    """It is told, and left alone."""
    router, disk, before = tuned()
    router.lines = [line.replace(FTP_SOURCE, "ip ftp source-interface Vlan9") for line in router.lines]
    with pytest.raises(DeviceRefused, match="Vlan9"):
        apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert "ip ftp source-interface Vlan9" in router.lines


def test_how_the_device_shows_what_stays_is_not_forgotten():
    """A line in other words would be taken for somebody else's in the end."""
    router, disk, before = tuned()
    shown = tuple(replace(one, shown=f"{one.ours} ") if one.ours == WINDOW else one for one in disk.changes)
    apply_other_plan(router, shown, other(before), remember=disk.remember)
    assert next(one for one in disk.changes if one.ours == WINDOW).shown == f"{WINDOW} "


def test_what_somebody_saved_is_not_forgotten():
    """A reload would bring FTP's line back: the journal goes on to have it, so that the restore sees it."""
    router, disk, before = tuned()
    router.startup, held = list(router.lines), disk.changes
    with pytest.raises(DeviceRefused, match="the configuration was saved while our lines were set"):
        apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert disk.changes == held
    assert holds_ours(disk.changes, router.startup_config(), IOS_XE)
    assert HTTP_SOURCE not in router.lines


def test_a_startup_that_held_such_a_line_before_us_stops_nothing():
    """Nobody saved anything."""
    router, disk, before = tuned()
    router.startup = [FTP_SOURCE]
    startup = tcp_lines(router.startup_config(), IOS_XE)
    snapshot = SimpleNamespace(
        startup=startup, archives=(), running_fingerprint=fingerprint("version 17.12\nend", salt="s"), salt="s"
    )
    apply_other_plan(router, disk.changes, other(before), remember=disk.remember, before=snapshot)
    assert HTTP_SOURCE in router.lines


def test_lines_that_are_gone_are_set_anew():
    """A device that restarted, or from which they were taken back behind a refusal, has none that could stay."""
    router, disk, before = tuned()
    router.lines = list(before)
    apply_other_plan(router, disk.changes, other(before), remember=disk.remember)
    assert set(router.lines) == {WINDOW, SACK, HTTP_SOURCE, MARK}
    assert {one.ours for one in disk.changes} == set(router.lines)


@pytest.mark.parametrize("transport", [FTP, HTTP])
def test_a_device_that_another_controller_took_is_left_to_it(transport):
    """Also where nothing is to be typed: a copy there would be in its way."""
    router, disk, before = tuned()
    theirs = mark_line("RUN2", "they@there")
    router.lines = [*(line for line in router.lines if line != MARK), theirs]
    router.log.clear()
    with pytest.raises(DeviceRefused, match="holds this device"):
        apply_other_plan(router, disk.changes, other(before, transport=transport), remember=disk.remember)
    assert HTTP_SOURCE not in router.lines
