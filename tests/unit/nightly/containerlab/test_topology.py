"""Topologies for containerlab: made of the description, or the user's own; and what its JSON means."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.backend import LinkCondition, NodeState
from flashferry.nightly.containerlab.answers import condition_of, containers, netem_words
from flashferry.nightly.containerlab.topology import read_topology
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.made import made_topology
from tests.unit.nightly.describing import ABSENT, described

TITLE = "ff-nightly-20261122T0100-3f2a"
LOGIN = NodeLogin(username="ann", password="pA55word", secret="s3cret")
IMAGE = "vrnetlab/cisco_csr1000v:17.03.04"
NODES = "topology.sites.0.nodes"
BASE = {
    "backend": "containerlab",
    "controller": ABSENT,
    "topology.sites": [
        {
            "name": "branch",
            "condition": {"bandwidth_kbps": 50000, "latency_ms": 50},
            "nodes": [{"node_definition": "csr1000v", "image_definition": IMAGE, "count": 2}],
        }
    ],
}
OWN = """
name: mine
prefix: ""
topology:
  kinds:
    cisco_c8000v: {image: 'vrnetlab/cisco_c8000v:17.11.01a', env: {CLAB_MGMT_PASSTHROUGH: "true"}}
  nodes:
    xe1: {kind: cisco_c8000v}
    xe2: {kind: cisco_c8000v}
    sw: {kind: bridge}
"""
OWN_NIGHT = {"topology.sites": ABSENT, "topology.file": "mine.yml", "devices": {"login": "environment"}}


def made(folder, changes=None):
    return made_topology(described(folder, BASE | (changes or {})), title=TITLE, login=LOGIN)


def own(folder, text=OWN, changes=None):
    (folder / "mine.yml").write_text(text)
    base = {key: value for key, value in BASE.items() if not key.startswith("topology")}
    return made_topology(described(folder, base | OWN_NIGHT | (changes or {})), title=TITLE, login=LOGIN)


def test_a_lab_is_whole(tmp_path):
    """Each router passes its management port through, pulls no image, and has the night's login added."""
    topology = made(tmp_path)
    content = YAML(typ="safe").load(topology.text)
    assert (content["name"], content["prefix"]) == (TITLE, "clab")
    nodes = content["topology"]["nodes"]
    assert list(nodes) == ["branch-csr1000v-1", "branch-csr1000v-2"] == [node.label for node in topology.nodes]
    node = nodes["branch-csr1000v-1"]
    assert (node["kind"], node["image"], node["image-pull-policy"]) == ("cisco_csr1000v", IMAGE, "Never")
    assert node["env"] == {"CLAB_MGMT_PASSTHROUGH": "true"}
    assert node["startup-config"].splitlines() == [
        "username ann privilege 15 secret pA55word",
        "enable secret s3cret",
        "ip ssh version 2",
    ]
    assert [link.nodes for link in topology.links] == [("branch-csr1000v-1",), ("branch-csr1000v-2",)]
    assert {node.address for node in topology.nodes} == {None}


def test_addresses_are_the_management_network_s(tmp_path):
    """Those that are given, of one network."""
    pool = ["192.0.2.51/24", "192.0.2.52/24"]
    topology = made(tmp_path, {"reach.addresses": pool, "reach.gateway": "192.0.2.1"})
    content = YAML(typ="safe").load(topology.text)
    assert content["mgmt"] == {"network": "flashferry", "ipv4-subnet": "192.0.2.0/24", "ipv4-gw": "192.0.2.1"}
    assert [node.address for node in topology.nodes] == ["192.0.2.51", "192.0.2.52"]
    with pytest.raises(ConfigInvalid, match=r"expected addresses of one network .*, found 192.0.2.51/24 and 198.51"):
        made(tmp_path, {"reach.addresses": ["192.0.2.51/24", "198.51.100.2/24"]})


WRONG = {
    "no image": ({f"{NODES}.0.image_definition": ABSENT}, "expected an 'image_definition' beside 'backend: container"),
    "jitter alone": (
        {"topology.sites.0.condition": {"jitter_ms": 3}},
        "site branch: expected a latency beside a jitter, found none",
    ),
    "a fine loss": (
        {"topology.sites.0.condition": {"loss_percent": 0.005}},
        "site branch: expected a loss in steps of 0.01 percent, found 0.005",
    ),
    "a capture": ({"night.capture_node": "branch-csr1000v-1"}, "key 'night.capture_node': expected none beside"),
}


@pytest.mark.parametrize(("changes", "told"), WRONG.values(), ids=WRONG)
def test_what_containerlab_cannot_do_is_told_before(tmp_path, changes, told):
    """In a sentence with a way out, before a lab is made."""
    with pytest.raises(ConfigInvalid, match=told) as error:
        made(tmp_path, changes)
    assert error.value.hint


