"""Write a report as JSON, and make its JSON Schema (draft 2020-12) from the model and its docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct

from flashferry.core.codec import decode, to_json
from flashferry.core.redaction import json_text, redact_json
from flashferry.core.values import field_names
from flashferry.reports.model import SCHEMA, Report
from flashferry.tcp.sample import Sample

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}

_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)

Forms = Mapping[Any, Any]


def json_schema(model: type, schema: str, *, title: str, forms: Forms = MappingProxyType({})) -> dict[str, Any]:
    """Return the JSON Schema of a document.

    Args:
        model: The dataclass of the document, with a field `schema`.
        schema: Value of that field, for example `flashferry.report/1`.
        title: The schema's title.
        forms: Types of the document that replace types of the model.

    Raises:
        TypeError: A field's type is not supported.
    """
    definitions: dict[str, Any] = {}
    _object(model, definitions, forms)
    top = definitions.pop(model.__name__)
    top["properties"]["schema"] = {"const": schema}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **top,
        "$defs": dict(sorted(definitions.items())),
    }


def _kind(hint: Any, definitions: dict[str, Any], forms: Forms) -> dict[str, Any]:
    hint = forms.get(hint, hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if hint is datetime:
        return {"type": "string", "format": "date-time"}
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    if get_origin(hint) is UnionType:
        return _either([_kind(part, definitions, forms) for part in get_args(hint)])
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _kind(get_args(hint)[0], definitions, forms)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if isinstance(hint, type) and field_names(hint):
        _object(hint, definitions, forms)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    raise TypeError(f"no schema for {hint!r}")


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    simple = [part["type"] for part in parts if set(part) == {"type"}]
    return {"type": simple} if len(simple) == len(parts) else {"anyOf": parts}


def _object(model: type, definitions: dict[str, Any], forms: Forms) -> None:
    if model.__name__ in definitions:
        return
    made: dict[str, Any] = {"type": "object"}
    definitions[model.__name__] = made
    hints, meanings = get_type_hints(model), _meanings(model)
    properties = {
        name: _kind(hints[name], definitions, forms) | _described(meanings.get(name)) for name in field_names(model)
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
    """Return the `Attributes:` in the docstrings of a model and its bases, by name."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        _, _, attributes = (inspect.getdoc(one) or "").partition("Attributes:\n")
        found |= {name: " ".join(text.split()) for name, text in _ENTRY.findall(attributes)}
    return found


class Reading(Struct, frozen=True, kw_only=True):
    """A reading of TCP_INFO on our server.

    Attributes:
        at_s: Seconds after the start of the transfer.
        acked_bytes: Acknowledged payload so far.
        window_bytes: Receive window that the device advertised; null if the kernel does not report it.
        rtt_s: Smoothed round-trip time.
        retransmitted_bytes: Retransmitted bytes so far.
        in_flight_bytes: Bytes sent and not yet acknowledged.
    """

    at_s: float
    acked_bytes: int
    window_bytes: int | None
    rtt_s: float
    retransmitted_bytes: int | None
    in_flight_bytes: int


FORMS: dict[Any, Any] = {Sample: Reading}
"""Types of the document that replace types of the model."""


def report_json(report: Report) -> str:
    """Return the report as one JSON document."""
    return json_text(redact_json(report_document(report)), indent=2) + "\n"


def report_document(report: Report) -> dict[str, Any]:
    """Return the report as JSON types."""
    document: dict[str, Any] = to_json(report)
    for device, written in zip(report.devices, document["devices"], strict=True):
        for transfer, made in zip(device.transfers, written["transfers"], strict=True):
            made["samples"] = [to_json(_reading(sample)) for sample in transfer.samples]
    return {"schema": document.pop("schema"), **document}


def report_of(document: Mapping[str, Any]) -> Report:
    """Parse a report; readings have only what a document contains of them.

    Raises:
        CodecError: It is invalid.
    """
    content: dict[str, Any] = dict(document)
    devices = content.get("devices")
    for device in devices if isinstance(devices, list) else ():
        transfers = device.get("transfers") if isinstance(device, dict) else None
        for transfer in transfers if isinstance(transfers, list) else ():
            if isinstance(transfer, dict) and "samples" in transfer:
                readings = decode(tuple[Reading, ...], transfer["samples"])
                transfer["samples"] = [to_json(_sample(one)) for one in readings]
    return decode(Report, content)


def _sample(reading: Reading) -> Sample:
    return Sample(
        at_s=reading.at_s,
        rtt_us=round(reading.rtt_s * 1e6),
        # Bytes in flight are segments times segment size; documents only have the product.
        snd_mss_bytes=max(1, reading.in_flight_bytes),
        snd_cwnd_segments=1,
        unacked_segments=min(1, reading.in_flight_bytes),
        bytes_acked=reading.acked_bytes,
        snd_wnd_bytes=reading.window_bytes,
        bytes_retrans=reading.retransmitted_bytes,
    )


def _reading(sample: Sample) -> Reading:
    return Reading(
        at_s=round(sample.at_s, 3),
        acked_bytes=sample.bytes_acked,
        window_bytes=sample.snd_wnd_bytes,
        rtt_s=sample.rtt_us / 1e6,
        retransmitted_bytes=sample.bytes_retrans,
        in_flight_bytes=sample.in_flight_bytes,
    )


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of a report; `docs/report.schema.json` must equal it."""
    return json_schema(Report, SCHEMA, title=f"flashferry report, {SCHEMA}", forms=FORMS)


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(report_schema(), indent=2) + "\n")
