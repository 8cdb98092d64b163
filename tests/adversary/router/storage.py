"""Flash file systems that hold real bytes, and whose they are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum


class Owner(Enum):
    """Who put a file there."""

    SYSTEM = "the device"
    COLLEAGUE = "a colleague"
    COPY = "a copy of ours"


@dataclass(slots=True)
class File:
    """A file; one of the system is known by its size and holds no bytes of its own."""

    name: str
    owner: Owner
    content: bytes = b""
    nominal_bytes: int | None = None
    is_claimed: bool = False
    number: int = 0

    @property
    def size_bytes(self) -> int:
        """Return its size as `dir` tells it."""
        return len(self.content) if self.nominal_bytes is None else self.nominal_bytes

    @property
    def bytes_to_hash(self) -> bytes:
        """Return what `verify` reads."""
        return self.content if self.nominal_bytes is None else f"{self.name} {self.nominal_bytes}".encode()


@dataclass(slots=True)
class Flash:
    """A file system.

    Attributes:
        name: Its own name, without colon: `bootflash`, or `flash-2` of a stack's second member.
        total_bytes: Its size.
        free_bytes: What `dir` tells as free when nothing is written.
        ignores_case: Whether `IMAGE.BIN` and `image.bin` are one file.
        room_bytes: How much really fits before the device says that there is no room; None: all that comes.
    """

    name: str
    total_bytes: int
    free_bytes: int
    ignores_case: bool = False
    room_bytes: int | None = None
    files: dict[str, File] = field(default_factory=dict)
    _count: int = 11

    def find(self, name: str) -> File | None:
        """Return a file by its name, in any letters where the file system does not tell them apart."""
        if name in self.files:
            return self.files[name]
        if self.ignores_case:
            return next((file for file in self.files.values() if file.name.lower() == name.lower()), None)
        return None

    def put(self, file: File) -> File:
        """Put a file in the place of whatever had its name; one that was there keeps how it was spelt."""
        present = self.find(file.name)
        if present is not None:
            file.name, file.number = present.name, present.number
        else:
            self._count += 1
            file.number = self._count
        self.files[file.name] = file
        return file

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        if (file := self.find(name)) is not None:
            del self.files[file.name]

    def erase(self) -> None:
        """Lose everything."""
        self.files.clear()

    @property
    def free_now_bytes(self) -> int:
        """Return what is told as free."""
        return max(0, self.free_bytes - sum(len(file.content) for file in self.files.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSight:
    """A file as the judge sees it."""

    size_bytes: int
    sha512: str
    owner: Owner


def sight_of(file: File) -> FileSight:
    """Return what the judge sees of a file."""
    return FileSight(
        size_bytes=file.size_bytes, sha512=hashlib.sha512(file.bytes_to_hash).hexdigest(), owner=file.owner
    )