def test_a_login_that_a_template_would_eat_is_refused(tmp_path):
    """Containerlab takes the file for a template."""
    login = NodeLogin(username="ann", password="a{{b")
    with pytest.raises(ConfigInvalid, match=r"without '\{\{', found it"):
        made_topology(described(tmp_path, BASE), title=TITLE, login=login)


def test_a_topology_of_one_s_own_is_taken(tmp_path):
    """Under the night's name and the usual prefix; conditions go by a router's name."""
    condition = {"xe1": {"latency_ms": 50}}
    topology = own(tmp_path, changes={"topology.conditions": condition})
    content = YAML(typ="safe").load(topology.text)
    assert (content["name"], content["prefix"]) == (TITLE, "clab")
    assert [(node.label, node.node_definition, node.condition_name) for node in topology.nodes] == [
        ("xe1", "cat8000v", "xe1"),
        ("xe2", "cat8000v", "unconditioned"),
    ]
    assert [(link.label, link.condition) for link in topology.links] == [("xe1", LinkCondition(latency_ms=50))]


OWN_WRONG = {
    "the trap": (OWN.replace('"true"', '"false"'), {}, "router xe1: .*TCP ends in QEMU and not in IOS"),
    "the trap by default": (OWN.replace("env:", "labels:"), {}, "router xe1: expected CLAB_MGMT_PASSTHROUGH 'true'"),
    "a relative path": (
        OWN.replace("xe2: {kind: cisco_c8000v}", "xe2: {kind: cisco_c8000v, startup-config: xe2.cfg}"),
        {},
        "xe2: key 'startup-config': expected a whole path, found a relative one",
    ),
    "no topology": ("lab: {title: x}\nnodes: []\n", {}, "expected containerlab's YAML"),
    "no router": ("topology: {nodes: {sw: {kind: bridge}}}\n", {}, "expected at least one node of cisco_vios"),
    "a stranger": (OWN, {"topology.routers": ["xe9"]}, "expected routers of .*mine.yml, found xe9"),
}


@pytest.mark.parametrize(("text", "changes", "told"), OWN_WRONG.values(), ids=OWN_WRONG)
def test_a_wrong_topology_of_one_s_own_is_told(tmp_path, text, changes, told):
    """In a sentence."""
    with pytest.raises(ConfigInvalid, match=told) as error:
        own(tmp_path, text, changes)
    assert error.value.hint


def test_a_kind_that_is_passed_through_needs_no_variable(tmp_path):
    """Containerlab does so by itself for vIOS, and IOL is no machine."""
    for kind in ("cisco_vios", "cisco_iol"):
        own(tmp_path, f"topology: {{nodes: {{r1: {{kind: {kind}, image: x}}}}}}\n")
    with pytest.raises(ConfigInvalid, match="QEMU"):
        own(tmp_path, "topology: {nodes: {r1: {kind: cisco_vios, env: {CLAB_MGMT_PASSTHROUGH: 'false'}}}}\n")


@pytest.mark.parametrize("text", ["- a", "a: [", "topology: {nodes: []}", ""])
def test_no_topology_is_no_topology(text):
    """Whatever it is."""
    with pytest.raises(ConfigInvalid, match="found something else"):
        read_topology(text)


def test_answers_of_both_ages_are_read():
    """By the lab's name, and in one list as older releases told them."""
    one = {"lab_name": "a", "name": "clab-a-xe1", "kind": "cisco_c8000v", "state": "running", "status": "unhealthy"}
    for answer in ({"a": [one]}, {"containers": [one]}):
        (found,) = containers(answer)
        assert (found.label, found.state, found.node().addresses) == ("xe1", NodeState.STARTED, ())
    assert containers({}) == () == containers(None)


@pytest.mark.parametrize(("delay", "expected_ms"), [("50ms", 50), ("1.5s", 1500), ("1m0.5s", 60_500), ("", 0)])
def test_a_duration_is_read_as_go_writes_it(delay, expected_ms):
    """For that is what is read back."""
    told = {"x": [{"interface": "tap0", "delay": "9ms"}, {"interface": "eth0 (mgmt)", "delay": delay, "rate": 7}]}
    assert condition_of(told, "eth0") == LinkCondition(latency_ms=expected_ms, bandwidth_kbps=7)
    assert condition_of(told, "eth1") is None


def test_what_is_not_wanted_is_not_named():
    """It goes back to nothing by that."""
    assert netem_words(LinkCondition()) == ()
    words = netem_words(LinkCondition(bandwidth_kbps=100, latency_ms=5, jitter_ms=1, loss_percent=0.01))
    assert words == ("--delay", "5ms", "--jitter", "1ms", "--loss", "0.01", "--rate", "100")
