"""The lab that is made of a description: what a controller imports, and what the night is told of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.lab.cml.definitions import Definitions, Refused
from flashferry.lab.cml.topology import parse
from flashferry.nightly.backend import LinkCondition
from flashferry.nightly.description.logins import generated_password
from flashferry.nightly.night import NodeLogin
from flashferry.nightly.topology.definitions import (
    ROUTERS,
    WrittenLink,
    WrittenNode,
    conditioning,
    missing_for_ssh,
    topology_text,
)
from flashferry.nightly.topology.made import MOST_ROUTERS, made_topology
from tests.unit.nightly.describing import described

TITLE = "ff-nightly-20261122T0100-3f2a"
LOGIN = NodeLogin(username="ann", password="pA55word")
LABELS = ["branch-csr1000v-1", "branch-csr1000v-2", "branch-iosv-1", "office-iol-xe-1"]


def made(folder, changes=None, **more):
    return made_topology(described(folder, changes), title=TITLE, login=LOGIN, **more)


def parsed(topology):
    return YAML(typ="safe").load(topology.text)


@pytest.mark.parametrize("schema", ["0.2.1", "0.2.2", "0.3.0"])
def test_a_lab_is_whole(tmp_path, schema):
    """Every link joins two ports that there are, each port once; every router has a link with its site's condition."""
    topology = made(tmp_path, {"topology.schema": schema})
    lab = parsed(topology)
    assert (lab["lab"]["title"], lab["lab"]["version"]) == (TITLE, schema)
    ports = {
        (node["id"], one["id"]): one for node in lab["nodes"] for one in node["interfaces"] if one["type"] == "physical"
    }
    used = [(link[f"n{end}"], link[f"i{end}"]) for link in lab["links"] for end in (1, 2)]
    assert sorted(used) == sorted(set(used)) == sorted(ports), "no port is left over or used twice"
    for node in lab["nodes"]:
        slots = [one["slot"] for one in node["interfaces"] if one["type"] == "physical"]
        assert slots == list(range(len(slots)))
    assert len({node["id"] for node in lab["nodes"]}) == len({node["label"] for node in lab["nodes"]}) == 6
    conditions = {link["label"]: link["conditioning"] for link in lab["links"]}
    wan = {"bandwidth": 50000, "latency": 50, "jitter": 0, "loss": 0.01, "enabled": True}
    assert conditions["wan-branch-iosv-1"] == conditions["wan-branch-csr1000v-2"] == wan
    assert conditions["mgmt"] == {}
    assert ("smart_annotations" in lab) is (schema == "0.3.0")


@pytest.mark.parametrize("schema", ["0.2.1", "0.2.2", "0.3.0"])
def test_each_definition_has_its_own_file_and_interface(tmp_path, schema):
    """Up to 0.2.1 the configuration is a text, then a list of files, named as the node definition has them."""
    lab = parsed(made(tmp_path, {"topology.schema": schema}))
    routers = [node for node in lab["nodes"] if node["node_definition"] in ROUTERS]
    for node in routers:
        kind = ROUTERS[node["node_definition"]]
        found = node["configuration"]
        if schema != "0.2.1":
            assert [one["name"] for one in found] == [kind.day0_file]
            found = found[0]["content"]
        assert found.splitlines()[-1] == "end"
        assert f"hostname {node['label']}" in found
        assert f"interface {kind.interface}\n description {TITLE}\n ip address dhcp\n no shutdown" in found
        assert [one["label"] for one in node["interfaces"]] == ["Loopback0", kind.interface]
    connector = lab["nodes"][0]["configuration"]
    bridge = "System Bridge"
    assert connector == (bridge if schema == "0.2.1" else [{"name": "default", "content": bridge}])


@pytest.mark.parametrize("schema", ["0.2.1", "0.2.2", "0.3.0"])
def test_a_controller_imports_it(tmp_path, schema):
    """The stand-in holds it against the rules of the interface's description: keys, kinds, bounds, ports, files."""
    text = made(tmp_path, {"topology.schema": schema, "reach": {"by": "patty", "connector": "NAT"}}).text
    given = parse(text, title=None, definitions=Definitions(tmp_path), version=(2, 9, 1))
    assert [node.label for node in given.nodes] == ["mgmt", "lan", *LABELS]
    assert len(given.links) == 1 + len(LABELS)
    with pytest.raises(Refused):
        parse(
            text.replace("latency: 50", "latency: 50000"),
            title=None,
            definitions=Definitions(tmp_path),
            version=(2, 9, 1),
        )


def test_the_night_is_told_of_routers_and_links(tmp_path):
    """Each router has a link of its own with its site's condition; addresses by DHCP are told later."""
    topology = made(tmp_path)
    assert [node.label for node in topology.nodes] == LABELS
    assert {node.address for node in topology.nodes} == {None}
    assert [link.nodes for link in topology.links] == [(label,) for label in LABELS]
    assert [link.condition_name for link in topology.links] == ["branch"] * 3 + ["office"]
    assert topology.links[3].condition == LinkCondition(latency_ms=10)
    assert {node.platform for node in topology.nodes} == {"cisco_ios", "cisco_iosxe"}
    assert topology.links[0].label in topology.text


def test_addresses_are_handed_out_in_order(tmp_path):
    """With their mask and the way out; the night knows them before the lab is up."""
    pool = [f"192.0.2.{number}/25" for number in range(50, 54)]
    topology = made(tmp_path, {"reach": {"addresses": pool, "gateway": "192.0.2.1"}})
    assert [node.address for node in topology.nodes] == [one.split("/")[0] for one in pool]
    assert " ip address 192.0.2.53 255.255.255.128" in topology.text
    assert topology.text.count("ip route 0.0.0.0 0.0.0.0 192.0.2.1") == 4


