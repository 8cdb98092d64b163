"""The report as JSON, `flashferry.report/1`: the model itself, readings in the units of the report; and its schema.

The JSON Schema (draft 2020-12) is made from the model: field, kind, and meaning from the docstrings.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from flashferry.core.codec import to_json
from flashferry.core.outside import json_text, told
from flashferry.reports.model import SCHEMA, Report
from flashferry.tcp.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of TCP_INFO at our server, as far as a report needs it.

    Attributes:
        at_s: Seconds since the transfer began.
        acked_bytes: Payload acknowledged so far.
        window_bytes: Receive window that the device advertised; null where the kernel does not tell.
        rtt_s: Smoothed round-trip time.
        retransmitted_bytes: Bytes sent again so far.
        in_flight_bytes: Bytes sent and not yet acknowledged.
    """

    at_s: float
    acked_bytes: int
    window_bytes: int | None
    rtt_s: float
    retransmitted_bytes: int | None
    in_flight_bytes: int


FORMS: dict[Any, Any] = {Sample: Reading}
"""What stands in the JSON instead of a type of the model."""


def report_json(report: Report) -> str:
    """Return the report as one JSON document."""
    return json_text(told(report_document(report)), indent=2) + "\n"


def report_document(report: Report) -> dict[str, Any]:
    """Return the report as JSON types."""
    document: dict[str, Any] = to_json(report)
    for device, written in zip(report.devices, document["devices"], strict=True):
        for transfer, made in zip(device.transfers, written["transfers"], strict=True):
            made["samples"] = [to_json(_reading(sample)) for sample in transfer.samples]
    return {"schema": document.pop("schema"), **document}


def _reading(sample: Sample) -> Reading:
    return Reading(
        at_s=round(sample.at_s, 3),
        acked_bytes=sample.bytes_acked,
        window_bytes=sample.snd_wnd_bytes,
        rtt_s=sample.rtt_us / 1e6,
        retransmitted_bytes=sample.bytes_retrans,
        in_flight_bytes=sample.in_flight_bytes,
    )


_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def report_schema() -> dict[str, Any]:
    """Return the schema as JSON types; `docs/report.schema.json` is this, and a test holds it."""
    definitions: dict[str, Any] = {}
    _object(Report, definitions)
    top = definitions.pop(Report.__name__)
    top["properties"]["schema"] = {"const": SCHEMA}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"flashferry report, {SCHEMA}",
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _kind(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hint = FORMS.get(hint, hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if get_origin(hint) is UnionType:
        return _either([_kind(part, definitions) for part in get_args(hint)])
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _kind(get_args(hint)[0], definitions)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if isinstance(hint, type) and is_dataclass(hint):
        _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    raise TypeError(f"no schema for {hint!r}")


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    simple = [part["type"] for part in parts if set(part) == {"type"}]
    return {"type": simple} if len(simple) == len(parts) else {"anyOf": parts}


def _object(model: type, definitions: dict[str, Any]) -> None:
    if model.__name__ in definitions:
        return
    made: dict[str, Any] = {"type": "object"}
    definitions[model.__name__] = made
    hints, meanings = get_type_hints(model), _meanings(model)
    properties = {
        field.name: _kind(hints[field.name], definitions) | _described(meanings.get(field.name))
        for field in fields(model)
    }
    made |= {
        "description": " ".join((inspect.getdoc(model) or "").split("Attributes:")[0].split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _described(meaning: str | None) -> dict[str, str]:
    return {} if meaning is None else {"description": meaning}


def _meanings(model: type) -> dict[str, str]:
    """Return what a docstring's `Attributes:` say, by name."""
    _, _, attributes = (inspect.getdoc(model) or "").partition("Attributes:\n")
    return {name: " ".join(text.split()) for name, text in _ENTRY.findall(attributes)}


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(report_schema(), indent=2) + "\n")
