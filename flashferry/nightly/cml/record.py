"""First contact: all that a night asks of a controller is asked once, and the answers are written down.

By default it only looks. With a lab of its own, of two switches and a link between them (and, where one is named, a
node of some definition), it also finds out what needs a controller: the codes and words of refusals,
whether import applies conditions, the shape of consoles' logs, what a lab's state is after a wipe.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.core.outside import json_text, redact_json
from flashferry.nightly.backend import RunningLab
from flashferry.nightly.cml.access import CmlVersion, ControllerAccess
from flashferry.nightly.cml.controller import Call, Controller, Expected, below, connect
from flashferry.nightly.cml.down import take_down
from flashferry.nightly.cml.labs import node_states
from flashferry.nightly.cml.recorder import FORMAT, Noted, Recorder, as_json, compared
from flashferry.nightly.cml.wanted import LONGEST_TITLE, with_notes
from flashferry.nightly.deadline import Clock, Deadline
from flashferry.nightly.faults import NightFault
from flashferry.nightly.lab_notes import LabNotes, new_title

STEP = "record"
_UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
_REFUSALS = tuple(range(400, 500))
_KEEPS_S, _DOWN_S, _SETTLE_S, _BOOT_S = 3600, 300.0, 60.0, 600.0
_TOPOLOGY = """\
lab: {title: x, description: "flashferry nightly record", notes: "", version: 0.2.2}
annotations: []
nodes:
- {id: n0, label: one, node_definition: unmanaged_switch, x: 0, y: 0,
   interfaces: [{id: i0, label: port0, slot: 0, type: physical}]}
- {id: n1, label: two, node_definition: unmanaged_switch, x: 200, y: 0,
   interfaces: [{id: i0, label: port0, slot: 0, type: physical}]}
links:
- {id: l0, n1: n0, i1: i0, n2: n1, i2: i0, label: wan,
   conditioning: {bandwidth: 50000, latency: 50, loss: 0.01, enabled: true}}
"""
_NODE = "- {{id: n2, label: three, node_definition: {name}, x: 400, y: 0, interfaces: []}}\nlinks:\n"
_LOOKS = (
    "system_information",
    "system_health",
    "system_stats",
    "diagnostics/licensing",
    "licensing",
    "node_definitions",
    "image_definitions",
    "system/external_connectors",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What came of it.

    Attributes:
        content: What is to be written: JSON types.
        answers: How many kinds of answers there are.
        differences: How they differ from what is known, one line each.
        failures: What could not be asked, one line each.
    """

    content: dict[str, object]
    answers: int
    differences: tuple[str, ...]
    failures: tuple[str, ...]


class _Script:
    """Asks and goes on, whatever is answered."""

    def __init__(self, controller: Controller, recorder: Recorder) -> None:
        self.controller, self._recorder = controller, recorder
        self.failures: list[str] = []

    def ask(self, situation: str, method: str, path: str, *, expects: Expected = "json", **more: Any) -> Any:
        """Ask in a situation, and return the answer's value; None where there is none."""
        self._recorder.situation = situation
        call = Call(method=method, path=path, what=f"ask: {path}", step=STEP, expects=expects, allows=_REFUSALS, **more)
        try:
            return self.controller.ask(call).value
        except NightFault as error:
            self.failures.append(f"{situation}: {error.message}")
            return None


def record(
    access: ControllerAccess, *, has_lab: bool = False, node: str | None = None, clock: Clock | None = None
) -> Recorded:
    """Ask a controller what a night would ask it.

    Args:
        access: The controller and its login.
        has_lab: Whether a lab of our own is made, of switches only, and removed again.
        node: A node definition of which the lab has a node that is booted: it counts for the licence.
        clock: Waits between tries.

    Raises:
        ConfigInvalid: The extra `cml` is missing, or the access cannot be used.
        NightFault: With `Fault.LAB`: it cannot be reached, or refuses the login; with `Fault.CLEANUP`: our lab is left.
    """
    recorder = Recorder()
    script, version = _played(access, recorder, has_lab=has_lab, node=node, clock=clock)
    noted = recorder.noted
    differs = compared(noted, version)
    content: dict[str, object] = {
        "format": FORMAT,
        "version": version.text,
        "answers": as_json(noted, has_examples=True),
        "differences": list(differs),
        "failures": list(script.failures),
    }
    return Recorded(content=content, answers=len(noted), differences=differs, failures=tuple(script.failures))


