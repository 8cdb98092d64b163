"""Configurations as files: differences, replacing, the archive, write and reload."""

import re
from typing import Any

import pytest

from flashferry.lab.standin.configuration import as_commands, contextual, incremental, inverse, parse_lines, replacing

OLD = "hostname a\ninterface Gi1\n description x\n shutdown\nip tcp synwait-time 5\n"
NEW = (
    "Building configuration...\n!\nhostname b\ninterface Gi1\n description y\n shutdown\n"
    "interface Lo0\n mtu 1500\nend\nx\n"
)


def test_a_file_is_read_without_header_comments_and_what_follows_end() -> None:
    """Sections keep their lines, banners their rows."""
    lines = parse_lines(NEW + "never\n")
    assert as_commands(lines) == [
        "hostname b", "interface Gi1", " description y", " shutdown", "interface Lo0", " mtu 1500",
    ]  # fmt: skip
    banner = parse_lines("banner login ^CCfirst\n !second\n^C\nhostname c\n")
    assert [line.text for line in banner] == ["banner login ^CCfirst\n !second\n^C", "hostname c"]


def test_contextual_differences_stand_below_their_section() -> None:
    """`+` is in the second only, `-` in the first only; a section that differs is named without a sign."""
    assert contextual(parse_lines(OLD), parse_lines(NEW)) == [
        "+hostname b", "interface Gi1", " +description y", " -description x", "+interface Lo0", " +mtu 1500",
        "-hostname a", "-ip tcp synwait-time 5",
    ]  # fmt: skip
    assert contextual(parse_lines(OLD), parse_lines(OLD)) == []


def test_replacing_takes_out_before_it_puts_in() -> None:
    """A value that changes must not be taken out after it was set."""
    assert as_commands(replacing(parse_lines(OLD), parse_lines(NEW))) == [
        "no hostname a", "no ip tcp synwait-time 5", "hostname b", "interface Gi1", " no description x",
        " description y", "interface Lo0", " mtu 1500",
    ]  # fmt: skip


def test_incremental_differences_are_what_a_merge_would_change() -> None:
    """Lines that stand already and removals of absent lines are left out."""
    merge = parse_lines("hostname a\nno ip tcp queuemax\nno ip tcp synwait-time\ninterface Gi1\n shutdown\n mtu 1500\n")
    assert incremental(parse_lines(OLD), merge) == ["no ip tcp synwait-time", "interface Gi1", " mtu 1500"]
    assert inverse("no shutdown") == "shutdown"


@pytest.fixture
def changed(console: Any) -> Any:
    """A device whose running configuration differs from the startup one by a window."""
    console.type("configure terminal", "ip tcp window-size 65536")
    return console


def test_differences_of_running_and_startup(changed: Any) -> None:
    """Without files `show archive config differences` compares startup with running."""
    assert (
        changed.show("show archive config differences") == "\n!Contextual Config Diffs:\n+ip tcp window-size 65536\n\n"
    )
    assert "!No changes were found" in changed.show("show archive config differences system:running-config")
    screen = changed.show("show archive config differences flash:none")
    assert screen == "%Error: Could not open file flash:none for reading\n"


def test_replace_asks_and_restores(changed: Any) -> None:
    """Only Y replaces; afterwards the running configuration is the file's, and again costs no pass."""
    changed.type("copy startup-config flash:base", "")
    assert "Rollback Done" not in changed.type("configure replace flash:base", "")
    assert "window-size" in changed.device.running_text()
    screen = changed.type("configure replace flash:base list", "Y")
    assert "assumed to be a complete configuration, not a partial\n" in screen
    assert "!List of Rollback Commands:\nno ip tcp window-size 65536\nend\n" in screen
    assert "Total number of passes: 1\nRollback Done\n" in screen
    assert "window-size" not in changed.device.running_text()
    assert "Total number of passes: 0\n" in changed.type("configure replace flash:base force")


def test_replace_refuses_what_is_no_configuration(console: Any) -> None:
    """A file that is not there or has no host name changes nothing."""
    console.device.flash.write("notes", b"nothing of use\n")
    assert "%The input file is not a valid config file." in console.type("configure replace flash:notes force")
    screen = console.type("configure replace flash:none force")
    assert "Error: Could not open file bootflash:none for reading\n" in screen


