"""Members of a stack and the other supervisor that are away: what is gone of them, and what the tables say instead.

Facts
-----
* A switch that left stays in `show switch`, with no address and the state `Removed`; what the rest of its row is then
  was never recorded here. It is in no other table, and its file systems are not listed.
* A route processor without its peer says what one that never had a peer says (genieparser: ASR 1006).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash

STANDBY = "standby"
"""The other supervisor, by the word that stands for it where switches have numbers."""

_SIMPLEX = (
    (r"^( +peer state = ).*", r"\g<1>1  -DISABLED "),
    (r"^( +Mode = )Duplex", r"\g<1>Simplex"),
    (r"^( Communications = )Up", r"\g<1>Down      Reason: Simplex mode"),
    (r"^R1 .*\n", ""),
    (r"^Standby .*\n", ""),
)


class MemberLeftError(Exception):
    """The member that a copy goes to has left."""


def place_of(flash: Flash) -> str:
    """Return whose file system it is: a switch's number, `standby`, or empty for the device's own."""
    name = flash.figures.name
    if name.startswith("stby-"):
        return STANDBY
    return name.rpartition("-")[2] if name.startswith("flash-") else ""


def is_away(device: Device, flash: Flash) -> bool:
    """Return whether the member is away that a file system is of."""
    return place_of(flash) in device.faults.members_away


def leave(device: Device, place: str) -> None:
    """Have a member leave."""
    away = (*device.faults.members_away, place)
    device.faults = device.faults.with_switches({"members_away": away, "member_leaves_after_bytes": None})
    device.note_guess("members: log line of one that left")
    if place == STANDBY:
        device.syslog("%REDUNDANCY-3-STANDBY_LOST: Standby processor fault (PEER_NOT_PRESENT)")
    else:
        text = f"Switch 1 R0/0: stack_mgr: Switch {place} has been removed from the stack."
        device.syslog(f"%STACKMGR-4-SWITCH_REMOVED: {text}")


def without_away(device: Device, text: str) -> str:
    """Return what a command prints, as it is without the members that are away."""
    for place in device.faults.members_away:
        if place == STANDBY:
            for old, new in _SIMPLEX:
                text = re.sub(old, new, text, flags=re.MULTILINE)
        else:
            text = _without_switch(device, text, place)
    return text


def _without_switch(device: Device, text: str, number: str) -> str:
    row = rf"\g<1>{number}       Member   0000.0000.0000     0      V01     Removed             "
    own_row = rf"^([ *]){number} +\w+ +[0-9a-f.]{{14}} +\d+ +\w+ +\w+ *$"
    text, count = re.subn(own_row, row, text, flags=re.MULTILINE)
    if count:
        device.note_guess("members: row of one that is away")
    text = re.sub(rf"^ +{number} +\d+ +C\d.*\n", "", text, flags=re.MULTILINE)  # `show version`, `show platform`
    own = rf"(-+\n)?Switch 0?{number}\n-+\n(?:(?!-+\nSwitch|Switch \d|Configuration register|\Z).*\n)*"
    return re.sub(own, "", text)
