"""Where the members of a device keep an image: file systems of a stack's switches, or of the other supervisor. Pure.

Facts
-----
* A stack lists `flash:` (the active's, `flash-1:` by another name) and `flash-2:`, `flash-3:`, ...; older switches have
  `flash2:` (genieparser: show file systems of Catalyst 9300, 3850 and 3750).
* The other supervisor's are `stby-bootflash:`, `stby-flash:`, `stby-harddisk:`: the active's with `stby-` in front.
  Where one is listed and the state of the supervisors cannot be read, there is one in an unknown state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flashferry.devices.platforms.platform import FileSystems
from tasks.software.boot_variables import STANDBY
from tasks.software_state import Outcome, SoftwareState, Topic
from templates.rows import FileSystem, rows
from templates.version import SoftwareVersion

READY_STATE = "ready"
"""What `show switch` says of a member that takes part, in small letters."""

HOT = "STANDBY HOT"
"""What `show redundancy states` says of a supervisor that could take over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a member keeps an image.

    Attributes:
        place: The member's number, or `standby`.
        file_system: Its file system with the colon; empty where the device lists none for it.
        state: What the device says of the member, such as `Ready` or `STANDBY HOT`; may be empty.
    """

    place: str
    file_system: str
    state: str

    @property
    def takes_part(self) -> bool:
        """Return whether the device says that the member is there and ready."""
        return self.state.casefold() == READY_STATE or HOT in self.state.upper()

    def __str__(self) -> str:
        """Return `member 2` or `the standby`."""
        return "the standby" if self.place == STANDBY else f"member {self.place}"


def other_places(state: SoftwareState, file_systems: str, active: str) -> tuple[Place, ...]:
    """Return where the other members keep an image; none for a device without members."""
    known = {name for row in rows(FileSystem, file_systems) for name in row.names}
    if state.is_stack:
        states = {unit.number: unit.state for unit in state.units}
        numbers = tuple(states) or tuple(member.number for member in state.version.members)
        own = next((unit.number for unit in state.units if unit.active), None)
        return tuple(
            Place(
                place=str(number),
                file_system=_listed((f"flash-{number}:", f"flash{number}:"), known),
                state=states.get(number, ""),
            )
            for number in numbers
            if number != own
        )
    unknown = state.redundancy is None and state.answers[Topic.REDUNDANCY].outcome is not Outcome.NOT_THERE
    if not state.has_standby and not (unknown and f"stby-{active}" in known):
        return ()
    peer = state.redundancy.peer if state.redundancy is not None else ""
    return (Place(place=STANDBY, file_system=_listed((f"stby-{active}",), known), state=peer),)


def count_others(version: SoftwareVersion, file_systems: Callable[[], str], active: str) -> int:
    """Return how many other switches or supervisors a device has, as far as a check sees it.

    `show file systems` is asked only where `show version` has no table of members.
    """
    if len(version.members) > 1:
        return len(version.members) - 1
    listed = {name for row in rows(FileSystem, file_systems()) for name in row.names}
    return int(f"stby-{active}" in listed)


def may_have_members(file_systems: str, active: str, names: FileSystems) -> bool:
    """Return whether a device lists file systems that may be other members'."""
    listed = [name for row in rows(FileSystem, file_systems) for name in row.names]
    return any(name == f"stby-{active}" or names.member.fullmatch(name) for name in listed)


def _listed(names: Iterable[str], known: set[str]) -> str:
    return next((name for name in names if name in known), "")
