"""Record what a controller answers, as shapes (keys and types) with publishable values, and compare with known shapes.

Answers are full of confidential names, addresses and accounts. A developer needs their shape, numbers, and words of the
interface such as states and refusals.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as struct_field

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.core.redaction import json_text, redact_json, sanitize
from flashferry.nightly.backend import Clock, Deadline, RunningLab
from flashferry.nightly.cml.access import CmlVersion, ControllerAccess
from flashferry.nightly.cml.controller import Call, Controller, Expected, below, connect
from flashferry.nightly.cml.images import LONGEST_TITLE, with_notes
from flashferry.nightly.cml.labs import node_states, take_down
from flashferry.nightly.lab_notes import LabNotes, new_title
from flashferry.nightly.night import NightFault

if TYPE_CHECKING:
    import httpx

TEXT, PAGE, BYTES, EMPTY = "text", "page", "bytes", "nothing"
"""Kinds of answers that are no JSON."""

_ID = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|([0-9a-f]{2}:){5}[0-9a-f]{2}|\d{1,3}(\.\d{1,3}){3}", re.IGNORECASE
)

_WORDS = frozenset(
    {
        *(
            "category",
            "code",
            "description",
            "element_type",
            "encap",
            "event",
            "forwarding",
            "node_definition",
            "state",
        ),
        *("status", "version", "warnings", "type"),
    }
)
"""Keys whose texts are the interface's own words; `description` only in refusals, elsewhere people wrote it."""

_LONGEST = 300


class Shape(Struct, frozen=True, kw_only=True):
    """The keys and types of a JSON value.

    Attributes:
        kinds: Types seen at this place: `string`, `integer`, `number`, `boolean`, `null`, `object`, `array`, ...
        keys: Shape by key of an object.
        may: Keys that are optional.
        each: Shape of an array's items, or of the values of an object whose keys are IDs; None: none seen.
    """

    kinds: frozenset[str]
    keys: Mapping[str, Shape] = struct_field(default_factory=dict)
    may: frozenset[str] = frozenset()
    each: Shape | None = None


def shape_of(value: object) -> Shape:
    """Return the shape of a JSON value."""
    if isinstance(value, Mapping):
        if value and all(_ID.fullmatch(str(key)) for key in value):
            return Shape(kinds=frozenset({"object"}), each=_all(value.values()))
        return Shape(kinds=frozenset({"object"}), keys={str(key): shape_of(one) for key, one in value.items()})
    if isinstance(value, list | tuple):
        return Shape(kinds=frozenset({"array"}), each=_all(value))
    names: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return Shape(kinds=frozenset({names.get(type(value), type(value).__name__)}))


def merged(one: Shape, other: Shape) -> Shape:
    """Return the shape of values that have either shape."""
    keys = dict(one.keys)
    for name, shape in other.keys.items():
        keys[name] = merged(keys[name], shape) if name in keys else shape
    both_objects = "object" in one.kinds and "object" in other.kinds
    absent = frozenset(one.keys) ^ frozenset(other.keys) if both_objects else frozenset[str]()
    each = one.each if other.each is None else other.each if one.each is None else merged(one.each, other.each)
    return Shape(kinds=one.kinds | other.kinds, keys=keys, may=one.may | other.may | absent, each=each)


def differences(known: Shape, seen: Shape, at: str = "") -> Iterator[str]:
    """Yield how a shape differs from the known one, one line each."""
    where = at or "the answer"
    kinds = {"number" if kind == "integer" and "number" in known.kinds else kind for kind in seen.kinds}
    if more := sorted(kinds - known.kinds):
        yield f"{where}: expected {' or '.join(sorted(known.kinds))}, found {' or '.join(more)}"
    if "object" in known.kinds & seen.kinds and (known.keys or seen.keys):
        yield from _key_differences(known, seen, at)
    if known.each is not None and seen.each is not None:
        yield from differences(known.each, seen.each, f"{at}[]")


