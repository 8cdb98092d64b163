"""The port where none was given."""

from __future__ import annotations

import pytest

from flashferry.transports import listening as module


@pytest.mark.parametrize(
    ("taken", "port", "sentence"),
    [
        ((), 21, None),
        ((21,), 2121, "port 21 is not to be had, listening on 2121; "),
        ((21, 2121), 2122, "ports 21 and 2121 are not to be had, listening on 2122; "),
        ((21, 2121, 2122), 2123, "ports 21 and 2121 are not to be had, listening on 2123; "),
    ],
)
def test_the_first_free_port_is_taken_and_told(monkeypatch, taken, port, sentence):
    """Close to 2121, so that a firewall's rule can cover it; what old IOS may not take is told with it."""
    monkeypatch.setattr(module, "may_bind", lambda one: "in use" if one in taken else "")
    assert module.free_port() == port
    told = module.port_notice(port)
    assert told is None if sentence is None else told.startswith(sentence) and "old IOS may not take a port" in told


def test_where_all_are_taken_any_is_free(monkeypatch):
    """The last resort, told with the one that it became."""
    monkeypatch.setattr(module, "may_bind", lambda one: "in use")
    assert module.free_port() == 0
    assert module.port_notice(41234).startswith(
        "port 21 and those from 2121 to 2130 are not to be had, listening on 41234"
    )
