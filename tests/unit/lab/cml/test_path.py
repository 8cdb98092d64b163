"""The way from a router to the outside, and what the links on it do to packets."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.routers.node import LatencyCounts, path_out, profile_of
from flashferry.lab.cml.runtime import Condition, InterfacePlan, LabPlan, LinkPlan, NodePlan


def node(name: str, definition: str, *interfaces: str, bridge: str | None = None) -> NodePlan:
    ports = tuple(
        InterfacePlan(interface_id=f"{name}/{each}", label=each, slot=0, mac_address="") for each in interfaces
    )
    return NodePlan(node_id=name, label=name, node_definition=definition, interfaces=ports, bridge=bridge)


def lab(*nodes: NodePlan, links: dict[str, tuple[str, str]]) -> LabPlan:
    ends = tuple(LinkPlan(link_id=link, label=link, interface_ids=both) for link, both in links.items())
    return LabPlan(lab_id="lab", title="lab", nodes=nodes, links=ends)


OUT = node("out", "external_connector", "port", bridge="bridge0")
LAN = node("lan", "unmanaged_switch", "p0", "p1", "p2")
R1 = node("r1", "csr1000v", "Gi1", "Gi2")
R2 = node("r2", "csr1000v", "Gi1")
LINKS = {"up": ("out/port", "lan/p0"), "wan": ("lan/p1", "r1/Gi1"), "far": ("r1/Gi2", "r2/Gi1")}


def test_over_a_switch():
    """All links between the router and the connector count."""
    assert path_out(lab(OUT, LAN, R1, R2, links=LINKS), R1, "Gi1") == ("wan", "up")


@pytest.mark.parametrize(("router", "interface"), [(R2, "Gi1"), (R1, "Gi2"), (R1, "Gi9")])
def test_a_router_forwards_for_nobody(router, interface):
    """Behind another router, and on an interface without a link, there is no way."""
    assert path_out(lab(OUT, LAN, R1, R2, links=LINKS), router, interface) is None


def test_nat_lets_nobody_in():
    """A connector that is no bridge is no way for whoever comes from outside."""
    nat = node("out", "external_connector", "port", bridge="virbr0")
    assert path_out(lab(nat, LAN, R1, R2, links=LINKS), R1, "Gi1") is None


def test_switches_in_a_ring():
    """A ring of switches is walked once."""
    one, two = node("s1", "unmanaged_switch", "a", "b", "c"), node("s2", "unmanaged_switch", "a", "b")
    links = {"l0": ("s1/a", "s2/a"), "l1": ("s1/b", "s2/b"), "l2": ("s1/c", "r2/Gi1")}
    assert path_out(lab(one, two, R2, links=links), R2, "Gi1") is None


@pytest.mark.parametrize(("counts", "rtt_ms"), [(LatencyCounts.ONCE, 60), (LatencyCounts.EACH_DIRECTION, 120)])
def test_latency_counts_once_or_each_way(counts, rtt_ms):
    """The round trip is the latency, or twice it; jitter goes with it."""
    found = profile_of([Condition(latency_ms=60, jitter_ms=6)], counts)
    assert found.rtt_s * 1e3 == pytest.approx(rtt_ms)
    assert found.to_site.jitter_s * 1e3 == pytest.approx(rtt_ms / 20)


def test_links_one_behind_the_other():
    """Latencies add up, the narrowest bandwidth counts, losses come together; one that lies idle does nothing."""
    idle = Condition(latency_ms=500, bandwidth_kbps=1, is_enabled=False)
    wide = Condition(latency_ms=10, bandwidth_kbps=50_000, loss_percent=10)
    narrow = Condition(latency_ms=20, bandwidth_kbps=8_000, loss_percent=50)
    found = profile_of([idle, None, wide, narrow], LatencyCounts.ONCE)
    assert (found.rtt_s, found.rate_bps, found.to_core.loss_ratio) == pytest.approx((0.030, 8e6, 0.55))


def test_no_condition():
    """A link without one has no latency, no loss and a rate that is more than a stand-in makes use of."""
    found = profile_of([], LatencyCounts.ONCE)
    assert (found.rtt_s, found.rate_bps, found.to_site.loss_ratio) == (0, 1e9, 0)


def test_jitter_without_latency():
    """Jitter is held to the latency: no packet arrives before it was sent."""
    assert profile_of([Condition(jitter_ms=5)], LatencyCounts.ONCE).to_site.jitter_s == 0
