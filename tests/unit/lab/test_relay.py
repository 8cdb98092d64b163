"""The relay carries packets between two descriptors as its model says, and answers what it is asked."""

import contextlib
import math
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from flashferry.lab.link import load_profile
from flashferry.lab.namespaces import Ends
from flashferry.lab.relay import Relay, nap_s, turn_s
from tests.patience import until


@dataclass(frozen=True)
class Rig:
    """A relay between two socket pairs, which stand for the TUN interfaces."""

    relay: Relay
    core: socket.socket
    site: socket.socket


@pytest.fixture
def rig() -> Iterator[Rig]:
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
    for pair in pairs:
        for end in pair:
            end.setblocking(False)
    (core, near), (site, far) = pairs
    relay = Relay(Ends(core=near.fileno(), site=far.fileno()), profile=load_profile("lan"), seed=1)
    yield Rig(relay, core, site)
    for pair in pairs:
        for end in pair:
            end.close()


def _until_quiet(relay: Relay) -> None:
    def is_quiet() -> bool:
        relay.turn()
        return min(relay.to_site.next_due_s(), relay.to_core.next_due_s()) == math.inf

    until(is_quiet, "a relay that holds no packet")


def test_packets_go_both_ways_and_are_counted(rig: Rig) -> None:
    """What goes in at one end comes out at the other, and each direction counts its own."""
    rig.core.send(b"down")
    rig.site.send(b"up")
    rig.site.send(b"up again")
    _until_quiet(rig.relay)
    assert rig.site.recv(99) == b"down"
    assert [rig.core.recv(99), rig.core.recv(99)] == [b"up", b"up again"]
    counters = rig.relay.answer({"do": "counters"})
    assert counters["to_site"]["delivered_packets"] == 1
    assert counters["to_core"]["delivered_bytes"] == len(b"up" + b"up again")


def test_a_packet_is_not_early(rig: Rig) -> None:
    """Before its time a packet is not handed over, and the relay knows how long to wait."""
    assert rig.relay.answer({"do": "set", "changes": {"delay_s": 5.0}})["profile"]["to_site"]["delay_s"] == 5.0
    rig.core.send(b"late")
    assert rig.relay.turn()
    assert not rig.relay.turn()
    assert 4.0 < rig.relay.wait_s() <= 5.1
    with pytest.raises(BlockingIOError):
        rig.site.recv(99)


def test_a_cut_link_carries_nothing_until_it_is_mended(rig: Rig) -> None:
    """What is offered meanwhile is lost, and so is what was under way; both are counted, and a new start stays cut."""
    rig.core.send(b"under way")
    rig.relay.answer({"do": "set", "changes": {"delay_s": 0.005}})
    rig.relay.turn()
    assert rig.relay.answer({"do": "cut"})["is_cut"] is True
    rig.site.send(b"offered")
    _until_quiet(rig.relay)
    counters = rig.relay.answer({"do": "counters"})
    assert [counters[way]["cut_packets"] for way in ("to_site", "to_core")] == [1, 1]
    assert [counters[way]["delivered_packets"] for way in ("to_site", "to_core")] == [0, 0]
    assert rig.relay.answer({"do": "renew", "changes": {}, "seed": 2})["is_cut"] is True
    assert rig.relay.answer({"do": "mend"})["is_cut"] is False
    rig.core.send(b"after")
    _until_quiet(rig.relay)
    assert rig.site.recv(99) == b"after"


