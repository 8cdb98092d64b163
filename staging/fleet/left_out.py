"""Devices of a plan that its run does not touch: entered all the same, so that the report has every device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import Outcome, State
from flashferry.store.journal_rows import NewDevice
from inventory.view import platform_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nornir.core.inventory import Host

_SSH_PORT = 22
_WAYS = {
    Action.ALREADY_THERE: (Outcome.ALREADY_THERE, State.DONE),
    Action.STAYS: (Outcome.NOT_BEGUN, State.DONE),
    Action.REFUSED: (Outcome.REFUSED, State.FAILED),
    Action.UNREACHABLE: (Outcome.FAILED, State.FAILED),
}
"""What a report says of them. Out of reach is a failure: the device was to have its image, and has not."""


def left_out_of(plan: FleetPlan, hosts: Mapping[str, Host]) -> tuple[tuple[NewDevice, DeviceRecord], ...]:
    """Return the devices that a plan does not stage, as far as they are among some hosts, with their records."""
    return tuple(
        (_device(one, hosts[one.host]), _record(one, _moment(plan.created_at)))
        for one in plan.devices
        if one.action in _WAYS and one.host in hosts
    )


def _moment(stamp: str) -> str:
    """Return a plan's time, ISO 8601 and UTC, for people."""
    return f"{stamp[:16].replace('T', ' ')} UTC"


def _device(planned: PlannedDevice, host: Host) -> NewDevice:
    return NewDevice(
        host=planned.host,
        address=planned.address,
        port=host.port or _SSH_PORT,
        platform=platform_of(host.platform) or host.platform or "",
        site=planned.site,
        wave=planned.wave,
        image=planned.image,
    )


def _record(planned: PlannedDevice, looked_at: str) -> DeviceRecord:
    outcome, state = _WAYS[planned.action]
    why, notes = None, planned.notes
    if planned.action is Action.ALREADY_THERE:
        notes = (*notes, f"the plan found the image there at {looked_at}; this run did not look again")
    else:
        word = {Action.UNREACHABLE: "out of reach"}.get(planned.action, planned.action.value)
        why = Failure(
            step="plan",
            reason=f"{word} when the plan was made, {looked_at}, so this run did not touch it: {planned.reason}",
            hint=planned.hint,
            kind="LeftOutByPlan",
        )
    return DeviceRecord(
        host=planned.host,
        state=state,
        outcome=outcome,
        failure=why,
        image=planned.image,
        notes=notes,
        seconds_by_step={},
    )
