"""The device's flash: real files in a private folder, with the size and speed of the platform.

Stock files are sparse: they have their full length and take no room on the host.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StockFile:
    """A file that the device holds from the start; its contents are zeros."""

    name: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashFigures:
    """The device's flash: names without the colon, sizes in bytes."""

    name: str
    aliases: tuple[str, ...]
    size_bytes: int
    overhead_bytes: int
    block_bytes: int
    write_bytes_per_s: float
    hash_bytes_per_s: float
    first_inode: int
    files: tuple[StockFile, ...]
    directories: tuple[str, ...] = ()


class NoSpaceError(Exception):
    """The flash is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file or a directory on the flash; a directory has no size and no path of its own."""

    name: str
    inode: int
    size_bytes: int
    modified: datetime
    path: Path
    is_directory: bool = False


class Flash:
    """A flash file system in a folder.

    `free_bytes` is the room left beside the stock files, None for the platform's.
    """

    def __init__(self, figures: FlashFigures, root: Path, *, free_bytes: int | None = None) -> None:
        self.figures = figures
        self.root = root
        self._inodes: dict[str, int] = {}
        self._directories: dict[str, datetime] = {}
        self._overhead_bytes = figures.overhead_bytes
        root.mkdir(mode=0o700)
        for stock in figures.files:
            path = self.path(stock.name)
            with path.open("wb") as file:
                file.truncate(stock.size_bytes)
            os.utime(path, (stock.modified.timestamp(),) * 2)
            self._inode(stock.name)
        for name in figures.directories:
            self.make_directory(name)
        if free_bytes is not None:
            self._overhead_bytes += max(0, self.free_bytes - free_bytes)

    @property
    def prefix(self) -> str:
        """The name that the device itself uses, with its colon."""
        return f"{self.figures.name}:"

    def owns(self, prefix: str) -> bool:
        """Return whether a name before a colon means this file system."""
        return bool(prefix) and prefix.lower() in {self.figures.name, *self.figures.aliases}

    def path(self, name: str) -> Path:
        """Return where a file is kept; any name is safe."""
        return self.root / quote(name, safe="")

    def entries(self) -> list[FileEntry]:
        """Return the files, without directories, in the order of their inodes."""
        return sorted((self._entry(path) for path in self.root.iterdir()), key=lambda entry: entry.inode)

    def listing(self, directory: str = "") -> list[FileEntry]:
        """Return the files and directories within a directory, the root by default."""
        start = f"{directory}/" if directory else ""
        both = [*self.entries(), *map(self._directory, self._directories)]
        inside = [e for e in both if e.name.startswith(start) and "/" not in e.name[len(start) :].strip("/")]
        return sorted((replace(e, name=e.name[len(start) :]) for e in inside), key=lambda entry: entry.inode)

    def is_directory(self, name: str) -> bool:
        """Return whether there is a directory of this name; the empty name is the root."""
        return not name or name in self._directories

    def make_directory(self, name: str) -> None:
        """Make a directory."""
        self._directories[name] = datetime.now(UTC)

    def remove_directory(self, name: str) -> bool:
        """Remove a directory; False when there is none or it is not empty."""
        if name not in self._directories or self.listing(name):
            return False
        del self._directories[name]
        return True

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        self.path(old).rename(self.path(new))
        self._inodes[new] = self._inodes.pop(old)

    def _directory(self, name: str) -> FileEntry:
        return FileEntry(
            name=name, inode=self._inode(name), size_bytes=self.figures.block_bytes, modified=self._directories[name],
            path=self.root, is_directory=True,
        )  # fmt: skip

    def find(self, name: str) -> FileEntry | None:
        """Return a file, or None."""
        path = self.path(name)
        return self._entry(path) if name and path.exists() else None

    @property
    def free_bytes(self) -> int:
        """Room left, in whole blocks."""
        used = sum(self._blocks(path.stat().st_size) for path in self.root.iterdir())
        return max(0, self.figures.size_bytes - self._overhead_bytes - used)

    def delete(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        self.path(name).unlink(missing_ok=True)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file at once. Raises NoSpaceError: it does not fit."""
        if len(content) > self.free_bytes:
            raise NoSpaceError
        self._inode(name)
        self.path(name).write_bytes(content)

    def name_written(self, name: str) -> None:
        """Give a file that is about to be written its inode, so that `dir` lists it in the order of arrival."""
        self._inode(name)

    def _blocks(self, size: int) -> int:
        block = self.figures.block_bytes
        return -(-size // block) * block

    def _inode(self, name: str) -> int:
        return self._inodes.setdefault(name, self.figures.first_inode + len(self._inodes))

    def _entry(self, path: Path) -> FileEntry:
        name = unquote(path.name)
        status = path.stat()
        return FileEntry(
            name=name,
            inode=self._inode(name),
            size_bytes=status.st_size,
            modified=datetime.fromtimestamp(status.st_mtime, UTC),
            path=path,
        )


class Pace:
    """Holds a writer back to a rate; waits on an event so that an abort ends the wait."""

    def __init__(self, bytes_per_s: float, stop: threading.Event) -> None:
        self.bytes_per_s = bytes_per_s
        self._stop = stop
        self._free_at_s = 0.0

    def spend(self, size: int) -> None:
        """Wait until ``size`` more bytes are due."""
        now_s = time.monotonic()
        self._free_at_s = max(self._free_at_s, now_s) + size / self.bytes_per_s
        wait_s = self._free_at_s - now_s
        # A wait too short to be kept is owed, not slept: sleeping rounds up and would slow the flash.
        if wait_s > 0.002:
            self._stop.wait(wait_s)


class FlashWriter:
    """Writes one file at the flash's speed; the room left is fixed at its start. `flips_byte` is a fault."""

    def __init__(
        self, flash: Flash, name: str, pace: Pace, *, free_bytes: int | None = None, flips_byte: bool = False
    ) -> None:  # fmt: skip
        self._flips_byte = flips_byte
        flash.name_written(name)
        self.path = flash.path(name)
        self._pace = pace
        self._free_bytes = flash.free_bytes if free_bytes is None else free_bytes
        if self.path.exists():
            self._free_bytes += self.path.stat().st_size
        self._file: BinaryIO = self.path.open("wb")

    def write(self, chunk: bytes) -> None:
        """Write a piece. Raises NoSpaceError: it does not fit."""
        self._free_bytes -= len(chunk)
        if self._free_bytes < 0:
            raise NoSpaceError
        self._file.write(chunk)
        self._pace.spend(len(chunk))

    def flush(self) -> None:
        """Have what was written seen in the file."""
        self._file.flush()

    def _flip_byte(self) -> None:
        middle = self._file.seek(0, 1) // 2
        self._file.flush()
        with self.path.open("r+b") as file:
            file.seek(middle)
            byte = file.read(1)
            file.seek(middle)
            file.write(bytes([byte[0] ^ 0xFF]) if byte else b"")

    def close(self) -> None:
        """Finish the file."""
        if self._flips_byte:
            self._flip_byte()
        self._file.close()


class NullWriter:
    """The file system ``null:``: takes everything and keeps nothing."""

    def write(self, chunk: bytes) -> None:
        """Take a piece."""

    def close(self) -> None:
        """Do nothing."""
