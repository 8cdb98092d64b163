"""The one function that turns device output into typed rows.

Each kind of row has a TextFSM template of its name (`CopyResult`: `copy_result.textfsm`). These are the outputs that
ntc-templates lacks or does not read on every release; for the rest use ntc-templates (`show users`, `show inventory`,
...).
"""

from __future__ import annotations

import io
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, get_type_hints

import textfsm

from templates.configured import (
    ArchiveEntry,
    ArchiveSection,
    CommandAuthorization,
    ConfigDifference,
    ConfigLock,
    ConfigStamp,
    ExclusiveMode,
    IpTcp,
    LoweredCommand,
    LoweredLine,
    NoDifference,
    PkiTrustpoint,
    Privilege,
    Refusal,
    RollbackTimer,
    SessionLock,
    Unchanged,
    VrfDefinition,
)
from templates.copying import (
    CopyError,
    CopyResult,
    ImageHash,
    SignatureRefused,
    SignatureVerified,
    SshAborted,
    SshNoMatch,
    VerifyDigest,
    VerifyError,
)
from templates.row import Row, all_kinds, template_name
from templates.storage import (
    DirError,
    DirFile,
    DirTotals,
    FileSystem,
)
from templates.system import (
    AbortTimer,
    BootVariable,
    ConfigRegister,
    ImageLine,
    InstalledPackage,
    IssuLine,
    ManualBoot,
    OperatingMode,
    PackageFile,
    Processor,
    RedundancyState,
    Release,
    StackMember,
    StackUnit,
)

__all__ = [
    "AbortTimer",
    "ArchiveEntry",
    "ArchiveSection",
    "BootVariable",
    "CommandAuthorization",
    "ConfigDifference",
    "ConfigLock",
    "ConfigRegister",
    "ConfigStamp",
    "CopyError",
    "CopyResult",
    "DirError",
    "DirFile",
    "DirTotals",
    "ExclusiveMode",
    "FileSystem",
    "ImageHash",
    "ImageLine",
    "InstalledPackage",
    "IpTcp",
    "IssuLine",
    "LoweredCommand",
    "LoweredLine",
    "ManualBoot",
    "NoDifference",
    "OperatingMode",
    "PackageFile",
    "PkiTrustpoint",
    "Privilege",
    "Processor",
    "RedundancyState",
    "Refusal",
    "Release",
    "RollbackTimer",
    "Row",
    "SessionLock",
    "SignatureRefused",
    "SignatureVerified",
    "SshAborted",
    "SshNoMatch",
    "StackMember",
    "StackUnit",
    "Unchanged",
    "VerifyDigest",
    "VerifyError",
    "VrfDefinition",
    "first",
    "last",
    "row_kinds",
    "rows",
]

RowT = TypeVar("RowT", bound=Row)


def rows(kind: type[RowT], output: str) -> tuple[RowT, ...]:
    """Return every row of a kind in a device's output, in order; none where there is none.

    Args:
        kind: A row class of this module.
        output: Device output; CR LF and LF are both taken.

    Raises:
        ValueError: The template caught something that its field's type does not hold; a fault of ours.
    """
    machine = textfsm.TextFSM(io.StringIO(_source(template_name(kind))))
    names = [name.lower() for name in machine.header]
    types = get_type_hints(kind)
    parsed = machine.ParseText(output.replace("\r", "\n").replace("\0", ""))
    return tuple(
        kind(**{name: _value(types[name], found) for name, found in zip(names, record, strict=True)})
        for record in parsed
    )


def first(kind: type[RowT], output: str) -> RowT | None:
    """Return the first row of a kind, or None."""
    found = rows(kind, output)
    return found[0] if found else None


def last(kind: type[RowT], output: str) -> RowT | None:
    """Return the last row of a kind, or None."""
    found = rows(kind, output)
    return found[-1] if found else None


def row_kinds() -> tuple[type[Row], ...]:
    """Return all row classes, for tests and documentation."""
    return all_kinds()


def _value(kind: Any, found: str | list[str]) -> object:
    if isinstance(found, list):
        return tuple(found)
    return kind(found)


@cache
def _source(template: str) -> str:
    return (files("templates") / f"{template}.textfsm").read_text(encoding="utf-8")
