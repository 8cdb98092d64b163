"""Paging, levels, banners, refusals and configuration modes, typed on a device without SSH."""

from collections.abc import Callable
from typing import Any

import pytest

from flashferry.lab.standin.grammar import DEFAULT_EXEC_TIMEOUT_S, exec_timeout_s
from flashferry.lab.standin.terminal import MARK

MORE = MARK.strip()


def test_a_long_output_stops_at_each_screen(console: Any) -> None:
    """Space brings the next screen, Enter one line, any other key ends the output."""
    ended = console.type("show running-config", " \\", "\r\\", "q\\", "show clock", rows=24)
    assert ended.count(MORE) == 3
    assert "*" in ended.rpartition(MORE)[2]
    lines = ended.partition("show running-config\n")[2].partition(MORE)[0].splitlines()
    assert len(lines) == 24  # 23 lines, and the mark on the 24th


def test_terminal_length_0_ends_paging(console: Any) -> None:
    """Nothing stops any more, and `terminal no length` brings the pauses back."""
    assert MORE not in console.type("terminal length 0", "show running-config", rows=24)
    assert MORE in console.type("terminal length 0", "terminal no length", "show running-config", "q\\", rows=24)


def test_enable_goes_to_a_level_and_disable_back(make_console: Callable[..., Any]) -> None:
    """A level between user and privileged has what a `privilege exec` line gives it, and nothing else."""
    console = make_console(privilege=1, config_lines=("privilege exec level 7 show startup-config",))
    screen = console.type("enable 7", "e", "show privilege", "show startup-config", "show running-config")
    assert "Current privilege level is 7" in screen
    assert "bytes\n" in screen
    assert screen.count("% Invalid input") == 1 + 1  # show running-config, and `end`
    assert "Current privilege level is 1\n" in console.type("enable", "e", "disable", "show privilege")


def test_the_password_may_be_asked_twice(make_console: Callable[..., Any]) -> None:
    """With the fault one right secret is not enough, two are."""
    console = make_console(privilege=1)
    console.device.faults = console.device.faults.with_switches({"password_twice": True})
    assert "r1#" in console.type("enable", "e", "e")


def test_banners_take_many_lines_and_are_shown(console: Any) -> None:
    """A banner ends at its delimiter, stands in the configuration, greets the next session, and can be taken out."""
    screen = console.type("configure terminal", "banner motd #", "Keep out", "of here #", "hostname r2")
    assert "Enter TEXT message.  End with the character '#'.\n" in screen
    assert "Keep out\nof here" in console.type()
    assert "banner motd ^C\nKeep out\nof here ^C\n" in console.device.running_text()
    console.type("configure terminal", "no banner motd")
    assert "banner" not in console.device.running_text()


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), DEFAULT_EXEC_TIMEOUT_S),
        (("exec-timeout 0 0",), None),
        (("exec-timeout 1 30",), 90),
    ],
)
def test_exec_timeout_is_that_of_the_line(console: Any, lines: tuple[str, ...], seconds: float | None) -> None:
    """Ten minutes by default, never for zero."""
    console.type("configure terminal", "line vty 0 4", *lines)
    assert exec_timeout_s(console.device.running, 3) == seconds


def test_an_idle_session_ends(console: Any) -> None:
    """The vty closes after its exec-timeout without a key."""
    console.type("configure terminal", "line vty 0 4", "exec-timeout 0 1")
    assert console.type("show clock\\", leaves=False).endswith("r1#show clock")


def test_the_host_name_is_cut_in_configuration_prompts(make_console: Callable[..., Any]) -> None:
    """Twenty characters of it are left."""
    screen = make_console(name="a-very-long-name-for-a-router").type("configure terminal", "interface Gi2")
    assert "\na-very-long-name-for-a-router#configure" in screen
    assert "\na-very-long-name-for(config-if)#" in screen


def test_faults_of_the_line(console: Any) -> None:
    """Authorization refuses commands, lines do not take, echoes lose characters, a header stands in front."""
    device = console.device
    device.faults = device.faults.with_switches({
        "refuse_exec_pattern": "^show clock", "refuse_config_pattern": "synwait", "ignore_config_pattern": "queuemax",
        "load_header": True,
    })  # fmt: skip
    screen = console.type(
        "show clock", "configure terminal", "ip tcp synwait-time 5", "ip tcp queuemax 9", "do show users"
    )
    assert screen.count("Command authorization failed.\n") == 2
    assert "\nLoad for five secs: 4%/0%; one minute: 6%; five minutes: 5%\nTime source is NTP, " in screen
    assert "ip tcp" not in device.running_text()
    device.faults = device.faults.with_switches({"garble_echo": True, "refuse_exec_pattern": None})
    garbled = console.type("show privilege")
    assert "show privilege" not in garbled
    assert "Current privilege level is 15" in garbled


def test_names_of_file_systems_are_those_of_the_device(make_console: Callable[..., Any]) -> None:
    """IOL has no flash: the caret stands under its name, as it does for a disk that is not there."""
    console = make_console("iol-17.15")
    for line in ("dir flash:", "copy ftp://h/x flash:x", "verify /md5 flash:x"):
        screen = console.type(line)
        caret = next(row.index("^") for row in screen.splitlines() if row.strip() == "^")
        assert f"r1#{line}"[caret:].startswith("flash:")
    assert "startup-config" in console.show("dir")


def test_controller_mode_configures_by_transaction(make_console: Callable[..., Any]) -> None:
    """`configure terminal` is no command there; a transaction changes nothing before `commit`."""
    console = make_console("c8000v-sdwan-17.15")
    assert "% Invalid input" in console.type("configure terminal")
    console.type("config-transaction", "ip tcp selective-ack")
    assert "selective-ack" not in console.device.running_text()
    assert "Commit complete." in console.type("config-transaction", "ip tcp selective-ack", "commit")
    assert "\nip tcp selective-ack\n" in console.device.running_text()
    assert "Router operating mode: Controller-Managed" in console.show("show version")


NEW_MODEL = "aaa new-model"
LINE = ("line vty 0 4", " privilege level 7")


@pytest.mark.parametrize(
    ("lines", "level"),
    [
        ((), 15),
        (LINE, 15),
        (("no username ferry", "username ferry secret w", *LINE), 7),
        ((NEW_MODEL,), 1),
        ((NEW_MODEL, *LINE), 7),
        ((NEW_MODEL, "aaa authorization exec default local"), 15),
        ((NEW_MODEL, "aaa authorization exec default group tacacs+ local"), 15),
        ((NEW_MODEL, "aaa authorization exec default none"), 1),
        ((NEW_MODEL, "aaa authorization exec default if-authenticated", *LINE), 7),
        ((NEW_MODEL, "aaa authorization exec VTY local"), 1),
        ((NEW_MODEL, "aaa authorization exec VTY local", "line vty 0 4", " authorization exec VTY"), 15),
        (("aaa authorization exec default none",), 15),
    ],
)
def test_the_login_level_is_that_of_aaa(make_console: Callable[..., Any], lines: tuple[str, ...], level: int) -> None:
    """With `aaa new-model` exec authorization alone brings the user's level; without, the line's counts."""
    console = make_console(config_lines=lines)
    assert f"Current privilege level is {level}\n" in console.type("show privilege")