def to_json(shape: Shape) -> Any:
    """Return a shape as JSON: a word for a plain value, else an object."""
    kinds = "|".join(sorted(shape.kinds))
    if not shape.keys and shape.each is None:
        return kinds
    found: dict[str, Any] = {"is": kinds}
    if shape.keys:
        found["keys"] = {name + "?" * (name in shape.may): to_json(one) for name, one in sorted(shape.keys.items())}
    if shape.each is not None:
        found["each"] = to_json(shape.each)
    return found


def from_json(value: Any) -> Shape:
    """Parse the shape that `to_json` wrote.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, str):
        return Shape(kinds=frozenset(value.split("|")))
    if not isinstance(value, dict) or not isinstance(value.get("is"), str):
        raise ValueError(f"expected a shape, found {type(value).__name__}")  # noqa: TRY004 -- what a file holds
    keys = {name.removesuffix("?"): from_json(one) for name, one in value.get("keys", {}).items()}
    may = frozenset(name.removesuffix("?") for name in value.get("keys", {}) if name.endswith("?"))
    each = from_json(value["each"]) if "each" in value else None
    return Shape(kinds=frozenset(value["is"].split("|")), keys=keys, may=may, each=each)


def publishable(value: object, *, is_refusal: bool, name: str = "") -> Any:
    """Return a JSON value with numbers and words of the interface only; other texts are replaced.

    Args:
        value: The JSON value.
        is_refusal: Whether it is an error, whose description is the controller's own.
        name: The key of the value.
    """
    if isinstance(value, Mapping):
        named = {str(key): publishable(one, is_refusal=is_refusal, name=str(key)) for key, one in value.items()}
        return {f"id-{place}" if _ID.fullmatch(key) else key: one for place, (key, one) in enumerate(named.items(), 1)}
    if isinstance(value, list | tuple):
        return [publishable(one, is_refusal=is_refusal, name=name) for one in value]
    if not isinstance(value, str):
        return value
    is_word = name in _WORDS and (name != "description" or is_refusal)
    return sanitize(_ID.sub("<id>", value))[:_LONGEST] if is_word else "<text>"


def _all(values: Any) -> Shape | None:
    found: Shape | None = None
    for value in values:
        shape = shape_of(value)
        found = shape if found is None else merged(found, shape)
    return found


def _key_differences(known: Shape, seen: Shape, at: str) -> Iterator[str]:
    for name in sorted(known.keys.keys() - seen.keys.keys() - known.may):
        yield f"{_below(at, name)}: expected {' or '.join(sorted(known.keys[name].kinds))}, found no such key"
    for name in sorted(seen.keys.keys() - known.keys.keys()):
        yield f"{_below(at, name)}: not known here, {' or '.join(sorted(seen.keys[name].kinds))}"
    for name in sorted(known.keys.keys() & seen.keys.keys()):
        yield from differences(known.keys[name], seen.keys[name], _below(at, name))


def _below(at: str, name: str) -> str:
    return f"{at}.{sanitize(name)}" if at else sanitize(name)


FORMAT = 1
_BASE = "/api/v0/"

_NAMED = {
    "labs": "LAB",
    "nodes": "NODE",
    "links": "LINK",
    "interfaces": "INTERFACE",
    "pcap": "CAPTURE",
    "consoles": "CONSOLE",
    "image_definitions": "IMAGE",
    "node_definitions": "DEFINITION",
}
"""Placeholder of a path segment, by the segment before it."""

_SECRET_PATHS = ("/authenticate", "/keys/")


@dataclass(slots=True, kw_only=True)
class Noted:
    """Answers to one request in one situation.

    Attributes:
        path: Relative to `/api/v0/`, IDs replaced by placeholders.
        shape: The merged shape of all answers.
        example: The last answer's publishable values; None: none.
        times: Number of answers.
    """

    method: str
    path: str
    statuses: set[int] = field(default_factory=set)
    content_type: str = ""
    shape: Shape
    example: Any = None
    times: int = 0


class Recorder:
    """Record all answers of a controller; `situation` names what the next requests are about."""

    def __init__(self) -> None:
        self.situation = "login"
        self._lock = threading.Lock()
        self._noted: dict[str, Noted] = {}

    @property
    def noted(self) -> Mapping[str, Noted]:
        """The recorded answers, by situation, method and path."""
        with self._lock:
            return dict(self._noted)

    def on_request(self, request: httpx.Request) -> None:
        """Ignore a request."""

    def on_response(self, response: httpx.Response) -> None:
        """Record an answer's shape and publishable values."""
        response.read()
        request = response.request
        path = template(request.url.path)
        shape, example = _seen(response)
        with self._lock:
            one = self._noted.setdefault(
                f"{self.situation}: {request.method} {path}", Noted(method=request.method, path=path, shape=shape)
            )
            one.shape = merged(one.shape, shape)
            one.statuses.add(response.status_code)
            one.content_type = response.headers.get("Content-Type", "").partition(";")[0]
            one.times += 1
            if not any(part in request.url.path for part in _SECRET_PATHS):
                one.example = example


