"""A JSON Schema (draft 2020-12) made from a model: field, kind, and meaning from the docstrings. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

_SIMPLE: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)

Forms = Mapping[Any, Any]


def json_schema(model: type, schema: str, *, title: str, forms: Forms = MappingProxyType({})) -> dict[str, Any]:
    """Return the schema of a document as JSON types.

    Args:
        model: The dataclass that the document is; it has a field `schema`.
        schema: What stands in that field: `flashferry.report/1`.
        title: The schema's title.
        forms: What stands in the document instead of a type of the model.

    Raises:
        TypeError: There is no schema for a field's type.
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
    if isinstance(hint, type) and is_dataclass(hint):
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
        field.name: _kind(hints[field.name], definitions, forms) | _described(meanings.get(field.name))
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
    """Return what the `Attributes:` in the docstrings of a model and its bases say, by name."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        _, _, attributes = (inspect.getdoc(one) or "").partition("Attributes:\n")
        found |= {name: " ".join(text.split()) for name, text in _ENTRY.findall(attributes)}
    return found
