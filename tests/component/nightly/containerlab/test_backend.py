"""Labs on containerlab, against the stand-in of its command line: up, conditions, consoles, down, leftovers, faults."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.lab.containerlab.standin import SWITCHES, standin
from flashferry.nightly.backend import LinkCondition, NodeState, RunningLab
from flashferry.nightly.containerlab.backend import ContainerlabBackend
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.faults import Fault, NightFault
from flashferry.nightly.lab_notes import read_notes
from flashferry.nightly.playing import open_backend
from flashferry.nightly.reaping import ReapRules, reap
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.made import made_topology
from tests.component.nightly.cml.standing import CLOCK, notes

IMAGES = ("vrnetlab/cisco_c8000v:17.11.01a", "vrnetlab/cisco_iol:17.12.01")
COMMIT = "Commit: 9b1495fd161d9f1836f0899f05f7a8c11d834877 from Mon, 25 Aug 2025 21:27:50 +1200"
TITLE = "ff-nightly-20261122T0100-3f2a"
LOGIN = NodeLogin(username="ann", password="pA55word-of-a-night")
WAN = LinkCondition(bandwidth_kbps=50_000, latency_ms=50, jitter_ms=2, loss_percent=0.01)
NIGHT = {
    "backend": "containerlab",
    "topology": {
        "sites": [
            {
                "name": "wan50",
                "condition": {"bandwidth_kbps": 50_000, "latency_ms": 50, "jitter_ms": 2, "loss_percent": 0.01},
                "nodes": [
                    {"node_definition": "cat8000v", "image_definition": IMAGES[0]},
                    {"node_definition": "iol-xe", "image_definition": IMAGES[1]},
                ],
            }
        ]
    },
    "night": {"image": "image.bin"},
    "artefacts": {"folder": "nights"},
}
XE, IOL = "wan50-cat8000v-1", "wan50-iol-xe-1"


@pytest.fixture
def clab(tmp_path, monkeypatch):
    """The stand-in, its programs on PATH, its images there."""
    made = standin(tmp_path / "standin")
    for image in IMAGES:
        made.add_image(image, **{"vrnetlab-version": COMMIT})
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FLASHFERRY_PASSWORD", LOGIN.password)
    monkeypatch.setenv("CLAB_DEPLOY_RECONFIGURE", "true")
    return made


@pytest.fixture
def backend(clab, tmp_path):
    """The backend, on a host whose KVM is a file."""
    (tmp_path / "kvm").touch()
    return ContainerlabBackend(tmp_path / "labs", clock=CLOCK, kvm=tmp_path / "kvm")


@pytest.fixture
def topology(tmp_path):
    (tmp_path / "image.bin").write_bytes(b"image")
    (tmp_path / "nightly.yaml").write_text(json.dumps(NIGHT))
    return made_topology(load_description(tmp_path / "nightly.yaml"), title=TITLE, login=LOGIN)


def soon(seconds=600.0):
    return Deadline.after(seconds, CLOCK)


@pytest.fixture
def lab(backend, topology):
    return backend.up(topology, notes=notes(TITLE), deadline=soon())


def test_a_lab_goes_up_and_down(backend, topology, clab, tmp_path):
    """With notes before it is deployed, nodes that the night knows, and nothing left: no lab, no folder, no secret."""
    lab = backend.up(topology, notes=notes(TITLE), deadline=soon())
    nodes = {node.label: node for node in backend.nodes(lab)}
    assert set(nodes) == {XE, IOL} == {node.label for node in topology.nodes}
    assert (nodes[XE].node_definition, nodes[XE].image_definition) == ("cat8000v", IMAGES[0])
    assert (nodes[XE].state, nodes[XE].addresses) == (NodeState.BOOTED, ("172.20.20.2",))
    home = tmp_path / "labs" / TITLE
    assert {path.name for path in home.iterdir()} == {"night.json", f"{TITLE}.clab.yml", f"clab-{TITLE}"}
    assert (home / f"{TITLE}.clab.yml").stat().st_mode & 0o077 == 0, "it holds a password"
    assert clab.labs()[TITLE]["nodes"][f"clab-{TITLE}-{XE}"]["env"] == {"CLAB_MGMT_PASSTHROUGH": "true"}
    files = backend.artefacts(lab)
    assert LOGIN.password.encode() not in b"".join(files.values())
    assert b'"deploy"' in files["containerlab-trace.jsonl"]
    backend.down(lab, deadline=soon())
    assert clab.labs() == {}
    assert list((tmp_path / "labs").iterdir()) == []
    with clab.state() as state:
        assert state["leaked"] == [], "no variable of ours, nor one that would be an option, reaches the program"
    backend.down(lab, deadline=soon())


def test_a_machine_boots_when_it_is_healthy(backend, topology, clab):
    """Unhealthy is not yet; a program in a container counts when it runs; one that ended is stopped."""
    clab.set(boot_s=3600.0)
    lab = backend.up(topology, notes=notes(TITLE), deadline=soon())
    assert {node.label: node.state for node in backend.nodes(lab)} == {XE: NodeState.STARTED, IOL: NodeState.BOOTED}
    clab.set(boot_s=0.0, exited=[IOL])
    assert {node.label: node.state for node in backend.nodes(lab)} == {XE: NodeState.BOOTED, IOL: NodeState.STOPPED}


def test_a_condition_is_set_in_each_direction_and_read_back(backend, topology, lab, clab):
    """On both devices of a machine, on the one of a program; what reads back otherwise is told as it is."""
    links = {link.nodes[0]: link for link in topology.links}
    assert backend.condition(lab, links[XE]) == WAN == backend.condition(lab, links[IOL])
    nodes = clab.labs()[TITLE]["nodes"]
    assert set(nodes[f"clab-{TITLE}-{XE}"]["netem"]) == {"eth0", "tap0"}
    assert set(nodes[f"clab-{TITLE}-{IOL}"]["netem"]) == {"eth0"}
    clab.set(netem_wrong={"rate": 100})
    assert backend.condition(lab, links[XE]).bandwidth_kbps == 100
    clab.set(netem_refused="failed to load sch_netem")
    with pytest.raises(NightFault, match=r"could not set the condition of link .* on eth0: .*sch_netem") as error:
        backend.condition(lab, links[XE])
    assert error.value.fault is Fault.LAB


def test_the_console_is_what_docker_has_kept(backend, lab):
    """Without the passwords that a configuration shows."""
    node = next(node for node in backend.nodes(lab) if node.label == XE)
    log = backend.console_log(lab, node)
    assert "CVAC Configuration has been applied" in log
    assert "username ann privilege 15 secret ***" in log


def test_a_deploy_that_fails_leaves_nothing(backend, topology, clab, tmp_path):
    """Though its first container was there already."""
    clab.set(deploy_fails="failed to create veth: file exists")
    with pytest.raises(NightFault, match=r"could not deploy the lab: .*failed to create veth: file exists") as error:
        backend.up(topology, notes=notes(TITLE), deadline=soon())
    assert error.value.fault is Fault.LAB
    assert clab.labs() == {}
    assert list((tmp_path / "labs").iterdir()) == []


def test_a_destroy_that_removes_nothing_is_repeated(backend, lab, clab):
    """It ends with 0 all the same; what counts is that no container is left."""
    clab.set(destroy_leaves=2, inspect_fails=1)
    backend.down(lab, deadline=soon())
    assert clab.labs() == {}
    assert sum(call[1] == "destroy" for call in clab.calls()) == 3


def test_a_lab_that_stays_is_a_fault_of_the_clean_up(backend, lab, clab):
    """Once its time is over."""
    clab.set(destroy_leaves=10_000)
    with pytest.raises(NightFault, match=f"lab {TITLE} could not be removed: ") as error:
        backend.down(lab, deadline=soon(60))
    assert error.value.fault is Fault.CLEANUP


def test_a_slow_command_is_ended(backend, clab):
    """When its time is over, and not later."""
    clab.set(slow_s=60.0)
    with pytest.raises(NightFault, match="could not ask: it took longer than"):
        backend.commands.told("docker", "version", what="ask", step="preflight", deadline=soon(5))


def test_leftovers_are_known_by_their_notes(backend, topology, clab, tmp_path):
    """One of a dead night goes; one that runs and a stranger's stay, and so does a folder alone whose night runs."""
    other = "ff-nightly-20261122T0200-0001"
    dead = backend.up(topology, notes=notes(TITLE, hours=-1), deadline=soon())
    (tmp_path / "labs" / other).mkdir()
    (tmp_path / "labs" / other / "night.json").write_text(notes(other))
    stranger = "ff-nightly-20261122T0300-0002"
    with clab.state() as state:
        state["labs"][stranger] = {**state["labs"][TITLE], "topology": str(tmp_path / "theirs" / "lab.yml")}
    found = {one.title: one for one in backend.leftovers()}
    assert set(found) == {dead.title, other, stranger}
    assert read_notes(found[stranger]) is None
    assert found[other].state == "no container"
    reaped = reap(backend, ReapRules(is_alive=lambda _: True), deadline=soon())
    assert {one.lab.title for one in reaped if one.is_removed} == {TITLE}
    assert set(clab.labs()) == {stranger}
    assert [path.name for path in (tmp_path / "labs").iterdir()] == [other]


