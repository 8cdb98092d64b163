"""The lines that a plan has a run set on its devices, as far as a plan can tell. Pure.

A plan knows a device's round trip, its site's link and its transport, and not the lines that it has: so this is what a
device is given that has none of them yet. A dry run looks, and tells exactly; all of it is taken back by the run.
"""

from __future__ import annotations

from functools import cache

from flashferry.core.errors import ConfigInvalid
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.tcp.receive_window import ASSUMED_RTT_S, choose_window

WORDS = "as for a device that has none of them yet; a dry run shows them exactly, and the run takes them back"
"""What is to be said beside them."""


def expected_lines(plan: FleetPlan) -> dict[str, tuple[str, ...]]:
    """Return the lines to be set by device: of those that are staged, in the plan's order; none where not tuned."""
    rates = {site.site: site.link_rate_bps for site in plan.sites}
    return {
        device.host: _lines(device, rates.get(device.site or f"device {device.host}"))
        for device in plan.of(Action.STAGE)
    }


def _lines(device: PlannedDevice, link_rate_bps: float | None) -> tuple[str, ...]:
    try:
        window_bytes = None
        if device.tune:
            window_bytes = choose_window(device.rtt_s or ASSUMED_RTT_S, link_rate_bps).window_bytes
        return _wanted(device.transport, window_bytes)
    except (ValueError, ArithmeticError, ConfigInvalid):
        # Figures that no plan of ours has: somebody wrote them, and a run would refuse them.
        return ()


@cache
def _wanted(transport: str, window_bytes: int | None) -> tuple[str, ...]:
    """Return the lines for a transport: the platforms have the same, and the first of them stands for all."""
    # Late: the service starts without what talks to devices; the first plan that is shown brings it.
    from flashferry.devices.platforms import PLATFORMS
    from flashferry.transports import transport_named
    from tasks.tcp_config import TcpLines, plan_tune

    plan = plan_tune(
        TcpLines(lines=()),
        platform=PLATFORMS[0],
        transport=transport_named(transport),
        window_bytes=window_bytes,
    )
    return plan.commands
