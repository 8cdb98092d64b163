"""Handing an image on inside the box: who needs it, what is in the way, and who is not there any more."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace

import pytest

from flashferry.devices.errors import CopyFailed, DeviceRefused, FileExists, ImageCorrupt
from flashferry.images.image import Image
from tasks.distribute import copy_to_members, has_members

NAME = "cat9k_iosxe.17.09.05.SPA.bin"
CONTENT = b"x" * 1000
IMAGE = Image(
    name=NAME,
    size_bytes=len(CONTENT),
    md5=hashlib.md5(CONTENT, usedforsecurity=False).hexdigest(),
    sha512=hashlib.sha512(CONTENT).hexdigest(),
)
FILE_SYSTEMS = """\
File Systems:

       Size(b)       Free(b)      Type  Flags  Prefixes
*  11353194496    6000000000      disk     rw   flash: flash-1:
   11353980928    4000000000      disk     rw   flash-2: stby-flash:
   11353980928    5000000000      disk     rw   flash-3:
"""
VERSION = """\
Cisco IOS XE Software, Version 17.06.01
System image file is "flash:cat9k_iosxe.17.06.01.SPA.bin"
Switch Ports Model              SW Version        SW Image              Mode
------ ----- -----              ----------        ----------            ----
*    1 41    C9300-24P          17.06.01          CAT9K_IOSXE           {mode}
     2 41    C9300-24P          17.06.01          CAT9K_IOSXE           {mode}
     3 41    C9300-24P          17.06.01          CAT9K_IOSXE           {mode}
"""
SWITCH = """\
Switch/Stack Mac Address : 00b6.7012.3400 - Local Mac Address
Mac persistency wait time: Indefinite
                                             H/W   Current
Switch#   Role    Mac Address     Priority Version  State
-------------------------------------------------------------------------------------
*1       Active   00b6.7012.3400     15     V01     Ready
 2       Standby  00b6.7012.3401     14     V01     {second}
 3       Member   00b6.7012.3402     1      V01     Ready
"""


class Stack:
    """A stack of three that copies: what each flash holds follows the commands."""

    def __init__(
        self, table_device, *, mode: str = "BUNDLE", second: str = "Ready", held=None, spoils: str = ""
    ) -> None:
        self.held: dict[str, int] = dict(held or {})
        self.spoils, self.second, self.free_bytes = spoils, second, 4_000_000_000
        self.copied: list[str] = []
        self.lands: int | None = IMAGE.size_bytes
        self.takes = lambda: None
        self.device = table_device({})
        self.device._answer = self._answer
        self.version = VERSION.format(mode=mode)

    def _answer(self, command: str) -> str:
        words = command.split()
        if command == "show file systems":
            return FILE_SYSTEMS
        if command == "show version":
            return self.version
        if command == "show switch":
            return SWITCH.format(second=self.second)
        if words[0] == "dir":
            return self._listing(words[1])
        if words[0] == "copy":
            return self._copy(words[2])
        if words[0] == "verify":
            digest = IMAGE.sha512 if words[2].split(":")[0] != self.spoils else "0" * 128
            return f"....Done!\nverify /sha512 ({words[2]}) = {digest}\n"
        return "      ^\n% Invalid input detected at '^' marker.\n"

    def _listing(self, path: str) -> str:
        system, _, name = path.partition(":")
        totals = f"\n11353980928 bytes total ({self.free_bytes} bytes free)\n"
        if not name:
            return f"Directory of {system}:/\n{totals}"
        if path not in self.held:
            return f"%Error opening {system}:/{name} (No such file or directory)\n"
        row = f"   12  -rw-  {self.held[path]:15d}  Nov 24 2026 05:00:00 +00:00  {name}\n"
        return f"Directory of {system}:/{name}\n\n{row}{totals}"

    def _copy(self, target: str) -> str:
        self.copied.append(target)
        self.takes()
        if self.lands is not None:
            self.held[target] = self.lands
        return f"Copy in progress...C\n{IMAGE.size_bytes} bytes copied in 0.2 secs (5000 bytes/sec)\n"

    def copy_to_members(self, **options):
        return copy_to_members(self.device, f"flash:{NAME}", IMAGE, **options)


@pytest.fixture
def stack(table_device):
    return lambda **values: Stack(table_device, **values)


def test_every_other_member_gets_it_and_is_proven(stack) -> None:
    """Two copies, two hashes; what they cost is kept."""
    device = stack()
    report = device.copy_to_members()
    assert device.copied == [f"flash-2:{NAME}", f"flash-3:{NAME}"]
    assert [(one.place, one.digest == IMAGE.sha512, one.was_there) for one in report.copies] == [
        ("2", True, False),
        ("3", True, False),
    ]


@pytest.mark.parametrize(("lands", "found"), [(999, "found 999 bytes"), (None, "found no such file")])
def test_a_members_file_has_its_size_checked(stack, lands, found) -> None:
    """A copy that the device reports as whole, with the right hash, counts only where `dir` shows all of it."""
    device = stack()
    device.lands = lands
    with pytest.raises(ImageCorrupt, match=f"flash-2:{NAME} complete, expected 1,000 bytes there, {found}"):
        device.copy_to_members()
    assert device.copied == [f"flash-2:{NAME}"]


def test_what_is_there_is_proven_and_not_copied(stack) -> None:
    """A run that died after the first member goes on with the second."""
    device = stack(held={f"flash-2:{NAME}": IMAGE.size_bytes})
    report = device.copy_to_members()
    assert device.copied == [f"flash-3:{NAME}"]
    assert [one.was_there for one in report.copies] == [True, False]


def test_install_mode_does_it_by_itself(stack) -> None:
    """Nothing is copied; `install add` hands the packages on."""
    device = stack(mode="INSTALL")
    device.version = device.version.replace("cat9k_iosxe.17.06.01.SPA.bin", "packages.conf")
    assert device.copy_to_members().copies == ()
    assert device.copied == []


@pytest.mark.parametrize("state", ["V-Mismatch", "Removed", "Initializing", "Provisioned", "HA sync in progress"])
def test_a_member_that_does_not_take_part_is_named(stack, state) -> None:
    """Nothing is copied to any, since the box is not whole."""
    device = stack(second=state)
    with pytest.raises(DeviceRefused, match="member 2"):
        device.copy_to_members()
    assert device.copied == []


def test_a_member_that_leaves_in_between_is_named(stack) -> None:
    """Also where its copy was proven: the image is not where it will be booted."""
    device = stack()
    copy = device._copy

    def leaves(target: str) -> str:
        device.second = "Removed"
        return copy(target)

    device._copy = leaves
    with pytest.raises(DeviceRefused, match="member 2 left or is not ready any more"):
        device.copy_to_members()


def test_another_hash_on_a_member_is_told_with_its_path(stack) -> None:
    """The copy inside the box may be spoilt as well as one over the link."""
    with pytest.raises(ImageCorrupt, match=f"flash-3:{NAME}"):
        stack(spoils="flash-3").copy_to_members()


@pytest.mark.parametrize("size_bytes", [10, 5000])
def test_another_file_of_that_name_stays(stack, size_bytes) -> None:
    """Nothing is overwritten and nothing removed without leave."""
    device = stack(held={f"flash-2:{NAME}": size_bytes})
    with pytest.raises(FileExists, match="flash-2:"):
        device.copy_to_members()
    assert device.copied == []


def test_too_little_room_is_told_before_the_copy(stack) -> None:
    """With what is needed and what is there."""
    device = stack()
    device.free_bytes = 900
    with pytest.raises(DeviceRefused, match=r"flash-2:: expected 1,021 bytes free, found 900"):
        device.copy_to_members()
    assert device.copied == []


def test_a_copy_without_its_line_is_none(stack) -> None:
    """The device's reason is told."""
    device = stack()
    device._copy = lambda target: f"%Error copying {target} (Not enough space on device)\n"
    with pytest.raises(CopyFailed, match="Not enough space on device"):
        device.copy_to_members()


