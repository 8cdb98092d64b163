"""Writes down what a controller answers, without what is confidential, and holds it against what is known.

What is known is the shapes of the stand-in's answers, which were made from Cisco's description of the interface and
from its client: `shapes-2.9.json` for controllers up to 2.9, `shapes-2.10.json` from then on.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from flashferry.nightly.cml.access import CmlVersion
from flashferry.nightly.cml.shapes import (
    BYTES,
    EMPTY,
    PAGE,
    TEXT,
    Shape,
    differences,
    from_json,
    merged,
    shape_of,
    telling,
    to_json,
)

if TYPE_CHECKING:
    import httpx

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
"""What a part of a path is called by the part before it."""
_SECRET_PATHS = ("/authenticate", "/keys/")


@dataclass(slots=True, kw_only=True)
class Noted:
    """Answers to one question in one situation.

    Attributes:
        method: `GET`, ...
        path: Below `/api/v0/`, ids named by what they are of.
        statuses: The codes that it was answered with.
        content_type: Of the last answer.
        shape: Of all answers.
        example: The last answer's figures and words; None where there are none.
        times: How many answers there were.
    """

    method: str
    path: str
    statuses: set[int] = field(default_factory=set)
    content_type: str = ""
    shape: Shape
    example: Any = None
    times: int = 0


class Recorder:
    """Sees all exchanges with a controller, see `flashferry.nightly.cml.client.Watcher`.

    Attributes:
        situation: What the next questions are for: what a controller answers hangs on it.
    """

    def __init__(self) -> None:
        self.situation = "login"
        self._lock = threading.Lock()
        self._noted: dict[str, Noted] = {}

    @property
    def noted(self) -> Mapping[str, Noted]:
        """What was answered, by situation, method and path."""
        with self._lock:
            return dict(self._noted)

    def on_request(self, request: httpx.Request) -> None:
        """Look at a request: nothing of it is kept."""

    def on_response(self, response: httpx.Response) -> None:
        """Keep the shape of an answer, its figures, and the interface's own words."""
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
    """Return a path below `/api/v0/` with ids named by what they are of: `labs/LAB/nodes/NODE`."""
    parts = path.removeprefix(_BASE).split("/")
    return "/".join(_NAMED.get(before, part) for before, part in zip(("", *parts), parts, strict=False))


def compared(noted: Mapping[str, Noted], version: CmlVersion) -> tuple[str, ...]:
    """Return how answers differ from what is known of them, one line each."""
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
    """Return codes and shapes that are known for a version, by situation, method and path."""
    text = files(__package__ or "").joinpath(shapes_file(version)).read_text(encoding="utf-8")
    content = json.loads(text)["answers"]
    return {name: (frozenset(one["statuses"]), from_json(one["shape"])) for name, one in content.items()}


def shapes_file(version: CmlVersion) -> str:
    """Return the name of the file that has the shapes for a version."""
    return f"shapes-{'2.9' if version.has_capture_keys else '2.10'}.json"


def as_json(noted: Mapping[str, Noted], *, has_examples: bool) -> dict[str, object]:
    """Return what was noted as JSON types.

    Args:
        noted: What was noted.
        has_examples: Whether figures and words are in it, or shapes only.
    """
    return {name: _as_json(one, has_example=has_examples) for name, one in sorted(noted.items())}


def _as_json(one: Noted, *, has_example: bool) -> dict[str, object]:
    found: dict[str, object] = {"statuses": sorted(one.statuses), "shape": to_json(one.shape)}
    if has_example:
        found |= {"content_type": one.content_type, "times": one.times, "example": one.example}
    return found


def _seen(response: httpx.Response) -> tuple[Shape, Any]:
    """Return an answer's shape and what of it may be shown."""
    if not response.content:
        return Shape(kinds=frozenset({EMPTY})), None
    try:
        value = response.json()
    except ValueError:
        return Shape(kinds=frozenset({_kind(response)})), None
    return shape_of(value), telling(value, is_refusal=response.is_error)


def _kind(response: httpx.Response) -> str:
    if re.match(r"\s*<(!doctype|html)", response.text[:100], re.IGNORECASE):
        return PAGE
    return TEXT if response.content.isascii() or "text" in response.headers.get("Content-Type", "") else BYTES
