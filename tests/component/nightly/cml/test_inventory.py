"""A running lab as a Nornir inventory, read from the stand-in controller: by the plugin, and as any verb reads it."""

from __future__ import annotations

import json
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from nornir.core.plugins.inventory import InventoryPluginRegister

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.cml.inventory import CMLInventory
from inventory.host_view import view
from inventory.nornir_loader import open_inventory
from tests.component.nightly.cml.standing import access, as_stranger, up, within, write_night

CONDITION = {"bandwidth": 50_000, "latency": 50, "jitter": 0, "loss": 0.01, "enabled": True}


@pytest.fixture
def lab(standin, backend, monkeypatch):
    """A lab with a router behind a conditioned link, and the password where virl2-client has it."""
    monkeypatch.setenv("VIRL2_PASS", standin.password)
    made = up(backend)
    for _ in range(100):
        if all(node.state == "BOOTED" for node in backend.nodes(made)):
            break
        within().clock.sleep(1)
    links = backend.controller("test").client.session.get(f"labs/{made.lab_id}/topology").json()["links"]
    path = f"labs/{made.lab_id}/links/{links[0]['id']}/condition"
    backend.controller("test").client.session.patch(path, json=CONDITION).raise_for_status()
    return made


@pytest.fixture
def read(standin):
    """Reads the inventory of a lab by the plugin."""

    def _read(lab, **more):
        options = {"url": standin.url, "username": standin.username, "ca_file": str(standin.ca_file)}
        return CMLInventory(lab, **options | more).load()

    return _read


def test_a_lab_is_read_by_title_and_by_id(lab, read):
    """Routers alone, where SSH reaches them, what they are, the groups of their tags, the site of their link."""
    found = read(lab.title)
    assert list(found.hosts) == ["xe1"], "a connector is no router"
    host = found.hosts["xe1"]
    assert (host.hostname.split(".")[0], host.port, host.platform) == ("198", 22, "cisco_iosxe")
    assert host.data["cml"] == {
        "lab_id": lab.lab_id,
        "node_id": host.data["cml"]["node_id"],
        "definition": "cat8000v",
        "image": None,
    }
    assert [group.name for group in host.groups] == ["berlin", "wan"]
    assert (host["site"], host["link_rate_bps"]) == ("wan", 50_000_000)
    assert read(lab.lab_id).hosts["xe1"].dict() == host.dict()


def test_it_has_no_login(lab, read, standin):
    """Neither the controller's nor anybody's: the product's own ways bring the routers'."""
    found = read(lab.title)
    assert standin.password not in json.dumps(found.dict())
    assert found.hosts["xe1"].username is None


def test_any_verb_takes_it(lab, standin, tmp_path):
    """A Nornir configuration file is enough; what the lab does not know stands in groups.yaml beside it."""
    InventoryPluginRegister.register("CMLInventory", CMLInventory)
    options = {"lab": lab.title, "url": standin.url, "username": standin.username, "ca_file": "ca.pem"}
    (tmp_path / "ca.pem").write_bytes(standin.ca_file.read_bytes())
    (tmp_path / "nornir.yaml").write_text(json.dumps({"inventory": {"plugin": "CMLInventory", "options": options}}))
    (tmp_path / "groups.yaml").write_text("wan: {data: {max_copies: 2}}\nberlin: {data: {vrf: lab}}\n")
    device = view(open_inventory(tmp_path / "nornir.yaml").inventory.hosts["xe1"])
    assert (device.name, device.platform, device.site) == ("xe1", "ios", "wan")
    assert (device.link_rate_bps, device.max_copies, device.vrf) == (50_000_000, 2, "lab")


def test_the_entry_point_is_the_plugin():
    """Nornir finds it by its name."""
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["nornir.plugins.inventory"]["CMLInventory"].partition(":")
    assert getattr(import_module(module), name) is CMLInventory


def test_a_title_of_several_labs_is_refused_with_their_ids(lab, read, standin):
    """Any of them could be meant."""
    others = [as_stranger(standin, "twice"), as_stranger(standin, "twice")]
    with pytest.raises(ConfigInvalid, match="expected one lab with the title 'twice', found 2: ") as error:
        read("twice")
    assert all(lab_id in error.value.message for lab_id in others)
    assert list(read(others[0], static={"xe1": "192.0.2.1"}).hosts) == ["xe1"]


