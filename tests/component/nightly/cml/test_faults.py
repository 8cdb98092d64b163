"""Each fault of a controller at each call: one that passes stops nothing, one that stays is of the right class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.nightly.backend import Deadline, LinkCondition, NodeState, RunningLab
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.cml.images import disk_file, image_of, put_image, remove_image
from flashferry.nightly.lab_notes import new_title
from flashferry.nightly.night import Fault, NightFault
from tests.component.nightly.cml.standing import (
    CLOCK,
    DAY0_SECRET,
    LINK,
    LONG_S,
    WAN,
    access,
    notes,
    topology,
    up,
    within,
)
from tests.patience import PATIENCE_S

Make = Callable[[CmlBackend, RunningLab, Deadline], Any]
ANSWERED_ONLY = frozenset({"plain_text"})
"""What changes nothing for an order whose answer nobody reads."""
LOST = frozenset({"slow", "slow_answer", "lost_answer", "plain_text"})
"""What is done though its answer is late or lost: whoever looks finds it done."""


@dataclass(frozen=True, kw_only=True)
class Called:
    """A call of ours.

    Attributes:
        make: Makes it.
        path: Which questions of it the fault hits.
        endures: Faults that may stay and end nothing.
        fault: Whose fault all others are.
    """

    make: Make
    path: str
    endures: frozenset[str] = frozenset()
    fault: Fault = Fault.LAB


def _up(backend: CmlBackend, _: RunningLab, deadline: Deadline) -> RunningLab:
    title = new_title(datetime.now(UTC))
    return backend.up(topology(title), notes=notes(title), deadline=deadline)


def _captured(backend: CmlBackend, lab: RunningLab, _: Deadline | None = None) -> bytes:
    backend.capture_begin(lab, LINK)
    return backend.capture_end(lab, LINK)


def _down(backend: CmlBackend, lab: RunningLab, deadline: Deadline) -> None:
    backend.down(lab, deadline=deadline)


CALLS = {
    "preflight, ready": Called(make=lambda one, *_: one.preflight(topology()), path="^system_information$"),
    "preflight, quota": Called(
        make=lambda one, *_: one.preflight(topology()), path="^diagnostics", endures=frozenset({"forbidden"})
    ),
    "preflight, definitions": Called(make=lambda one, *_: one.preflight(topology()), path="^node_definitions$"),
    "import": Called(make=_up, path="^import", endures=LOST),
    "start": Called(make=_up, path="/start$", endures=LOST - {"slow"}),
    "states": Called(make=lambda one, lab, _: one.nodes(lab), path="/lab_element_state$"),
    "condition": Called(make=lambda one, lab, _: one.condition(lab, LINK), path="/condition$", endures=ANSWERED_ONLY),
    "console": Called(
        make=lambda one, lab, _: one.console_log(lab, one.nodes(lab)[1]),
        path="/log$",
        endures=frozenset({"forbidden", "plain_text"}),
    ),
    "capture": Called(make=_captured, path="/capture/start$", endures=LOST - {"slow"}),
    "leftovers": Called(make=lambda one, *_: one.leftovers(), path="^labs$"),
    "down, stop": Called(make=_down, path="/stop$", endures=LOST, fault=Fault.CLEANUP),
    "down, wipe": Called(make=_down, path="/wipe$", endures=LOST, fault=Fault.CLEANUP),
    "down, look": Called(make=_down, path="^labs/[^/]+$", fault=Fault.CLEANUP),
}

PASSING = ("bad_gateway", "unavailable", "server_error", "slow", "slow_answer", "reset", "lost_answer", "expired_token")
STAYING = (*PASSING, "forbidden", "plain_text")
QUICK_PASSING = {
    "bad_gateway": {"import", "start", "states", "condition", "down, look"},
    "lost_answer": {"import", "start"},
}
QUICK_STAYING = {"bad_gateway": {"preflight, ready", "import", "condition", "down, stop"}}


def _pairs(faults: tuple[str, ...], quick: dict[str, set[str]]) -> list[Any]:
    """Return each fault at each call, most of them to be played at length only."""
    return [
        pytest.param(fault, call, marks=() if call in quick.get(fault, ()) else pytest.mark.soak)
        for fault in faults
        for call in CALLS
    ]


def _selector(called: Called, fault: str, **more: object) -> dict[str, object]:
    method = {"/condition$": "PATCH", "^import": "POST"}.get(called.path, "")
    # An import has a patience of its own, minutes: its answer is but late.
    late = {"seconds": 1.5} if called.path == "^import" else {"is_in_vain": True, "seconds": 30.0}
    return {"path": called.path, "method": method, **(late if fault.startswith("slow") else {}), **more}


def _booted(backend: CmlBackend) -> RunningLab:
    """Take up a lab and wait for its nodes."""
    lab, deadline = up(backend), within()
    while {node.state for node in backend.nodes(lab)} != {NodeState.BOOTED}:
        assert deadline.pause(0.5)
    return lab


def _backend(standin, fault: str, *, retry_s: float) -> CmlBackend:
    """Return a backend whose time-out expires only where the fault is a late answer."""
    timeout_s = 0.4 if fault.startswith("slow") else PATIENCE_S
    return CmlBackend(access(standin, timeout_s=timeout_s, retry_s=retry_s), clock=CLOCK, poll_s=0.2)


@pytest.mark.parametrize(("fault", "call"), _pairs(PASSING, QUICK_PASSING))
def test_a_fault_that_passes_stops_nothing(standin, call, fault):
    """Whatever step it hits; and no second lab comes of it."""
    called = CALLS[call]
    with _backend(standin, fault, retry_s=LONG_S) as backend:
        lab = _booted(backend)
        standin.faults.set(**{fault: _selector(called, fault, count=1)})
        called.make(backend, lab, within())
        standin.faults.clear()
        assert len(backend.leftovers()) == {"import": 2, "start": 2}.get(call, 0 if call.startswith("down") else 1)


@pytest.mark.parametrize(("fault", "call"), _pairs(STAYING, QUICK_STAYING))
def test_a_fault_that_stays_is_of_the_right_class(standin, call, fault):
    """Told in one sentence with what to do; where it cannot stand in the way it does not."""
    called = CALLS[call]
    # What is to be endured may be late besides, on a busy machine.
    retry_s = 60 if fault in called.endures else 3
    with (
        CmlBackend(access(standin, timeout_s=PATIENCE_S), clock=CLOCK, poll_s=0.2) as before,
        _backend(standin, fault, retry_s=retry_s) as backend,
    ):
        lab = _booted(before)
        standin.faults.set(**{fault: _selector(called, fault)})
        if fault in called.endures:
            called.make(backend, lab, within())
            return
        with pytest.raises(NightFault) as found:
            called.make(backend, lab, within(10))
        assert found.value.fault is called.fault
        assert found.value.hint
        assert "\n" not in found.value.message


@pytest.mark.parametrize(
    ("switches", "told"),
    [
        ({"is_ready": False}, "is not ready"),
        ({"is_licensed": False}, "has no licence"),
        ({"quota": 5, "others_started": 5}, "expected room for 1 nodes, found 0"),
        ({"memory_used_percent": 100}, "of free memory, found"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_controller_that_cannot_take_the_lab_says_so_before(standin, backend, switches, told):
    """Nothing was made."""
    standin.faults.set(**switches)
    with pytest.raises(NightFault, match=told) as found:
        backend.preflight(topology())
    assert (found.value.fault, found.value.step) == (Fault.LAB, "preflight")
    assert backend.leftovers() == ()


@pytest.mark.parametrize("switches", [{"is_ready": False}, {"is_licensed": False}, {"quota": 1, "others_started": 1}])
def test_a_start_that_is_refused_leaves_no_lab(standin, backend, switches):
    """Between preflight and start somebody was quicker."""
    standin.faults.set(**switches)
    with pytest.raises(NightFault, match="could not start the lab") as found:
        up(backend)
    assert found.value.fault is Fault.LAB
    assert backend.leftovers() == ()


@pytest.mark.parametrize(
    ("switches", "state"),
    [
        ({"stuck": {"xe1": "QUEUED"}}, NodeState.QUEUED),
        ({"no_boot": ["xe1"]}, NodeState.STARTED),
        ({"disconnected": ["xe1"]}, NodeState.DISCONNECTED),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_node_that_hangs_is_told_as_it_is_and_goes_down(standin, backend, switches, state):
    """The night decides how long it waits."""
    standin.faults.set(**switches)
    lab, deadline = up(backend), within()
    while (node := next(one for one in backend.nodes(lab) if one.label == "xe1")).state is not state:
        assert deadline.pause(0.5)
    assert node.addresses == ()
    backend.down(lab, deadline=within())
    assert backend.leftovers() == ()


def test_what_is_in_force_counts_not_what_was_set(standin, backend):
    """Whichever of the two the controller got wrong; one that it would leave idle is put in force."""
    lab = _booted(backend)
    standin.faults.set(is_condition_enabled_by_default=False)
    assert backend.condition(lab, LINK) == WAN
    standin.faults.set(wrong_operational={"latency": 500})
    assert backend.condition(lab, LINK) == LinkCondition(bandwidth_kbps=50_000, latency_ms=500, loss_percent=0.01)
    standin.faults.set(wrong_operational=None, wrong_condition={"bandwidth": 1})
    assert backend.condition(lab, LINK).bandwidth_kbps == 1
    standin.faults.set(wrong_condition=None, condition_refused=True)
    with pytest.raises(NightFault, match="could not set the condition of link wan"):
        backend.condition(lab, LINK)


@pytest.mark.parametrize("shape", ["object", "string", "lines", "plain"])
def test_a_consoles_log_is_read_in_any_shape(standin, backend, shape):
    """Which one is real is not known."""
    lab = _booted(backend)
    standin.faults.set(console_log_as=shape)
    text = backend.console_log(lab, next(one for one in backend.nodes(lab) if one.label == "xe1"))
    assert "Press RETURN to get started!" in text.splitlines()


@pytest.mark.parametrize(
    "switches", [{"refuse_stop": 2}, {"refuse_wipe": 2}, {"refuse_delete": 2}, {"stop_takes_s": 0.3}]
)
def test_a_lab_goes_down_whatever_is_refused_on_the_way(standin, backend, switches):
    """Twice each, or it takes its time."""
    lab = up(backend)
    standin.faults.set(**switches)
    backend.down(lab, deadline=within())
    assert backend.leftovers() == ()


def test_tokens_that_live_shortly_are_renewed(standin, backend):
    """In the midst of everything: each step finds that of the step before expired."""
    standin.faults.set(token_lifetime_s=600.0)
    lab = _booted(backend)
    CLOCK.sleep(600.0)
    backend.condition(lab, LINK)
    CLOCK.sleep(600.0)
    backend.down(lab, deadline=within())


def test_no_artefact_holds_a_secret(standin, backend):
    """Those of the nodes' own configurations among them, which the topology has."""
    lab = _booted(backend)
    found = backend.artefacts(lab)
    assert sorted(found) == ["controller-trace.jsonl", "lab-events.json", "lab.yaml"]
    whole = b"".join(found.values()).decode()
    assert not [one for one in (DAY0_SECRET, standin.password, backend.controller("").client.jwtoken) if one in whole]
    assert "secret ***" in whole


