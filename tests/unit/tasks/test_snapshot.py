"""What could bring our lines back: an archive file by what it holds, whatever its name."""

from __future__ import annotations

import pytest

from tasks.read_config import read_running
from tasks.run_marker import mark_line
from tasks.snapshot import archived_lines
from tasks.tcp_config import Change

RUNNING = "version 15.1\nhostname r1\narchive\n path flash:config\nend\n"
SIZE = Change(keyword="window-size", before=None, ours="ip tcp window-size 1250000", shown="ip tcp window-size 1250000")
MARKED = Change(keyword="mark", before=None, ours=mark_line("20990101-1", "ops@nms"), shown=None)


@pytest.mark.parametrize(
    ("changes", "holds", "is_held"),
    [
        ((SIZE, MARKED), f"{MARKED.ours}\n{SIZE.ours}", True),
        ((SIZE, MARKED), SIZE.ours, False),
        ((SIZE, MARKED), f"{mark_line('20980101-1', 'ops@nms')}\n{SIZE.ours}", False),
        ((SIZE,), SIZE.ours, True),
        ((SIZE,), "ip ssh version 2", False),
    ],
    ids=["ours", "an equal line of before", "of a run long ago", "no mark of ours", "nothing"],
)
def test_an_archive_file_whose_name_was_there_before(table_device, changes, holds, is_held):
    """Old IOS uses PATH-1 to PATH-14 in turn: what a file holds tells whether it was saved while our lines were set."""
    listing = "   1        flash:config-1\n   2        flash:config-2 <- Most Recent\n"
    plain = "version 15.1\nhostname r1\nend\n"
    device = table_device({"show running": RUNNING, "show archive": listing, "more ": plain})
    known, running = frozenset({"flash:config-1", "flash:config-2"}), read_running(device)
    assert archived_lines(device, changes, running, known) is None
    device.answers = {"more flash:config-1": plain} | device.answers
    device.answers["more flash:config-1"] = f"version 15.1\nhostname r1\n{holds}\nend\n"
    threat = archived_lines(device, changes, running, known)
    assert (threat is not None) is is_held
    assert threat is None or "flash:config-1" in threat.reason


def test_an_archive_file_that_is_named_by_time_is_not_read_again(table_device):
    """Its name is never used again: what was there before costs nothing."""
    path = "bootflash:archive-Feb-15-15-56-38.517-1"
    device = table_device({"show running": RUNNING, "show archive": f"   1        {path} <- Most Recent\n"})
    assert archived_lines(device, (SIZE,), read_running(device), frozenset({path})) is None
    assert device.asked == ["show running-config", "show archive"]


@pytest.mark.parametrize(
    ("shown", "is_held"),
    [
        ("version 15.1\nhostname r1\nend\n", False),
        (f"version 15.1\nhostname r1\n{SIZE.ours}\nend\n", True),
        ("!\nip ssh version 2\nend\n", True),
        ("%Error opening flash:config-3 (No such file or directory)\n", False),
        ("%Error opening flash:config-3 (I/O error)\n", True),
    ],
    ids=["whole", "ours", "a part", "gone", "unreadable"],
)
def test_an_archive_file_of_a_new_name(table_device, shown, is_held):
    """A part of a configuration proves nothing: it counts as one that holds our lines."""
    listing = "   1        flash:config-3 <- Most Recent\n"
    device = table_device({"show running": RUNNING, "show archive": listing, "more ": shown})
    threat = archived_lines(device, (SIZE, MARKED), read_running(device), frozenset())
    assert (threat is not None) is is_held


LISTING = "   1        flash:config-1\n   2        flash:config-2 <- Most Recent\n"
KNOWN = frozenset({"flash:config-1", "flash:config-2"})
PLAIN = "version 15.1\nhostname r1\nend\n"


@pytest.mark.parametrize(("known", "is_held"), [(KNOWN, True), (frozenset(), False)])
def test_an_archive_whose_listing_is_refused_afterwards_is_not_read(table_device, known, is_held):
    """It was listed before: what was saved since cannot be seen, and is not called absent."""
    device = table_device({"show running": RUNNING})
    threat = archived_lines(device, (SIZE, MARKED), read_running(device), known)
    assert (threat is not None) is is_held
    assert threat is None or ("listing is refused now" in threat.reason and "'show archive'" in threat.hint)


def test_a_listing_in_another_order_is_the_same_archive(table_device):
    """What holds nothing of ours holds nothing, wherever it stands in the table and whatever is the most recent."""
    turned = "   1        flash:config-2\n   2        flash:config-1 <- Most Recent\n"
    device = table_device({"show running": RUNNING, "show archive": turned, "more ": PLAIN})
    assert archived_lines(device, (SIZE, MARKED), read_running(device), KNOWN) is None


def test_an_archive_file_that_was_renamed_is_read(table_device):
    """A name that was not there before: its contents tell, though all of them were saved earlier."""
    renamed = "   1        flash:before-1\n   2        flash:before-2 <- Most Recent\n"
    ours = PLAIN.replace("end", f"{SIZE.ours}\nend")
    answers = {"show running": RUNNING, "show archive": renamed, "more flash:before-2": ours, "more ": PLAIN}
    device = table_device(answers)
    threat = archived_lines(device, (SIZE, MARKED), read_running(device), KNOWN)
    assert threat is not None
    assert ("before-2" in threat.reason, "before-1" in threat.reason) == (True, False)


@pytest.mark.parametrize(
    ("shown", "is_held"),
    [
        ("version 15.1\nhostname r1\nalias exec flashferry-20990101 ops@nms\nend\n", True),
        ("version 15.1\nhostname r1\nip ssh version 2\n", True),
        ("%Error opening flash:config-1 (I/O error)\n", True),
        ("%Error opening flash:config-1 (No such file or directory)\n", False),
        ("% Authorization failed.\n", False),
        (PLAIN, False),
    ],
    ids=["the beginning of our mark", "a part", "unreadable", "gone", "not allowed", "whole"],
)
def test_what_is_seen_of_an_archive_file_whose_name_was_there_before(table_device, shown, is_held):
    """A device may keep the beginning of the mark's name; a part of a file does not prove the rest."""
    answers = {"show running": RUNNING, "show archive": LISTING, "more flash:config-1": shown, "more ": PLAIN}
    threat = archived_lines(table_device(answers), (SIZE, MARKED), read_running(table_device(answers)), KNOWN)
    assert (threat is not None) is is_held
