"""Members of a stack and the other supervisor: how many a stand-in has, and what is gone of one that is away."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.lab.standin.faults import switch
from templates.rows import StackUnit, rows
from templates.version import parse_version

BUNDLE = "c9300-bundle-17.6"
DUAL = "asr1006-dual-16.3"
IMAGE = "image.17.12.04.SPA.bin"


def _members(console: Any) -> list[tuple[int, str]]:
    return [(unit.number, unit.state) for unit in rows(StackUnit, console.show("show switch"))]


@pytest.mark.parametrize(
    ("platform", "count", "mode"),
    [("c9300-alone-bundle-17.6", 1, "BUNDLE"), ("c9300-eight-17.6", 8, "INSTALL"),
     ("c9300-eight-bundle-17.6", 8, "BUNDLE")],
)  # fmt: skip
def test_every_table_tells_the_same_members(
    make_console: Callable[..., Any], platform: str, count: int, mode: str
) -> None:
    """`show switch`, `show version`, `show boot` and the file systems are those of one stack, each address once."""
    console = make_console(platform)
    numbers = list(range(1, count + 1))
    version = parse_version(console.show("show version"))
    assert _members(console) == [(number, "Ready") for number in numbers]
    assert [(one.number, one.mode) for one in version.members] == [(number, mode) for number in numbers]
    assert re.findall(r"^Switch (\d)$", console.show("show boot"), re.MULTILINE) == [str(one) for one in numbers]
    listed = console.show("show file systems")
    assert re.findall(r"(?<!crashinfo)\bflash-(\d):", listed) == [str(one) for one in numbers]
    addresses = re.findall(r"[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}", console.show("show platform"))
    assert len(set(addresses)) == count


def test_a_member_that_is_away_is_in_no_table_but_one(make_console: Callable[..., Any]) -> None:
    """`show switch` says `Removed`; its flash cannot be listed, and is as it was once it is back."""
    console = make_console(BUNDLE)
    device = console.device
    device.file_system("flash-2").write(IMAGE, b"x")
    switch(device, {"members_away": ("2",)})
    assert _members(console) == [(1, "Ready"), (2, "Removed"), (3, "Ready")]
    assert device.guesses == {"members: row of one that is away": 1}
    assert [one.number for one in parse_version(console.show("show version")).members] == [1, 3]
    assert "flash-2:" not in console.show("show file systems")
    assert "Switch 2" not in console.show("show boot")
    assert "(No such device)" in console.type("dir flash-2:")
    switch(device, {"members_away": ()})
    assert IMAGE in console.type("dir flash-2:")


def test_a_route_processor_whose_peer_is_away_says_so(make_console: Callable[..., Any]) -> None:
    """As one that never had a peer."""
    console = make_console(DUAL)
    switch(console.device, {"members_away": ("standby",)})
    assert re.search(r"peer state = 1 .*\n +Mode = Simplex", console.show("show redundancy states"))
    assert "stby-bootflash:" not in console.show("show file systems")
    assert "Standby" not in console.show("show bootvar")


@pytest.mark.parametrize(("platform", "target"), [(BUNDLE, "flash-2:"), (DUAL, "stby-bootflash:")])
def test_a_member_leaves_in_the_middle_of_its_copy(
    make_console: Callable[..., Any], platform: str, target: str
) -> None:
    """The copy fails, no other member is touched, and what was written is there when it is back."""
    console = make_console(platform)
    device = console.device
    device.flash.write(IMAGE, b"x" * 300_000)
    switch(device, {"member_leaves_after_bytes": 100_000, "slow_flash_bytes_per_s": 10_000_000})
    screen = console.type(f"copy {device.flash.prefix}{IMAGE} {target}{IMAGE}", "")
    assert "(I/O error)" in screen
    assert "bytes copied" not in screen
    assert len(device.faults.members_away) == 1
    assert device.faults.member_leaves_after_bytes is None
    assert device.guesses == {"copy: text of a member that left": 1, "members: log line of one that left": 1}
    switch(device, {"members_away": ()})
    assert 100_000 <= device.file_system(target.rstrip(":")).find(IMAGE).size_bytes < 300_000


def test_somebody_else_removes_what_is_inactive(make_console: Callable[..., Any]) -> None:
    """The package goes, and with it the image that was only copied; in mid-operation the device refuses."""
    console = make_console("c9300-17.6")
    device = console.device
    device.flash.write(IMAGE, b"x" * 40_000)
    assert "SUCCESS: install_add" in console.show(f"install add file flash:{IMAGE}")
    assert device.install.inactive is not None
    device.install.is_busy = True
    switch(device, {"other_user_removes_inactive": True})
    assert device.install.inactive is not None
    device.install.is_busy = False
    switch(device, {"other_user_removes_inactive": True})
    assert device.install.inactive is None
    assert all(flash.find(IMAGE) is None for flash in device.install.file_systems)
    assert [package.state for package in device.install.packages] == ["C"]


def test_a_full_flash_has_no_room_for_packages(make_console: Callable[..., Any]) -> None:
    """What `dir` says and what `install add` finds are one thing."""
    console = make_console("c9300-17.6")
    console.device.flash.write(IMAGE, b"x" * 40_000)
    console.device.faults = replace(console.device.faults, flash_full=True)
    assert "requires 39 KB of free space, but only 0 KB is available" in console.show(f"install add file flash:{IMAGE}")
