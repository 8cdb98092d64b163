"""An activation: its phases in the journal, what the device shows of it, and its result.

The journal has each phase before its command is sent. After a kill the device is in that phase or in the one before,
and shows which. A restart command is never sent a second time: what did not happen is reported, and left to a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flashferry.images.file_name import release_in
from tasks.activating.boot_order import BootOrder
from tasks.activating.service_state import ServiceState
from tasks.software_state import SoftwareState

LEAST_TIMER_MIN, LARGEST_TIMER_MIN = 30, 1200
"""What `install activate auto-abort-timer` takes, in minutes."""


class Phase(StrEnum):
    """How far an activation has come; each is on disk before its first command.

    Attributes:
        INTENDED: The lease is held; nothing was sent.
        ORDERING: The boot order is being changed and saved; no restart was asked for.
        RELOADING: The one `reload` was given, or was about to be.
        ACTIVATING: The one `install activate` was given, or was about to be.
        COMMITTING: The new image runs and does what the old one did; it is being committed.
        ROLLING_BACK: It is not committed: the device's own timer brings the old image back.
        TAKING_BACK: The boot order is being put back.
    """

    INTENDED = "intended"
    ORDERING = "boot order"
    RELOADING = "reloading"
    ACTIVATING = "activating"
    COMMITTING = "committing"
    ROLLING_BACK = "rolling back"
    TAKING_BACK = "taking back"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationLimits:
    """How long things may take.

    Attributes:
        timer_min: Minutes until a device brings the old image back by itself, LEAST_TIMER_MIN to LARGEST_TIMER_MIN.
        boot_limit_s: How long a device may be away, in seconds.
        settle_s: How long it has to do again what it did before, in seconds.
        look_every_s: Pause between two readings, in seconds.
    """

    timer_min: int = 60
    boot_limit_s: float = 1800.0
    settle_s: float = 300.0
    look_every_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """The activation of one device, as the journal keeps it.

    Attributes:
        phase: How far.
        is_install: Whether it is in install mode; else it boots from an image file.
        image: Name of the image.
        path: Its file, for example `bootflash:image.bin`.
        version: Its version as `show install summary` has it; None in bundle mode.
        before: What the device did before.
        order: Its boot order before, and as it is to be; None in install mode.
        limits: How long things may take.
        since: When the phase began, ISO 8601, UTC.
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
    """What one reading of a device shows of an activation.

    Attributes:
        OLD_RUNS: The old image runs, and nothing waits for a commit.
        IN_PROGRESS: The new image is activated, and the old one still runs.
        NEW_RUNS: The new image runs; in install mode it waits for its commit.
        COMMITTED: The new image runs and is committed, with no timer.
        UNKNOWN: What the device shows is none of these.
    """

    OLD_RUNS = "the old image runs"
    IN_PROGRESS = "activated, not yet restarted"
    NEW_RUNS = "the new image runs"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


def sighting(activation: Activation, software: SoftwareState) -> Sighting:
    """Return what a device's software shows of its activation. Pure."""
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
        # A member that is away is reported as missing; one that is there must not keep the old image.
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
    """Return a path without its file system: a device answers by another name of it than it was asked by."""
    return path.rpartition(":")[2].lstrip("/")


class ActivationOutcome(StrEnum):
    """What became of an activation.

    Attributes:
        COMMITTED: The new image runs, does what the old one did, and is committed.
        ACTIVATED: The same of a device that boots from an image file, which knows no commit.
        NOT_ACTIVATED: The device runs what it ran, and was not restarted.
        ROLLED_BACK: The old image runs again: the new one was not committed, since something was lacking.
        CAME_BACK_OLD: The device restarted, and the old image runs.
        LACKING: The new image runs for good, and something is lacking that was there before.
    """

    COMMITTED = "committed"
    ACTIVATED = "activated"
    NOT_ACTIVATED = "not activated"
    ROLLED_BACK = "rolled back"
    CAME_BACK_OLD = "came back with the old image"
    LACKING = "activated, something is lacking"

    @property
    def is_good(self) -> bool:
        """Return whether the device runs the new image as it should."""
        return self in {ActivationOutcome.COMMITTED, ActivationOutcome.ACTIVATED}

    @property
    def runs_new(self) -> bool:
        """Return whether the device runs the new image for good."""
        return self.is_good or self is ActivationOutcome.LACKING


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationReport:
    """What became of a device's activation.

    Attributes:
        outcome: What became of it.
        mode: `install` or `bundle`.
        from_release: The release that ran before.
        to_release: The release that runs now; None where that is unknown.
        commands: What was sent that restarts, commits or saves, in its order.
        before: What the device did before.
        after: What it does now, or None where it was not read.
        lacks: What was there before and is not there now, a sentence each.
        lines: The device's lines that this rests on.
        away_s: How long it did not answer, in seconds; None where it never went away.
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
