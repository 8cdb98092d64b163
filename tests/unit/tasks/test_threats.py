"""What could bring our lines back: an archive file by what it holds, whatever its name."""

from __future__ import annotations

import pytest

from tasks.mark import mark_line
from tasks.readings import read_running
from tasks.tcp_config import Change
from tasks.threats import archived_lines

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
