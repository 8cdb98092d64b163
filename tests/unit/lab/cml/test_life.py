"""How a lab lives: started, stopped, wiped, deleted; who may run how much; which switches get in the way."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.definitions import Refused
from tests.unit.lab.cml.conftest import Rig
from tests.unit.lab.cml.topologies import TWO_ROUTERS


def test_a_lab_takes_its_nodes_through_the_states_in_order(rig: Rig) -> None:
    """Defined, queued, started, booted; converged only at rest; stopped, wiped; and each step is an event."""
    life, lab = rig.controller.life, rig.take()
    seen = []
    for step in ("nothing", "start", "wait", "wait", "stop", "wipe"):
        if step == "start":
            rig.start(lab)
        elif step == "stop":
            life.stop(lab)
        elif step == "wipe":
            life.wipe(lab)
        elif step == "wait":
            rig.clock.now += 6
        life.observe(lab)
        seen.append((life.lab_state(lab), rig.states(lab)["xe1"], life.is_converged(lab)))
    assert seen == [
        ("DEFINED_ON_CORE", "DEFINED_ON_CORE", True),
        ("STARTED", "QUEUED", False),
        ("STARTED", "STARTED", False),
        ("STARTED", "BOOTED", True),
        ("STOPPED", "STOPPED", True),
        ("DEFINED_ON_CORE", "DEFINED_ON_CORE", True),
    ]
    xe1 = next(node_id for node_id, node in lab.nodes.items() if node.label == "xe1")
    reported = [event["data"]["state"] for event in lab.events if event["element_id"] == xe1 and event["data"]]
    assert reported == ["QUEUED", "STARTED", "BOOTED", "STOPPED", "DEFINED_ON_CORE"]
    assert {"lab_id", "event", "element_type", "element_id", "data", "previous", "timestamp"} == set(lab.events[0])


def test_stop_before_wipe_before_delete(rig: Rig) -> None:
    """Each is refused until the one before it was done; then the lab is gone, and its id is a 404."""
    lab, life = rig.take(), rig.controller.life
    rig.start(lab)
    with pytest.raises(Refused, match="The lab must be stopped before it can be wiped"):
        life.wipe(lab)
    with pytest.raises(Refused, match="stopped and wiped"):
        rig.controller.delete(lab)
    life.stop(lab)
    with pytest.raises(Refused, match="stopped and wiped"):
        rig.controller.delete(lab)
    life.wipe(lab)
    rig.controller.delete(lab)
    with pytest.raises(Refused, match=f"^Lab not found: {lab.lab_id}$") as refusal:
        rig.controller.lab(lab.lab_id, rig.admin)
    assert refusal.value.status == 404


@pytest.mark.parametrize(
    ("switches", "said"),
    [
        ({"quota": 1}, "2 more nodes do not fit: 0 of 1"),
        ({"others_started": 19}, "2 more nodes do not fit: 19 of 20"),
        ({"is_licensed": False}, "not licensed"),
        ({"is_ready": False}, "No compute"),
    ],
)
def test_a_lab_that_may_not_run_is_a_400_and_nothing_starts(rig: Rig, switches: dict[str, object], said: str) -> None:
    """Connectors and switches do not count; what is refused leaves every node where it was."""
    lab = rig.take()
    rig.set(**switches)
    with pytest.raises(Refused, match=said) as refusal:
        rig.start(lab)
    assert refusal.value.status == 400
    assert refusal.value.description.startswith("Cannot start lab.")
    assert set(rig.states(lab).values()) == {"DEFINED_ON_CORE"}


def test_the_quota_is_one_for_all_labs(rig: Rig) -> None:
    """A second lab fits no more where the first has what the licence allows, and fits when that one has stopped."""
    rig.set(quota=3)
    first, second = rig.take(), rig.take()
    rig.start(first)
    with pytest.raises(Refused, match="2 of 3 licensed nodes are started"):
        rig.start(second)
    rig.controller.life.stop(first)
    rig.start(second)
    assert rig.controller.counted() == 2


def test_a_connector_without_a_bridge_does_not_start(rig: Rig) -> None:
    """A key that no bridge stands for is taken at import and refused at start."""
    lab = rig.take(TWO_ROUTERS.replace("System Bridge", "Lab LAN"))
    assert lab.mappings == {"Lab LAN": None}
    with pytest.raises(Refused, match="has no bridge"):
        rig.start(lab)


@pytest.mark.parametrize(
    ("switches", "state"),
    [
        ({"stuck": {"xe1": "QUEUED"}}, "QUEUED"),
        ({"stuck": {"xe1": "STARTED"}}, "STARTED"),
        ({"disconnected": ["xe1"]}, "DISCONNECTED"),
        ({"no_boot": ["xe1"]}, "STARTED"),
    ],
)
def test_a_node_that_fails_keeps_the_lab_from_converging(rig: Rig, switches: dict[str, object], state: str) -> None:
    """One node is held where the switch says, the others boot; put back, it goes on; stop ends it in any case."""
    lab, life = rig.take(), rig.controller.life
    rig.set(**switches)
    rig.start(lab)
    rig.clock.now += 60
    assert (rig.states(lab)["xe1"], rig.states(lab)["xe2"]) == (state, "BOOTED")
    assert not life.is_converged(lab)
    life.stop(lab)
    assert rig.states(lab)["xe1"] == "STOPPED"
    rig.start(lab)
    rig.controller.switches.clear()
    rig.clock.now += 60
    assert life.is_converged(lab)


@pytest.mark.parametrize(
    "switches", [{"stuck": {"xe1": "STARTED"}}, {"disconnected": ["xe1"]}, {"no_boot": ["xe1"]}], ids=str
)
def test_a_node_that_is_not_booted_shows_no_address(rig: Rig, switches: dict[str, object]) -> None:
    """Also one that has booted already and that a switch holds back; its neighbour shows its own."""
    lab = rig.take()
    rig.set(**switches)
    rig.start(lab)
    rig.clock.now += 60

    def seen(label: str) -> list[object]:
        node = next(node for node in lab.nodes.values() if node.label == label)
        shown = rig.controller.shapes.addresses(lab, node, hidden=False)
        return [address for each in shown["interfaces"].values() for address in each["ip4"]]

    assert (len(seen("xe1")), len(seen("xe2"))) == (0, 1)
    rig.controller.switches.clear()
    assert len(seen("xe1")) == 1


def test_a_stop_that_takes_long_holds_the_state_and_the_wipe(rig: Rig) -> None:
    """Until its time has come the nodes look as before, the lab does not converge, and it cannot be wiped."""
    lab, life = rig.take(), rig.controller.life
    rig.start(lab)
    rig.clock.now += 60
    rig.set(stop_takes_s=30)
    life.stop(lab)
    rig.clock.now += 29
    assert rig.states(lab)["xe1"] == "BOOTED"
    assert not life.is_converged(lab)
    with pytest.raises(Refused):
        life.wipe(lab)
    rig.clock.now += 1
    assert rig.states(lab)["xe1"] == "STOPPED"
    assert life.is_converged(lab)
    life.wipe(lab)


@pytest.mark.parametrize("verb", ["stop", "wipe", "delete"])
def test_orders_are_refused_so_many_times(rig: Rig, verb: str) -> None:
    """The switch counts down; after that the order is heard."""
    lab = rig.take()
    orders = {
        "stop": rig.controller.life.stop,
        "wipe": rig.controller.life.wipe,
        "delete": rig.controller.delete,
    }
    rig.set(**{f"refuse_{verb}": 2})
    for _ in range(2):
        with pytest.raises(Refused, match=f"refuses to {verb}"):
            orders[verb](lab)
    orders[verb](lab)


def test_links_and_interfaces_follow_their_nodes(rig: Rig) -> None:
    """A link is up between two nodes that run, and not while one is queued."""
    lab, shapes = rig.take(), rig.controller.shapes
    links = {link.label: link.link_id for link in lab.links.values()}
    rig.start(lab)
    states = [shapes.states(lab)["links"][links["wan1"]]]
    rig.clock.now += 20
    states.append(shapes.states(lab)["links"][links["wan1"]])
    assert states == ["STOPPED", "STARTED"]
    assert set(shapes.states(lab)["interfaces"].values()) == {"STARTED"}


def test_labs_of_others_are_hidden_from_whoever_is_no_administrator(rig: Rig) -> None:
    """A list has one's own unless all are asked for; a stranger gets a 404 for what is not his."""
    mine, theirs = rig.take(), rig.take(user=rig.stranger)
    listed = [
        [lab.lab_id for lab in rig.controller.seen_by(user, is_all=is_all)]
        for user in (rig.admin, rig.stranger)
        for is_all in (False, True)
    ]
    assert listed == [[mine.lab_id], [mine.lab_id, theirs.lab_id], [theirs.lab_id], [theirs.lab_id]]
    with pytest.raises(Refused, match="Lab not found"):
        rig.controller.lab(mine.lab_id, rig.stranger)


