"""Which file system takes the image, and which ones are those of other members."""

from __future__ import annotations

import pytest

from flashferry.devices.platforms.ios import IOS_XE
from tasks.file_system import default_file_system
from tasks.room import MemberRoom, room_of_members

ROW = "*    256487424     127959040      disk     rw   {}\n"


@pytest.mark.parametrize(
    ("prefixes", "name"),
    [
        ("flash0: flash:#", "flash0:"),
        ("flash:#", "flash:"),
        ("flash:flash-1:", "flash:"),
        ("flash: flash-1:", "flash:"),
    ],
)
def test_the_default_is_a_name_that_a_command_takes(prefixes, name):
    """`#` behind a name is no part of it, and two names without a blank are two."""
    assert default_file_system(ROW.format(prefixes), IOS_XE.file_systems) == name


@pytest.mark.parametrize("own", ["flash:", "flash-1:"])
@pytest.mark.parametrize("prefixes", ["flash:flash-1:", "flash-1: flash:#", "flash: bootflash: flash-1:"])
def test_the_active_members_own_flash_is_no_other_members(prefixes, own):
    """By whichever of its names it goes; the other member's is one."""
    listing = ROW.format(prefixes) + ROW.format("flash-2: stby-flash:").replace("*", " ")
    assert room_of_members(listing, own, IOS_XE.file_systems) == (
        MemberRoom(file_system="flash-2:", free_bytes=127959040),
    )