def test_each_router_has_a_port_of_the_controller(tmp_path):
    """PATty forwards by tags; the night logs in to the controller's ports."""
    topology = made(tmp_path, {"reach": {"by": "patty", "connector": "NAT", "first_port": 3000}})
    tags = [node["tags"] for node in parsed(topology)["nodes"]]
    assert tags == [[], [], ["pat:tcp:3000:22"], ["pat:tcp:3001:22"], ["pat:tcp:3002:22"], ["pat:tcp:3003:22"]]
    assert [(node.address, node.ssh_port) for node in topology.nodes][:2] == [
        ("cml.example.net", 3000),
        ("cml.example.net", 3001),
    ]


def test_static_addresses_are_for_these_routers(tmp_path):
    """One that lacks, and one for nobody, are named."""
    given = {label: f"192.0.2.{number}/24" for number, label in enumerate(LABELS, 10)}
    reach = {"by": "static", "addresses": given}
    assert made(tmp_path, {"reach": reach}).nodes[3].address == "192.0.2.13"
    lacking = {label: one for label, one in given.items() if label != LABELS[0]}
    for wrong, said in ((lacking, f"no address for {LABELS[0]}"), (given | {"x": "192.0.2.9/24"}, "one for x")):
        with pytest.raises(ConfigInvalid, match=said):
            made(tmp_path, {"reach": {"by": "static", "addresses": wrong}})


def test_a_title_too_long_is_refused(tmp_path):
    """64 characters are taken, one more is not, nor is none."""
    description = described(tmp_path)
    assert made_topology(description, title="x" * 64, login=LOGIN).title == "x" * 64
    for title in ("x" * 65, ""):
        with pytest.raises(ConfigInvalid, match=f"expected 1 to 64 characters, found {len(title)}"):
            made_topology(description, title=title, login=LOGIN)


def test_no_more_routers_than_the_switch_has_ports(tmp_path):
    """One more is refused in a sentence; as many as there are ports are wired."""
    count = "topology.sites.0.nodes.0.count"
    assert len(made(tmp_path, {count: MOST_ROUTERS - 2}).nodes) == MOST_ROUTERS
    with pytest.raises(ConfigInvalid, match=f"at most {MOST_ROUTERS} routers .*, found {MOST_ROUTERS + 1}"):
        made(tmp_path, {count: MOST_ROUTERS - 1})


def test_who_is_captured_is_a_router_of_the_lab(tmp_path):
    """A name of none is refused before there is a lab."""
    assert made(tmp_path, {"night.capture_node": LABELS[0]}).nodes
    with pytest.raises(ConfigInvalid, match=r"night.capture_node': expected one of branch-csr1000v-1, "):
        made(tmp_path, {"night.capture_node": "xe1"})


@pytest.mark.parametrize(("username", "password"), [("ann", "a?b"), ("a b", "Xq7"), ("ann", "a\nusername x")])
def test_a_login_that_ends_its_line_is_refused(tmp_path, username, password):
    """IOS takes a blank or a question mark for something else; the sentence does not show it."""
    with pytest.raises(ConfigInvalid, match="without blanks and question marks") as wrong:
        made_topology(described(tmp_path), title=TITLE, login=NodeLogin(username=username, password=password))
    assert password not in str(wrong.value)


def test_a_generated_password_is_masked_and_never_the_same(tmp_path):
    """It is in the text that is imported, and in no text that leaves the process."""
    password = generated_password()
    assert generated_password() != password
    topology = made_topology(described(tmp_path), title=TITLE, login=NodeLogin(username="ann", password=password))
    assert password in topology.text
    assert password not in masked(topology.text)
    assert password not in masked(f"username ann secret {password[:12]}")


def test_a_made_configuration_lets_ssh_in(tmp_path):
    """By the rules that a configuration of the user's own is held against."""
    for node in parsed(made(tmp_path))["nodes"][2:]:
        content = node["configuration"][0]["content"]
        assert missing_for_ssh(content) is None
        assert content.startswith("platform console serial") is ROUTERS[node["node_definition"]].has_serial_line
        for line in ("username", "line vty", "transport input", "ip address"):
            without = "\n".join(one for one in content.splitlines() if line not in one)
            assert line in str(missing_for_ssh(without)), line


CONDITIONS = st.builds(
    LinkCondition,
    bandwidth_kbps=st.integers(0, 10_000_000),
    latency_ms=st.integers(0, 10_000),
    jitter_ms=st.integers(0, 10_000),
    loss_percent=st.floats(0, 100),
)
BOUNDS = {"bandwidth": 10_000_000, "latency": 10_000, "jitter": 10_000, "loss": 100}


@settings(max_examples=30, deadline=None)
@given(condition=CONDITIONS)
def test_a_condition_comes_back_from_the_text(condition):
    """Exactly, in whole numbers where the controller wants them, and always enabled."""
    nodes = [WrittenNode(node_id=one, label=one, definition="iosv", interfaces=("x",)) for one in ("n0", "n1")]
    link = WrittenLink(label="wan", ends=(("n0", 0), ("n1", 0)), condition=condition)
    text = topology_text(title="x", schema="0.3.0", nodes=nodes, links=[link])
    found = YAML(typ="safe").load(text)["links"][0]["conditioning"]
    assert found == conditioning(condition)
    assert found.pop("enabled") is True
    assert all(isinstance(found[key], int) for key in ("bandwidth", "latency", "jitter"))
    assert all(0 <= value <= BOUNDS[key] for key, value in found.items())
