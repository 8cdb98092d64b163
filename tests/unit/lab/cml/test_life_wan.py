"""Conditions of links with their read-back, and captures."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.definitions import Refused
from flashferry.lab.cml.elements import Lab, Link
from flashferry.lab.cml.runtime import ARP_REQUEST, frames_of, pcap_of
from flashferry.lab.cml.topology import checked, merged
from tests.unit.lab.cml.conftest import Rig


def _link(lab: Lab, label: str) -> Link:
    return next(link for link in lab.links.values() if link.label == label)


@pytest.mark.parametrize(
    "expected",
    [
        {"bandwidth": 10_000_001},
        {"bandwidth": -1},
        {"latency": 10_001},
        {"latency": 0.5},
        {"latency": True},
        {"jitter": "5"},
        {"loss": 100.1},
        {"loss": -0.1},
        {"corrupt_corr": 101},
        {"limit": 10_001},
        {"enabled": 1},
        {"delay": 5},
        ["latency"],
        None,
    ],
)
def test_what_is_no_condition_is_refused(expected: object) -> None:
    """Bounds, whole numbers, and no key beside those that are known."""
    with pytest.raises(Refused) as refusal:
        checked(expected)
    assert refusal.value.status == 400


@pytest.mark.parametrize(
    "expected",
    [
        {"bandwidth": 0, "latency": 0, "jitter": 0, "loss": 0, "enabled": True},
        {"bandwidth": 10_000_000, "latency": 10_000, "jitter": 10_000, "loss": 100, "gap": 10_000, "limit": 10_000},
        {"loss": 0.01, "duplicate": 0.5, "reorder_prob": 1},
        {"latency": None},
    ],
)
def test_bounds_themselves_are_taken(expected: dict[str, object]) -> None:
    """And a hundredth of a percent of loss; nothing at all stands for the default."""
    assert checked(expected) == expected


def test_a_change_keeps_what_it_does_not_name() -> None:
    """PATCH: a key that is not sent stays, one that is null goes back to nothing."""
    first = merged(None, {"latency": 50, "loss": 0.5}, is_enabled_by_default=True)
    second = merged(first, {"bandwidth": 100, "loss": None}, is_enabled_by_default=True)
    assert second == {"bandwidth": 100, "latency": 50, "jitter": 0, "loss": 0.0, "enabled": True}


def test_a_condition_comes_with_the_import_is_changed_and_removed(rig: Rig) -> None:
    """It reads back as stored, with what is in force; removing what is not there is a 400."""
    lab, conditions = rig.take(), rig.controller.conditions
    wan1, wan2 = _link(lab, "wan1"), _link(lab, "wan2")
    read = conditions.shown(wan1, is_operational=True)
    assert (read["bandwidth"], read["latency"], read["loss"], read["enabled"]) == (
        50_000,
        50,
        0.01,
        True,
    )
    assert read["operational"]["latency"] == 50
    assert conditions.change(lab, wan1, {"latency": 70})["operational"]["latency"] == 70
    conditions.remove(lab, wan1)
    assert conditions.shown(wan1, is_operational=True) == {"operational": None}
    for link in (wan1, wan2):
        with pytest.raises(Refused, match=r"^No link condition exists$"):
            conditions.remove(lab, link)


@pytest.mark.parametrize(
    ("switch", "read_back", "operational", "applied"),
    [
        ("wrong_condition", 90, 90, 90),
        ("wrong_operational", 50, 90, 90),
        ("wrong_on_link", 50, 50, 90),
    ],
)
def test_a_wrong_condition_shows_where_the_switch_says(
    rig: Rig, switch: str, read_back: int, operational: int, applied: int
) -> None:
    """In what is stored, only in what is in force, or only on the link itself."""
    lab = rig.take()
    link = _link(lab, "wan2")
    rig.set(**{switch: {"latency": 90}})
    rig.controller.conditions.change(lab, link, {"latency": 50, "enabled": True})
    reported = rig.controller.conditions.shown(link, is_operational=True)
    assert link.applied is not None
    assert (reported["latency"], reported["operational"]["latency"], link.applied["latency"]) == (
        read_back,
        operational,
        applied,
    )


def test_a_condition_without_enabled_is_what_the_switch_says(rig: Rig) -> None:
    """In force as a rule; where the controller's default is another, set and idle."""
    lab = rig.take()
    link = _link(lab, "wan2")
    rig.set(is_condition_enabled_by_default=False)
    reported = rig.controller.conditions.change(lab, link, {"latency": 50})
    assert (reported["enabled"], reported["operational"]) == (False, None)


def test_an_import_may_ignore_conditions(rig: Rig) -> None:
    """What a real one does is not known: the switch plays the other way."""
    rig.set(import_ignores_conditions=True)
    assert _link(rig.take(), "wan1").condition is None


def test_a_capture_ends_by_its_packets_its_time_or_by_hand(rig: Rig) -> None:
    """It grows with the clock; the file has no more than was asked for, and stays when the capture is over."""
    lab, captures = rig.take(), rig.controller.captures
    rig.start(lab)
    link = _link(lab, "wan1")
    captures.start(lab, link, {"maxpackets": 5, "encap": "ethernet"}, is_up=True, has_link_key=True)
    rig.clock.now += 60
    assert (captures.status(lab, link)["packetscaptured"], captures.key(link)) == (5, link.link_id)
    captures.start(lab, link, {"maxtime": 2}, is_up=True, has_link_key=False)
    assert captures.key(link) != link.link_id
    rig.clock.now += 1
    assert captures.status(lab, link)["packetscaptured"] == 11
    captures.stop(lab, link)
    rig.clock.now += 60
    assert len(list(frames_of(captures.content(lab, link)))) == 11


@pytest.mark.parametrize(
    "config",
    [{}, {"maxpackets": 0}, {"maxpackets": 1_000_001}, {"maxtime": 86_401}, {"maxtime": 1, "snaplen": 9}, None],
)
def test_a_capture_wants_an_end_within_bounds(rig: Rig, config: object) -> None:
    """Packets or seconds, and no key beside those that are known."""
    lab = rig.take()
    with pytest.raises(Refused) as refusal:
        rig.controller.captures.start(lab, _link(lab, "wan1"), config, is_up=True, has_link_key=True)
    assert refusal.value.status == 400


def test_a_file_of_packets_is_read_as_it_was_written() -> None:
    """Times to the microsecond; a frame that is cut off is left out."""
    capture = pcap_of([(0.25, ARP_REQUEST), (7.5, b"x" * 70)])
    assert list(frames_of(capture[:-1])) == [(0.25, ARP_REQUEST)]
    assert [len(frame) for _, frame in frames_of(capture)] == [60, 70]