def test_a_stranger_s_folder_is_not_removed(backend, tmp_path):
    """Only one with a night's name and a night's notes."""
    theirs = tmp_path / "labs" / "theirs"
    theirs.mkdir(parents=True)
    backend.down(RunningLab(lab_id="theirs", title="theirs"), deadline=soon())
    assert theirs.is_dir()


def test_a_good_host_passes(backend, topology):
    """With the versions, and plainly marked as never tried."""
    found = backend.preflight(topology)
    assert (found.controller, found.version) == ("this host", "0.79.0")
    assert any("9b1495fd1" in note for note in found.notes)
    assert any("never tried with KVM" in note for note in found.notes)


BROKEN = {
    "an old release": ({"version": "0.64.0"}, "expected containerlab 0.65.0 or newer, found 0.64.0"),
    "no release": ({"version": "none"}, "expected a version of containerlab, found none"),
    "no docker": ({"docker_down": True}, "could not ask docker for its version: Cannot connect"),
}


@pytest.mark.parametrize(("switches", "told"), BROKEN.values(), ids=BROKEN)
def test_what_this_host_lacks_is_told_before(backend, topology, clab, switches, told):
    """In a sentence, as a fault of the lab."""
    clab.set(**switches)
    with pytest.raises(NightFault, match=told) as error:
        backend.preflight(topology)
    assert error.value.fault is Fault.LAB
    assert error.value.hint