def template(path: str) -> str:
    """Return a path relative to `/api/v0/` with placeholders for IDs: `labs/LAB/nodes/NODE`."""
    parts = path.removeprefix(_BASE).split("/")
    return "/".join(_NAMED.get(before, part) for before, part in zip(("", *parts), parts, strict=False))


def compared(noted: Mapping[str, Noted], version: CmlVersion) -> tuple[str, ...]:
    """Return how answers differ from the known ones, one line each."""
    known, found = known_shapes(version), []
    by_question = {name.partition(": ")[2]: one for name, one in known.items()}
    for name, one in noted.items():
        expected_answer = known.get(name) or by_question.get(f"{one.method} {one.path}")
        if expected_answer is None:
            found.append(f"{name}: nothing is known of it")
            continue
        statuses, shape = expected_answer
        if more := sorted(one.statuses - statuses):
            expected = " or ".join(map(str, sorted(statuses)))
            found.append(f"{name}: expected {expected}, found {' or '.join(map(str, more))}")
        found += [f"{name}: {line}" for line in differences(shape, one.shape)]
    return tuple(found)


def known_shapes(version: CmlVersion) -> dict[str, tuple[frozenset[int], Shape]]:
    """Return the known status codes and shapes of a version, by situation, method and path."""
    text = files(__package__ or "").joinpath(shapes_file(version)).read_text(encoding="utf-8")
    content = json.loads(text)["answers"]
    return {name: (frozenset(one["statuses"]), from_json(one["shape"])) for name, one in content.items()}


def shapes_file(version: CmlVersion) -> str:
    """Return the name of a version's file of shapes."""
    return f"shapes-{'2.9' if version.has_capture_keys else '2.10'}.json"


def as_json(noted: Mapping[str, Noted], *, has_examples: bool) -> dict[str, object]:
    """Return the recorded answers as JSON, with or without examples."""
    found: dict[str, object] = {}
    for name, one in sorted(noted.items()):
        examples = {"content_type": one.content_type, "times": one.times, "example": one.example}
        found[name] = {"statuses": sorted(one.statuses), "shape": to_json(one.shape)} | (
            examples if has_examples else {}
        )
    return found


def _seen(response: httpx.Response) -> tuple[Shape, Any]:
    """Return an answer's shape and its publishable values."""
    if not response.content:
        return Shape(kinds=frozenset({EMPTY})), None
    try:
        value = response.json()
    except ValueError:
        return Shape(kinds=frozenset({_kind(response)})), None
    return shape_of(value), publishable(value, is_refusal=response.is_error)


def _kind(response: httpx.Response) -> str:
    if re.match(r"\s*<(!doctype|html)", response.text[:100], re.IGNORECASE):
        return PAGE
    return TEXT if response.content.isascii() or "text" in response.headers.get("Content-Type", "") else BYTES


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

_READ_PATHS = (
    "system_information",
    "system_health",
    "system_stats",
    "diagnostics/licensing",
    "licensing",
    "node_definitions",
    "image_definitions",
    "system/external_connectors",
)


