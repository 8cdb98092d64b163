"""Typed rows of device output, and the one function that makes them.

Each row class names its TextFSM template; its fields are the template's values in lower case. For what
ntc-templates reads well (`show version`, ...) use that; these are the outputs it lacks.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import ClassVar, TypeVar, get_type_hints

import textfsm


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of a template."""

    template: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IpTcp(Row):
    """A global `ip tcp` line; `negated` is `no` where the configuration says so explicitly."""

    template: ClassVar[str] = "ip_tcp"
    negated: str
    keyword: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult(Row):
    """The line `N bytes copied in S secs (R bytes/sec)`; the device's own clock, flash writing included."""

    template: ClassVar[str] = "copy_result"
    size_bytes: int
    duration_s: float
    rate_bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyError(Row):
    """A line `%Error opening ftp://... (reason)`, of our copy or of somebody else's job."""

    template: ClassVar[str] = "copy_error"
    verb: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyDigest(Row):
    """The digest the device computed; `file` is empty where the release does not repeat it."""

    template: ClassVar[str] = "verify_digest"
    file: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyError(Row):
    """Why a digest could not be computed."""

    template: ClassVar[str] = "verify_error"
    verb: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirTotals(Row):
    """The last line of `dir`."""

    template: ClassVar[str] = "dir_totals"
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DirFile(Row):
    """One file or directory (permissions begin with `d`) of `dir`."""

    template: ClassVar[str] = "dir_file"
    permissions: str
    size_bytes: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirError(Row):
    """Why `dir` could not list."""

    template: ClassVar[str] = "dir_error"
    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem(Row):
    """One row of `show file systems`; `size` and `free` are digits or `-`, `prefixes` blank-separated."""

    template: ClassVar[str] = "file_systems"
    default: str
    size: str
    free: str
    type: str
    flags: str
    prefixes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingMode(Row):
    """`Autonomous`, or `Controller-Managed`: an SD-WAN controller configures the device."""

    template: ClassVar[str] = "operating_mode"
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLine(Row):
    """The file that the device was started from."""

    template: ClassVar[str] = "image_line"
    file_system: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Row):
    """A line with which IOS refuses a command."""

    template: ClassVar[str] = "refusal"
    text: str


RowT = TypeVar("RowT", bound=Row)


def rows(kind: type[RowT], output: str) -> tuple[RowT, ...]:
    """Return every row of a kind in a device's output, in order; none where there is none.

    Args:
        kind: A row class of this module.
        output: Device output; CR LF and LF are both taken.

    Raises:
        ValueError: The template caught something that its field's type does not hold; a fault of ours.
    """
    machine = textfsm.TextFSM(io.StringIO(_source(kind.template)))
    names = [name.lower() for name in machine.header]
    hints = get_type_hints(kind)
    parsed = machine.ParseText(output.replace("\r", "\n").replace("\0", ""))
    return tuple(
        kind(**{name: hints[name](text) for name, text in zip(names, record, strict=True)}) for record in parsed
    )


def first(kind: type[RowT], output: str) -> RowT | None:
    """Return the first row of a kind, or None."""
    found = rows(kind, output)
    return found[0] if found else None


def last(kind: type[RowT], output: str) -> RowT | None:
    """Return the last row of a kind, or None."""
    found = rows(kind, output)
    return found[-1] if found else None


@cache
def _source(template: str) -> str:
    return (files("templates") / f"{template}.textfsm").read_text(encoding="utf-8")


def row_kinds() -> tuple[type[Row], ...]:
    """Return all row classes, for tests and documentation."""
    return tuple(kind for kind in Row.__subclasses__() if fields(kind))
