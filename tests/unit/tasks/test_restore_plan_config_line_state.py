"""Which line that a device shows is which of ours."""

from __future__ import annotations

import pytest

from tasks.restore_plan import LineState, line_state, match_lines
from tasks.tcp_config import Change, TcpLines

OURS = 1_250_000


@pytest.mark.parametrize(
    ("present", "stands"),
    [
        ("ip tcp window-size 1249280", LineState.OURS),
        ("ip tcp window-size 125000", LineState.OURS),
        ("ip tcp window-size 65535", LineState.UNCERTAIN),
        ("ip tcp window-size 99999", LineState.UNCERTAIN),
        ("ip tcp window-size 4000000", LineState.FOREIGN),
        (None, LineState.BEFORE),
    ],
)
def test_a_window_that_nobody_saw_being_set(present, stands):
    """Rounded, or with a digit lost, it is ours; a smaller one may be, a larger one is somebody else's."""
    change = Change(keyword="window-size", before=None, ours=f"ip tcp window-size {OURS}")
    assert line_state(change, present) is stands


@pytest.mark.parametrize(
    "present", ["ip tcp window-size 65535", "ip tcp window-size 125000", "ip tcp window-size 4128"]
)
def test_a_window_that_was_seen_to_be_shown_as_sent_is_somebody_elses_when_it_changes(present):
    """Only where the device's own rounding comes late it is ours."""
    change = Change(
        keyword="window-size", before=None, ours=f"ip tcp window-size {OURS}", shown=f"ip tcp window-size {OURS}"
    )
    assert line_state(change, present) is LineState.FOREIGN
    assert line_state(change, "ip tcp window-size 1250304") is LineState.OURS


def test_a_line_that_is_taken_and_not_printed_is_matched():
    """Switched off where it is on by default: ours brings the default back, which is shown as nothing."""
    change = Change(keyword="selective-ack", before="no ip tcp selective-ack", ours="ip tcp selective-ack")
    found = match_lines((change,), TcpLines(lines=()))
    assert found.unmatched == ()
    assert found.changes[0].shown == ""
