"""How a lab lives: started, stopped, wiped, deleted; who may run how much; which switches get in the way."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.texts import Refused
from tests.unit.lab.cml.conftest import Desk
from tests.unit.lab.cml.topologies import TWO_ROUTERS


def test_a_lab_takes_its_nodes_through_the_states_in_order(desk: Desk) -> None:
    """Defined, queued, started, booted; converged only at rest; stopped, wiped; and each step is an event."""
    life, lab = desk.controller.life, desk.take()
    seen = []
    for step in ("nothing", "start", "wait", "wait", "stop", "wipe"):
        if step == "start":
            desk.start(lab)
        elif step == "stop":
            life.stop(lab)
        elif step == "wipe":
            life.wipe(lab)
        elif step == "wait":
            desk.clock.now += 6
        life.observe(lab)
        seen.append((life.lab_state(lab), desk.states(lab)["xe1"], life.is_converged(lab)))
    assert seen == [
        ("DEFINED_ON_CORE", "DEFINED_ON_CORE", True),
        ("STARTED", "QUEUED", False),
        ("STARTED", "STARTED", False),
        ("STARTED", "BOOTED", True),
        ("STOPPED", "STOPPED", True),
        ("DEFINED_ON_CORE", "DEFINED_ON_CORE", True),
    ]
    xe1 = next(node_id for node_id, node in lab.nodes.items() if node.label == "xe1")
    told = [event["data"]["state"] for event in lab.events if event["element_id"] == xe1 and event["data"]]
    assert told == ["QUEUED", "STARTED", "BOOTED", "STOPPED", "DEFINED_ON_CORE"]
    assert {"lab_id", "event", "element_type", "element_id", "data", "previous", "timestamp"} == set(lab.events[0])


def test_stop_before_wipe_before_delete(desk: Desk) -> None:
    """Each is refused until the one before it was done; then the lab is gone, and its id is a 404."""
    lab, life = desk.take(), desk.controller.life
    desk.start(lab)
    with pytest.raises(Refused, match="The lab must be stopped before it can be wiped"):
        life.wipe(lab)
    with pytest.raises(Refused, match="stopped and wiped"):
        desk.controller.delete(lab)
    life.stop(lab)
    with pytest.raises(Refused, match="stopped and wiped"):
        desk.controller.delete(lab)
    life.wipe(lab)
    desk.controller.delete(lab)
    with pytest.raises(Refused, match=f"^Lab not found: {lab.lab_id}$") as refusal:
        desk.controller.lab(lab.lab_id, desk.admin)
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
def test_a_lab_that_may_not_run_is_a_400_and_nothing_starts(desk: Desk, switches: dict[str, object], said: str) -> None:
    """Connectors and switches do not count; what is refused leaves every node where it was."""
    lab = desk.take()
    desk.set(**switches)
    with pytest.raises(Refused, match=said) as refusal:
        desk.start(lab)
    assert refusal.value.status == 400
    assert refusal.value.description.startswith("Cannot start lab.")
    assert set(desk.states(lab).values()) == {"DEFINED_ON_CORE"}


def test_the_quota_is_one_for_all_labs(desk: Desk) -> None:
    """A second lab fits no more where the first has what the licence allows, and fits when that one has stopped."""
    desk.set(quota=3)
    first, second = desk.take(), desk.take()
    desk.start(first)
    with pytest.raises(Refused, match="2 of 3 licensed nodes are started"):
        desk.start(second)
    desk.controller.life.stop(first)
    desk.start(second)
    assert desk.controller.counted() == 2


def test_a_connector_without_a_bridge_does_not_start(desk: Desk) -> None:
    """A key that no bridge stands for is taken at import and refused at start."""
    lab = desk.take(TWO_ROUTERS.replace("System Bridge", "Lab LAN"))
    assert lab.mappings == {"Lab LAN": None}
    with pytest.raises(Refused, match="has no bridge"):
        desk.start(lab)


@pytest.mark.parametrize(
    ("switches", "state"),
    [
        ({"stuck": {"xe1": "QUEUED"}}, "QUEUED"),
        ({"stuck": {"xe1": "STARTED"}}, "STARTED"),
        ({"disconnected": ["xe1"]}, "DISCONNECTED"),
        ({"no_boot": ["xe1"]}, "STARTED"),
    ],
)
def test_a_node_that_fails_keeps_the_lab_from_converging(desk: Desk, switches: dict[str, object], state: str) -> None:
    """One node is held where the switch says, the others boot; put back, it goes on; stop ends it in any case."""
    lab, life = desk.take(), desk.controller.life
    desk.set(**switches)
    desk.start(lab)
    desk.clock.now += 60
    assert (desk.states(lab)["xe1"], desk.states(lab)["xe2"]) == (state, "BOOTED")
    assert not life.is_converged(lab)
    life.stop(lab)
    assert desk.states(lab)["xe1"] == "STOPPED"
    desk.start(lab)
    desk.controller.switches.clear()
    desk.clock.now += 60
    assert life.is_converged(lab)


@pytest.mark.parametrize(
    "switches", [{"stuck": {"xe1": "STARTED"}}, {"disconnected": ["xe1"]}, {"no_boot": ["xe1"]}], ids=str
)
def test_a_node_that_is_not_booted_shows_no_address(desk: Desk, switches: dict[str, object]) -> None:
    """Also one that has booted already and that a switch holds back; its neighbour shows its own."""
    lab = desk.take()
    desk.set(**switches)
    desk.start(lab)
    desk.clock.now += 60

    def seen(label: str) -> list[object]:
        node = next(node for node in lab.nodes.values() if node.label == label)
        shown = desk.controller.shapes.addresses(lab, node, hidden=False)
        return [address for each in shown["interfaces"].values() for address in each["ip4"]]

    assert (len(seen("xe1")), len(seen("xe2"))) == (0, 1)
    desk.controller.switches.clear()
    assert len(seen("xe1")) == 1


def test_a_stop_that_takes_long_holds_the_state_and_the_wipe(desk: Desk) -> None:
    """Until its time has come the nodes look as before, the lab does not converge, and it cannot be wiped."""
    lab, life = desk.take(), desk.controller.life
    desk.start(lab)
    desk.clock.now += 60
    desk.set(stop_takes_s=30)
    life.stop(lab)
    desk.clock.now += 29
    assert desk.states(lab)["xe1"] == "BOOTED"
    assert not life.is_converged(lab)
    with pytest.raises(Refused):
        life.wipe(lab)
    desk.clock.now += 1
    assert desk.states(lab)["xe1"] == "STOPPED"
    assert life.is_converged(lab)
    life.wipe(lab)


@pytest.mark.parametrize("verb", ["stop", "wipe", "delete"])
def test_orders_are_refused_so_many_times(desk: Desk, verb: str) -> None:
    """The switch counts down; after that the order is heard."""
    lab = desk.take()
    orders = {
        "stop": desk.controller.life.stop,
        "wipe": desk.controller.life.wipe,
        "delete": desk.controller.delete,
    }
    desk.set(**{f"refuse_{verb}": 2})
    for _ in range(2):
        with pytest.raises(Refused, match=f"told to refuse to {verb}"):
            orders[verb](lab)
    orders[verb](lab)


def test_links_and_interfaces_follow_their_nodes(desk: Desk) -> None:
    """A link is up between two nodes that run, and not while one is queued."""
    lab, shapes = desk.take(), desk.controller.shapes
    links = {link.label: link.link_id for link in lab.links.values()}
    desk.start(lab)
    states = [shapes.states(lab)["links"][links["wan1"]]]
    desk.clock.now += 20
    states.append(shapes.states(lab)["links"][links["wan1"]])
    assert states == ["STOPPED", "STARTED"]
    assert set(shapes.states(lab)["interfaces"].values()) == {"STARTED"}


def test_labs_of_others_are_hidden_from_whoever_is_no_administrator(desk: Desk) -> None:
    """A list has one's own unless all are asked for; a stranger gets a 404 for what is not his."""
    mine, theirs = desk.take(), desk.take(user=desk.stranger)
    listed = [
        [lab.lab_id for lab in desk.controller.seen_by(user, is_all=is_all)]
        for user in (desk.admin, desk.stranger)
        for is_all in (False, True)
    ]
    assert listed == [[mine.lab_id], [mine.lab_id, theirs.lab_id], [theirs.lab_id], [theirs.lab_id]]
    with pytest.raises(Refused, match="Lab not found"):
        desk.controller.lab(mine.lab_id, desk.stranger)