def answers_of(
    access: ControllerAccess, *, has_lab: bool = False, node: str | None = None, clock: Clock | None = None
) -> Mapping[str, Noted]:
    """Return what a controller answers, not held against anything: by it the shapes are made that are shipped.

    Raises:
        NightFault: As `record` does.
    """
    recorder = Recorder()
    _played(access, recorder, has_lab=has_lab, node=node, clock=clock)
    return recorder.noted


def _played(
    access: ControllerAccess, recorder: Recorder, *, has_lab: bool, node: str | None, clock: Clock | None
) -> tuple[_Script, CmlVersion]:
    controller = connect(access, step=STEP, watchers=(recorder,), clock=clock)
    script = _Script(controller, recorder)
    try:
        _look(script)
        if has_lab:
            _with_lab(script, node)
    finally:
        recorder.situation = "logout"
        controller.close()
    return script, controller.version


def write_record(path: Path, recorded: Recorded) -> None:
    """Write what came of it, secrets masked.

    Raises:
        ConfigInvalid: The file cannot be written.
    """
    try:
        path.write_text(json_text(redact_json(recorded.content), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigInvalid(f"{path}: cannot be written: {error.strerror}", hint="Name another file") from None


def _look(script: _Script) -> None:
    """Ask what changes nothing."""
    for path in _LOOKS:
        script.ask("look", "GET", path)
    labs = Node(script.ask("look", "GET", "labs", params={"show_all": "true"})).texts()
    if labs:
        script.ask("look", "GET", below("labs", labs[0]))
    script.ask("no such lab", "GET", below("labs", _UNKNOWN_ID))
    script.ask("no such lab", "GET", below("labs", _UNKNOWN_ID, "state"))
    # Through the client it would only log in again.
    script.ask("no such path", "GET", "flashferry")


def _with_lab(script: _Script, node: str | None) -> None:
    """Make a lab, do with it what nights do and what is refused, and remove it."""
    clock = script.controller.clock
    title, ends = new_title(clock.now()), clock.now() + timedelta(seconds=_KEEPS_S)
    notes = LabNotes.of_this_process(title, expires=ends).text()
    text = _TOPOLOGY if node is None else _TOPOLOGY.replace("links:\n", _NODE.format(name=json.dumps(node)))
    lab = _imported(script, with_notes(text, title=title, notes=notes), title)
    if lab is None:
        return
    try:
        _refused_imports(script, title, text)
        _running(script, lab, has_node=node is not None)
    finally:
        take_down(script.controller, lab, deadline=Deadline.after(_DOWN_S, clock))


def _imported(script: _Script, text: str, title: str) -> RunningLab | None:
    answer = script.ask(
        "import", "POST", "import", params={"title": title}, content=text, is_repeatable=False, timeout_s=_SETTLE_S
    )
    lab_id = Node(answer).text("id")
    return None if lab_id is None else RunningLab(lab_id=lab_id, title=title)


def _refused_imports(script: _Script, title: str, text: str) -> None:
    """Ask for what no controller should take; one that takes it has a lab more, which is removed."""
    bad = {
        "import, title too long": (title.ljust(LONGEST_TITLE + 1, "x"), text),
        "import, no such definition": (title, text.replace("unmanaged_switch", "no-such-definition")),
        "import, no topology": (title, "nodes: 7\n"),
    }
    for situation, (name, content) in bad.items():
        answer = script.ask(situation, "POST", "import", params={"title": name}, content=content, is_repeatable=False)
        if (made := Node(answer).text("id")) is not None:
            script.failures.append(f"{situation}: it was taken")
            script.ask(situation, "DELETE", below("labs", made), expects="nothing")


def _running(script: _Script, lab: RunningLab, *, has_node: bool) -> None:
    """Start the lab, set a condition, capture, and give orders in the wrong moment."""
    here = ("labs", lab.lab_id)
    for part in ("", "topology", "state", "events", "check_if_converged", "lab_element_state", "layer3_addresses"):
        script.ask("imported", "GET", below(*here, *filter(None, (part,))))
    link = Node(script.ask("imported", "GET", below(*here, "topology"))).list("links")
    link_id = next((one.text("id") or "" for one in link), "")
    script.ask("imported", "GET", below(*here, "links", link_id, "condition"))
    script.ask("imported", "GET", below(*here, "download"), expects="text")
    script.ask("start", "PUT", below(*here, "start"), expects="nothing")
    nodes = _settled(script, lab, _BOOT_S if has_node else _SETTLE_S)
    for part in ("state", "events", "check_if_converged", "lab_element_state", "layer3_addresses", "simulation_stats"):
        script.ask("running", "GET", below(*here, part))
    for node in nodes:
        script.ask("running", "GET", below(*here, "nodes", node, "consoles", "0", "log"), expects="text")
    _conditions(script, (*here, "links", link_id, "condition"))
    _captures(script, (*here, "links", link_id, "capture"), link_id)
    script.ask("start again", "PUT", below(*here, "start"), expects="nothing")
    script.ask("wipe while running", "PUT", below(*here, "wipe"), expects="nothing")
    script.ask("delete while running", "DELETE", below(*here), expects="nothing")
    _ended(script, lab)


def _ended(script: _Script, lab: RunningLab) -> None:
    """Stop and wipe, and look what that makes of its state."""
    here = ("labs", lab.lab_id)
    script.ask("stop", "PUT", below(*here, "stop"), expects="nothing")
    _settled(script, lab, _SETTLE_S, is_done=lambda states: not set(states) - {"STOPPED", "DEFINED_ON_CORE"})
    script.ask("stopped", "GET", below(*here, "state"))
    script.ask("delete before wipe", "DELETE", below(*here), expects="nothing")
    script.ask("wipe", "PUT", below(*here, "wipe"), expects="nothing")
    script.ask("wiped", "GET", below(*here, "state"))
    script.ask("wiped", "GET", below(*here))
    script.ask("delete", "DELETE", below(*here), expects="nothing")
    script.ask("deleted", "GET", below(*here))


def _conditions(script: _Script, path: tuple[str, ...]) -> None:
    good = {"bandwidth": 50_000, "latency": 50, "jitter": 0, "loss": 0.01, "enabled": True}
    where = below(*path)
    script.ask("condition", "PATCH", where, json=good)
    script.ask("condition", "GET", where)
    script.ask("condition in force", "GET", where, params={"operational": "true"})
    script.ask("condition without enabled", "PATCH", where, json={"latency": 60})
    script.ask("condition without enabled", "GET", where, params={"operational": "true"})
    script.ask("condition out of range", "PATCH", where, json=good | {"latency": 10_001})
    script.ask("condition in fractions", "PATCH", where, json=good | {"latency": 0.5})
    script.ask("condition of unknown key", "PATCH", where, json=good | {"flashferry": 1})
    script.ask("condition removed", "DELETE", where, expects="nothing")
    script.ask("condition removed twice", "DELETE", where, expects="nothing")
    script.ask("condition removed", "GET", where)


def _captures(script: _Script, path: tuple[str, ...], link_id: str) -> None:
    script.ask("capture", "PUT", below(*path, "start"), json={"encap": "ethernet", "maxpackets": 10, "maxtime": 60})
    script.ask("capture", "GET", below(*path, "status"))
    key = script.ask("capture", "GET", below(*path, "key"))
    script.ask("capture", "PUT", below(*path, "stop"), expects="nothing")
    script.ask("capture", "GET", below("pcap", key if isinstance(key, str) and key else link_id), expects="bytes")


def _settled(
    script: _Script,
    lab: RunningLab,
    seconds: float,
    is_done: Callable[[tuple[str, ...]], bool] = lambda states: set(states) == {"BOOTED"},
) -> tuple[str, ...]:
    """Wait until the lab's nodes are where they should be, or long enough; return their ids."""
    until = Deadline.after(seconds, script.controller.clock)
    while True:
        states = node_states(script.controller, lab.lab_id, step=STEP)
        if is_done(tuple(states.values())) or not until.pause(1.0):
            return tuple(states)
