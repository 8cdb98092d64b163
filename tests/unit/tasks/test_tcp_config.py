"""What is tuned, for every start."""

from __future__ import annotations

import itertools
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports import USUAL
from tasks import tcp_config
from tasks.run_marker import mark_line
from tasks.tcp_config import Change, TcpLines, is_ours_to_type

plan_tune = partial(tcp_config.plan_tune, platform=IOS_XE, transport=USUAL)
tcp_lines = partial(tcp_config.tcp_lines, platform=IOS_XE)

OURS = 1_250_000


def lines(*text: str) -> TcpLines:
    return TcpLines(lines=text)


@pytest.mark.parametrize(
    "change",
    [
        Change(keyword="window-size", before="username eve privilege 15 secret x", ours="ip tcp window-size 9"),
        Change(keyword="window-size", before="ip tcp window-size 9\nreload", ours="ip tcp window-size 9"),
        Change(keyword="window-size", before=None, ours="reload"),
        Change(keyword="window-size", before="ip tcp selective-ack", ours="ip tcp window-size 9"),
        Change(keyword="chunk-size", before=None, ours="ip tcp chunk-size 9"),
        Change(keyword="source-interface", before="ip ftp password 0 x", ours="ip ftp source-interface Gi0"),
        Change(keyword="flashferry-x", before="alias exec flashferry-x reload", ours="alias exec flashferry-x me"),
        Change(keyword="flashferry-y", before=None, ours="alias exec flashferry-x me"),
        Change(keyword="sh", before=None, ours="alias exec sh reload"),
    ],
)
def test_nothing_but_our_own_families_of_lines_is_ever_typed(change):
    """A journal that says otherwise was not written by us."""
    assert not is_ours_to_type(change)


@given(
    before=st.sampled_from([None, "no ip tcp timestamp", "ip tcp timestamp"]),
    window_bytes=st.integers(68, 1_073_741_823),
)
def test_everything_that_is_planned_may_be_typed(before, window_bytes):
    """The families are wide enough for all that we set, and for what we put back."""
    plan = plan_tune(
        lines(*([before] if before else [])),
        window_bytes=window_bytes,
        extras=("timestamps", "path-mtu-discovery"),
        source_interface="GigabitEthernet0/0/0",
        mark=mark_line("r", "me"),
    )
    assert all(map(is_ours_to_type, plan.changes))


def test_a_device_that_is_good_enough_is_not_touched():
    """A larger window with SACK needs no change at all."""
    assert plan_tune(lines("ip tcp window-size 4000000", "ip tcp selective-ack"), window_bytes=OURS).changes == ()


@pytest.mark.parametrize(
    "present",
    [
        ("ip tcp window-size 1250000", "ip tcp selective-ack", "ip tcp timestamp"),
        ("ip tcp timestamp", "ip tcp selective-ack", "ip tcp window-size 1073741823"),
        ("ip tcp window-size 1250000", "ip tcp selective-ack", "ip tcp timestamp", "ip tcp synwait-time 5"),
    ],
)
def test_an_extra_that_is_on_already_is_not_touched(present):
    """Enough window, SACK and the extra asked for: not a single line is sent."""
    assert plan_tune(lines(*present), window_bytes=OURS, extras=("timestamps",)).changes == ()


def test_path_mtu_discovery_with_another_timer_is_on():
    """A timer that somebody chose is theirs; the setting itself is on."""
    present = lines("ip tcp path-mtu-discovery age-timer 20", "ip tcp window-size 1250000", "ip tcp selective-ack")
    assert plan_tune(present, window_bytes=OURS, extras=("path-mtu-discovery",)).changes == ()


def test_an_unknown_extra_is_refused():
    """The sentence lists what there is."""
    with pytest.raises(ValueError, match="expected timestamps or path-mtu-discovery, found 'nagle'"):
        plan_tune(lines(), window_bytes=OURS, extras=("nagle",))


def test_a_source_interface_that_is_set_already_is_left_alone():
    """Short and whole name are the same interface, another number is not."""
    present = lines("ip ftp source-interface GigabitEthernet0/0")
    assert plan_tune(present, window_bytes=None, source_interface="Gi0/0").changes == ()
    assert plan_tune(present, window_bytes=None, source_interface="Gi0/1").changes != ()
    assert plan_tune(present, window_bytes=None, source_interface="Te0/0").changes != ()


@pytest.mark.parametrize("window_bytes", [0, 67, 1_073_741_824])
def test_a_window_that_ios_does_not_take_is_refused_before_it_is_sent(window_bytes):
    """The command's range is 68 to 1073741823."""
    with pytest.raises(ValueError, match="68 to 1073741823"):
        plan_tune(lines(), window_bytes=window_bytes)


def test_lines_of_a_whole_configuration():
    """Global lines are found wherever the release prints them; interface lines are not ours."""
    found = tcp_lines("hostname r1\nip tcp window-size 65535\n!\ninterface Gi1\n ip tcp adjust-mss 1360\nend\n")
    assert found.lines == ("ip tcp window-size 65535",)
    assert found.window_bytes == 65535


def test_a_banners_text_is_no_line_of_ours():
    """It was once written back as a global line."""
    found = tcp_lines("version 15.2\nbanner motd ^C\nip tcp window-size 12345\n^C\nip tcp selective-ack\nend\n")
    assert found.lines == ("ip tcp selective-ack",)


def test_every_order_of_lines_gives_the_same_window():
    """The window is found among other lines in any order."""
    for order in itertools.permutations(("ip tcp timestamp", "ip tcp window-size 70000", "no ip tcp selective-ack")):
        assert lines(*order).window_bytes == 70000
