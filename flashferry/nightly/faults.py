"""Whose fault a night's failure is: the lab's, a device's, the product's, or that of the clean-up.

A night that fails for the lab says nothing about the product and must not wake its owners; one that leaves a lab
running must wake its operator at once. So every failure is one of four, and the gravest decides the exit code.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind
from flashferry.model.exit_codes import ExitCode


class Fault(StrEnum):
    """Whose fault a failure is, the gravest last."""

    LAB = "lab"
    DEVICE = "device"
    PRODUCT = "product"
    CLEANUP = "cleanup"


_GRAVITY = tuple(Fault)
_CODES = {
    Fault.LAB: ExitCode.LAB,
    Fault.DEVICE: ExitCode.REFUSED,
    Fault.PRODUCT: ExitCode.DEVICES_FAILED,
    Fault.CLEANUP: ExitCode.CLEANUP,
}


class NightFault(FlashferryError):
    """What ended a step of a night.

    Attributes:
        fault: Whose fault it is.
        is_unrestored: Whether a device's configuration is not proven to be what it was: graver than all else of the
            product's, with the exit code that it has everywhere.
    """

    kind: ClassVar[Kind] = Kind.NIGHT_FAULT

    def __init__(
        self,
        message: str,
        *,
        fault: Fault,
        step: str,
        hint: str,
        host: str | None = None,
        is_unrestored: bool = False,
    ) -> None:
        super().__init__(message, host=host, step=step, hint=hint)
        self.fault = fault
        self.is_unrestored = is_unrestored

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a night, or of a command about nights, that ends with this."""
        return exit_code(self.fault, is_unrestored=self.is_unrestored)


class NoRoom(NightFault):
    """A lab does not fit beside what runs on its controller; what dead nights left there may be in its place."""

    kind: ClassVar[Kind] = Kind.NO_ROOM

    def __init__(self, message: str, *, step: str, hint: str) -> None:
        super().__init__(message, fault=Fault.LAB, step=step, hint=hint)


def exit_code(fault: Fault | None, *, is_unrestored: bool = False) -> ExitCode:
    """Return the exit code of a night by its gravest fault.

    Args:
        fault: The gravest; None: there was none.
        is_unrestored: Whether a device's configuration is not proven to be what it was.
    """
    if fault is Fault.PRODUCT and is_unrestored:
        return ExitCode.RESTORE_INCOMPLETE
    return _CODES[fault] if fault is not None else ExitCode.OK


def gravest(faults: Iterable[Fault | None]) -> Fault | None:
    """Return the gravest of some faults, or None where there was none."""
    return max((one for one in faults if one is not None), key=_GRAVITY.index, default=None)