class Recorded(Struct, frozen=True, kw_only=True):
    """The result of `record`.

    Attributes:
        content: The JSON to write.
        answers: Number of kinds of answers.
        differences: Differences from the known answers, one line each.
        failures: Failed requests, one line each.
    """

    content: dict[str, object]
    answers: int
    differences: tuple[str, ...]
    failures: tuple[str, ...]


class _Script:
    """Send requests and continue, whatever the answer."""

    def __init__(self, controller: Controller, recorder: Recorder) -> None:
        self.controller, self._recorder = controller, recorder
        self.failures: list[str] = []

    def ask(self, situation: str, method: str, path: str, *, expects: Expected = "json", **more: Any) -> Any:
        """Send a request in a situation, and return the answer's value, or None."""
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
    """Send a controller the requests of a night and record the answers.

    Args:
        access: The controller and its login.
        has_lab: Whether to make a lab of switches, and remove it.
        node: A node definition of which the lab gets one booted node, which the licence counts.
        clock: Waits between retries.

    Raises:
        ConfigInvalid: The extra `cml` is missing, or the access is invalid.
        NightFault: `LAB`: it cannot be reached, or refuses the login. `CLEANUP`: the lab still exists.
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
    """Return the recorded answers without comparison, from which the shipped shapes are made.

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
        _read(script)
        if has_lab:
            _with_lab(script, node)
    finally:
        recorder.situation = "logout"
        controller.close()
    return script, controller.version


def write_record(path: Path, recorded: Recorded) -> None:
    """Write the result, secrets masked.

    Raises:
        ConfigInvalid: The file cannot be written.
    """
    try:
        path.write_text(json_text(redact_json(recorded.content), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigInvalid(f"{path}: cannot be written: {error.strerror}", hint="Name another file") from None


def _read(script: _Script) -> None:
    """Send requests that change nothing."""
    for path in _READ_PATHS:
        script.ask("look", "GET", path)
    labs = Node(script.ask("look", "GET", "labs", params={"show_all": "true"})).texts()
    if labs:
        script.ask("look", "GET", below("labs", labs[0]))
    script.ask("no such lab", "GET", below("labs", _UNKNOWN_ID))
    script.ask("no such lab", "GET", below("labs", _UNKNOWN_ID, "state"))
    # Through the client it would only log in again.
    script.ask("no such path", "GET", "flashferry")


def _with_lab(script: _Script, node: str | None) -> None:
    """Make a lab, send the requests of a night and some that are refused, and remove it."""
    clock = script.controller.clock
    title, ends = new_title(clock.now()), clock.now() + timedelta(seconds=_KEEPS_S)
    notes = LabNotes.of_this_process(title, expires=ends).text()
    text = _TOPOLOGY if node is None else _TOPOLOGY.replace("links:\n", _NODE.format(name=json.dumps(node)))
    content, params = with_notes(text, title=title, notes=notes), {"title": title}
    answer = script.ask(
        "import", "POST", "import", params=params, content=content, is_repeatable=False, timeout_s=_SETTLE_S
    )
    if (lab_id := Node(answer).text("id")) is None:
        return
    lab = RunningLab(lab_id=lab_id, title=title)
    try:
        _refused_imports(script, title, text)
        _running(script, lab, has_node=node is not None)
    finally:
        take_down(script.controller, lab, deadline=Deadline.after(_DOWN_S, clock))


def _refused_imports(script: _Script, title: str, text: str) -> None:
    """Send imports that should be refused; remove the lab if one is accepted."""
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
    """Start the lab, set a condition, capture, and send orders in the wrong state."""
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
    """Stop, wipe and remove the lab, and read its state in between."""
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
    """Wait until the nodes have the expected states or the time is over; return their IDs."""
    until = Deadline.after(seconds, script.controller.clock)
    while True:
        states = node_states(script.controller, lab.lab_id, step=STEP)
        if is_done(tuple(states.values())) or not until.pause(1.0):
            return tuple(states)
