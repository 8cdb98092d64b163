"""A device's plan is made once for what it is made of, and anew where any of that is other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flashferry.run.device import transports
from flashferry.run.device.transports import DevicePlanner
from tasks.tcp_config import TcpLines


def test_a_plan_is_made_anew_only_where_its_lines_or_transport_are_other(monkeypatch):
    """The snapshot mostly has the lines of the check; what a colleague set in between makes another plan."""
    made: list[Any] = []
    monkeypatch.setattr(transports, "plan_device", lambda **given: made.append(given) or len(made))
    context = SimpleNamespace(
        links=SimpleNamespace(of=lambda host, peer: None),
        policy=None,
        to_null=False,
        server_address=None,
        image=SimpleNamespace(name="x.bin"),
        certificate=None,
        run_id="r",
        owner="o",
    )
    keeper = SimpleNamespace(checked="check", update=lambda **changes: None)
    login = SimpleNamespace(session=lambda: SimpleNamespace(peer_address="", platform="ios-xe"))
    transport = SimpleNamespace(served_by=None, port=21, current="ftp")
    given: tuple[Any, ...] = (context, SimpleNamespace(name="r1"), keeper, login, transport)
    planner = DevicePlanner(*given)
    checked = TcpLines(lines=("ip tcp window-size 4128",))
    assert planner.plan(checked) == planner.plan(TcpLines(lines=checked.lines)) == 1
    assert planner.plan(TcpLines(lines=())) == 2
    transport.current = "http"
    assert planner.plan(TcpLines(lines=())) == 3
