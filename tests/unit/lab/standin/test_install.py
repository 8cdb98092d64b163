"""Install mode of the stand-ins: what is added, activated and taken back, and what is refused in which words."""

import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from flashferry.core.values import replace
from flashferry.lab.standin.device import Device

IMAGE = "c8000v-universalk9.17.15.03a.SPA.bin"
PACKAGE = "c8000v-mono-universalk9.17.15.03a.SPA.pkg"
STACK_IMAGE = "cat9k_iosxe.17.09.05.SPA.bin"
SIZE_BYTES = 40_000


def _with_image(console: Any, name: str = IMAGE) -> Device:
    device: Device = console.device
    device.flash.write(name, b"x" * SIZE_BYTES)
    return device


def _added(console: Any) -> Device:
    device = _with_image(console)
    assert "SUCCESS: install_add" in console.show(f"install add file bootflash:{IMAGE}")
    return device


def test_add_takes_an_image_apart_and_keeps_it(make_console: Callable[..., Any]) -> None:
    """The package is inactive, the image stays, and both take their room."""
    console = make_console("c8000v-17.15")
    device = _with_image(console)
    free_bytes = device.flash.free_bytes

    shown = console.show(f"install add file bootflash:{IMAGE}")

    assert "  [1] Add package(s) on R0\n  [1] Finished Add on R0\nChecking status of Add on [R0]\n" in shown
    assert "Image added. Version: 17.15.03a.0.1\nSUCCESS: install_add  " in shown
    summary = console.show("show install summary")
    assert "IMG   C    17.15.01a.0.193\nIMG   I    17.15.03a.0.1\n" in summary
    assert "Auto abort timer: inactive" in summary
    assert device.flash.find(IMAGE) is not None
    assert device.flash.find(PACKAGE) is not None
    assert device.flash.free_bytes == free_bytes - 40_960


def test_a_second_add_is_refused_whatever_its_version(make_console: Callable[..., Any]) -> None:
    """The device says that something is there, and not that it is another version (log of three C8000V)."""
    console = make_console("c8000v-17.15")
    _added(console)
    other = "c8000v-universalk9.17.12.04a.SPA.bin"
    _with_image(console, other)
    assert "Super package already added. Add operation not allowed." in console.show(f"install add file flash:{other}")


@pytest.mark.parametrize(
    ("faults", "typed", "words"),
    [
        ({}, "hostname Other", "FAILED: System configuration has been modified. Please save configuration"),
        ({"install_counts_undone": True}, "hostname {name}", "FAILED: System configuration has been modified."),
        ({"install_busy": True}, "", "FAILED: install_add : Another install operation is in progress"),
        ({"issu_in_progress": True}, "", "FAILED: Install ISSU in progress. Abort the ISSU upgrade to proceed"),
        ({"image_not_executable": True}, "", "FAILED: install_add /bootflash/"),
    ],
)
def test_add_is_refused_in_words(make_console: Callable[..., Any], faults: Any, typed: str, words: str) -> None:
    """Each refusal has words of its own, and nothing is added."""
    console = make_console("c8000v-17.15")
    device = _with_image(console)
    device.faults = replace(device.faults, **faults)
    if typed:
        console.type("configure terminal", typed.format(name=device.hostname), "end")
    screen = console.type(f"install add file bootflash:{IMAGE}")
    assert words in screen
    assert device.install is not None
    assert device.install.inactive is None


def test_an_add_that_ends_with_failed_is_listed_all_the_same(make_console: Callable[..., Any]) -> None:
    """The word is no outcome: the table shows the version in state I, and `SUCCESS` was not printed."""
    console = make_console("c8000v-17.15")
    device = _with_image(console)
    device.faults = replace(device.faults, install_add_fails=True)
    shown = console.show(f"install add file bootflash:{IMAGE}")
    assert "FAILED: install_add /bootflash/" in shown
    assert "SUCCESS" not in shown
    assert "IMG   I    17.15.03a.0.1\n" in console.show("show install summary")


