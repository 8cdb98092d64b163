"""The boot order: in the spelling that stands there, the old lines behind it, and exactly back."""

from __future__ import annotations

import pytest

from flashferry.devices.errors import DeviceRefused
from tasks.activating.boot_order import (
    BootOrder,
    boot_lines,
    boot_orders,
    differs_only_by,
    is_ours_to_type,
    objection_to,
    undo_boot_order,
)
from tasks.read_config import fingerprint, read_running

CONFIGURATION = """\
Building configuration...

version 16.6
hostname r1
boot-start-marker
{}boot-end-marker
interface GigabitEthernet1
 ip address 192.0.2.1 255.255.255.0
!
line vty 0 4
 login local
!
ip forward-protocol nd
no ip http server
end
"""


@pytest.mark.parametrize(
    ("present", "path", "wanted"),
    [
        ("boot system flash bootflash:old.bin", "bootflash:new.bin", "boot system flash bootflash:new.bin"),
        ("boot system bootflash:old.bin", "bootflash:new.bin", "boot system bootflash:new.bin"),
        ("boot system flash0:/old.bin", "flash0:new.bin", "boot system flash0:/new.bin"),
        ("boot system flash old.bin", "flash:new.bin", "boot system flash new.bin"),
    ],
)
def test_the_spelling_that_stands_there_is_followed(present, path, wanted):
    """Four of pyntc's table; the old line stays behind the new one."""
    (order,) = boot_orders((present,), path)
    assert order.wanted == (wanted, present)
    assert order.commands == (f"no {present}", wanted, present)


def test_a_line_for_all_members_has_the_old_file_behind_the_new_one():
    """The fifth: one line with `;` between its files."""
    (order,) = boot_orders(("boot system switch all flash:old.bin",), "flash:new.bin")
    assert order.wanted == ("boot system switch all flash:new.bin;flash:old.bin",)


def test_without_a_line_two_spellings_are_tried():
    """What is refused changes nothing, so the next one may be typed."""
    assert [one.wanted for one in boot_orders((), "flash0:new.bin")] == [
        ("boot system flash flash0:new.bin",),
        ("boot system flash0:new.bin",),
    ]


@pytest.mark.parametrize("line", ["boot system tftp old.bin 192.0.2.9", "boot system tftp://192.0.2.9/old.bin"])
def test_the_spelling_of_a_file_on_a_server_is_not_followed(line):
    """`boot system bootflash new.bin` would be a file called bootflash, from a server called new.bin."""
    assert [one.wanted for one in boot_orders((line, "boot system bootflash:a.bin"), "bootflash:new.bin")] == [
        ("boot system flash bootflash:new.bin", line, "boot system bootflash:a.bin"),
        ("boot system bootflash:new.bin", line, "boot system bootflash:a.bin"),
    ]


def test_a_line_that_is_there_further_behind_is_not_there_twice():
    """An image that somebody named before is put in front."""
    (order,) = boot_orders(("boot system bootflash:a.bin", "boot system bootflash:b.bin"), "bootflash:b.bin")
    assert order.wanted == ("boot system bootflash:b.bin", "boot system bootflash:a.bin")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("boot system switch 2 flash:old.bin", "a line of its own for a member"),
        ("boot system ftp://ops:s3cret@192.0.2.9/old.bin", "a password"),
        ("boot system flash:" + "old.bin;flash:" * 20, "longer"),
        ("boot system flash:old?.bin", "cannot be typed"),
    ],
)
def test_lines_that_cannot_be_put_in_order_are_objected_to(line, words):
    """One for a single member leaves the others with the old image; the others could not be typed or kept."""
    before = ("boot system flash:first.bin", line)
    told = objection_to(before, boot_orders(before, "flash:new.bin"), is_stack=True)
    assert told is not None
    assert words in told
    assert "s3cret" not in told


def test_usual_lines_are_not_objected_to():
    """Also a line for one member where there is only one."""
    for before, is_stack in (
        ((), True),
        (("boot system switch all flash:old.bin",), True),
        (("boot system switch 1 flash:old.bin",), False),
        (("boot system tftp old.bin 192.0.2.9", "boot system flash old.bin"), False),
    ):
        assert objection_to(before, boot_orders(before, "flash:new.bin"), is_stack=is_stack) is None


def configured(table_device, *lines):
    text = CONFIGURATION.format("".join(f"{line}\n" for line in lines))
    return table_device({"show running-config": text}), text


@pytest.mark.parametrize("before", [(), ("boot system bootflash:a.bin",), ("boot system bootflash:a.bin",) * 1])
def test_only_the_boot_order_may_differ(table_device, before):
    """Anything else, also another order of the lines, is somebody else's change."""
    order = BootOrder(before=before, wanted=("boot system bootflash:b.bin", *before))
    _, was = configured(table_device, *before)
    device, text = configured(table_device, *order.wanted)
    kept = fingerprint(was, salt="00")
    assert differs_only_by(order, kept, "00", read_running(device))
    other = table_device({"show running-config": text.replace("login local", "login")})
    assert not differs_only_by(order, kept, "00", read_running(other))
    without, _ = configured(table_device, *before)
    assert not differs_only_by(order, kept, "00", read_running(without))


def test_a_foreign_line_is_left_alone(table_device):
    """Somebody else's boot order is not undone with ours."""
    device, _ = configured(table_device, "boot system bootflash:theirs.bin")
    order = BootOrder(before=("boot system bootflash:a.bin",), wanted=("boot system bootflash:b.bin",))
    with pytest.raises(DeviceRefused, match="it was changed meanwhile"):
        undo_boot_order(device, order)


def test_other_lines_are_no_boot_order():
    """A journal that would have us type something else was not written by us."""
    good = BootOrder(before=("boot system bootflash:a.bin",), wanted=("boot system bootflash:b.bin",))
    assert is_ours_to_type(good)
    for line in ("reload", "boot system x\nreload", "no boot system x", "boot system x?"):
        assert not is_ours_to_type(BootOrder(before=(), wanted=(line,)))


def test_blanks_between_words_do_not_count():
    """A device may print more than one."""
    assert boot_lines(["boot  system bootflash:a.bin", "boot-start-marker", " boot system x"]) == (
        "boot system bootflash:a.bin",
        "boot system x",
    )
