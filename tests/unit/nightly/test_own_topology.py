"""A topology of the user's own: what a night reads in it, and what it refuses."""

from __future__ import annotations

import copy
import json

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.night import NodeLogin
from flashferry.nightly.topology.made import UNCONDITIONED, made_topology
from tests.unit.nightly.describing import described

SSH = """hostname r
ip domain name lab
username u privilege 15 secret p
interface Gi1
 ip address dhcp
line vty 0 4
 login local
 transport input ssh"""
LAB = {
    "lab": {"title": "Branch rehearsal", "version": "0.2.2"},
    "nodes": [
        {"id": "n0", "label": "out", "node_definition": "external_connector", "configuration": []},
        {"id": "n1", "label": "sw", "node_definition": "unmanaged_switch", "configuration": []},
        {
            "id": "n2",
            "label": "xe1",
            "node_definition": "cat8000v",
            "image_definition": "cat8000v-17-15-01",
            "configuration": [{"name": "iosxe_config.txt", "content": SSH}],
            "tags": ["site-a", "pat:tcp:2007:22"],
        },
        {"id": "n3", "label": "v1", "node_definition": "iosv", "configuration": SSH, "tags": ["pat:2008:22"]},
        {"id": "n4", "label": "pc", "node_definition": "alpine", "configuration": []},
    ],
    "links": [
        {"id": "l0", "n1": "n0", "n2": "n1", "label": "out<->sw", "conditioning": {}},
        {
            "id": "l1",
            "n1": "n1",
            "n2": "n2",
            "label": "sw<->xe1",
            "conditioning": {"bandwidth": 50000, "latency": 50, "loss": 0.01, "enabled": True},
        },
        {"id": "l2", "n1": "n3", "n2": "n1", "label": "wan v1", "conditioning": {"latency": 5, "enabled": False}},
        {"id": "l3", "n1": "n4", "n2": "n2", "label": "lan", "conditioning": {}},
    ],
}


@pytest.fixture
def read(tmp_path):
    """Return what reads a lab with a description that names it, changed by a function and by keys."""

    def read(change=lambda lab: None, changes=None):
        lab = copy.deepcopy(LAB)
        change(lab)
        (tmp_path / "lab.yaml").write_text(json.dumps(lab))
        base = {"topology": {"file": "lab.yaml"}, "devices.login": "environment"}
        description = described(tmp_path, base | (changes or {}))
        return made_topology(description, title="ff-nightly-x", login=NodeLogin(username="u", password="p"))

    return read


def test_routers_links_and_conditions_are_found(read):
    """Of the routers those of a known kind; a condition is that of the link on the way from the connector."""
    topology = read()
    xe1, v1 = topology.nodes
    assert (xe1.host_name, v1.host_name, xe1.mark) == ("r", "r", "")
    assert (xe1.label, xe1.node_definition, xe1.image_definition) == ("xe1", "cat8000v", "cat8000v-17-15-01")
    assert (xe1.condition_name, v1.condition_name) == ("sw-xe1", UNCONDITIONED)
    (link,) = topology.links
    assert (link.label, link.nodes) == ("sw<->xe1", ("xe1",))
    assert link.condition == LinkCondition(bandwidth_kbps=50000, latency_ms=50, loss_percent=0.01)
    assert json.loads(topology.text)["lab"]["title"] == "Branch rehearsal", "imported as it is"
    assert topology.title == "ff-nightly-x"


def test_the_description_says_conditions_of_links(read):
    """They go before the file's, and stand for all routers behind the link."""
    changes = {"topology.conditions": {"out<->sw": {"latency_ms": 20}}, "topology.routers": ["v1"]}
    topology = read(changes=changes)
    (link,) = topology.links
    assert (link.nodes, link.condition) == (("v1",), LinkCondition(latency_ms=20))
    with pytest.raises(ConfigInvalid, match=r"expected a link with the label 'wan' of topology.conditions, found none"):
        read(changes={"topology.conditions": {"wan": {}}})


