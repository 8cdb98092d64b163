"""What an applet of ours is, and when a device gets none: texts and rules, without a device."""

from __future__ import annotations

from functools import partial

import pytest

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.ios import IOS_XE
from tasks import applet, dead_man
from tasks.applet import (
    applet_line,
    first_applet,
    is_applet,
    is_as_typed,
    leftover_applet,
    may_be_carried,
    new_name,
    without_applet,
)
from tasks.dead_man import applet_shown, arm, countdown_s, free_vtys, undo_lines
from tasks.restore_plan import plan_restore
from tasks.snapshot import holds_ours
from tasks.tcp_config import Change, TcpLines, is_ours_to_type, tcp_lines

NAME = "FLASHFERRY-3F2A"
applet_body = partial(applet.applet_body, configure="configure terminal")
WINDOW = Change(keyword="window-size", before=None, ours="ip tcp window-size 4194304")
OLD_WINDOW = Change(keyword="window-size", before="ip tcp window-size 8192", ours="ip tcp window-size 4194304")
SACK = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack")
MARK = Change(keyword="flashferry-r1", before=None, ours="alias exec flashferry-r1 me@here")
APPLET = Change(keyword=NAME, before=None, ours=applet_line(NAME))
SHOWN = f"{APPLET.ours} authorization bypass"


def test_an_applet_says_what_the_facts_have():
    """The lines of the facts' section 5, each label with leading zeros, itself removed behind our lines."""
    assert applet_body(NAME, ("no ip tcp window-size", "no ip tcp selective-ack"), 5400) == (
        "event timer countdown time 5400 maxrun 60",
        'action 010 cli command "enable"',
        'action 020 cli command "configure terminal"',
        'action 030 cli command "no ip tcp window-size"',
        'action 040 cli command "no ip tcp selective-ack"',
        f'action 050 cli command "no event manager applet {NAME}"',
        'action 060 cli command "end"',
        'action 070 syslog priority warnings msg "flashferry: controller silent, lines restored"',
    )


def test_labels_are_in_the_order_of_their_text():
    """More than nine actions: a device sorts labels as text."""
    body = applet_body(NAME, tuple(f"no ip tcp x{number}" for number in range(20)), 60)[1:]
    assert sorted(body) == list(body)


@pytest.mark.parametrize(
    ("undo", "carried"),
    [
        (("no ip tcp window-size",), True),
        (('ip ssh "x"',), False),
        (("alias exec x 'y'",), False),
        (("no x",) * 95, False),
    ],
)
def test_a_line_with_quotes_is_not_carried(undo, carried):
    """No action can hold a quote; nor are there labels for a hundred lines."""
    assert may_be_carried(undo) is carried


def test_what_was_there_comes_back_and_a_mark_goes_last():
    """A line that stood there is typed as it was; a default that is not shown is typed as ours is."""
    hidden = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack", shown="")
    assert undo_lines((MARK, OLD_WINDOW, SACK)) == (
        "ip tcp window-size 8192",
        "no ip tcp selective-ack",
        "no alias exec flashferry-r1",
    )
    assert undo_lines((hidden,)) == ("ip tcp selective-ack",)


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        (APPLET.ours, True),
        (SHOWN, True),
        ("event manager applet FLASHFERRY-3F2A class default", True),
        ("event manager applet FLASHFERRY-3f2a", False),
        ("event manager applet FLASHFERRY-3F2A2", False),
        ("event manager applet BACKUP", False),
        (" event manager applet FLASHFERRY-3F2A", False),
    ],
)
def test_an_applet_of_ours_is_known_by_its_name(line, ours):
    """Another's, or one of a name that we never give, is not ours to touch."""
    assert is_applet(line) is ours


def test_a_name_is_not_given_twice():
    """One that stands there is never chosen."""
    name = new_name([SHOWN])
    assert is_applet(applet_line(name))
    assert name != NAME


def test_an_applet_is_a_change_like_any_other():
    """The device shows it with words behind it; it is taken back once our lines are gone, and before the mark."""
    text = f"version 17.12\nip tcp window-size 4194304\n{MARK.ours}\n{SHOWN}\n event timer countdown time 60\nend\n"
    present = tcp_lines(text, IOS_XE)
    assert present.of(NAME) == SHOWN
    plan = plan_restore((MARK, APPLET, WINDOW), present)
    assert plan.commands == ("no ip tcp window-size 4194304",)
    assert plan.closing == (without_applet(SHOWN), "no alias exec flashferry-r1")
    assert plan_restore((MARK, APPLET, WINDOW), TcpLines(lines=())).commands == ()
    assert holds_ours((APPLET,), text, IOS_XE)


def test_a_journal_may_have_us_remove_an_applet_of_ours_alone():
    """What names another's applet, or puts something in its place, was not written by us."""
    assert is_ours_to_type(APPLET)
    assert not is_ours_to_type(Change(keyword="BACKUP", before=None, ours="event manager applet BACKUP"))
    assert not is_ours_to_type(Change(keyword=NAME, before="reload", ours=APPLET.ours))


