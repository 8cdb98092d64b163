"""An activation of an image: its phases, what a device shows of it, and its result.

Each phase is in the journal before its command is sent, so after a crash the device is in that phase or the one before.
A restart command is never sent twice: a restart that did not happen is reported to the operator.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from flashferry.images.file_name import release_in
from tasks.activating.boot_order import BootOrder
from tasks.activating.service_state import ServiceState
from tasks.software_state import SoftwareState

LEAST_TIMER_MIN, LARGEST_TIMER_MIN = 30, 1200
"""Range of `install activate auto-abort-timer`, in minutes."""


class Phase(StrEnum):
    """Progress of an activation; stored before the phase's first command.

    Attributes:
        INTENDED: The lease is held; nothing was sent.
        ORDERING: The boot order is being changed and saved; no restart was sent.
        RELOADING: `reload` was sent, or was about to be.
        ACTIVATING: `install activate` was sent, or was about to be.
        COMMITTING: The new image runs and was verified; it is being committed.
        ROLLING_BACK: Not committed: the device's timer reverts to the old image.
        TAKING_BACK: The boot order is being restored.
    """

    INTENDED = "intended"
    ORDERING = "boot order"
    RELOADING = "reloading"
    ACTIVATING = "activating"
    COMMITTING = "committing"
    ROLLING_BACK = "rolling back"
    TAKING_BACK = "taking back"


class ActivationLimits(Struct, frozen=True, kw_only=True):
    """Time limits.

    Attributes:
        timer_min: Minutes until a device reverts by itself, LEAST_TIMER_MIN to LARGEST_TIMER_MIN.
        boot_limit_s: Longest time without an answer, in seconds.
        settle_s: Time after the boot to reach the former state, in seconds.
        look_every_s: Interval between two readings, in seconds.
    """

    timer_min: int = 60
    boot_limit_s: float = 1800.0
    settle_s: float = 300.0
    look_every_s: float = 10.0


class Activation(Struct, frozen=True, kw_only=True):
    """The activation of one device, as the journal stores it.

    Attributes:
        is_install: Install mode; else it boots from an image file (bundle mode).
        image: Name of the image.
        path: Its file, for example `bootflash:image.bin`.
        version: As `show install summary` shows it; None in bundle mode.
        before: Operational state before the activation.
        order: Boot order before and after; None in install mode.
        since: Start of the phase, ISO 8601, UTC.
    """

    phase: Phase
    is_install: bool
    image: str
    path: str
    version: str | None
    before: ServiceState
    order: BootOrder | None
    limits: ActivationLimits
    since: str


class Sighting(StrEnum):
    """What a reading of a device shows of its activation.

    Attributes:
        OLD_RUNS: The old image runs, and no commit is pending.
        IN_PROGRESS: The new image is activated, and the old one still runs.
        NEW_RUNS: The new image runs; in install mode its commit is pending.
        COMMITTED: The new image runs and is committed, without timer.
        UNKNOWN: None of these.
    """

    OLD_RUNS = "the old image runs"
    IN_PROGRESS = "activated, not yet restarted"
    NEW_RUNS = "the new image runs"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


def sighting(activation: Activation, software: SoftwareState) -> Sighting:
    """Return what a device's software state shows of its activation."""
    return _of_install(activation, software) if activation.is_install else _of_file(activation, software)


def _of_install(activation: Activation, software: SoftwareState) -> Sighting:
    version = activation.version
    runs = release_in(software.version.release)
    if version is None or runs is None or not software.packages:
        return Sighting.UNKNOWN
    is_running = runs == release_in(version)
    if version in software.versions("U"):
        return Sighting.NEW_RUNS if is_running else Sighting.IN_PROGRESS
    if software.versions("U", "D"):
        return Sighting.UNKNOWN
    if version in software.versions("C"):
        is_still = software.timer is None or software.timer.state.casefold() == "inactive"
        # Only present members count: an absent one is reported as missing.
        is_half = not set(software.install_places).isdisjoint(software.lacking(version, "C"))
        return Sighting.COMMITTED if is_running and is_still and not is_half else Sighting.UNKNOWN
    return Sighting.OLD_RUNS if runs == release_in(activation.before.release) else Sighting.UNKNOWN


def _of_file(activation: Activation, software: SoftwareState) -> Sighting:
    running = software.running_file
    if running is None:
        return Sighting.UNKNOWN
    if _name(running) == _name(activation.path):
        return Sighting.NEW_RUNS
    was = activation.before.running_file
    return Sighting.OLD_RUNS if was is not None and _name(running) == _name(was) else Sighting.UNKNOWN


def _name(path: str) -> str:
    """Return a path without its file system, whose name the device may print differently."""
    return path.rpartition(":")[2].lstrip("/")


class ActivationOutcome(StrEnum):
    """Result of an activation.

    Attributes:
        COMMITTED: The new image runs in the former operational state, and is committed.
        ACTIVATED: The same in bundle mode, which has no commit.
        NOT_ACTIVATED: The device was not restarted.
        ROLLED_BACK: The old image runs again, because the new one was not committed.
        CAME_BACK_OLD: The device restarted with the old image.
        LACKING: The new image runs permanently, but something is missing that was there before.
    """

    COMMITTED = "committed"
    ACTIVATED = "activated"
    NOT_ACTIVATED = "not activated"
    ROLLED_BACK = "rolled back"
    CAME_BACK_OLD = "came back with the old image"
    LACKING = "activated, something is lacking"

    @property
    def is_good(self) -> bool:
        """Return whether the new image runs in the former operational state."""
        return self in {ActivationOutcome.COMMITTED, ActivationOutcome.ACTIVATED}

    @property
    def runs_new(self) -> bool:
        """Return whether the new image runs permanently."""
        return self.is_good or self is ActivationOutcome.LACKING


class ActivationReport(Struct, frozen=True, kw_only=True):
    """Result of a device's activation.

    Attributes:
        mode: `install` or `bundle`.
        from_release: Release before.
        to_release: Running release; None if unknown.
        commands: Commands sent that restart, commit or save, in order.
        before: Operational state before.
        after: Operational state now; None if it was not read.
        lacks: What was there before and is missing now, one sentence each.
        lines: Device output on which this is based.
        away_s: How long it did not answer, in seconds; None if it always did.
    """

    outcome: ActivationOutcome
    mode: str
    from_release: str
    to_release: str | None = None
    commands: tuple[str, ...] = ()
    before: ServiceState
    after: ServiceState | None = None
    lacks: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    away_s: float | None = None
