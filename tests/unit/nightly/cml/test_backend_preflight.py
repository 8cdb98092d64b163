"""What a lab needs is looked for before it is made: each lack is one sentence, and what is not told is a note."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from flashferry.nightly.backend import Preflight, Topology
from flashferry.nightly.cml.access import NOT_PROVEN
from flashferry.nightly.cml.backend import preflight
from flashferry.nightly.night import Fault, NightFault, NoCapacity
from tests.unit.nightly.cml.scripted import ACCESS, TITLE, Scripted, controller, error

TEXT = """\
lab: {title: x, notes: "", version: 0.3.0}
nodes:
- {id: n0, label: mgmt, node_definition: external_connector, configuration: [{name: default, content: System Bridge}]}
- {id: n1, label: xe1, node_definition: cat8000v, image_definition: cat8000v-17-12-04}
- {id: n2, label: xe2, node_definition: cat8000v}
links: []
"""
TOPOLOGY = Topology(title=TITLE, text=TEXT, nodes=(), links=())
MIB = 1 << 20
GOOD = {
    "GET system_information": {"version": "2.9.1", "ready": True},
    "GET system_health": {"valid": True, "is_licensed": True, "computes": {}},
    "GET node_definitions": [
        {"id": "cat8000v", "sim": {"linux_native": {"ram": 4096}}},
        {"id": "external_connector", "sim": {"linux_native": {}}},
    ],
    "GET image_definitions": [
        {"id": "cat8000v-17-12-04", "node_definition_id": "cat8000v"},
        {"id": "iosv-159-3", "node_definition_id": "iosv"},
    ],
    "GET system/external_connectors": [{"label": "System Bridge", "device_name": "bridge0", "snooped": True}],
    "GET diagnostics/licensing": {"quota": 20, "started": 3, "user_quota": None, "user_started": 3},
    "GET system_stats": {"all": {"memory": {"total": 64_000 * MIB, "free": 32_000 * MIB}}},
}


def looked(**changed: object) -> Preflight:
    script = Scripted(GOOD)
    for name, reply in changed.items():
        script.on(f"GET {name.replace('__', '/')}", reply)
    return preflight(controller(script), TOPOLOGY)


def test_a_good_controller_tells_its_figures():
    """And only looks."""
    script = Scripted(GOOD)
    found = preflight(controller(script), TOPOLOGY)
    assert (found.version, found.nodes_free, found.memory_free_bytes) == ("2.9.1+build.7", 17, 32_000 * MIB)
    assert found.notes == ()
    assert {one.method for one in script.requests} == {"GET"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"system_information": {"version": "2.9.1", "ready": False}}, "the controller is not ready"),
        ({"system_information": []}, "the controller is not ready"),
        ({"system_health": {"is_licensed": False}}, "has no licence"),
        ({"diagnostics__licensing": {"quota": 5, "started": 4}}, "expected room for 2 nodes, found 1 of the licence's"),
        ({"diagnostics__licensing": {"quota": 5, "started": 7}}, "expected room for 2 nodes, found 0"),
        (
            {"diagnostics__licensing": {"quota": 20, "started": 3, "user_quota": 4, "user_started": 3}},
            "expected room for 2 nodes, found 1",
        ),
        ({"node_definitions": [{"id": "iosv"}]}, "expected the node definition 'external_connector', found iosv"),
        (
            {"image_definitions": [{"id": "cat8000v-17-09", "node_definition_id": "cat8000v"}]},
            "expected the image definition 'cat8000v-17-12-04' for cat8000v, found cat8000v-17-09",
        ),
        ({"image_definitions": []}, "found none"),
        ({"system__external_connectors": [{"label": "NAT"}]}, "external connector 'System Bridge', found NAT"),
        (
            {"system_stats": {"all": {"memory": {"free": 8191 * MIB}}}},
            "expected 8,192 MiB of free memory, found 8,191 MiB",
        ),
        ({"system_health": error(500, "broken")}, "could not read its health: it answered 500: broken"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_each_lack_is_one_sentence_with_what_to_do(changed, told):
    """And the lab's fault."""
    with pytest.raises(NightFault, match=told) as found:
        looked(**changed)
    assert (found.value.fault, found.value.step) == (Fault.LAB, "preflight")
    assert found.value.hint


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        (
            {"diagnostics__licensing": error(403, "Admins only")},
            "how many nodes the licence allows is not shown to this user",
        ),
        ({"system_health": error(403, "Admins only")}, "whether it is licensed is not shown to this user"),
        ({"system_health": {"valid": False, "is_licensed": True}}, "own health check is not content"),
        (
            {"system__external_connectors": [{"label": "System Bridge", "snooped": False}]},
            "System Bridge: addresses are not snooped",
        ),
    ],
    ids=["quota", "licence", "health", "snooped"],
)
def test_what_is_not_told_is_a_note(changed, note):
    """A user without rights can still run nights."""
    assert any(note in one for one in looked(**changed).notes)


def test_memory_may_be_told_by_compute_only():
    """Or not at all: then nothing is said of it."""
    stats = {
        "computes": {"a": {"stats": {"memory": {"free": 5000 * MIB}}}, "b": {"stats": {"memory": {"free": 5000 * MIB}}}}
    }
    assert looked(system_stats=stats).memory_free_bytes == 10_000 * MIB
    assert looked(system_stats=error(403, "Admins only")).memory_free_bytes is None


def test_what_is_newer_than_known_is_a_note():
    """The night goes on."""
    found = preflight(controller(Scripted(GOOD), version="2.12.0"), TOPOLOGY)
    assert any("2.12.0 is newer" in note for note in found.notes)


def test_a_lack_of_room_is_told_apart():
    """What dead nights left may fill it; a missing definition it does not."""
    with pytest.raises(NoCapacity):
        looked(diagnostics__licensing={"quota": 5, "started": 4})
    with pytest.raises(NoCapacity):
        looked(system_stats={"all": {"memory": {"free": 5000 * MIB}}})
    with pytest.raises(NightFault) as other:
        looked(image_definitions=[])
    assert not isinstance(other.value, NoCapacity)


def test_a_certificate_that_is_not_proven_is_told_first_and_loudly():
    """In what the step's line and the night's report say, in every night."""
    unproven = replace(ACCESS, is_verified=False)
    assert preflight(controller(Scripted(GOOD), access=unproven), TOPOLOGY).notes[0] == NOT_PROVEN
    assert NOT_PROVEN not in preflight(controller(Scripted(GOOD)), TOPOLOGY).notes