def test_add_needs_the_room_of_the_image_once_more(make_console: Callable[..., Any]) -> None:
    """The line is that of a C9200L, with the device's own path and whole KB."""
    console = make_console("c8000v-17.15", flash_free_bytes=60_000)
    _with_image(console)
    shown = console.show(f"install add file bootflash:{IMAGE}")
    assert " [1] R0 FAILED: /bootflash requires 39 KB of free space, but only 18 KB is available" in shown
    assert "SUCCESS" not in shown


def test_a_stack_gets_image_and_package_on_every_switch(make_console: Callable[..., Any]) -> None:
    """The add's first step copies the image to the other switches."""
    console = make_console("c9300-17.6")
    name = "cat9k_iosxe.17.09.05.SPA.bin"
    device = _with_image(console, name)
    shown = console.show(f"install add file flash:{name}")
    assert f"Copying flash:{name} from Switch 1 to Switch 1 2 3" in shown
    assert "  [3] Finished Add on Switch 3\n" in shown
    for flash in device.file_systems:
        assert flash.find(name) is not None
        assert flash.find("cat9k-rpbase.17.09.05.SPA.pkg") is not None
    assert "[ Switch 1 2 3 ] Installed Package(s) Information:" in console.show("show install summary")


def test_remove_inactive_takes_the_image_that_was_only_copied(make_console: Callable[..., Any]) -> None:
    """The list names it; `n` keeps everything and ends with SUCCESS all the same, `y` deletes."""
    console = make_console("c8000v-17.15")
    device = _added(console)
    listed = f"    [R0]: /bootflash/{IMAGE}"

    kept = console.type("install remove inactive", "n")
    assert listed in kept
    assert "SUCCESS: install_remove" in kept
    assert device.flash.find(IMAGE) is not None

    console.type("install remove inactive", "y")
    assert device.flash.find(IMAGE) is None
    assert device.flash.find(PACKAGE) is None
    assert "IMG   I" not in console.show("show install summary")
    assert device.flash.find("c8000v-mono-universalk9.17.15.01a.SPA.pkg") is not None


def test_activation_runs_the_new_release_uncommitted_with_a_timer(make_console: Callable[..., Any]) -> None:
    """Behind SUCCESS the session ends; the timer's line has the blank before its comma."""
    console = make_console("c8000v-17.15")
    device = _added(console)
    device.platform = replace(device.platform, boot_s=0)
    screen = console.type("install activate auto-abort-timer 60 prompt-level none")
    assert re.search(r"Install will reload the system now!\nSUCCESS: install_activate  .*\nr1#", screen)
    assert "Cisco IOS XE Software, Version 17.15.01a" in console.show("show version")
    assert device.guesses["install: log line of its reload"] == 1
    device.boot()
    version = console.show("show version")
    assert "Cisco IOS XE Software, Version 17.15.03a" in version
    assert "Version 17.15.3a, RELEASE" in version
    assert "IMG   U    17.15.03a.0.1" in console.show("show install summary")
    assert "boot  rp  0 0   rp_boot" in console.show("more bootflash:packages.conf")
    assert PACKAGE in console.show("more bootflash:packages.conf")


def test_activation_asks_without_a_prompt_level(make_console: Callable[..., Any]) -> None:
    """`n` keeps what runs."""
    console = make_console("c8000v-17.15")
    device = _added(console)
    screen = console.type("install activate", "n")
    assert "This operation may require a reload of the system. Do you want to proceed? [y/n]" in screen
    assert device.install is not None
    assert not device.install.is_uncommitted


def test_a_device_in_bundle_mode_has_no_install_commands(make_console: Callable[..., Any]) -> None:
    """It refuses them with a caret."""
    assert "% Invalid input" in make_console("asr1006-16.3").show("show install summary")