@pytest.mark.parametrize("version", ["2.8.0", "2.9.1", "2.10.0", "2.11.0"])
def test_a_capture_comes_from_where_each_version_keeps_it(standin, version):
    """A pcap file, by its first bytes."""
    standin.faults.set(version=version)
    with CmlBackend(access(standin), clock=CLOCK, poll_s=0.2) as backend:
        assert _captured(backend, _booted(backend))[:4] == bytes.fromhex("d4c3b2a1")


def test_an_image_is_put_there_once_and_boots(standin, backend, tmp_path):
    """The definition is known to the next preflight."""
    path = tmp_path / "c8000v.qcow2"
    path.write_bytes(b"QFI\xfb" + bytes(200_000))
    image = image_of(disk_file(path), "cat8000v")
    assert not backend.has_image(image)
    assert put_image(backend.controller("import"), disk_file(path), "cat8000v") == image
    assert backend.has_image(image)
    made = topology()
    text = made.text.replace(
        "node_definition: cat8000v", f"node_definition: cat8000v\n  image_definition: {image.definition_id}"
    )
    backend.preflight(replace(made, text=text))
    remove_image(backend.controller("preflight"), image)
    with pytest.raises(NightFault, match="expected the image definition"):
        backend.preflight(replace(made, text=text))
