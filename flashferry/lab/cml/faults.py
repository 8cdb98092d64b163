"""Every fault of the stand-in controller as a switch: one table with name, kind and effect.

Switches are set while it runs: in the same process by `Switches.set`, from elsewhere by ``PUT /standin/faults`` on the
second, plain port (``GET`` shows the table, ``DELETE`` puts all back). A switch takes effect at the next request.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from flashferry.lab.cml.definitions import read_data
from flashferry.lab.errors import LabError


class Kind(StrEnum):
    """What a switch takes as its value."""

    ANSWERS = "selector of requests"
    FLAG = "true or false"
    COUNT = "whole number"
    SECONDS = "seconds"
    TEXT = "text"
    LABELS = "list of node labels"
    STATES = "object: node label to state"
    CONDITION = "object: condition"


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch.

    `default`: Its value unless it is set. `effect`: What it does, in one sentence.
    """

    takes: Kind
    effect: str
    default: Any = None


TABLE: Mapping[str, Switch] = read_data("switches", dict[str, Switch])
"""All switches, by name."""


def switch_table() -> str:
    """Return the table of switches as docs/lab.md has it."""
    rows = [f"| `{name}` | {each.takes.value} | {each.effect} |" for name, each in TABLE.items()]
    return "\n".join(["| switch | takes | effect |", "|---|---|---|", *rows, ""])


@dataclass(slots=True, kw_only=True)
class Selector:
    """Which requests a fault of answers hits.

    Attributes:
        path: A regular expression, searched in the path below ``/api/v0/``.
        method: ``GET``, ...; empty for any.
        count: It hits so many requests and is over; None for no end.
        every: It hits every so manieth fitting request; 1 for each.
        after: So many fitting requests are let through first.
        seconds: For the slow ones, on the controller's clock.
        is_in_vain: For the slow ones: first until the client has given up, then for `seconds`.
    """

    path: str = ""
    method: str = ""
    count: int | None = None
    every: int = 1
    after: int = 0
    seconds: float = 0.0
    is_in_vain: bool = False
    seen: int = 0
    hits: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is hit; counts it."""
        if (self.method and self.method != method) or not re.search(self.path, path):
            return False
        self.seen += 1
        if self.seen <= self.after or (self.seen - self.after) % self.every or self.hits == self.count:
            return False
        self.hits += 1
        return True


class Switches:
    """The switches of a running controller. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self.clear()

    def clear(self) -> None:
        """Put all switches back."""
        with self._lock:
            self._values = {name: switch.default for name, switch in TABLE.items()}

    def set(self, **values: Any) -> None:
        """Set switches by name; None puts one back.

        Raises LabError: there is no such switch, or its value is not of its kind; then none is set.
        """
        checked = {name: _checked(name, value) for name, value in values.items()}
        with self._lock:
            self._values.update(checked)

    def value(self, name: str) -> Any:
        """Return what a switch is set to."""
        with self._lock:
            return self._values[name]

    def take(self, name: str) -> bool:
        """Count a switch of the kind COUNT down by one; False where nothing is left."""
        with self._lock:
            left = self._values[name]
            self._values[name] = max(left - 1, 0)
            return bool(left > 0)

    def strike(self, method: str, path: str) -> dict[str, Selector]:
        """Return the faults of answers that hit a request, by name, each with the selector that does."""
        with self._lock:
            return {
                name: selector
                for name, switch in TABLE.items()
                if switch.takes is Kind.ANSWERS
                for selector in self._values[name] or ()
                if selector.strikes(method, path)
            }

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return the table with the present values, for people."""
        with self._lock:
            return {
                name: {"value": _shown(self._values[name]), "takes": switch.takes.value, "effect": switch.effect}
                for name, switch in TABLE.items()
            }


def _shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_shown(each) for each in value]
    if isinstance(value, Selector):
        return {name: getattr(value, name) for name in Selector.__slots__}
    return value


_TYPES: dict[Kind, type | tuple[type, ...]] = {
    Kind.FLAG: bool, Kind.COUNT: int, Kind.SECONDS: (int, float), Kind.TEXT: str, Kind.LABELS: (list, tuple),
    Kind.STATES: dict, Kind.CONDITION: dict,
}  # fmt: skip


def _checked(name: str, value: Any) -> Any:
    switch = TABLE.get(name)
    if switch is None:
        raise LabError(f"There is no switch {name!r}; there are: {', '.join(TABLE)}.")
    if value is None:
        return switch.default
    if switch.takes is Kind.ANSWERS:
        return _selectors(name, value)
    is_flag = isinstance(value, bool)
    if not isinstance(value, _TYPES[switch.takes]) or is_flag is not (switch.takes is Kind.FLAG):
        raise LabError(f"The switch {name} takes: {switch.takes.value}; found {value!r}.")
    return tuple(value) if isinstance(value, list) else value


def _selectors(name: str, value: Any) -> tuple[Selector, ...]:
    given = value if isinstance(value, list | tuple) else [{} if value is True else value]
    try:
        selectors = tuple(Selector(**each) for each in given)
        for selector in selectors:
            re.compile(selector.path)
    except (TypeError, re.error) as error:
        raise LabError(
            f"The switch {name} takes true, or path, method, count, every, after, seconds, is_in_vain, "
            f"or a list of such: {error}."
        ) from error
    if any(selector.every < 1 for selector in selectors):
        raise LabError(f"The switch {name}: `every` counts from 1 on.")
    return selectors