def test_an_applet_is_proven_by_its_lines():
    """Decimals and order do not count; a line less, more or other does."""
    body = applet_body(NAME, ("no ip tcp window-size",), 5400)
    text = f"version 17.12\n{SHOWN}\n" + "".join(f" {line}\n" for line in body) + "end\n"
    shown = applet_shown(text, APPLET)
    assert shown is not None
    assert is_as_typed(shown, body)
    assert is_as_typed([line.replace("5400", "5400.000") for line in reversed(shown)], body)
    assert not is_as_typed(shown[:-1], body)
    assert not is_as_typed((*shown, 'action 080 cli command "reload"'), body)
    assert not is_as_typed([line.replace("5400", "540") for line in shown], body)
    assert applet_shown("version 17.12\nend\n", APPLET) is None


def test_free_lines_are_counted_and_what_is_not_listed_is_unknown():
    """A star marks a line in use; a listing without any says nothing."""
    listing = (
        "   Tty Typ     Tx/Rx    A Modem  Roty AccO AccI   Uses   Noise  Overruns   Int\n"
        "*     0 CTY              -    -      -    -    -      0       0     0/0       -\n"
        "*     2 VTY              -    -      -    -    -      1       0     0/0       -\n"
        "      3 VTY              -    -      -    -    -      0       0     0/0       -\n"
        "    868   0 VTY          -    -      -    -    -      0       0     0/0       -\n"
    )
    assert free_vtys(listing) == 2
    assert free_vtys("") is None


def test_an_applet_waits_as_long_as_a_copy_may_take():
    """A gigabyte at the slowest rate that is worth waiting for, and half an hour; never longer than it can count."""
    assert countdown_s(1_000_000_000, 50_000.0) == 21_800
    assert countdown_s(10**15, 50_000.0) == 4_000_000


def test_a_leftover_is_named_with_what_removes_it():
    """Whoever reads the refusal can put an end to it by hand."""
    assert first_applet(["hostname r1", SHOWN]) == SHOWN
    refusal = leftover_applet("r1", "check", SHOWN)
    assert isinstance(refusal, DeviceRefused)
    assert f"no event manager applet {NAME}" in str(refusal.hint)


def typed_into(table_device, configured, *, shows):
    """Return a device that keeps an applet that is typed, and shows its first line in other words."""
    listed = f"1    applet    user    timer countdown     Off   Mon Nov 23 10:00:00 2026  none  {NAME}\n"
    device = table_device({"show event manager policy registered": listed, "show line": ""})
    kept = []

    def configure(lines):
        begun = next((line for line in lines if line.startswith("event manager")), None)
        kept[:] = [shows(begun), *(f" {line}" for line in lines[1:])] if begun else []
        return "\n".join(lines)

    device.configure = configure
    device.running_config = lambda: "\n".join(("version 17.12", *configured, *kept, "end"))
    return device


ASKED = "aaa authorization commands 15 default group tacacs+ local"
USER = "event manager session cli username ops"


@pytest.mark.parametrize("configured", [(), (ASKED,), (ASKED, USER)])
def test_an_applet_whose_head_lost_a_word_is_not_armed(table_device, monkeypatch, configured):
    """The words that have it go by an AAA server were taken and are not shown: its commands may be refused."""
    monkeypatch.setattr(dead_man, "LATE_PAUSES_S", (0.0,))
    device = typed_into(table_device, configured, shows=lambda line: line.removesuffix(" authorization bypass"))
    report = arm(device, APPLET, undo=("no ip tcp window-size",), countdown_s=60)
    assert not report.is_armed
    assert "as it was typed" in report.reason
    assert NAME not in device.running_config()


@pytest.mark.parametrize("short", ["FLASHFERRY-3F", "FLASHFERRY-3F2"])
def test_an_applet_that_the_device_keeps_by_another_name_is_no_harmless_refusal(table_device, monkeypatch, short):
    """`no` of the name that was typed took nothing away: it may count, so that the device is not staged beside it."""
    monkeypatch.setattr(dead_man, "LATE_PAUSES_S", (0.0,))
    device = typed_into(table_device, (), shows=lambda line: line.replace(NAME, short))
    plain = device.configure
    device.configure = lambda lines: "" if lines == (f"no {APPLET.ours}",) else plain(lines)
    with pytest.raises(DeviceRefused, match=f"there is 'event manager applet {short} authorization bypass'") as refused:
        arm(device, APPLET, undo=("no ip tcp window-size",), countdown_s=60)
    assert f"'no event manager applet {short}'" in refused.value.hint


@pytest.mark.parametrize(
    "shows",
    [
        lambda line: f"{line[:40]}\n {line[40:]}" if len(line) > 60 else line,
        lambda line: line.replace("no ip tcp window-size", "no ip tcp window"),
        lambda line: line.replace("countdown time 60", "countdown time 6"),
    ],
    ids=["wrapped", "another line", "sooner"],
)
def test_an_applet_whose_text_is_shown_otherwise_is_not_armed(table_device, monkeypatch, shows):
    """What it would send, and when, is compared as a whole."""
    monkeypatch.setattr(dead_man, "LATE_PAUSES_S", (0.0,))
    device = typed_into(table_device, (), shows=lambda line: line)
    plain = device.running_config
    device.running_config = lambda: "\n".join(map(shows, plain().splitlines()))
    report = arm(device, APPLET, undo=("no ip tcp window-size",), countdown_s=60)
    assert (report.is_armed, NAME in plain()) == (False, False)
    assert "as it was typed" in report.reason
