"""Which file system takes the image, and which ones are those of other members."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.devices.platforms.ios import IOS_XE
from tasks.file_system import MemberSpace, default_file_system, file_named, read_listing, space_of_members

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
    assert space_of_members(listing, own, IOS_XE.file_systems) == (
        MemberSpace(file_system="flash-2:", free_bytes=127959040),
    )


CAPTURES = Path(__file__).parents[2] / "captures/dir"
LONG = "c3750e-universalk9-mz.152-4.E10.bin"
WRAPPED = (CAPTURES / "wrapped.txt").read_text()
TOTALS = "57671680 bytes total (7130112 bytes free)"


def wrapped(was: str, now: str) -> str:
    assert was in WRAPPED
    return WRAPPED.replace(was, now)


@pytest.mark.parametrize("name", ["asr1k", "iosv", "no_files", "wrapped"])
def test_every_line_of_a_real_listing_is_accounted_for(name):
    """Rows, head, totals, `No files in directory`: with line ends of either kind nothing is left over."""
    text = (CAPTURES / f"{name}.txt").read_text()
    assert read_listing(text).doubt is None
    assert read_listing(text.replace("\n", "\r\n")) == read_listing(text)


def test_a_name_on_the_line_after_its_row_is_its_name():
    """A 3750-X at 80 columns: the file is there, with its size, and none is called by its date."""
    found = file_named(WRAPPED, LONG)
    assert found is not None
    assert (found.size_bytes, found.modified) == (24436736, "Jun 30 2011 00:34:09 +00:00")
    assert [row.name for row in read_listing(WRAPPED).files] == ["vlan.dat", LONG, "private-config.text"]
    assert file_named(WRAPPED, "other.bin") is None


@pytest.mark.parametrize(
    "text",
    [
        wrapped(f"{LONG}\n", ""),
        wrapped(f"{LONG}\n", f"{LONG[:20]} {LONG[20:]}\n"),
        wrapped(f"{LONG}\n", f"{LONG}\nc3750e-other.bin\n"),
        wrapped(f"{LONG}\n", f"\n{LONG}\n"),
        wrapped("24436736  Jun", "2443673x  Jun"),
        wrapped("24436736  Jun 30 2011", "24436736  Jun 30 2011\n"),
        wrapped("    5  -rwx", "strange words\n    5  -rwx"),
        wrapped(TOTALS, f"Directory of flash-2:/\n\n{TOTALS}"),
        wrapped("24436736", "924436736"),
    ],
    ids=["no name", "a blank", "a name too many", "a line between", "size", "broken date", "words", "two", "too large"],
)
def test_what_is_not_accounted_for_proves_no_absence(text):
    """A row without a name, a word without a row, a size beyond the file system: any file may be the one unread."""
    assert read_listing(text).doubt is not None
    with pytest.raises(ValueError, match="expected a row of 'dir', found"):
        file_named(text, "other.bin")


def test_a_listing_that_was_cut_off_is_in_doubt():
    """Without its last line nobody knows what else there was."""
    assert "the line with the free space" in str(read_listing(WRAPPED[: WRAPPED.index(TOTALS)]).doubt)


def test_rows_after_the_last_line_were_cut():
    """The room stands in front, of another answer or in another order: what else there was is not known."""
    text = f"{TOTALS}\n{WRAPPED[: WRAPPED.index(TOTALS)]}"
    assert "the line with the free space" in str(read_listing(text).doubt)
    log = "*Nov 21 14:07:31.000: %SYS-5-CONFIG_I: Configured from console by vty0 (10.0.0.9)\n"
    assert read_listing(f"{WRAPPED}\n{log}").doubt is None


def test_a_line_that_breaks_inside_a_name():
    """The rest of a name that the 80th column cut is put to it; that is not certain, so absence stays unproven."""
    row = f"    3  -rwx    24436736  Jun 30 2011 00:34:09 +00:00  {LONG}"
    text = wrapped(f"    3  -rwx    24436736  Jun 30 2011 00:34:09 +00:00  \n{LONG}\n", f"{row[:80]}\n{row[80:]}\n")
    found = file_named(text, LONG)
    assert found is not None
    assert found.size_bytes == 24436736
    with pytest.raises(ValueError, match="expected a row of 'dir'"):
        file_named(text, "other.bin")
