"""Images that cross a link once: what must hold whatever the fleet, and some figures worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.model.fleet_plan import Supply
from flashferry.model.limits import Limits
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.waves import WavePolicy
from flashferry.planning.neighbour_tree import degree_for
from flashferry.planning.scenario import (
    ASSUMED_LAN_RATE_BPS,
    NEIGHBOUR_BYTES_PER_S,
    PROOF_BYTES_PER_S,
    Estimate,
    LinkFacts,
    Rate,
    Scenario,
    lan_of,
    play,
)
from flashferry.planning.simulation import CHECK_S, RESTORE_S, SETUP_S

SIZES = {"a.bin": 40_000_000, "b.bin": 100_000_000, "c.bin": 300_000_000}
OF_LINK = Rate(bytes_per_s=1e6, source="measured", is_of_link=True)
WAN_BPS = 10e6
CAP = payload_cap_bytes_per_s(WAN_BPS * 0.8) or 0
SUPPLIES = {
    Supply.CENTRE: {},
    Supply.DEPOT: {"depot": "depot-1"},
    Supply.NEIGHBOUR: {"neighbours": True},
}


def device(host: str, image: str = "b.bin", *, site: str = "s", rate: Rate = OF_LINK) -> Estimate:
    """Return a device that hashes at 10 MB/s, in no distance."""
    return Estimate(
        host=host,
        link=site,
        site=site,
        group=None,
        model="ISR",
        image=image,
        size_bytes=SIZES[image],
        rate=rate,
        hash_bytes_per_s=10e6,
        rtt_s=0.0,
    )


def scenario(devices: Sequence[Estimate], supply: Supply, *, lan_rate_bps: float | None = None, **more) -> Scenario:
    """Return a run of devices at sites that are all supplied alike."""
    facts = LinkFacts(name="", rate_bps=WAN_BPS, cap_share=0.8, lan_rate_bps=lan_rate_bps, **SUPPLIES[supply])
    given = {"limits": Limits(), "policy": WavePolicy(canary=False, by=None)} | more
    links = {one.link: replace(facts, name=one.link) for one in devices}
    return Scenario(estimates=tuple(devices), links=links, **given)


def test_devices_begin_once_their_image_is_proven_at_the_depot() -> None:
    """100 MB over the link at its cap, half a second of proof; then eight copies share the LAN's 12.2 MB/s."""
    found = play(scenario([device(f"r{number}") for number in range(8)], Supply.DEPOT))
    (sync,) = found.syncs_of("s")
    lan = payload_cap_bytes_per_s(ASSUMED_LAN_RATE_BPS)
    assert lan is not None
    assert sync.received_s == pytest.approx(100e6 / CAP)
    assert sync.proven_s - sync.received_s == pytest.approx(100e6 / PROOF_BYTES_PER_S)
    assert {one.begins_s for one in found.run.devices.values()} == {sync.proven_s}
    expected = sync.proven_s + CHECK_S + SETUP_S + 800e6 / lan + 10 + RESTORE_S
    assert found.run.ends_s == pytest.approx(expected, rel=1e-6)


def test_images_go_to_a_depot_one_after_the_other_in_the_order_of_need() -> None:
    """The first device's image is not held up by one that is needed later."""
    found = play(scenario([device("r1", "b.bin"), device("r2", "c.bin"), device("r3", "b.bin")], Supply.DEPOT))
    assert [name for name, _ in found.syncs["s"]] == ["b.bin", "c.bin"]
    first, second = found.syncs_of("s")
    assert second.begins_s == pytest.approx(first.received_s)
    assert found.run.devices["r3"].copied_s < second.proven_s == found.run.devices["r2"].begins_s


def test_a_slow_device_is_slow_at_a_depot_too() -> None:
    """What its flash takes is no matter of the way; what it takes over the LAN is, where that is known apart."""
    slow = device("r1", rate=Rate(bytes_per_s=0.5e6, source="measured"))
    found = play(scenario([slow], Supply.DEPOT)).run.devices["r1"]
    assert found.copied_s - found.copies_from_s == pytest.approx(200)
    faster = replace(slow, lan_rate=Rate(bytes_per_s=5e6, source="measured"))
    found = play(scenario([faster], Supply.DEPOT)).run.devices["r1"]
    assert found.copied_s - found.copies_from_s == pytest.approx(20)
    assert play(scenario([faster], Supply.CENTRE)).run.devices["r1"].copied_s > 200