def test_a_missing_image_is_told_before(backend, topology, clab):
    """For no image is pulled."""
    with clab.state() as state:
        del state["images"][IMAGES[1]]
    with pytest.raises(NightFault, match=f"expected the image {IMAGES[1]} on this host, found none"):
        backend.preflight(topology)


def test_a_host_without_kvm_is_told_before(clab, topology, tmp_path):
    """A virtual machine needs it."""
    backend = ContainerlabBackend(tmp_path / "labs", clock=CLOCK, kvm=tmp_path / "absent")
    with pytest.raises(NightFault, match=f"router {XE}: expected .*absent, found none"):
        backend.preflight(topology)


def test_a_host_without_containerlab_is_told_before(backend, topology, monkeypatch, tmp_path):
    """With the command's name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NightFault, match="expected the command 'containerlab', found none"):
        backend.preflight(topology)


def test_a_user_without_rights_is_told_before(backend, topology, monkeypatch):
    """Neither root, nor a program that is root's."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NightFault, match="expected root, or a containerlab that is root's"):
        backend.preflight(topology)


def test_tcp_that_would_end_in_qemu_is_refused(backend, topology):
    """Whatever text comes: the trap is looked for in what is to be deployed."""
    text = re.sub(r"CLAB_MGMT_PASSTHROUGH: .*", "CLAB_MGMT_PASSTHROUGH: 'false'", topology.text)
    with pytest.raises(ConfigInvalid, match="TCP ends in QEMU and not in IOS") as error:
        backend.preflight(replace(topology, text=text))
    assert "vrnetlab 0.21.0" in error.value.hint


def test_a_description_opens_it(topology, tmp_path):
    """Its labs' folders are beside its nights', and the routers reach this host by their management VRF."""
    description = load_description(tmp_path / "nightly.yaml")
    with open_backend(description) as backend:
        assert backend.name == "containerlab"
    assert description.settings(LOGIN).inventory_data == {"vrf": "clab-mgmt"}


def test_every_switch_says_what_it_does():
    """For whoever tries things by hand."""
    assert all(effect.endswith(".") for _, effect in SWITCHES.values())
