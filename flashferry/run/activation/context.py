"""What the devices of an activation share, and what is the device's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flashferry.model.activation import ActivationLimits
from flashferry.monitor.events import Emit
from flashferry.store.journal import Journal
from inventory.host_view import HostView
from tasks.check_report import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceActivation:
    """What is to be done to one device.

    Attributes:
        host: The inventory's view.
        wanted: The image.
        identity: What it called itself when the plan was made, or None.
        wave: Number of its round.
    """

    host: HostView
    wanted: Wanted
    identity: str | None
    wave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationContext:
    """What all devices of an activation share.

    Attributes:
        run_id: The run.
        journal: Where each phase is written before its command.
        limits: How long things may take.
        emit: Takes events.
        interrupted: Whether nothing new may begin: a device that was restarted is followed to its end all the same.
        hash_speeds: Bytes per second by device, as learned in earlier runs.
        staged_members: Members of a stack when it was staged, by device and image.
        signature: Whether devices verify the vendor's signature once more.
        started_s: When the run began, by the monotonic clock.
    """

    run_id: str
    journal: Journal
    limits: ActivationLimits
    emit: Emit
    interrupted: Callable[[], bool]
    hash_speeds: Mapping[str, float] = field(default_factory=dict)
    staged_members: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    signature: bool = True
    started_s: float = 0.0
