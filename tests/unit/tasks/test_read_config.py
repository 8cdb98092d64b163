"""What stamps, locks and timers say about a configuration."""

from __future__ import annotations

import pytest

from tasks.read_config import lock_holder, pending_rollback, saved_by_stamps

CHANGED = "! Last configuration change at {} by bob\n"
SAVED = "! NVRAM config last updated at {} by bob\n"
EARLY, LATE = "10:00:00 UTC Fri Nov 20 2026", "09:00:00 UTC Sat Nov 21 2026"


@pytest.mark.parametrize(
    ("running", "startup", "saved"),
    [
        (CHANGED.format(EARLY) + SAVED.format(LATE), "", True),
        (CHANGED.format(LATE) + SAVED.format(EARLY), "", False),
        (CHANGED.format(EARLY), CHANGED.format(EARLY), True),
        (CHANGED.format(LATE), CHANGED.format(EARLY), False),
        (CHANGED.format(LATE), "", None),
        (CHANGED.format(EARLY), CHANGED.format(EARLY).replace(" by bob", ""), False),
        (CHANGED.format(EARLY) + SAVED.format(EARLY), "", False),
        ("! No configuration change since last restart\n", "", True),
        ("", CHANGED.format(EARLY), None),
        (CHANGED.format(LATE), CHANGED.format("10:00:00 CEST Fri Nov 20 2026"), None),
        (f"! Last configuration change at *{LATE.replace(':00 ', ':00.123 ', 1)}\n", CHANGED.format(EARLY), False),
    ],
)
def test_saved_by_stamps(running, startup, saved):
    """The change must be before the save, or the saved one; without both stamps, or across zones, nothing is told."""
    assert saved_by_stamps(running, startup) is saved


def test_a_free_lock_has_no_holder():
    """The block of a free lock, and a release without the command, name nobody."""
    free = "Parser Configure Lock\nOwner PID : -1\nUser : unknown\nTTY : -1\nType : NO LOCK\nState : FREE\n"
    assert lock_holder(free) is lock_holder("") is None


def test_a_locked_session_has_a_holder():
    """The other form of the output names user and line, too."""
    held = "Config Session Lock\n----\nOwner PID   : 578\nTTY number  : 2\nTTY username    : bob\n"
    assert lock_holder(held) == "user 'bob' on line 2"


def test_no_rollback_is_pending():
    """The device's sentence that there is none is none."""
    assert pending_rollback("%No Rollback Confirmed Change pending\n") is None