def test_two_conditions_on_a_way_are_refused(read):
    """What is measured could not be told apart."""
    with pytest.raises(ConfigInvalid, match=r"xe1: expected one link with a condition .* found 2: sw<->xe1, out<->sw"):
        read(changes={"topology.conditions": {"out<->sw": {"latency_ms": 20}}})


@pytest.mark.parametrize("version", ["0.0.3", "0.1.0", "0.2.1", "0.3.0"])
def test_every_schema_is_read(read, version):
    """From the first on: what a night reads stands in the same place in all of them."""
    assert len(read(lambda lab: lab["lab"].update(version=version)).nodes) == 2


def test_a_router_is_reached_as_the_description_says(read):
    """By the connector's DHCP, by the file's own PATty tags, or by addresses for its routers."""
    assert {node.address for node in read().nodes} == {None}
    patty = read(changes={"reach.by": "patty"})
    assert [(node.address, node.ssh_port) for node in patty.nodes] == [
        ("cml.example.net", 2007),
        ("cml.example.net", 2008),
    ]
    given = {"reach": {"by": "static", "addresses": {"xe1": "192.0.2.7/24", "v1": "192.0.2.8/24"}}}
    assert [node.address for node in read(changes=given).nodes] == ["192.0.2.7", "192.0.2.8"]
    with pytest.raises(ConfigInvalid, match=r"reach.addresses': expected an address for v1, found none"):
        read(changes={"reach": {"by": "static", "addresses": {"xe1": "192.0.2.7/24"}}})
    with pytest.raises(ConfigInvalid, match="v1: expected a tag such as pat:tcp:2001:22, found none"):
        read(lambda lab: lab["nodes"][3].update(tags=["pat:2008:80"]), {"reach.by": "patty"})


WRONG = {
    "a schema to come": (lambda lab: lab["lab"].update(version="0.4.0"), "'lab.version': expected a topology's schema"),
    "no lab": (lambda lab: lab.pop("lab"), "'lab.version': expected a topology's schema, 0.0 to 0.3, found none"),
    "a title too long": (lambda lab: lab["lab"].update(title="x" * 65), "at most 64 characters, found 65"),
    "no nodes": (lambda lab: lab.update(nodes=[]), "'nodes': expected a list with at least one entry"),
    "no router": (
        lambda lab: lab.update(nodes=lab["nodes"][:2], links=[]),
        "at least one node of iosv, .*, found none",
    ),
    "no configuration": (
        lambda lab: lab["nodes"][2].update(configuration=[]),
        r"'nodes\[2\].configuration': router xe1: .*lets SSH in, found no line 'username'",
    ),
    "telnet": (
        lambda lab: lab["nodes"][3].update(configuration=SSH.replace("ssh", "telnet")),
        "router v1: .*found no 'transport input ssh'",
    ),
    "a link to nowhere": (
        lambda lab: lab["links"][0].update(n1="n9"),
        "links between nodes of the file, found one to none",
    ),
    "a condition out of bounds": (
        lambda lab: lab["links"][1]["conditioning"].update(latency=20000),
        r"'links\[1\].conditioning.latency': expected a whole number of ms from 0 to 10000, found 20000",
    ),
    "two of a name": (
        lambda lab: lab["nodes"][3].update(label="xe1"),
        "expected each router's label once, found one twice",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_topology_that_cannot_be_used_is_refused(read, case):
    """In one sentence with file and key, before a lab is made."""
    change, said = WRONG[case]
    with pytest.raises(ConfigInvalid, match=said) as wrong:
        read(change)
    assert "lab.yaml: key '" in str(wrong.value)
    assert wrong.value.hint


def test_routers_that_are_not_there_are_refused(read):
    """The hint has those that are."""
    with pytest.raises(ConfigInvalid, match=r"expected routers of .*lab.yaml, found xe9") as wrong:
        read(changes={"topology.routers": ["xe9"]})
    assert wrong.value.hint == "It has v1, xe1"
