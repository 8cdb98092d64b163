"""Nodes that are nothing but a clock."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.runtime import (
    BootTimes,
    ClockRuntime,
    Condition,
    InterfacePlan,
    LabPlan,
    NodePlan,
    NodeRuntime,
    NodeState,
)
from tests.unit.lab.cml.conftest import HandClock

_GI1 = InterfacePlan(interface_id="i1", label="GigabitEthernet1", slot=0, mac_address="52:54:00:00:00:01")
LAB = LabPlan(
    lab_id="lab",
    title="two routers and the way out",
    nodes=(
        NodePlan(node_id="r1", label="xe1", node_definition="cat8000v", interfaces=(_GI1,)),
        NodePlan(node_id="r2", label="xe2", node_definition="cat8000v"),
        NodePlan(node_id="out", label="mgmt", node_definition="external_connector"),
    ),
    links=(),
)


@pytest.fixture
def nodes(clock: HandClock) -> NodeRuntime:
    return ClockRuntime(BootTimes(queued_s=1, started_s=10, stagger_s=2, stopping_s=3), clock=clock)


def test_nodes_boot_one_after_another(nodes: NodeRuntime, clock: HandClock) -> None:
    """Each is queued, started and booted in its time; the second waits longer; a connector is up at once."""
    seen = []
    nodes.start(LAB)
    for _ in range(4):
        seen.append([nodes.state("lab", node).state.value for node in ("r1", "r2", "out")])
        clock.now += 4
    assert seen == [
        ["QUEUED", "QUEUED", "BOOTED"],
        ["STARTED", "STARTED", "BOOTED"],
        ["STARTED", "STARTED", "BOOTED"],
        ["BOOTED", "STARTED", "BOOTED"],
    ]


def test_a_stop_takes_its_time_and_a_wipe_goes_back_to_the_beginning(nodes: NodeRuntime, clock: HandClock) -> None:
    """The node keeps its state until it has stopped; wiped, it is as if it never ran."""
    nodes.start(LAB)
    clock.now += 60
    nodes.stop("lab")
    assert nodes.state("lab", "r1").state is NodeState.BOOTED
    clock.now += 3
    assert nodes.state("lab", "r1").state is NodeState.STOPPED
    nodes.wipe("lab")
    assert nodes.state("lab", "r1").state is NodeState.DEFINED_ON_CORE


def test_the_console_grows_and_the_address_comes_with_the_boot(nodes: NodeRuntime, clock: HandClock) -> None:
    """What was said stays said; an address is there when the node has booted."""
    nodes.start(LAB)
    clock.now += 5
    early = nodes.state("lab", "r1")
    clock.now += 20
    late = nodes.state("lab", "r1")
    assert early.console
    assert late.console.startswith(early.console)
    assert "Press RETURN to get started!" in late.console
    assert (dict(early.addresses), dict(late.addresses)) == ({}, {"GigabitEthernet1": ("198.18.0.1",)})


def test_an_idle_condition_is_not_in_force(nodes: NodeRuntime) -> None:
    """What is set but not enabled does not show as operational."""
    slow = Condition(latency_ms=50)
    assert nodes.set_condition("lab", "l0", slow) == slow
    assert nodes.set_condition("lab", "l0", Condition(latency_ms=50, is_enabled=False)) is None


def test_a_forgotten_lab_is_unknown(nodes: NodeRuntime) -> None:
    """After a lab was deleted its nodes are nodes that nobody heard of."""
    nodes.start(LAB)
    nodes.forget("lab")
    assert nodes.state("lab", "r1").state is NodeState.DEFINED_ON_CORE
