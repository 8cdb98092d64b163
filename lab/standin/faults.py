"""Faults of one device, switched from outside while it runs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from lab.errors import LabError


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong; the default is nothing.

    Attributes:
        syslog_in_copy: A syslog line and a foreign autoconfig error appear inside the run of marks of a copy that
            succeeds, as C9300 captures show.
        drop_ssh_after_bytes: The SSH connection dies when a copy has brought so many bytes; None for never.
        flash_full: There is no room left on the flash.
        flip_byte: One byte of a copied file is wrong on the flash.
        slow_flash_bytes_per_s: The flash writes at this rate; None for the platform's.
        refuse_config_pattern: Configuration lines that this expression finds are refused by authorization.
    """

    syslog_in_copy: bool = False
    drop_ssh_after_bytes: int | None = None
    flash_full: bool = False
    flip_byte: bool = False
    slow_flash_bytes_per_s: float | None = None
    refuse_config_pattern: str | None = None

    def with_switches(self, switches: dict[str, Any]) -> Faults:
        """Return a copy with some switches set.

        Raises:
            LabError: There is no such switch.
        """
        known = [each.name for each in fields(self)]
        for name in switches:
            if name not in known:
                raise LabError(f"There is no fault {name!r}; there are {', '.join(known)}.")
        return replace(self, **switches)