def test_the_archive_keeps_as_many_as_it_may(console: Any) -> None:
    """`write memory` archives where that is configured, and the oldest goes."""
    assert console.show("show archive") == " Archive feature not enabled\n"
    console.type("configure terminal", "archive", "path flash:cfg", "maximum 2", "write-memory")
    console.type("write", "write", "archive config")
    shown = console.show("show archive")
    assert "There are currently 2 archive configurations saved." in shown
    assert shown.count("<- Most Recent") == 1
    assert sum(e.name.startswith("cfg-") for e in console.device.flash.entries()) == 2


def test_a_confirmed_rollback_needs_an_archive(console: Any) -> None:
    """Without a path it is refused, and configuration mode is not entered."""
    screen = console.type("configure terminal revert timer 1")
    assert "%Please turn config archive on before using Rollback Confirmed Change" in screen
    assert "(config)#" not in screen


def test_a_pending_rollback_is_shown_confirmed_or_reverted(console: Any) -> None:
    """Only who armed it confirms it; `revert now` takes the change back."""
    console.type("configure terminal", "archive", "path flash:cfg")
    arm = ("configure terminal revert timer 5", "ip tcp synwait-time 9", "end")
    screen = console.type(*arm, "show archive config rollback timer", "configure confirm", "configure confirm")
    assert "Rollback Confirmed Change: Backing up current running config to flash:cfg-" in screen
    assert "Timer value: 5 min\nUser: ferry\n" in screen
    assert "%No Rollback Confirmed Change pending" in screen
    assert "synwait-time 9" in console.device.running_text()
    console.type("configure terminal revert timer 5", "no ip tcp synwait-time", "end", "configure revert now")
    assert "synwait-time 9" in console.device.running_text()


def test_write_may_ask_after_a_change_of_software(changed: Any) -> None:
    """The fault makes it ask; anything but yes leaves the startup configuration alone."""
    device = changed.device
    device.faults = device.faults.with_switches({"nvram_differs": True})
    assert "Overwrite the previous NVRAM configuration?[confirm]n" in changed.type("write memory", "n\\")
    assert "window-size" not in device.startup_text
    changed.type("copy running-config startup-config", "", "y\\")
    assert "window-size" in device.startup_text


def test_a_boot_brings_the_startup_configuration_and_its_image(changed: Any) -> None:
    """What was not saved is gone, order and text are those of before, and `boot system` decides what runs."""
    device = changed.device
    device.flash.write("new.bin", b"x")
    before = device.startup_text
    device.boot()
    assert device.running_text().splitlines()[3:] == before.splitlines()[3:]
    changed.type("configure terminal", "boot system flash:gone.bin", "boot system flash:new.bin")
    changed.type("write")
    device.boot()
    assert 'System image file is "flash:new.bin"' in changed.show("show version")


def test_reload_asks_to_save_what_was_changed(changed: Any) -> None:
    """An answer that is neither yes nor no ends it; with nothing changed it only asks for the confirmation."""
    assert "% Please answer 'yes' or 'no'." in changed.type("reload", "maybe")
    screen = changed.type("reload", "yes", "n\\")
    assert "System configuration has been modified. Save? [yes/no]: yes\n" in screen
    assert "Proceed with reload? [confirm]n" in screen
    assert "window-size" in changed.device.startup_text
    assert "Save?" not in changed.type("reload", "n\\")


def test_a_rollback_may_wait_for_an_idle_user(console: Any) -> None:
    """The report names the kind of its timer, and both kinds can follow each other."""
    console.type("configure terminal", "archive", "path bootflash:cfg")
    arm = ("configure terminal revert idle 5", "end", "show archive config rollback timer")
    screen = console.type(*arm, "configure revert timer 7", arm[-1], "configure revert idle 3", arm[-1])
    kinds = re.findall(r"Timer type: (\w+) timer\nTimer value: (\d+) min", screen)
    assert kinds == [("idle", "5"), ("absolute", "7"), ("idle", "3")]
    console.device.archive.confirm()
    assert "%No Rollback Confirmed Change pending" in console.type("configure revert idle 3")
