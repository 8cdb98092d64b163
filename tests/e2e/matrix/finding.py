"""What was found in a cell: values only, taken by the lab's own eyes and from what the tool told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Ending(StrEnum):
    """How a process ended."""

    DONE = "done"
    CRASHED = "crashed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """A router's two configurations as the lab sees them, without the stamps."""

    running: tuple[str, ...]
    startup: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """One `recover`: how it ended, its records, and whether the operator accepted what was left."""

    ending: Ending
    records: tuple[dict[str, Any], ...] = ()
    said: str = ""
    is_accepted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Where in a box the image is, by the lab's own eyes.

    Attributes:
        image_is_right: Whether it is on the device's flash with the right MD5; None: no such file.
        members_are_right: The same of each other member that has a flash.
        is_added: Whether its release is inactive, in the tables of install mode.
    """

    image_is_right: bool | None = None
    members_are_right: tuple[bool | None, ...] = ()
    is_added: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """The run behind all: how it ended, its record, and what is there then."""

    ending: Ending
    said: str = ""
    record: dict[str, Any] | None = None
    after: Configurations
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found in a cell.

    Attributes:
        ending: How the run ended.
        said: The end of its standard error.
        record: The device's record: the run's result, or the journal's where the run was killed; None: nowhere.
        recoveries: One `recover` after another, until one has nothing more to do; that one is the last.
        before: The router before.
        alone: The router behind a kill and what struck then, before any recovery; None: the run was not killed.
        after: The router after.
        box: Where the image is then.
        left: How often a member left in the middle of a copy to it, by the lab's count.
        next_run: The run behind that, in columns where something follows the restore; None in others.
        still_held: How many devices the journal holds at the end.
        tickets: How many tickets the search for secrets knew.
        leaks: Where a secret was found.
        seconds: Wall time of the cell.
    """

    ending: Ending
    said: str
    record: dict[str, Any] | None
    recoveries: tuple[Recovery, ...]
    before: Configurations
    after: Configurations
    box: Box
    still_held: int
    tickets: int
    leaks: tuple[str, ...]
    seconds: float = field(compare=False)
    alone: Configurations | None = None
    left: int = 0
    next_run: NextRun | None = None

    @property
    def image_is_right(self) -> bool | None:
        """Return whether the image is on the device's own flash with the right MD5; None: no such file."""
        return self.box.image_is_right

    @property
    def restore_reports(self) -> list[dict[str, Any]]:
        """Every report of a restore that an operator can get to."""
        told = [self.record] if self.record else []
        told += [record for recovery in self.recoveries for record in recovery.records]
        return [one["restore"] for one in told if one["restore"] is not None]
