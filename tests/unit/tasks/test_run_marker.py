"""The mark on a device, and what shows it and all else that a run may leave."""

from __future__ import annotations

import re

import pytest

from flashferry.devices.platforms import PLATFORMS
from flashferry.transports import ALL_WAYS
from tasks.run_marker import SHOW_OUR_LINES, first_mark, is_mark, is_shown_of, mark_line, mark_of, other_mark


def test_whoever_looks_by_hand_sees_all_that_a_run_may_leave():
    """Each line that is set, the `no` of it, and the mark."""
    channels = [one.setting for platform in PLATFORMS for one in platform.ssh.windows]
    ours = [one for platform in PLATFORMS for one in platform.tcp.all]
    blocks = [one.setting for platform in PLATFORMS if platform.serving for one in platform.serving.blocks]
    ways = [one for way in ALL_WAYS for one in way.settings]
    lines = {f"{no}{one.command}" for one in (*ours, *ways, *channels, *blocks) for no in ("", "no ")}
    assert len(lines) > 12
    serving = [platform.serving for platform in PLATFORMS if platform.serving]
    lines |= {one.file_line("bootflash:image.bin", 99) for one in serving}
    lines |= {one.list_line(99, "flashferry-run-1") for one in serving}
    shown = re.compile(SHOW_OUR_LINES.partition(" include ")[2])
    assert [one for one in (*lines, mark_line("run-1", "ops@here")) if not shown.search(one)] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (mark_line("20261122-101112-abcd", "ops@controller1"), True),
        (mark_line("20261122-101112-abcd", ""), True),
        (mark_line("20261122-101112-abcd", "x" * 200 + "@nms"), True),
        ("alias exec flashferry-20261122-1011 ops@nms", True),
        ("alias exec flashferry-status show running-config | include flashferry", False),
        ("alias exec flashferry-status dir", False),
        ("alias exec flashferry-copy copy ftp://u@192.0.2.1/x flash:", False),
    ],
)
def test_an_alias_of_a_colleague_is_no_mark(line, expected):
    """A mark stands for a person at a host, also where the device keeps a part of its name; an alias for a command."""
    assert is_mark(line) is expected
    assert first_mark(["alias exec flashferry-status dir", line]) == (line if expected else None)
    if expected:
        assert mark_of(line).startswith("flashferry-2026")


OURS = mark_line("20261122-101112-abcd", "ops@nms")


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        (OURS, True),
        ("alias exec flashferry-20261122-1011 ops@nms", True),
        ("alias exec flashferry-20261122-1011 ops", False),
        ("alias exec flashferry-20261122-101112-abcd", True),
        ("alias exec flashferry-20261122", True),
        ("alias exec flashferry-2026 ops@nms", False),
        (mark_line("20261122-101112-abce", "ops@nms"), False),
        (mark_line("20261122-101112-abcd", "ops@other"), False),
    ],
)
def test_a_mark_that_a_device_cut_is_its_own_run_s_alone(line, is_ours):
    """A part of its name or no owner, as long as it cannot be another run's; a cut that is no mark is none of ours."""
    assert is_shown_of(line, OURS) is is_ours
    assert other_mark([line], [OURS]) == (line if is_mark(line) and not is_ours else None)
