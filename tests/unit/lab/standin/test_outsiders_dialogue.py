"""What outsiders type without being asked: unicon's first commands, and a configuration put back by hand."""

import difflib
from collections.abc import Callable
from typing import Any

import pytest

from flashferry.lab.errors import data_names
from flashferry.lab.standin.commands import build_trees
from flashferry.lab.standin.configuration import Configuration
from flashferry.lab.standin.platform import load_platform

PLATFORMS = tuple(sorted(data_names("flashferry.lab.standin.platforms")))
SDWAN = "c8000v-sdwan-17.15"
# unicon.plugins 26.6 (c4231305): generic/settings.py, iosxe/sdwan/settings.py, `config_command` of the state machines,
# iosxe/connection_provider.py and plugins/utils.py for the operating mode.
MODE = "show version | include operating mode"
EXEC = ("term length 0", "term width 0", "show version")
LINES = ("no logging console", "line console 0", "exec-timeout 0", "line vty 0 4", "exec-timeout 0")
SDWAN_EXEC = ("term length 0", "term width 0", "show sdwan software", "show sdwan version", "show version")
REFUSALS = ("% Invalid", "% Incomplete", "% Ambiguous", "% Unrecognized", "Authorization failed")


def first_commands(platform: str) -> tuple[str, ...]:
    """What unicon sends to a device of this platform between login and the user's first command."""
    if platform == SDWAN:
        stop = "pnpa service discovery stop"
        return (MODE, stop, "", *SDWAN_EXEC, "config-transaction", "no logging console", "commit")
    mode = (MODE,) if load_platform(platform).family == "IOS-XE" else ()
    return (*mode, *EXEC, "config term", *LINES)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_no_platform_refuses_what_unicon_types_first(make_console: Callable[..., Any], platform: str) -> None:
    """None of unicon's own commands is refused, and its lines stand in the configuration afterwards."""
    console = make_console(platform)
    screen = console.type(*first_commands(platform))
    assert "r1(config" in screen
    assert [text for text in REFUSALS if text in screen] == []
    running = console.device.running
    assert running.find("no logging console") is not None
    if platform != SDWAN:
        lines = [running.find(name) for name in ("line con 0", "line vty 0 4")]
        assert all(line and "exec-timeout 0 0" in [child.text for child in line.children] for line in lines)
        assert running.find("line console 0") is None


@pytest.mark.parametrize(("typed", "shown"), [("exec-timeout 5", ["exec-timeout 5 0"]), ("exec-timeout 10", [])])
def test_a_timeout_is_shown_with_its_seconds(console: Any, typed: str, shown: list[str]) -> None:
    """Minutes alone have seconds of zero, and the default is not shown."""
    console.type("configure terminal", "line con 0", typed)
    children = console.device.running.find("line con 0").children
    assert [child.text for child in children if child.text.startswith("exec-timeout")] == shown


CHANGES = (
    "ip tcp window-size 131072", "ip tcp selective-ack", "ip ftp username ftp", "ip ftp password 0 w0rd",
    "no ip ftp passive", "file prompt quiet", "logging buffered 16384", "no logging console", "ntp server 198.18.0.1",
    "vrf definition BLUE", " rd 1:1", " address-family ipv4", "interface Loopback0",
    " ip address 198.51.100.1 255.255.255.255", "archive", " path flash:archive", "ip access-list standard 7",
    "line vty 0 4", " exec-timeout 0 0", "banner motd #", "Keep out", "#",
)  # fmt: skip


def typed_back(console: Any, text: str) -> str:
    """Type a configuration as `show running-config` prints it and return the screen."""
    enter = "config-transaction" if console.device.platform.is_controller_managed else "configure terminal"
    leave = ("commit",) if console.device.platform.is_controller_managed else ()
    # A caret and a C stand for the one character Ctrl-C, which cannot be typed; any other will do.
    return str(console.type(enter, *text.replace("^C", "#").splitlines()[:-1], *leave))


def body(console: Any) -> list[str]:
    return [line for line in console.device.running_text().splitlines() if not line.startswith("! ")]


@pytest.mark.parametrize("changes", [(), CHANGES])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_takes_its_own_configuration_back(
    make_console: Callable[..., Any], platform: str, changes: tuple[str, ...]
) -> None:
    """Typed back line by line nothing is refused, and the configuration stays as it is, to the line."""
    console = make_console(platform)
    typed_back(console, "\n".join((*changes, "end")))
    before, text = body(console), console.device.running_text()
    screen = typed_back(console, text)
    assert [text for text in REFUSALS if text in screen] == []
    assert list(difflib.unified_diff(before, body(console), lineterm="", n=0)) == []


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_device_without_configuration_becomes_what_it_was(make_console: Callable[..., Any], platform: str) -> None:
    """Typed into an emptied configuration, the same text makes the same configuration."""
    console = make_console(platform)
    before, text = body(console), console.device.running_text()
    whole: Configuration = console.device.running
    fixed = ("version", "boot-start-marker", "boot-end-marker", "license udi", "interface", "username", "hostname")
    kept = [line.copy() for line in whole.lines() if line.text.startswith(fixed)]
    for line in kept:
        line.children.clear()
    console.device.running = whole.refilled(kept)
    assert len(body(console)) < len(before)
    typed_back(console, text)
    assert list(difflib.unified_diff(before, body(console), lineterm="", n=0)) == []


def test_every_platform_has_its_trees() -> None:
    """The platforms of this file are those that there are."""
    assert len(PLATFORMS) == 14
    assert all(build_trees(load_platform(name)) for name in PLATFORMS)