def test_tiles_are_behind(rig: Rig) -> None:
    """A new lab is missing from the tiles for a moment, and a deleted one lingers."""
    rig.set(tiles_lag_s=1.0)
    lab = rig.take()
    shown = [len(rig.controller.tiles(rig.admin))]
    rig.clock.now += 2
    shown.append(len(rig.controller.tiles(rig.admin)))
    rig.controller.delete(lab)
    shown.append(len(rig.controller.tiles(rig.admin)))
    rig.clock.now += 2
    shown.append(len(rig.controller.tiles(rig.admin)))
    assert shown == [0, 1, 1, 0]


def test_addresses_are_seen_through_a_bridge_only(rig: Rig) -> None:
    """Through the switch to the bridge, by the MAC address; not behind a key without a bridge, nor from a loopback."""
    lab, shapes = rig.take(), rig.controller.shapes
    rig.start(lab)
    rig.clock.now += 60
    xe1 = next(node for node in lab.nodes.values() if node.label == "xe1")
    seen = shapes.addresses(lab, xe1, hidden=False)
    assert [each["label"] for each in seen["interfaces"].values()] == ["GigabitEthernet1"]
    assert [len(each["ip4"]) for each in seen["interfaces"].values()] == [1]
    lab.mappings["System Bridge"] = None
    behind = shapes.addresses(lab, xe1, hidden=False)
    assert [each["ip4"] for each in behind["interfaces"].values()] == [[]]
    rig.controller.life.stop(lab)
    assert shapes.addresses(lab, xe1, hidden=False) == {"name": "xe1", "interfaces": {}}
