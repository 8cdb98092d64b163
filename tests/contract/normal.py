"""What a document is once all that differs from run to run is taken out of it: pure, so that it is tested by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

KEPT = frozenset(
    {
        "action",
        "command",
        "error",
        "event",
        "exit_code",
        "failure_kind",
        "host",
        "is_canary",
        "kind",
        "meaning",
        "method",
        "name",
        "outcome",
        "platform",
        "restored",
        "schema",
        "site",
        "state",
        "status",
        "step",
        "tune",
        "verb",
    }
)
"""Keys whose words are part of the contract; of all others only the type is."""

_PATTERNS = (
    (re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b"), "RUN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\bflashferry \d+\.\d+\.\d+\b"), "flashferry VERSION"),
    (re.compile(r"\b[0-9a-f]{128}\b"), "SHA512"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "SHA256"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "MD5"),
)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def words(text: str, named: Mapping[str, str] | None = None, *, numbers: bool = False) -> str:
    """Return a text with placeholders for what differs from run to run.

    Args:
        text: Any text.
        named: What else is replaced, such as a folder, and by which word; longer ones first.
        numbers: Whether every other number becomes `N`, too: for sentences that tell a measurement.
    """
    for given in sorted(named or {}, key=len, reverse=True):
        text = text.replace(given, (named or {})[given])
    for pattern, placeholder in _PATTERNS:
        text = pattern.sub(placeholder, text)
    return _NUMBER.sub("N", text) if numbers else text


def shape(value: Any, varying: frozenset[str] = frozenset(), *, kept: frozenset[str] = KEPT, key: str = "") -> Any:
    """Return keys, types and nesting of a JSON document; words of a contract stay as they are.

    Lists become what their elements have in common or apart, once each and sorted, for their length is no contract.

    Args:
        value: A JSON value.
        varying: Keys whose value may be there or not by how a measurement came out: the two must not be told apart.
        kept: Keys whose words stay.
        key: The key that it stands behind.
    """
    if key in varying:
        return "varies"
    if isinstance(value, dict):
        return {name: shape(one, varying, kept=kept, key=name) for name, one in value.items()}
    if isinstance(value, list):
        found = [shape(one, varying, kept=kept, key=key) for one in value]
        return [json.loads(text) for text in dict.fromkeys(json.dumps(one) for one in found)]
    if key in kept and isinstance(value, str | int):
        return value
    return _TYPES[type(value)]


_TYPES = {str: "text", bool: "bool", int: "int", float: "float", type(None): "null"}


def event_lines(lines: Iterable[str], varying: frozenset[str] = frozenset()) -> str:
    """Return what a run told, device by device, in its order; how often progress was told is no contract."""
    told: dict[str, list[str]] = {}
    kinds: dict[str, None] = {}
    for line in lines:
        event = json.loads(line)
        word = f"{event.get('step', '')} {event.get('status', event.get('event', ''))}".strip()
        kinds.setdefault(json.dumps(shape(event, varying | {"host", "site", "step", "status"}), indent=1))
        mine = told.setdefault(event.get("host") or "-", [])
        if event.get("status") != "queued" and word not in mine:
            mine.append(word)
    order = "".join(f"{host}\n" + "".join(f"  {word}\n" for word in told[host]) for host in sorted(told))
    return order + "\n" + "\n".join(sorted(kinds)) + "\n"


def metrics_page(page: str) -> str:
    """Return a page's metrics: type and help of each, its samples' names, and the names of their labels."""
    kept: dict[str, None] = {}
    for line in page.splitlines():
        if line.startswith("#"):
            kept.setdefault(line)
        elif line:
            kept.setdefault(re.sub(r'="(?:[^"\\]|\\.)*"', "", line.rpartition(" ")[0]))
    return "\n".join(kept) + "\n"
