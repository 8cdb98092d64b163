"""What a command's exit code says; the table in the documentation is made from this enumeration."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from staging.states import Outcome, Restored

if TYPE_CHECKING:
    from staging.record import RunReport


class ExitCode(IntEnum):
    """Exit codes of the command line, the gravest finding of a run winning."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    DEVICES_FAILED = 3
    REFUSED = 4
    RESTORE_INCOMPLETE = 5
    UNFINISHED = 6
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """Return the meaning in a few words."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "all devices are as asked for",
    ExitCode.INTERNAL: "a fault of flashferry itself",
    ExitCode.USAGE: "wrong options or input; nothing was touched",
    ExitCode.DEVICES_FAILED: "some devices failed",
    ExitCode.REFUSED: "some devices were refused by the check, none failed",
    ExitCode.RESTORE_INCOMPLETE: "a device's configuration is not proven to be what it was; the report says why",
    ExitCode.UNFINISHED: "the run stopped before all devices were done, none failed; go on with 'stage --resume RUN'",
    ExitCode.INTERRUPTED: "interrupted by the operator; no device was left changed",
}


def exit_code(outcomes: Iterable[Outcome], *, restored: Iterable[Restored] = (), interrupted: bool = False) -> ExitCode:
    """Return the code for devices: a configuration that is not proven to be what it was outweighs everything else."""
    if set(restored) & {Restored.INCOMPLETE, Restored.FOREIGN_CHANGE}:
        return ExitCode.RESTORE_INCOMPLETE
    if interrupted:
        return ExitCode.INTERRUPTED
    found = set(outcomes)
    if Outcome.ERROR in found:
        return ExitCode.INTERNAL
    if Outcome.FAILED in found:
        return ExitCode.DEVICES_FAILED
    if found & {Outcome.INTERRUPTED, Outcome.NOT_BEGUN}:
        return ExitCode.UNFINISHED
    return ExitCode.REFUSED if Outcome.REFUSED in found else ExitCode.OK


def run_exit_code(report: RunReport) -> ExitCode:
    """Return the code for a run."""
    return exit_code(
        (device.outcome for device in report.devices),
        restored=(device.restored for device in report.devices),
        interrupted=report.interrupted,
    )