def test_a_depot_shares_the_sites_link() -> None:
    """What is for its address comes out at its own end, all else at the site's; what it sends goes by the same way."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
    with contextlib.ExitStack() as stack:
        for end in (end for pair in pairs for end in pair):
            stack.enter_context(end).setblocking(False)
        (core, near), (site, far), (depot, beside) = pairs
        ends = Ends(core=near.fileno(), site=far.fileno(), depot=beside.fileno(), depot_address="198.18.1.10")
        relay = Relay(ends, profile=load_profile("lan"), seed=1)
        for last in (10, 11):
            core.send(bytes(16) + bytes([198, 18, 1, last]))
        depot.send(b"from the depot")
        site.send(b"from a device")
        _until_quiet(relay)
        assert (depot.recv(99)[-1], site.recv(99)[-1]) == (10, 11)
        assert {core.recv(99), core.recv(99)} == {b"from the depot", b"from a device"}
        counters = relay.answer({"do": "counters"})
        assert [counters[way]["delivered_packets"] for way in ("to_site", "to_core")] == [2, 2]


def test_what_the_interface_refuses_is_counted(rig: Rig) -> None:
    """An end that takes nothing costs the packet, not the link."""
    rig.site.close()
    rig.core.send(b"nobody there")
    _until_quiet(rig.relay)
    assert rig.relay.answer({"do": "counters"})["refused_packets"] == 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"do": "dance"}, "unknown request 'dance'; allowed are counters, set"),
        ({"do": "set", "changes": {"colour": 1}}, "colour"),
        ({"do": "set", "changes": {"rate_bps": -1}}, "rate_bps: expected a number from 1000"),
    ],
)
def test_a_wrong_request_is_answered_in_a_sentence(rig: Rig, request_: dict[str, object], message: str) -> None:
    """And changes nothing."""
    before = rig.relay.profile
    assert message in rig.relay.answer(request_)["error"]
    assert rig.relay.profile == before


@pytest.mark.parametrize("wait_s", [0.00011, 0.001, 0.0049, 0.0051, 0.05, 0.3, 10.0, 60.0])
def test_sleep_ends_before_a_packet_arrives(wait_s: float) -> None:
    """However long the wait, the relay sleeps for some time and wakes up ahead, long waits by more."""
    assert 0 < nap_s(wait_s) <= wait_s - 0.0000999
    if wait_s > 0.005:
        assert wait_s - nap_s(wait_s) >= 0.002


def test_there_is_no_sleep_when_a_packet_is_near() -> None:
    """What arrives within the time that waking up takes is not slept over."""
    assert nap_s(0.0) == nap_s(0.00009) == 0


@pytest.mark.parametrize("rtt_s", [0.0, 0.001, 0.02, 0.03, 0.1, 0.6, 20.0])
def test_a_turn_never_shifts_a_round_trip_by_a_millisecond(rtt_s: float) -> None:
    """Each way is wrong by half a turn at most, so a round trip by one; and by at most 2 % of 20 ms or more."""
    assert 0.0004 <= turn_s(rtt_s) < 0.001
    if rtt_s >= 0.02:
        assert turn_s(rtt_s) <= 0.02 * rtt_s


def test_turns_follow_the_delay_that_is_set(rig: Rig) -> None:
    """A longer round trip is carried in longer turns from then on."""
    before = rig.relay.turn_s
    rig.relay.answer({"do": "set", "changes": {"delay_s": 0.05}})
    assert rig.relay.turn_s == turn_s(0.1) > before


def test_an_answer_within_the_write_leaves_in_the_same_turn(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers while a packet is handed over; the relay takes that answer before it sleeps."""
    rig.relay.answer({"do": "set", "changes": {"delay_s": 0.0}})
    write = os.write

    def write_and_answer(end: int, packet: bytes) -> int:
        rig.site.send(b"answer")
        return write(end, packet)

    monkeypatch.setattr("flashferry.lab.relay.os.write", write_and_answer)
    rig.core.send(b"question")
    rig.relay.turn()
    assert rig.relay.to_core.counters.offered_packets == 1


def test_a_renewed_link_loses_what_its_seed_says(rig: Rig) -> None:
    """Counters begin at zero, changes hold, and the same seed loses the same packets of the same stream."""

    def survivors(seed: int) -> list[int]:
        rig.relay.answer({"do": "renew", "seed": seed, "changes": {"loss_ratio": 0.5, "delay_s": 0}})
        assert rig.relay.answer({"do": "counters"})["to_site"]["offered_packets"] == 0
        for number in range(50):
            rig.core.send(bytes([number]))
        _until_quiet(rig.relay)
        return [rig.site.recv(9)[0] for _ in range(rig.relay.to_site.counters.delivered_packets)]

    first = survivors(7)
    assert 0 < len(first) < 50
    assert survivors(7) == first
    assert survivors(8) != first