def test_a_device_that_is_alone_costs_one_command(table_device) -> None:
    """Nothing is asked but its file systems."""
    alone = FILE_SYSTEMS.splitlines()[:4]
    device = table_device({"show file systems": "\n".join(alone).replace(" flash-1:", "") + "\n"})
    assert not has_members(device, f"flash:{NAME}")
    assert device.asked == ["show file systems"]


def test_how_fast_it_copied_is_kept_for_the_next_plan(stack, monkeypatch) -> None:
    """1,000 bytes to each of two members in 2 s each; what was there already counts for nothing."""
    now_s = [0.0]
    monkeypatch.setattr("flashferry.devices.dialogue.time", SimpleNamespace(monotonic=lambda: now_s[0]))

    def speed(*held: str) -> float | None:
        device = stack(held={f"{system}:{NAME}": IMAGE.size_bytes for system in held})
        device.takes = lambda: now_s.__setitem__(0, now_s[0] + 2)
        return device.copy_to_members().bytes_per_s

    assert speed() == 500
    assert speed("flash-2") == 500
    assert speed("flash-2", "flash-3") is None


def test_a_copy_too_short_to_tell_tells_no_speed(stack) -> None:
    """A stand-in copies at once."""
    assert stack().copy_to_members().bytes_per_s is None


@pytest.mark.parametrize("states", ["Command authorization failed.\n", "\n", "strange\n"])
def test_a_standby_that_nobody_tells_of_is_not_taken_for_none(table_device, states) -> None:
    """Its flash is listed, how it is cannot be read: a device that is alone would be done without it."""
    device = table_device(
        {
            "show version": VERSION.format(mode="BUNDLE").partition("Switch")[0].replace("flash:", "bootflash:"),
            "show boot": "BOOT variable = bootflash:x.bin;\n\nStandby not ready to show bootvar\n",
            "show file systems": FILE_SYSTEMS.replace("flash-3:", "stby-bootflash:"),
            "show redundancy states": states,
            "show privilege": "Current privilege level is 15\n",
        }
    )
    with pytest.raises(DeviceRefused, match="expected the standby to be there and ready"):
        copy_to_members(device, f"bootflash:{NAME}", IMAGE)