def test_a_depot_takes_images_from_the_beginning_of_the_run_on() -> None:
    """The sites of later waves have theirs by the time it is their turn; nobody takes one while its site is closed."""
    devices = [device(f"{site}{number}", site=site) for site in "ab" for number in range(4)]
    later = scenario(devices, Supply.DEPOT, policy=WavePolicy(canary=False, by="site"))
    found = play(later)
    assert found.syncs_of("a") == found.syncs_of("b")
    assert found.run.devices["b0"].begins_s == pytest.approx(found.run.wave_ends_s[0])
    closed = replace(later, links={**later.links, "b": replace(later.links["b"], opens_s=600.0)})
    assert play(closed).syncs_of("b")[0].begins_s >= 600


def test_of_an_unknown_link_a_depot_gets_what_a_device_gets() -> None:
    """Nobody knows more of it than that its fastest device was seen to take so much."""
    made = scenario([device("r1", rate=Rate(bytes_per_s=2e6, source="")), device("r2", rate=OF_LINK)], Supply.DEPOT)
    unknown = replace(made, links={"s": replace(made.links["s"], rate_bps=None)})
    assert play(unknown).syncs_of("s")[0].received_s == pytest.approx(50)


def test_neighbours_hand_an_image_on_in_a_tree() -> None:
    """One pulls over the WAN; it serves three; each of them three more: nobody before his server has proven it."""
    found = play(scenario([device(f"r{number}") for number in range(9)], Supply.NEIGHBOUR))
    times = [found.run.devices[f"r{number}"] for number in range(9)]
    copy_s = 100e6 / NEIGHBOUR_BYTES_PER_S
    assert [one.host for one in _of(found.pulls, Supply.CENTRE)] == ["r0"]
    assert found.run.links["s"].carried_bytes == 100_000_000
    assert found.run.links[lan_of("s")].carried_bytes == 800_000_000
    assert {one.begins_s for one in times[1:4]} == {times[0].hashed_s}
    assert times[1].copied_s - times[1].copies_from_s == pytest.approx(copy_s)
    # Five are left: a place is free again with a proof, and whoever has proven it has three of his own.
    assert {one.begins_s for one in times[4:]} == {times[1].hashed_s}


def test_in_a_later_wave_one_neighbour_is_looked_at_again_before_it_serves() -> None:
    """The canary that has the image is checked anew: only then is the next wave's first begun."""
    made = scenario([device(f"r{number}") for number in range(3)], Supply.NEIGHBOUR, policy=WavePolicy(canary=True))
    found = play(made)
    assert found.run.links["s"].carried_bytes == 100_000_000
    begins_s = found.run.wave_ends_s[0] + CHECK_S
    assert [found.run.devices[host].begins_s for host in ("r1", "r2")] == [pytest.approx(begins_s)] * 2


def test_who_takes_no_part_pulls_over_the_wan_and_serves_nobody() -> None:
    """In a VRF, or without clear text, a device is none of the tree, also where it is the first."""
    apart = replace(device("r0"), takes_part=False)
    found = play(scenario([apart, *(device(f"r{number}") for number in range(1, 4))], Supply.NEIGHBOUR))
    assert {host for host, supply in found.pulls.items() if supply is Supply.CENTRE} == {"r0", "r1"}
    assert found.carried_bytes("s") == 200_000_000
    assert found.run.devices["r2"].begins_s == found.run.devices["r1"].hashed_s


def _of(pulls, supply: Supply) -> list[Estimate]:
    return [device(host) for host, one in pulls.items() if one is supply]


def test_a_depot_goes_before_neighbours() -> None:
    """A site that has both needs no device to serve others."""
    made = scenario([device("r1"), device("r2")], Supply.DEPOT)
    both = replace(made, links={"s": replace(made.links["s"], neighbours=True)})
    assert set(play(both).pulls.values()) == {Supply.DEPOT}
    assert play(both) == play(made)


_rates = st.one_of(st.just(OF_LINK), st.builds(Rate, bytes_per_s=st.floats(5e4, 2e7), source=st.just("measured")))


@st.composite
def _fleets(draw: st.DrawFn) -> list[Estimate]:
    one = st.tuples(st.sampled_from("st"), st.sampled_from(sorted(SIZES)), _rates)
    return [
        device(f"r{number}", image, site=site, rate=rate)
        for number, (site, image, rate) in enumerate(draw(st.lists(one, min_size=1, max_size=16)))
    ]


_policies = st.builds(
    WavePolicy, canary=st.booleans(), by=st.sampled_from(["site", None]), size=st.sampled_from([2, None])
)
_limits = st.builds(
    Limits, logins=st.integers(1, 4), copies=st.integers(1, 8), site_copies=st.integers(1, 8), hashes=st.integers(1, 4)
)
_local = st.sampled_from([Supply.DEPOT, Supply.NEIGHBOUR])


