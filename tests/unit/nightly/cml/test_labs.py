"""Labs are imported once, started without waiting, and looked at as far as a controller tells."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

import httpx
import pytest

from flashferry.nightly.backend import Deadline, LinkCondition, NodeState, PlannedLink, Topology
from flashferry.nightly.cml import labs
from flashferry.nightly.night import Fault, NightFault
from tests.unit.nightly.cml.scripted import LAB, PAGE_502, TITLE, Scripted, controller, error
from tests.unit.nightly.fakes import WoundClock

TEXT = "lab: {title: x, notes: '', version: 0.3.0}\nnodes: []\nlinks: []\n"
TOPOLOGY = Topology(title=TITLE, text=TEXT, nodes=(), links=())
NOTES = '{"run": "x"}'
OURS = {"id": LAB, "state": "DEFINED_ON_CORE", "lab_title": TITLE, "lab_notes": NOTES}
WAN = LinkCondition(bandwidth_kbps=50_000, latency_ms=50, loss_percent=0.01)
LINK = PlannedLink(label="wan", condition_name="wan50", condition=WAN, nodes=("xe1",))
PARTS = labs.LabParts(nodes=(), links={"wan": "l-1"})
CONDITION = f"labs/{LAB}/links/l-1/condition"


def within(seconds: float = 60) -> Deadline:
    return Deadline.after(seconds, WoundClock())


def imported(script: Scripted) -> str:
    return labs.import_lab(controller(script), TOPOLOGY, notes=NOTES, deadline=within())


def test_an_import_brings_title_and_notes_with_it():
    """A run that is killed right behind it leaves a lab that is known to be ours."""
    script = Scripted({"POST import": {"id": LAB, "warnings": []}, f"GET labs/{LAB}": OURS})
    assert imported(script) == LAB
    sent = script.requests[0]
    assert parse_qs(sent.url.query.decode()) == {"title": [TITLE]}
    assert "content-type" not in sent.headers
    assert TITLE in sent.content.decode()
    assert script.asked == ["POST import", f"GET labs/{LAB}"]


def test_notes_that_the_import_dropped_are_written():
    """Whether a controller takes them from a topology is not known."""
    script = Scripted(
        {"POST import": {"id": LAB}, f"GET labs/{LAB}": OURS | {"lab_notes": ""}, f"PATCH labs/{LAB}": {}}
    )
    imported(script)
    assert json.loads(script.requests[-1].content) == {"title": TITLE, "notes": NOTES}


@pytest.mark.parametrize("trouble", [PAGE_502, httpx.ReadTimeout("slow")], ids=["502", "timeout"])
def test_an_import_whose_answer_is_lost_is_looked_for_by_its_title(trouble):
    """So that there is one lab of it, not two."""
    script = Scripted({"POST import": trouble, "GET labs": ["other", LAB], f"GET labs/{LAB}": OURS})
    script.on("GET labs/other", OURS | {"lab_title": "a stranger's"})
    assert imported(script) == LAB
    assert script.asked.count("POST import") == 1
    assert b"show_all=true" in script.requests[1].url.query


def test_an_import_that_was_not_done_is_done_again():
    """One page of 502 ends no night."""
    script = Scripted({"POST import": (PAGE_502, {"id": LAB}), "GET labs": [], f"GET labs/{LAB}": OURS})
    assert imported(script) == LAB
    assert script.asked.count("POST import") == 2


def test_a_refused_import_is_told_in_the_controllers_words():
    """And never repeated."""
    script = Scripted({"POST import": error(400, "Image definition not found: nope")})
    with pytest.raises(NightFault, match="could not import the lab: it answered 400: Image definition not found: nope"):
        imported(script)
    assert len(script.requests) == 1


def test_an_import_without_an_id_is_told():
    """It may have made a lab: the hint says how it goes away."""
    with pytest.raises(NightFault) as found:
        imported(Scripted({"POST import": {"warnings": []}}))
    assert "reap" in (found.value.hint or "")


@pytest.mark.parametrize("state", ["STARTED", "DEFINED_ON_CORE"])
def test_a_start_whose_answer_is_lost_is_looked_for(state):
    """A lab that has started is not told again, one that has not is."""
    script = Scripted({f"PUT labs/{LAB}/start": (PAGE_502, httpx.Response(204)), f"GET labs/{LAB}/state": state})
    labs.start_lab(controller(script), LAB, deadline=within())
    assert script.asked.count(f"PUT labs/{LAB}/start") == (1 if state == "STARTED" else 2)


def test_nodes_are_told_with_states_and_addresses():
    """Addresses are asked for once a node has booted; a state that nobody knows is none in which it can be used."""
    topology = {
        "nodes": [
            {"id": "n0", "label": "mgmt", "node_definition": "external_connector"},
            {"id": "n1", "label": "xe1", "node_definition": "cat8000v", "image_definition": "x", "tags": ["berlin"]},
            {"id": "n2", "label": "xe2", "node_definition": "cat8000v"},
        ],
        "links": [{"id": "l-1", "label": "wan"}],
    }
    states = {"n0": "BOOTED", "n1": "BOOTED", "n2": "TO_BE_INVENTED"}
    ports = {
        "52:54:00:00:00:02": {"ip4": ["192.0.2.2/24"], "ip6": ["fd00::2"]},
        "52:54:00:00:00:01": {"ip4": ["10.0.0.1"]},
    }
    script = Scripted(
        {
            f"GET labs/{LAB}/topology": topology,
            f"GET labs/{LAB}/lab_element_state": {"nodes": states, "links": {}, "interfaces": {}},
            f"GET labs/{LAB}/layer3_addresses": {"n1": {"name": "xe1", "interfaces": ports}},
        }
    )
    one = controller(script)
    parts = labs.lab_parts(one, LAB, step="start")
    assert parts.links == {"wan": "l-1"}
    _, xe1, xe2 = labs.nodes_now(one, LAB, parts)
    assert (xe1.state, xe1.tags, xe1.image_definition) == (NodeState.BOOTED, ("berlin",), "x")
    assert xe1.addresses == ("192.0.2.2", "10.0.0.1", "fd00::2")
    assert (xe2.state, xe2.addresses) == (NodeState.QUEUED, ())


def test_no_addresses_are_asked_for_while_nothing_has_booted():
    """A poll every five seconds is one question."""
    states = {"nodes": {"n1": "QUEUED"}}
    script = Scripted({f"GET labs/{LAB}/lab_element_state": states})
    labs.nodes_now(controller(script), LAB, PARTS)
    assert len(script.requests) == 1


def test_a_lab_that_somebody_removed_is_the_labs_fault():
    """Its nodes are not merely none."""
    with pytest.raises(NightFault, match="not there any more") as found:
        labs.nodes_now(controller(Scripted()), LAB, PARTS)
    assert found.value.fault is Fault.LAB


def answer(**in_force: object) -> dict[str, object]:
    whole = {"bandwidth": 50_000, "latency": 50, "jitter": 0, "loss": 0.01} | in_force
    return whole | {"enabled": True, "operational": whole}


def set_wan(script: Scripted) -> LinkCondition:
    return labs.set_condition(controller(script), LAB, PARTS, LINK)


def test_a_condition_is_sent_enabled_and_read_back_from_what_is_in_force():
    """What is set and what is in force are two things."""
    script = Scripted({f"PATCH {CONDITION}": {}, f"GET {CONDITION}": answer()})
    assert set_wan(script) == WAN
    sent = json.loads(script.requests[0].content)
    assert sent == {"bandwidth": 50000, "latency": 50, "jitter": 0, "loss": 0.01, "enabled": True}
    assert script.requests[1].url.query == b"operational=true"


@pytest.mark.parametrize("late", [answer(latency=0), answer() | {"operational": None}], ids=["old", "none"])
def test_a_condition_that_takes_a_moment_is_waited_for(late):
    """Whether it is in force at once is not known."""
    assert set_wan(Scripted({f"PATCH {CONDITION}": {}, f"GET {CONDITION}": (late, late, answer())})) == WAN


def test_another_condition_than_planned_is_told_as_it_is():
    """The night decides what it means."""
    script = Scripted({f"PATCH {CONDITION}": {}, f"GET {CONDITION}": answer(latency=500)})
    assert set_wan(script).latency_ms == 500


def test_a_condition_without_what_is_in_force_is_taken_as_set():
    """Older controllers may not tell it."""
    told = {"bandwidth": 50_000, "latency": 50, "jitter": None, "loss": 0.01, "enabled": True}
    assert set_wan(Scripted({f"PATCH {CONDITION}": {}, f"GET {CONDITION}": told})) == WAN


@pytest.mark.parametrize(
    "told",
    [answer() | {"enabled": False}, answer() | {"operational": {}}, error(404, "No link condition exists"), {}],
    ids=["not enabled", "nothing in force", "404", "empty"],
)
def test_a_condition_that_is_not_in_force_is_the_labs_fault(told):
    """Everything measured through it would be wrong."""
    with pytest.raises(NightFault, match="none is in force"):
        set_wan(Scripted({f"PATCH {CONDITION}": {}, f"GET {CONDITION}": told}))


def test_a_link_that_is_not_there_is_named_with_those_that_are():
    """A user's own topology has labels of its own."""
    other = PlannedLink(label="wan2", condition_name="", condition=WAN, nodes=())
    with pytest.raises(NightFault, match="expected a link 'wan2' in the lab, found wan"):
        labs.set_condition(controller(Scripted()), LAB, PARTS, other)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"log": "a\nb\n"}, "a\nb\n"),
        ({"log": ["a", "b"]}, "a\nb"),
        (["a\n", "b\n"], "a\nb\n"),
        ([{"log": "a"}, {"log": "b"}], "a\nb"),
        ("a\nb", "a\nb"),
        (httpx.Response(200, text="a\nb [not JSON"), "a\nb [not JSON"),
        (httpx.Response(200, text=""), ""),
        ({}, ""),
        (None, ""),
        (7, ""),
        (error(404, "No console"), ""),
    ],
    ids=str,
)
def test_a_consoles_log_may_have_any_shape(told, text):
    """Which it is, is not known; a node without a console has none."""
    script = Scripted({f"GET labs/{LAB}/nodes/n1/consoles/0/log": told})
    assert labs.console_log(controller(script), LAB, "n1") == text


def test_leftovers_are_labs_with_our_prefix():
    """Of all users; one that goes away meanwhile, or may not be looked at, is none."""
    script = Scripted({"GET labs": ["a", "b", "c", "d"], "GET labs/a": OURS | {"id": "a", "state": "STARTED"}})
    script.on("GET labs/b", OURS | {"lab_title": "somebody's ff-nightly-lab"})
    script.on("GET labs/d", error(403, "Forbidden"))
    (found,) = labs.leftovers(controller(script))
    assert (found.lab_id, found.title, found.notes, found.state) == ("a", TITLE, NOTES, "STARTED")
    assert b"show_all=true" in script.requests[0].url.query
