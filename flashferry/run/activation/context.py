"""Settings of an activation: those that all devices share, and those of one device."""

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
    """The settings of one device.

    Attributes:
        host: The inventory's values.
        wanted: The image.
        identity: Serial number and host name when the plan was made, or None.
        wave: Number of its round.
    """

    host: HostView
    wanted: Wanted
    identity: str | None
    wave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationContext:
    """The settings that all devices share.

    Attributes:
        run_id: The run.
        journal: Each phase is written to it before its command.
        limits: How long things may take.
        emit: Takes events.
        interrupted: Whether nothing new may start; a device that was restarted is still followed to its end.
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
