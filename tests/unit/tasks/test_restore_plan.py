"""How what was tuned is undone: the round trip must end where it began, for every start."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.transports import USUAL
from tasks import tcp_config
from tasks.restore_plan import plan_restore
from tasks.run_marker import mark_line
from tasks.tcp_config import Change, TcpLines

plan_tune = partial(tcp_config.plan_tune, platform=IOS_XE, transport=USUAL)
tcp_lines = partial(tcp_config.tcp_lines, platform=IOS_XE)

OURS = 1_250_000


def lines(*text: str) -> TcpLines:
    return TcpLines(lines=text)


def apply(configuration: dict[str, str], commands: tuple[str, ...], default_on: tuple[str, ...] = ()) -> dict[str, str]:
    """Apply lines as IOS does: what equals the release's default is not kept, `no X` of a default-on keyword is."""
    result = dict(configuration)
    for command in commands:
        negated = command.startswith("no ")
        keyword = command.split()[3 if negated else 2]
        result.pop(keyword, None)
        if negated == (keyword in default_on):
            result[keyword] = command if not negated else f"no ip tcp {keyword}"
    return result


def seen(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return changes that the device was seen to show as they were sent."""
    return tuple(replace(change, shown=change.ours) for change in changes)


def as_lines(configuration: dict[str, str]) -> TcpLines:
    return lines(*configuration.values())


STARTS = [
    {},
    {"window-size": "ip tcp window-size 65535"},
    {"window-size": f"ip tcp window-size {OURS}"},
    {"window-size": "ip tcp window-size 4000000"},
    {"selective-ack": "ip tcp selective-ack"},
    {"synwait-time": "ip tcp synwait-time 5", "window-size": "ip tcp window-size 4128"},
]


@pytest.mark.parametrize("start", STARTS, ids=str)
def test_round_trip_ends_where_it_began(start):
    """Tune, then restore: every line is what it was, whether it was absent, set, or set to our own value."""
    plan = plan_tune(as_lines(start), window_bytes=OURS)
    tuned = apply(start, plan.commands)
    undo = plan_restore(plan.changes, as_lines(tuned))
    assert apply(tuned, undo.commands) == start
    assert undo.foreign == ()


def test_round_trip_where_sack_is_a_default_that_was_switched_off():
    """Where SACK is on by default, an explicit `no ip tcp selective-ack` comes back although ours never showed."""
    start = {"selective-ack": "no ip tcp selective-ack"}
    plan = plan_tune(as_lines(start), window_bytes=OURS)
    tuned = apply(start, plan.commands, default_on=("selective-ack",))
    assert "selective-ack" not in tuned
    undo = plan_restore(plan.changes, as_lines(tuned))
    assert apply(tuned, undo.commands, default_on=("selective-ack",)) == start


@pytest.mark.parametrize("sent", range(3))
def test_restore_after_a_crash_between_any_two_lines(sent):
    """However many of our lines were taken before a crash, exactly those are undone."""
    plan = plan_tune(lines(), window_bytes=OURS)
    tuned = apply({}, plan.commands[:sent])
    assert plan_restore(plan.changes, as_lines(tuned)).commands == tuple(f"no {line}" for line in plan.commands[:sent])


def test_restoring_twice_sends_nothing_the_second_time():
    """A line that is as before is not touched again."""
    plan = plan_tune(lines(), window_bytes=OURS)
    assert plan_restore(plan.changes, lines()).commands == ()


def test_a_line_that_somebody_else_changed_is_left_alone_and_named():
    """Neither ours nor the old one: it stays, and the sentence says what was found."""
    plan = plan_tune(lines("ip tcp window-size 65535"), window_bytes=OURS)
    undo = plan_restore(seen(plan.changes), lines("ip tcp window-size 99999", "ip tcp selective-ack"))
    assert undo.commands == ("no ip tcp selective-ack",)
    assert str(undo.foreign[0]) == (
        "expected 'ip tcp window-size 1250000' as we set it, or 'ip tcp window-size 65535' as before, found "
        "'ip tcp window-size 99999'; it was left alone"
    )


def test_a_line_shown_in_other_words_is_undone():
    """What it was seen to be shown as is ours, also where it belongs to no family that we know."""
    clamped = Change(
        keyword="window-size", before=None, ours=f"ip tcp window-size {OURS}", shown="ip tcp window-size 65535"
    )
    renamed = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack", shown="tcp sack on")
    undo = plan_restore((clamped, renamed), lines("ip tcp window-size 65535"), others=["tcp sack on"])
    assert undo.commands == (f"no ip tcp window-size {OURS}", "no ip tcp selective-ack")


def test_to_be_sure_a_line_that_is_not_shown_is_taken_back_too():
    """A device may be late in showing it; where it is gone that does nothing. Somebody else's line still stays."""
    plan = plan_tune(lines("ip tcp window-size 65535"), window_bytes=OURS)
    sure = plan_restore(plan.changes, lines("ip tcp window-size 65535"), is_sure=True)
    assert sure.commands == ("ip tcp window-size 65535", "no ip tcp selective-ack")
    foreign = plan_restore(seen(plan.changes), lines("ip tcp window-size 99999"), is_sure=True)
    assert foreign.commands == ("no ip tcp selective-ack",)


def test_what_our_own_undoing_switched_off_is_switched_on_again():
    """SACK is on by default there: `no` of a line that made no difference is a line, and not how it was."""
    change = Change(keyword="selective-ack", before=None, ours="ip tcp selective-ack")
    assert plan_restore((change,), lines("no ip tcp selective-ack")).commands == ("ip tcp selective-ack",)


def test_a_mark_comes_first_and_goes_by_itself():
    """Another controller sees it as long as any line of ours is set; a device that needs no line gets none."""
    mark = mark_line("20261122-111939-8055", "ops@ctl 1;reload")
    assert mark == "alias exec flashferry-20261122-111939-8055 ops@ctl-1-reload"
    plan = plan_tune(lines(), window_bytes=OURS, mark=mark)
    assert plan.commands == (mark, f"ip tcp window-size {OURS}", "ip tcp selective-ack")
    undo = plan_restore(plan.changes, lines(*plan.commands))
    assert undo.closing == ("no alias exec flashferry-20261122-111939-8055",)
    assert undo.commands == (f"no ip tcp window-size {OURS}", "no ip tcp selective-ack")
    enough = lines("ip tcp window-size 4000000", "ip tcp selective-ack")
    assert plan_tune(enough, window_bytes=OURS, mark=mark).changes == ()


@pytest.mark.parametrize("default_on", [False, True])
@pytest.mark.parametrize(("extra", "keyword"), [("timestamps", "timestamp"), ("path-mtu-discovery",) * 2])
def test_extras_come_back_as_they_were(extra, keyword, default_on):
    """Absent before means absent afterwards; a default that was switched off is switched off again."""
    defaults = (keyword,) if default_on else ()
    start = {keyword: f"no ip tcp {keyword}"} if default_on else {}
    plan = plan_tune(as_lines(start), window_bytes=OURS, extras=(extra,))
    tuned = apply(start, plan.commands, default_on=defaults)
    assert tuned != start
    assert f"ip tcp {keyword}" in plan.commands
    undo = plan_restore(plan.changes, as_lines(tuned))
    assert apply(tuned, undo.commands, default_on=defaults) == start


@pytest.mark.parametrize(
    ("before", "undone"),
    [
        (None, "no ip ftp source-interface Gi0"),
        ("ip ftp source-interface Loopback0", "ip ftp source-interface Loopback0"),
    ],
)
def test_a_source_interface_is_set_and_put_back(before, undone):
    """The device prints the interface's whole name; it is ours all the same."""
    plan = plan_tune(lines(*([before] if before else [])), window_bytes=None, source_interface="Gi0")
    assert plan.commands == ("ip ftp source-interface Gi0",)
    now = tcp_lines("ip tcp synwait-time 5\nip ftp source-interface GigabitEthernet0\n")
    assert plan_restore(plan.changes, now).commands == (undone,)


def test_somebody_elses_source_interface_is_left_alone():
    """An interface that is neither the old one nor ours is named and stays."""
    plan = plan_tune(lines(), window_bytes=None, source_interface="Gi0")
    undo = plan_restore(plan.changes, lines("ip ftp source-interface Loopback7"))
    assert (undo.commands, undo.foreign[0].present) == ((), "ip ftp source-interface Loopback7")


def test_an_old_value_is_restored_as_the_old_line():
    """Where a value stood before, its line is sent again instead of a `no`."""
    change = Change(keyword="window-size", before="ip tcp window-size 65535", ours="ip tcp window-size 1250000")
    undo = plan_restore((change,), lines("ip tcp window-size 1250000"))
    assert undo.commands == ("ip tcp window-size 65535",)


@given(
    start=st.dictionaries(
        st.sampled_from(["window-size", "selective-ack", "timestamp"]), st.integers(68, 1_073_741_823), max_size=3
    ),
    window_bytes=st.integers(68, 1_073_741_823),
    sent=st.integers(0, 2),
)
def test_any_start_any_window_any_crash(start, window_bytes, sent):
    """Property: after a crash at any line, restoring gives the start back."""
    configuration = {
        keyword: f"ip tcp {keyword} {value}" if keyword == "window-size" else f"ip tcp {keyword}"
        for keyword, value in start.items()
    }
    plan = plan_tune(as_lines(configuration), window_bytes=window_bytes)
    tuned = apply(configuration, plan.commands[:sent])
    undo = plan_restore(plan.changes, as_lines(tuned))
    assert apply(tuned, undo.commands) == configuration


@pytest.mark.parametrize("printed", ["GigabitEthernet 0/0/0", "GigabitEthernet0/0/0", "gigabitethernet 0/0/0"])
def test_an_interface_as_the_device_prints_it(printed):
    """With a blank within, or in other letters, it is the same interface."""
    plan = plan_tune(lines(), window_bytes=None, source_interface="Gi0/0/0")
    now = tcp_lines(f"version 15.2\nip ftp source-interface {printed}\nend\n")
    assert plan_restore(plan.changes, now).commands == ("no ip ftp source-interface Gi0/0/0",)
