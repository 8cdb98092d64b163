"""The backend of nights: a lab that cannot start is removed again, and no artefact holds a secret."""

from __future__ import annotations

import httpx
import pytest

from flashferry.core.redaction import keep_secret
from flashferry.nightly.backend import Deadline, LabNode, NodeState, RunningLab, Topology
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.night import Fault, NightFault
from tests.unit.nightly.cml.scripted import ACCESS, LAB, TITLE, Scripted, controller, error
from tests.unit.nightly.cml.test_labs_down import OneLab
from tests.unit.nightly.fakes import WoundClock

TOPOLOGY = Topology(title=TITLE, text="lab: {title: x}\nnodes: []\nlinks: []\n", nodes=(), links=())
OURS = RunningLab(lab_id=LAB, title=TITLE)


def backend(script: Scripted, clock: WoundClock | None = None) -> CmlBackend:
    made = CmlBackend(ACCESS, clock=clock or WoundClock())
    made._controller = controller(script, clock=clock)
    return made


def test_a_lab_that_cannot_start_is_removed_again():
    """And the night is told why it could not."""
    script, clock = OneLab("DEFINED_ON_CORE"), WoundClock()
    script.on("POST import", {"id": LAB})
    script.on(f"PATCH labs/{LAB}", {})
    script.on(f"GET labs/{LAB}/topology", {"nodes": [], "links": []})
    script.on(f"PUT labs/{LAB}/start", error(400, "Cannot start lab."))
    with pytest.raises(NightFault, match="could not start the lab: it answered 400: Cannot start lab") as found:
        backend(script, clock).up(TOPOLOGY, notes="{}", deadline=Deadline.after(60, clock))
    assert found.value.fault is Fault.LAB
    assert script.state is None


def test_a_controller_that_is_gone_at_the_end_is_the_clean_ups_fault():
    """The lab may still run: somebody is to be woken."""
    clock = WoundClock()
    with pytest.raises(NightFault) as found:
        backend(Scripted({f"GET labs/{LAB}": httpx.ConnectError("gone")}), clock).down(
            OURS, deadline=Deadline.after(9, clock)
        )
    assert found.value.fault is Fault.CLEANUP


def test_artefacts_hold_no_secret():
    """Neither one that we know nor one of a user's own topology."""
    keep_secret("given-by-us")
    text = "username u privilege 15 secret 9 $9$abc\n password of-theirs\nsnmp-server community of-theirs2 RO\n"
    script = Scripted({f"GET labs/{LAB}/download": httpx.Response(200, text=f"{text}! given-by-us\n")})
    script.on(f"GET labs/{LAB}/events", [{"event": "ADD", "data": {"x": "given-by-us"}}])
    script.on(f"GET labs/{LAB}/nodes/n1/consoles/0/log", {"log": "line given-by-us\n"})
    one = backend(script)
    found = one.artefacts(OURS)
    assert sorted(found) == ["controller-trace.jsonl", "lab-events.json", "lab.yaml"]
    node = LabNode(node_id="n1", label="xe1", node_definition="iosv", state=NodeState.BOOTED)
    whole = b"".join(found.values()).decode() + one.console_log(OURS, node)
    assert not [secret for secret in ("given-by-us", "of-theirs", "$9$abc") if secret in whole]
    assert "username u privilege 15 secret 9 ***" in whole


def test_an_artefact_that_cannot_be_had_is_told_among_the_others():
    """It is no reason to lose them."""
    found = backend(Scripted({f"GET labs/{LAB}/events": []})).artefacts(OURS)
    assert (
        "lab.yaml: artefacts: cml.test: could not download the lab's topology: it answered 404"
        in found["missing.txt"].decode()
    )
    assert "lab-events.json" in found


def test_closing_twice_is_closing_once():
    """Nothing was asked, nothing is said."""
    script = Scripted()
    with backend(script) as one:
        one.close()
    assert script.asked == ["DELETE logout"]
