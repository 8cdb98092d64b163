"""The configuration lines that a plan has a run set on its devices, as far as a plan knows. Pure.

A plan does not know the present lines of a device, so these are for a device without any; a dry run shows them exactly.
"""

from __future__ import annotations

from functools import cache

from flashferry.core.errors import ConfigInvalid
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.tcp.receive_window import ASSUMED_RTT_S, choose_window

WORDS = "for a device without any of them; a dry run shows them exactly, and the run removes them again"
"""Shown beside them."""


def expected_lines(plan: FleetPlan) -> dict[str, tuple[str, ...]]:
    """Return the lines to be set by device, in the plan's order; none if not tuned."""
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
        return _requested(device.transport, window_bytes)
    except (ValueError, ArithmeticError, ConfigInvalid):
        # Values that no plan of ours has; a run would refuse them.
        return ()


@cache
def _requested(transport: str, window_bytes: int | None) -> tuple[str, ...]:
    """Return the lines for a transport; equal on all platforms."""
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
