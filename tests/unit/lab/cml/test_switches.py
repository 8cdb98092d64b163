"""The table of faults, and which requests they hit."""

from __future__ import annotations

import pytest

from flashferry.lab.cml.faults import TABLE, Switches
from flashferry.lab.errors import LabError


def _hits(switches: Switches, name: str, requests: list[tuple[str, str]]) -> list[bool]:
    return [name in switches.strike(method, path) for method, path in requests]


@pytest.mark.parametrize(
    ("value", "hit"),
    [
        (True, [True, True, True, True, True, True]),
        ({"count": 1}, [True, False, False, False, False, False]),
        ({"every": 3}, [False, False, True, False, False, True]),
        ({"after": 2, "count": 2}, [False, False, True, True, False, False]),
        ({"path": "state$"}, [False, True, False, True, False, True]),
        ({"method": "PUT"}, [True, False, True, False, True, False]),
        ([{"method": "PUT", "count": 1}, {"path": "state$", "count": 1}], [True, True, False, False, False, False]),
        (None, [False] * 6),
    ],
)
def test_a_fault_hits_the_requests_that_it_names(value: object, hit: list[bool]) -> None:
    """All, the first, every nth, those behind some, those of a path or a method, and several ways at once."""
    switches = Switches()
    switches.set(bad_gateway=value)
    assert _hits(switches, "bad_gateway", [("PUT", "labs/1/start"), ("GET", "labs/1/state")] * 3) == hit


@pytest.mark.parametrize(
    "values",
    [
        {"no_such_switch": True},
        {"is_ready": "yes"},
        {"quota": True},
        {"quota": "3"},
        {"stuck": ["xe1"]},
        {"disconnected": "xe1"},
        {"bad_gateway": {"paths": "x"}},
        {"bad_gateway": {"path": "("}},
        {"bad_gateway": {"every": 0}},
        {"quota": 3, "version": 2},
    ],
)
def test_a_wrong_value_is_told_and_sets_nothing(values: dict[str, object]) -> None:
    """Not even the right one beside it."""
    switches = Switches()
    with pytest.raises(LabError):
        switches.set(**values)
    assert switches.shown() == Switches().shown()


def test_none_and_clear_put_switches_back() -> None:
    """One alone, or all."""
    switches = Switches()
    switches.set(quota=1, is_ready=False, slow={"seconds": 3})
    switches.set(quota=None)
    assert (switches.value("quota"), switches.value("is_ready")) == (20, False)
    switches.clear()
    assert switches.shown() == Switches().shown()


def test_every_switch_says_what_it_does() -> None:
    """The table is what people read."""
    assert all(switch.effect.endswith(".") for switch in TABLE.values())
    assert len({switch.effect for switch in TABLE.values()}) == len(TABLE)
