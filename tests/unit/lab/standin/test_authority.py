"""Who may do what: AAA command authorization, the lock on configuration mode, and the range of a window."""

from collections.abc import Callable
from typing import Any

import pytest

from flashferry.lab.errors import LabError


def test_aaa_refuses_commands_by_their_words(make_console: Callable[..., Any]) -> None:
    """A refused command fails in any abbreviation, in both modes; others pass; another user is not concerned."""
    other = "username other privilege 15 secret w"
    console = make_console(refused_commands=("copy", "ip tcp", "show running-config"), config_lines=(other,))
    screen = console.type(
        "sh run", "conf t", "ip tcp win 65536", "ip domain name a.example", "do wr", "do copy null: flash:"
    )
    assert screen.count("Command authorization failed.\n\n") == 3
    text = console.device.running_text()
    assert "ip tcp" not in text
    assert "ip domain name a.example" in text
    assert "Command authorization failed." not in console.type("conf t", "ip tcp win 65536", user="other")
    assert "ip tcp window-size 65536" in console.device.running_text()


def test_aaa_may_refuse_configuration_altogether(make_console: Callable[..., Any]) -> None:
    """A user without `configure` stays in privileged mode, and lines typed there are no commands."""
    console = make_console(refused_commands=("configure",))
    screen = console.type("configure terminal", "ip tcp window-size 65536")
    assert "r1#configure terminal\nCommand authorization failed.\n\nr1#ip tcp" in screen
    assert "(config)" not in screen


def test_an_exclusive_lock_keeps_others_out(console: Any) -> None:
    """With `configuration mode exclusive auto` the lock is taken by who configures and given back at the end."""
    device = console.device
    console.type("configure terminal", "configuration mode exclusive auto")
    inside = console.type("configure terminal", "do show configuration lock")
    assert "Owner PID         : 88\nUser              : ferry\nTTY               : 0\n" in inside
    assert "State             : LOCKED\n" in inside
    assert "State             : FREE\n" in console.show("show configuration lock")
    device.faults = device.faults.with_switches({"config_locked_by": "colleague"})
    for command in ("configure terminal", "configure replace nvram:startup-config force", "copy start run"):
        screen = console.type(command)
        assert "Configuration mode locked exclusively by user 'colleague' process '88' from terminal '15'." in screen
        assert "(config)" not in screen
        assert "bytes copied" not in screen
    device.faults = device.faults.with_switches({"config_locked_by": None})
    assert "(config)" in console.type("configure terminal")


def test_the_lock_by_hand(console: Any) -> None:
    """`configure terminal lock` says so, and the lock ends with configuration mode or with the session."""
    screen = console.type("configure terminal lock", "do show configuration lock")
    assert "Configuration mode locked exclusively. The lock will be cleared once you exit" in screen
    assert "User debug info   : configure terminal lock" in screen
    assert console.device.config_lock is None


@pytest.mark.parametrize(("value", "is_taken"), [(65535, True), (65536, False), (2_500_000, False)])
def test_a_device_without_large_windows_refuses_them(console: Any, value: int, is_taken: bool) -> None:
    """Above what it takes the value is out of range, with the caret under it; `no` forms always pass."""
    device = console.device
    device.faults = device.faults.with_switches({"largest_window_bytes": 65535})
    screen = console.type("configure terminal", f"ip tcp window-size {value}", "no ip tcp window-size 131072")
    assert ("% Invalid input detected at '^' marker." in screen) is not is_taken
    if not is_taken:
        typed, caret = screen.split("\n")[3:5]
        assert typed[caret.index("^") :].startswith(str(value))
    device.faults = device.faults.with_switches({"largest_window_bytes": None})


def test_a_vrf_takes_the_address_of_its_interface(console: Any) -> None:
    """The device says so; a VRF that is not defined is refused; leaving a VRF takes the address too."""
    screen = console.type(
        "configure terminal", "interface Gi2", "ip address 10.1.1.1 255.255.255.0", "vrf forwarding Blue",
        "vrf definition Blue", "interface Gi2", "vrf forwarding Blue", "ip address 10.1.1.1 255.255.255.0",
    )  # fmt: skip
    assert "(config-if)#vrf forwarding Blue\n% VRF Blue not configured.\n" in screen
    removed = "% Interface GigabitEthernet2 IPv4 disabled and address(es) removed due to {} VRF Blue\n"
    assert removed.format("enabling") in screen
    assert " vrf forwarding Blue\n ip address 10.1.1.1 255.255.255.0\n" in console.device.running_text()
    screen = console.type("configure terminal", "interface Gi2", "vrf forwarding Blue", "no vrf forwarding")
    assert screen.count("address(es) removed") == 1
    assert removed.format("disabling") in screen
    assert "interface GigabitEthernet2\n no ip address\n" in console.device.running_text()


def test_a_device_may_start_with_sections(make_console: Callable[..., Any]) -> None:
    """Lines of a world that begin with a blank go into the section above them; an unknown one is refused by name."""
    lines = ("vrf definition Blue", "interface Loopback0", " ip address 198.18.1.200 255.255.255.255", "ip ftp passive")
    text = make_console(config_lines=lines).device.running_text()
    assert "interface Loopback0\n ip address 198.18.1.200 255.255.255.255\n" in text
    with pytest.raises(LabError, match=r"r1: .* configuration line 'interface TenGigabitEthernet9/9 \.\.\.'"):
        make_console("c8000v-17.15", config_lines=("interface TenGigabitEthernet9/9", " shutdown"))
