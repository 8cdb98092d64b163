"""A device's plan is made once for what it is made of, and anew where any of that is other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flashferry.run.device import transports
from flashferry.run.device.transports import plan_now
from tasks.tcp_config import TcpLines
from tests.unit.run.device.scripted import Steps, checked, context
from tests.unit.transports.some_transports import named


def test_a_plan_is_made_anew_only_where_its_lines_or_transport_are_other(monkeypatch):
    """The snapshot mostly has the lines of the check; what a colleague set in between makes another plan."""
    made: list[Any] = []
    monkeypatch.setattr(transports, "plan_device", lambda **given: made.append(given) or len(made))
    run = checked(Steps(), context())
    lines = TcpLines(lines=("ip tcp window-size 4128",))
    assert plan_now(run, lines) == plan_now(run, TcpLines(lines=lines.lines)) == 1
    assert plan_now(run, TcpLines(lines=())) == 2
    (run.transport,) = named("http")
    assert plan_now(run, TcpLines(lines=())) == 3
    run.update(check=SimpleNamespace(server_address="192.0.2.11"))
    assert plan_now(run, TcpLines(lines=())) == 4