def test_without_an_address_there_are_two_more_ways(lab, read, standin):
    """An address that is given goes first; without any the sentence names the router and what to do."""
    standin.faults.set(is_snooping=False)
    with pytest.raises(ConfigInvalid, match="expected an address of the router, found none") as error:
        view(read(lab.title).hosts["xe1"])
    assert "pat:tcp:PORT:22" in error.value.hint
    host = read(lab.title, static={"xe1": "192.0.2.7:2022"}).hosts["xe1"]
    assert (host.hostname, host.port) == ("192.0.2.7", 2022)


def test_a_patty_tag_leads_to_a_port_of_the_controller(lab, read, standin, backend):
    """Such a tag is a way in, and no group."""
    session = backend.controller("test").client.session
    node_id = read(lab.title).hosts["xe1"]["cml"]["node_id"]
    tags = {"tags": ["berlin", "pat:tcp:2001:22"]}
    session.patch(f"labs/{lab.lab_id}/nodes/{node_id}", json=tags).raise_for_status()
    standin.faults.set(is_snooping=False)
    host = read(lab.title).hosts["xe1"]
    assert (host.hostname, host.port) == (access(standin).host, 2001)
    assert [group.name for group in host.groups] == ["berlin", "wan"]


def test_a_lab_that_is_not_there_or_not_started(lab, read, backend):
    """One sentence each, with what there is."""
    with pytest.raises(ConfigInvalid, match=f"expected a lab with the title or id 'nowhere', found {lab.title}"):
        read("nowhere")
    session = backend.controller("test").client.session
    session.put(f"labs/{lab.lab_id}/stop").raise_for_status()
    with pytest.raises(ConfigInvalid, match="expected it started, found STOPPED"):
        read(lab.title)


WRONG = {
    "a password": ({"password": "pA55word-of-mine"}, "options: unknown key 'password'|options: "),
    "no lab": ({"lab": " "}, "option 'lab': expected a lab's title or id"),
    "an address that is none": ({"static": {"xe1": "192.0.2.1:99999"}}, "option 'static': xe1: expected an address"),
    "static as a list": ({"static": ["xe1"]}, "option 'static': expected texts by name, found a list"),
    "nodes as a text": ({"nodes": "xe1"}, "option 'nodes': expected a list of names"),
    "two controllers": ({"description": "nightly.yaml", "url": "https://a"}, "option 'url': expected none beside"),
}


@pytest.mark.parametrize(("options", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_told(options, told):
    """In a sentence, before the controller is asked, and never with a password in it."""
    with pytest.raises(ConfigInvalid, match=told) as error:
        CMLInventory(**{"lab": "x"} | options)
    assert "pA55word-of-mine" not in str(error.value)


def test_a_missing_password_is_told(monkeypatch):
    """With the variable that it comes from."""
    monkeypatch.delenv("VIRL2_PASS", raising=False)
    with pytest.raises(ConfigInvalid, match="password in the variable VIRL2_PASS, found none"):
        CMLInventory("x", url="https://cml.example.net", username="ann").load()


def test_a_router_that_the_lab_does_not_have_is_told(lab, read):
    """Those that it has are named, and a further definition can be made one."""
    with pytest.raises(ConfigInvalid, match="expected a router 'xe9', found xe1"):
        read(lab.title, nodes=["xe9"])
    assert list(read(lab.title, platforms={"external_connector": "ios"}, static={"mgmt": "192.0.2.1"}).hosts) == [
        "mgmt",
        "xe1",
    ]


def test_the_login_of_a_night_serves(lab, standin, tmp_path, monkeypatch, log_in):
    """Its description says who the controller is, and its own variables have the login."""
    monkeypatch.delenv("VIRL2_PASS")
    log_in(standin)
    (tmp_path / "ca.pem").write_bytes(standin.ca_file.read_bytes())
    file = write_night(tmp_path, standin, controller={"ca_file": "ca.pem"})
    found = CMLInventory(lab.title, description=str(file)).load()
    assert list(found.hosts) == ["xe1"]
