"""Rows of file systems: what is there, and how much room is left."""

from __future__ import annotations

import re

from templates.row import Row, row

_NAME = re.compile(r"[^\s:#]+:")


@row
class DirTotals(Row):
    """The last line of `dir`."""

    total_bytes: int
    free_bytes: int


@row
class DirFile(Row):
    """One file or directory (permissions begin with `d`) of `dir`; `modified` as printed, empty where it has none."""

    permissions: str
    size_bytes: int
    modified: str
    name: str


@row
class DirError(Row):
    """Why `dir` could not list."""

    subject: str
    reason: str


@row
class FileSystem(Row):
    """One row of `show file systems`; `size` and `free` are digits or `-`, `prefixes` as printed."""

    default: str
    size: str
    free: str
    type: str
    flags: str
    prefixes: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names with their colons; `#` behind one (bootable) is none of it, and blanks may be missing."""
        return tuple(_NAME.findall(self.prefixes))