@given(_fleets(), _local, _policies, _limits)
def test_a_link_carries_each_image_once(fleet, supply: Supply, policy: WavePolicy, limits: Limits) -> None:
    """Over the WAN go the sites' distinct images, over the LAN what devices pull there; nobody is lost."""
    found = play(scenario(fleet, supply, policy=policy, limits=limits))
    assert set(found.run.devices) == {one.host for one in fleet}
    for site in {one.link for one in fleet}:
        there = [one for one in fleet if one.link == site]
        once = sum(SIZES[image] for image in {one.image for one in there})
        lan = found.run.links.get(lan_of(site))
        total = sum(one.size_bytes for one in there)
        assert found.carried_bytes(site) == once
        assert (lan.carried_bytes if lan else 0) == (total if supply is Supply.DEPOT else total - once)
        assert found.busy_s(site) >= once / CAP * (1 - 1e-6)


@given(_fleets(), _policies, _limits)
def test_no_device_copies_before_its_image_is_at_the_depot(fleet, policy: WavePolicy, limits: Limits) -> None:
    """It is begun when it is proven, not before; and the LAN carries no more than it can."""
    found = play(scenario(fleet, Supply.DEPOT, policy=policy, limits=limits))
    for one in fleet:
        assert found.run.devices[one.host].begins_s >= found.syncs[one.link][one.image_key].proven_s
    lan = payload_cap_bytes_per_s(ASSUMED_LAN_RATE_BPS) or 0
    for use in found.run.links.values():
        assert use.last_byte_s - use.first_byte_s >= use.carried_bytes / lan * (1 - 1e-6)


@given(_fleets(), _policies, _limits)
def test_no_neighbour_is_asked_for_more_than_it_serves(fleet, policy: WavePolicy, limits: Limits) -> None:
    """At no moment pull more devices of a site and an image than those that have proven it can serve."""
    found = play(scenario(fleet, Supply.NEIGHBOUR, policy=policy, limits=limits))
    times = found.run.devices
    for one in fleet:
        like = [other.host for other in fleet if (other.link, other.image) == (one.link, one.image)]
        if found.pulls[one.host] is Supply.CENTRE:
            continue
        at_s = times[one.host].copies_from_s
        pulling = [host for host in like if times[host].copies_from_s <= at_s < times[host].copied_s]
        proven = [host for host in like if times[host].hashed_s <= at_s]
        assert len(pulling) <= degree_for(len(like)) * len(proven)


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(SIZES)), st.integers(2, 6)), min_size=1, max_size=3, unique_by=lambda i: i[0]
    ),
    st.floats(2, 200),
    st.integers(1, 8),
)
def test_a_depot_makes_no_site_slower_whose_images_several_devices_pull(images, faster: float, copies: int) -> None:
    """Where devices take what they are given, each image is for two or more, and the LAN is twice the link or more.

    With one device an image is carried twice, one way behind the other: that is why a depot for it is not advised.
    """
    fleet = [device(f"{image}{number}", image) for image, count in images for number in range(count)]
    given = {"limits": Limits(site_copies=copies), "lan_rate_bps": WAN_BPS * 0.8 * faster}
    alone, with_depot = (play(scenario(fleet, supply, **given)) for supply in (Supply.CENTRE, Supply.DEPOT))
    # What is no copy: the proof at the depot, and a slot that stays empty while the next device is set up.
    rest = sum(SIZES[image] for image, _ in images) / PROOF_BYTES_PER_S + (1 + len(fleet)) * (CHECK_S + SETUP_S)
    assert with_depot.run.ends_s <= alone.run.ends_s + rest


@given(_fleets(), st.floats(1, 200))
def test_a_depot_costs_no_more_than_the_way_to_it(fleet, faster: float) -> None:
    """Whatever the devices: all at once, over a LAN that is no slower than the link, a run ends no later than that."""
    given = {"limits": Limits(site_copies=16, logins=100), "lan_rate_bps": WAN_BPS * 0.8 * faster}
    alone, with_depot = (play(scenario(fleet, supply, **given)) for supply in (Supply.CENTRE, Supply.DEPOT))
    way_s = max(sync.proven_s for site in with_depot.syncs for sync in with_depot.syncs_of(site))
    assert with_depot.run.ends_s <= (alone.run.ends_s + way_s) * (1 + 1e-6)


@given(_fleets(), _local, _policies, _limits)
def test_the_same_fleet_is_foretold_the_same(fleet, supply: Supply, policy: WavePolicy, limits: Limits) -> None:
    """Nothing in it hangs on an order that nobody gave."""
    made = scenario(fleet, supply, policy=policy, limits=limits)
    turned = replace(made, links=dict(reversed(made.links.items())))
    assert play(made).run.devices == play(made).run.devices == play(turned).run.devices
    assert math.isfinite(play(made).run.ends_s)
