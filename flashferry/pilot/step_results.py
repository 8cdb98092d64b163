"""Steps of a pilot, its options and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.model.exit_codes import ExitCode
from flashferry.model.policy import ServerPlace
from inventory.transport_policy import AS_USUAL

if TYPE_CHECKING:
    from flashferry.api.fleet_options import FleetOptions
    from flashferry.pilot.facts import Finding

COPY_BYTES = 1_000_000
"""Size of the copy to flash."""


class Step(StrEnum):
    """Steps in order."""

    CHECK = "check"
    REACH = "reach"
    PROBE = "probe"
    TUNE = "tune"
    COPY = "copy"
    KILL = "kill"


ABOUT: Mapping[Step, str] = {
    Step.CHECK: "Log in and read platform, free space and configuration. Nothing is changed.",
    Step.REACH: "Have the router copy 16 kB from this host to null:. Nothing is changed, no flash is written.",
    Step.PROBE: "Time copies to null: with the router's own settings. No line is changed, unless the inventory names "
    "a source interface; no flash is written.",
    Step.TUNE: "Set 'ip tcp window-size', 'ip tcp selective-ack' and our mark, time copies to null:, take the "
    "lines back and compare the whole configuration. No flash is written, nothing is saved to startup-config.",
    Step.COPY: f"The same with one copy of {COPY_BYTES:,} random bytes to flash, hashed there. The file stays; the "
    "page names the command that deletes it.",
    Step.KILL: "Start a speed test in a process of its own, kill it once its lines are set, and have "
    "'flashferry recover' restore and prove. No flash is written.",
}
"""What each step does, shown before the consent."""


class Status(StrEnum):
    """Result of a step."""

    DONE = "done"
    DECLINED = "declined"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    NOT_STARTED = "not started"


class StepResult(Struct, frozen=True, kw_only=True):
    """Result of a step.

    Attributes:
        step: The step.
        status: Its result; `incomplete`: the router is not proven restored.
        sentence: What was found, or why it failed.
        code: Its exit code.
    """

    step: Step
    status: Status
    sentence: str = ""
    code: ExitCode = ExitCode.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotOptions:
    """Router and destination of a pilot.

    Attributes:
        fleet: The inventory, and how to log in; its selection is ignored.
        host: The router's name in the inventory.
        folder: Folder for the result, new or empty.
        server: Where our server listens.
        transport: How the router copies.
    """

    fleet: FleetOptions
    host: str
    folder: Path
    server: ServerPlace = field(default_factory=ServerPlace)
    transport: str = AS_USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotResult:
    """Result of a pilot.

    Attributes:
        steps: Result of each step, in order.
        findings: Result of each fact; empty if no session was opened.
        folder: Folder of page, transcript and captures.
        exit_code: Exit code of the pilot.
    """

    steps: tuple[StepResult, ...]
    findings: tuple[Finding, ...]
    folder: Path
    exit_code: ExitCode
