"""Who is restarted when: canaries first, few of a site at a time, upstream devices last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flashferry.planning.activation_order import ActivationMember, activation_rounds


def member(host, site="a", model="m", *, is_upstream=False):
    return ActivationMember(host=host, site=site, model=model, image="x.bin", is_upstream=is_upstream)


def hosts(rounds):
    return [list(one.hosts) for one in rounds]


def test_one_of_each_model_goes_first_then_one_of_each_site_and_upstream_ones_last():
    """The order of the plan otherwise; two canaries of one site do not go together."""
    fleet = [
        member("edge-a", is_upstream=True),
        member("r1"),
        member("r2"),
        member("s1", model="n"),
        member("t1", "b"),
        member("t2", "b"),
        member("core-b", "b", is_upstream=True),
    ]
    rounds = activation_rounds(fleet)
    assert hosts(rounds) == [["r1"], ["s1"], ["r2", "t1"], ["t2"], ["edge-a", "core-b"]]
    assert [one.is_canary for one in rounds] == [True, True, False, False, False]
    assert [one.number for one in rounds] == [0, 1, 2, 3, 4]
    assert rounds[-1].name == "upstream"


def test_devices_without_a_site_share_nothing():
    """Each is its own site, so all of them may go together, as many as are allowed at a time."""
    fleet = [member(f"r{number}", None) for number in range(5)]
    assert hosts(activation_rounds(fleet, canary=False)) == [["r0", "r1", "r2", "r3", "r4"]]
    assert hosts(activation_rounds(fleet, canary=False, at_a_time=2)) == [["r0", "r1"], ["r2", "r3"], ["r4"]]


def test_a_fleet_of_upstream_devices_has_a_canary_too():
    """There is nobody else to go first."""
    fleet = [member(f"r{number}", is_upstream=True) for number in range(2)]
    assert hosts(activation_rounds(fleet)) == [["r0"], ["r1"]]


def test_canaries_that_are_upstream_devices_of_a_site_go_one_by_one():
    """Of two models, and however many of a site may go together: who is behind them is to keep a way."""
    fleet = [member("r0", "a", "m", is_upstream=True), member("r1", "a", "n", is_upstream=True)]
    assert hosts(activation_rounds(fleet, per_site=2)) == [["r0"], ["r1"]]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("mn"), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 3),
    st.integers(1, 5),
    st.booleans(),
)
def test_each_device_goes_once_and_no_site_loses_more_than_it_may(fleet, per_site, at_a_time, canary):
    """Whatever the fleet is: in one round, within both limits, and no ordinary device behind an upstream one."""
    members = [
        member(f"r{number}", site, model, is_upstream=is_upstream)
        for number, (site, model, is_upstream) in enumerate(fleet)
    ]
    by_name = {one.host: one for one in members}
    rounds = activation_rounds(members, per_site=per_site, at_a_time=at_a_time, canary=canary)
    order = [host for one in rounds for host in one.hosts]
    assert sorted(order) == sorted(by_name)
    for one in rounds:
        sites = [by_name[host].site for host in one.hosts]
        assert 1 <= len(sites) <= at_a_time
        assert max(map(sites.count, sites)) <= per_site
        if any(by_name[host].is_upstream for host in one.hosts):
            assert max(map(sites.count, sites)) == 1
    ordinary = [number for number, host in enumerate(order) if not by_name[host].is_upstream]
    upstream = [number for number, host in enumerate(order) if by_name[host].is_upstream]
    assert not (ordinary and upstream) or max(ordinary) < min(upstream)
