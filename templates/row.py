"""What all rows of device output have in common."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of a template; the template is named after the class, its values after the fields."""


RowT = TypeVar("RowT", bound=Row)

_kinds: list[type[Row]] = []


@dataclass_transform(frozen_default=True, kw_only_default=True)
def row(kind: type[RowT]) -> type[RowT]:
    """Make a class a kind of row: a frozen value whose fields are the values of its template.

    A field is `str`, `int` or `float`; a `tuple[str, ...]` takes a template's `List`.
    """
    made = dataclass(frozen=True, slots=True, kw_only=True)(kind)
    _kinds.append(made)
    return made


def template_name(kind: type[Row]) -> str:
    """Return the name of a kind's template: `CopyResult` is read by `copy_result.textfsm`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def all_kinds() -> tuple[type[Row], ...]:
    """Return every kind that was made so far."""
    return tuple(_kinds)
