"""A night changes nothing on a router that is not its own: an address may be anybody's."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.nightly.night import Fault, NightFault
from flashferry.nightly.routers import Configurations, check_is_the_labs
from flashferry.nightly.steps import run_night
from tests.unit.nightly.describing import described
from tests.unit.nightly.fakes import CONFIGURATION, failed, two_nodes
from tests.unit.nightly.test_topology import TITLE, made, parsed


def named(title, mark=""):
    """Return the lab of two routers whose first configurations name them."""
    lab = two_nodes(title)
    return replace(lab, nodes=tuple(replace(one, host_name=one.label, mark=mark) for one in lab.nodes))


@pytest.mark.parametrize("running", ["hostname core-1\n!\nend", "version 17.9\nend"])
def test_a_strangers_router_at_a_routers_address_is_left_alone(rig, running):
    """A controller tells another router's address, and the login fits: no command of the product is run."""
    rig.routers.changed["xe2"] = running
    night = run_night(replace(rig.parts, topology=named))
    assert failed(night) == [("check", Fault.LAB)]
    assert rig.product.commands == []
    sentence = next(step.sentence for step in night.steps if step.fault is Fault.LAB)
    assert sentence.startswith("xe2: expected the lab's own router at 198.18.0.12, found one that ")
    assert (night.exit_code, night.is_comparable, rig.backend.labs) == (7, False, {})


def test_last_nights_router_of_the_same_name_is_left_alone(rig):
    """A lab of another host, or one that was left, has routers of the same names: the mark is its title."""
    rig.routers.changed["xe1"] = CONFIGURATION.format("xe1")
    night = run_night(replace(rig.parts, topology=lambda title: named(title, mark=title)))
    assert failed(night) == [("check", Fault.LAB)]
    assert rig.product.commands == []


def test_the_labs_own_router_is_known():
    node = named(TITLE, mark=TITLE).nodes[0]
    text = CONFIGURATION.format("xe1").replace(" ip address", f" description {TITLE}\n ip address")
    check_is_the_labs(node, "198.18.0.11", Configurations(running=text, startup=""))
    with pytest.raises(NightFault, match="found a router without it"):
        check_is_the_labs(node, "198.18.0.11", Configurations(running=CONFIGURATION.format("xe1"), startup=""))


def test_a_router_that_cannot_be_read_at_first_is_not_the_products_fault(rig):
    """Nothing of the product has been at it."""
    rig.routers.unreadable.add("xe1")
    night = run_night(rig.parts)
    assert failed(night) == [("check", Fault.DEVICE)]
    assert rig.product.commands == []


def test_a_lab_that_is_made_marks_its_routers(tmp_path):
    """Each is described by the night's title, and the night knows its name."""
    topology = made(tmp_path)
    for node in topology.nodes:
        assert (node.host_name, node.mark) == (node.label, TITLE)
    texts = [one["configuration"][0]["content"] for one in parsed(topology)["nodes"][2:]]
    assert all(f"\n description {TITLE}\n ip address" in text for text in texts)


@pytest.mark.parametrize("word", ["--inventory", "--inventory=prod", "-iprod", "-i", "--image", "--no-tune"])
def test_no_option_leads_a_night_to_other_routers(tmp_path, word):
    """Of two options of a name the last one counts, so none of the night's own may be given again."""
    with pytest.raises(ConfigInvalid, match=r"key 'night.options\[1\]': expected options that the night does not give"):
        described(tmp_path, {"night.options": ["--retries=2", word, "prod"]})


@pytest.mark.parametrize("value", [["csr1000v"], {"csr1000v": None}])
def test_a_definition_that_is_no_text_is_told(tmp_path, value):
    with pytest.raises(ConfigInvalid, match="expected one of iosv"):
        described(tmp_path, {"topology.sites.0.nodes.0.node_definition": value})