def test_tiles_are_behind(desk: Desk) -> None:
    """A new lab is missing from the tiles for a moment, and a deleted one lingers."""
    desk.set(tiles_lag_s=1.0)
    lab = desk.take()
    shown = [len(desk.controller.tiles(desk.admin))]
    desk.clock.now += 2
    shown.append(len(desk.controller.tiles(desk.admin)))
    desk.controller.delete(lab)
    shown.append(len(desk.controller.tiles(desk.admin)))
    desk.clock.now += 2
    shown.append(len(desk.controller.tiles(desk.admin)))
    assert shown == [0, 1, 1, 0]


def test_addresses_are_seen_through_a_bridge_only(desk: Desk) -> None:
    """Through the switch to the bridge, by the MAC address; not behind a key without a bridge, nor from a loopback."""
    lab, shapes = desk.take(), desk.controller.shapes
    desk.start(lab)
    desk.clock.now += 60
    xe1 = next(node for node in lab.nodes.values() if node.label == "xe1")
    seen = shapes.addresses(lab, xe1, hidden=False)
    assert [each["label"] for each in seen["interfaces"].values()] == ["GigabitEthernet1"]
    assert [len(each["ip4"]) for each in seen["interfaces"].values()] == [1]
    lab.mappings["System Bridge"] = None
    behind = shapes.addresses(lab, xe1, hidden=False)
    assert [each["ip4"] for each in behind["interfaces"].values()] == [[]]
    desk.controller.life.stop(lab)
    assert shapes.addresses(lab, xe1, hidden=False) == {"name": "xe1", "interfaces": {}}