def test_all_in_one_command(make_console: Callable[..., Any]) -> None:
    """Added, activated and committed under one name, as a C9300L tells it; no timer is left behind."""
    console = make_console("c9300-17.6")
    device = _with_image(console, STACK_IMAGE)
    device.platform = replace(device.platform, boot_s=0)
    screen = console.type(f"install add file flash:{STACK_IMAGE} activate commit prompt-level none")
    for line in (
        "install_add_activate_commit: Adding IMG", "Image added. Version: 17.09.05.0.1",
        "install_add_activate_commit: Activating IMG", "  [3] Commit package(s) on Switch 3",
        "Commit: Passed on [1 2 3]", "Install will reload the system now!\nSUCCESS: install_add_activate_commit  ",
    ):  # fmt: skip
        assert line in screen
    device.boot()
    summary = console.show("show install summary")
    assert "IMG   C    17.09.05.0.1" in summary
    assert "Auto abort timer: inactive" in summary
    assert "Version 17.09.05" in console.show("show version")


@pytest.mark.parametrize(
    ("settings", "answer", "words", "is_added"),
    [
        ({}, "n", "FAILED: install_add_activate_commit : User Rejected Activation", True),
        ({"flash_free_bytes": 60_000}, "", "FAILED: add_activate_commit /bootflash/", False),
    ],
)
def test_all_in_one_ends_where_a_step_is_refused(
    make_console: Callable[..., Any], settings: Any, answer: str, words: str, is_added: bool
) -> None:
    """What was added stays; for want of room the last line names the operation without its `install_` (C9200L)."""
    console = make_console("c8000v-17.15", **settings)
    device = _with_image(console)
    screen = console.type(f"install add file bootflash:{IMAGE} activate commit", *filter(None, (answer,)))
    assert words in screen
    assert device.install is not None
    assert (device.install.inactive is not None) is is_added
    assert not device.install.is_uncommitted


def test_the_tables_by_state(make_console: Callable[..., Any]) -> None:
    """Before the commit an image is active and uncommitted; the one it replaces stands in neither of the two tables."""
    console = make_console("c8000v-17.15")
    device = _added(console)
    device.platform = replace(device.platform, boot_s=0)
    old, new = "IMG   C    17.15.01a.0.193", "IMG   U    17.15.03a.0.1"
    assert old in console.show("show install committed")
    console.type("install activate prompt-level none")
    device.boot()
    for state in ("active", "uncommitted"):
        shown = console.show(f"show install {state}")
        assert f"[ R0 ] {state.capitalize()} Package(s) Information:" in shown
        assert new in shown
        assert "17.15.01a" not in shown
    assert console.show("show install committed").endswith("No Committed Packages\n")
    assert "install: state of the old package before the commit" not in device.guesses
    console.show("show install summary")
    assert device.guesses["install: state of the old package before the commit"] == 1


def test_every_command_tells_the_release_that_runs(make_console: Callable[..., Any]) -> None:
    """After an upgrade `show platform` and `show redundancy` name the new release, as `show version` does."""
    console = make_console("c9300-17.6")
    device = _with_image(console, STACK_IMAGE)
    device.platform = replace(device.platform, boot_s=0)
    console.type(f"install add file flash:{STACK_IMAGE} activate commit prompt-level none")
    device.boot()
    hardware = console.show("show platform")
    assert hardware.count("17.09.05") == 3
    assert "17.06.01" not in hardware
    processors = console.show("show redundancy")
    assert processors.count("Version 17.9.5, RELEASE SOFTWARE") == 2
    assert "17.6.1" not in processors


@pytest.mark.parametrize("command", ["install activate prompt-level none", "install abort prompt-level none"])
def test_the_prompt_comes_before_the_reload(make_console: Callable[..., Any], command: str) -> None:
    """Who waits for the prompt gets it; the device restarts behind it, by itself."""
    console = make_console("c8000v-17.15")
    device = _added(console)
    device.platform = replace(device.platform, boot_s=0)
    if "abort" in command:
        console.type("install activate prompt-level none")
    device.listener = listener = Mock()
    assert re.search(r"SUCCESS: install_\w+  .*\nr1#", console.type(command))
    listener.restart.assert_called_once_with(0)
    assert "Reload Reason: Image Install" in console.show("show logging")
