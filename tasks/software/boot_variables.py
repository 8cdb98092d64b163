"""What each member, or each supervisor, boots next, and how: by `show boot` or `show bootvar`. Pure.

Facts
-----
* `show boot` prints a block per member on Catalyst 3850 and 9300, one for the active and one for the standby supervisor
  on ASR 1000, Catalyst 9400 and 9500, and `BOOT path-list` with a block per further member on 2960 and 3750. Only some
  show the register there; `show version` shows it everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from templates.rows import BootVariable, ConfigRegister, ManualBoot, rows

STANDBY = "standby"
"""The place of the other supervisor."""

_YES_OR_NO = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What one member, or one supervisor, boots.

    Attributes:
        place: The member's number, `standby` for the other supervisor; empty for the device that answers.
        now: The boot variable that it was started with, as printed; empty where none is set, None where it is not
            shown.
        next: The same from the next reload on.
        register: The configuration register as of the next reload, or None where it is not shown.
        manual: Whether ROMMON waits at the console, or None where it is not shown.
    """

    place: str
    now: str | None = None
    next: str | None = None
    register: str | None = None
    manual: bool | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Return what is tried at the next reload, in its order, for example `flash:packages.conf`."""
        return boot_files(self.next or "")

    @property
    def all_files(self) -> tuple[str, ...]:
        """Return what the variable names now or from the next reload on."""
        return tuple(dict.fromkeys((*boot_files(self.now or ""), *self.files)))


def boot_files(paths: str) -> tuple[str, ...]:
    """Return the files of a boot variable, in its order: `bootflash:/x.bin,12;flash:y;` names two."""
    return tuple(path for one in paths.split(";") if (path := one.split(",")[0].strip()))


def boots(text: str, *, register: str | None = None) -> tuple[Boot, ...]:
    """Return what each member or supervisor boots; `register` is that of `show version`, for outputs without one."""
    variables, manuals = rows(BootVariable, text), rows(ManualBoot, text)
    registers = {row.standby: row.next or row.now for row in rows(ConfigRegister, text)}
    places = dict.fromkeys((row.switch, row.standby) for row in variables)
    found = []
    for switch, standby in places:
        own = {row.when: row.paths for row in variables if (row.switch, row.standby) == (switch, standby)}
        values = {row.value.lower() for row in manuals if (row.switch, row.standby) == (switch, standby)}
        both = own.get("")
        found.append(
            Boot(
                place=STANDBY if standby else switch,
                now=own.get("Current", both),
                next=own.get("next reload", both),
                register=registers.get(standby) or (None if standby else register),
                manual=_YES_OR_NO.get(next(iter(values))) if len(values) == 1 else None,
            )
        )
    return tuple(found)
