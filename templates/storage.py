"""Rows of file systems: what is there, and how much room is left."""

from __future__ import annotations

from templates.row import Row, row


@row
class DirTotals(Row):
    """The last line of `dir`."""

    total_bytes: int
    free_bytes: int


@row
class FlashTotals(Row):
    """The last line of `show bootflash:`, which counts the other way round."""

    free_bytes: int
    used_bytes: int


@row
class DirFile(Row):
    """One file or directory (permissions begin with `d`) of `dir`."""

    permissions: str
    size_bytes: int
    name: str


@row
class FlashFile(Row):
    """One file or directory of `show bootflash:`; nothing tells them apart."""

    size_bytes: int
    path: str


@row
class DirError(Row):
    """Why `dir` could not list."""

    subject: str
    reason: str


@row
class FileSystem(Row):
    """One row of `show file systems`; `size` and `free` are digits or `-`, `prefixes` blank-separated."""

    default: str
    size: str
    free: str
    type: str
    flags: str
    prefixes: str


@row
class MountedFileSystem(Row):
    """`show FILESYSTEM: filesys`: where a file system is mounted, and of what type it is."""

    name: str
    path: str
    type: str
    mode: str


@row
class FileInformation(Row):
    """`show file information`: the type of a file."""

    file: str
    type: str
