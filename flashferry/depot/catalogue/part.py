"""The files of a catalogue: proofs, parts of images, and errors of its disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Self

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.files import write_whole
from flashferry.core.state_folder import check_regular, open_private
from flashferry.core.units import size
from flashferry.images.manifest import Manifest, is_image_name
from flashferry.images.safe_open import FileIdentity

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class CatalogueBusy(FlashferryError):
    """Another process has the catalogue: it is filled by one at a time."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_BUSY
    advice: ClassVar[str | None] = "Let it end; what it brings is there then"


class CatalogueFull(FlashferryError):
    """The disk has no room for an image; what was verified of it is kept."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_FULL
    advice: ClassVar[str | None] = "Make room there, then sync again: it goes on behind what is there"


def disk_full(folder: Path, name: str, needed_bytes: int, free_bytes: int | None = None) -> CatalogueFull:
    """Return the error for a full disk.

    Args:
        folder: The catalogue.
        name: The image.
        needed_bytes: What is still to be written of it.
        free_bytes: What there is; None where the disk said no without a number.
    """
    found = "the disk says that it is full" if free_bytes is None else f"found {size(free_bytes)}"
    return CatalogueFull(f"catalogue {folder}: expected room for {size(needed_bytes)} of {name}, {found}")


@contextmanager
def disk_errors(folder: Path, name: str, needed_bytes: int = 0) -> Iterator[None]:
    """Raise an error of the disk in the block as one of ours.

    Raises:
        CatalogueFull: There is no room.
        ConfigInvalid: It cannot be read or written for another reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise disk_full(folder, name, needed_bytes) from None
        raise ConfigInvalid(
            f"catalogue {folder}: {name}: {error.strerror or error}",
            hint="Look at the disk and the folder's rights; what was verified is kept",
        ) from None


PROOF_SCHEMA = "flashferry.proof/1"

PART, STATE, PLACE, PROOF = ".part", ".part.json", ".part.at", ".proof.json"

"""Endings of the files beside an image: what is under way, how far it is, where it writes, and what was proven."""

_MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was proven of an image.

    Attributes:
        manifest: What it is made of.
        proven_at: When its whole SHA-512 was found right, last.
        source: Where it came from, without any login; empty: it was there.
        identity: The state of the file that was read; None while it is given its name.
    """

    manifest: Manifest
    proven_at: datetime
    source: str = ""
    identity: FileIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenImage:
    """An image whose whole SHA-512 was found right, and whose file has not changed since.

    Attributes:
        path: The file.
        proof: What was proven.
    """

    path: Path
    proof: Proof

    @property
    def name(self) -> str:
        """Return its name."""
        return self.proof.manifest.name

    @property
    def size_bytes(self) -> int:
        """Return its size."""
        return self.proof.manifest.size_bytes

    @property
    def sha512(self) -> str:
        """Return its SHA-512."""
        return self.proof.manifest.sha512

    @property
    def md5(self) -> str:
        """Return its MD5."""
        return self.proof.manifest.md5

    @property
    def proven_at(self) -> datetime:
        """Return when it was proven, last."""
        return self.proof.proven_at


class HeldState(StrEnum):
    """How a name in a catalogue stands."""

    PROVEN = "proven"
    UNPROVEN = "not proven"
    """A file is there that no sync has put there, and what it should be is not known."""
    DAMAGED = "damaged"
    """It is not what was proven any more: 'depot verify' takes its name, the next sync what is wrong with it."""
    PARTIAL = "under way"
    """A part of it is there, under a hidden name."""
    MISSING = "missing"
    """It was proven, and its file is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A name in a catalogue.

    Attributes:
        name: The image's name.
        state: How it stands.
        size_bytes: Its size, as it should be.
        sha512: What was proven, or is to be; empty where that is not known.
        verified_bytes: How much of it is verified.
        here_bytes: How much of it is on the disk, verified or not: the chunk at hand counts once it is whole.
        proven_at: When it was proven, last; None where it is not.
        source: Where it came from; empty where that is not known.
        bad_chunks: Numbers of the chunks, from 0, that are not what they should be, where that was looked at.
    """

    name: str
    state: HeldState
    size_bytes: int
    sha512: str = ""
    verified_bytes: int = 0
    here_bytes: int = 0
    proven_at: datetime | None = None
    source: str = ""
    bad_chunks: tuple[int, ...] = ()


def beside(folder: Path, name: str, ending: str) -> Path:
    """Return the path of a file beside an image, by its ending."""
    return folder / f".{name}{ending}"


def names_with(folder: Path, ending: str) -> Iterator[str]:
    """Yield the names of images that have a file of that ending beside them, in order.

    Raises:
        OSError: The folder cannot be read.
    """
    for path in sorted(folder.iterdir()):
        name = path.name.removeprefix(".").removesuffix(ending)
        if path.name == f".{name}{ending}" and is_image_name(name):
            yield name


def load_proof(folder: Path, name: str) -> Proof | None:
    """Return the proof that is kept for a name; None where there is none, or it is none of ours.

    Raises:
        ConfigInvalid: A link or another user's file is in its place.
        OSError: It cannot be read.
    """
    data = load_json(beside(folder, name, PROOF), PROOF_SCHEMA)
    try:
        found = None if data is None else decode(Proof, data)
    except (CodecError, ValueError):
        return None
    return found if found is not None and found.manifest.name == name else None


def save_proof(folder: Path, proof: Proof) -> None:
    """Keep a proof; it is on disk when this returns.

    Raises:
        OSError: It cannot be written.
    """
    path = beside(folder, proof.manifest.name, PROOF)
    write_whole(path, json.dumps({"schema": PROOF_SCHEMA, **to_json(proof)}), is_private=True)


def load_json(path: Path, schema: str) -> dict[str, object] | None:
    """Return the object in a file of ours with that schema; None where there is no such thing.

    Raises:
        ConfigInvalid: A link or another user's file is in its place.
        OSError: It cannot be read.
    """
    try:
        with open_private(path, "rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("schema") == schema else None


def now() -> datetime:
    """Return the time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


PART_SCHEMA = "flashferry.part/1"

_PLACE = struct.Struct(">QQ")

_PIECE_BYTES = 1 << 20


class Part:
    """An image under way. One process has it, by the catalogue's lock.

    Args:
        folder: The catalogue.
        manifest: What the image is made of.

    Attributes:
        folder: The same.
        manifest: The same.
        path: The file.

    Raises:
        CatalogueFull: There is no room for the state.
        ConfigInvalid: A file cannot be opened, or something else stands in its place.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.path = beside(folder, manifest.name, PART)
        self._verified = [False] * len(manifest.chunks)
        with disk_errors(folder, manifest.name):
            bits = verified_of(folder, manifest)
            self._descriptor = _opened(self.path)
            self._place = _opened(beside(folder, manifest.name, PLACE))
            size_bytes = os.fstat(self._descriptor).st_size
        if bits is None:
            self.start_over()
        else:
            self._verified = [bit and manifest.span(number)[1] <= size_bytes for number, bit in enumerate(bits)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it; what is verified stays. Twice is harmless."""
        for descriptor in (self._descriptor, self._place):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._place = -1

    # What is there

    @property
    def verified(self) -> tuple[bool, ...]:
        """Return of each chunk whether it is verified."""
        return tuple(self._verified)

    @property
    def verified_bytes(self) -> int:
        """Return how much of the image is verified."""
        return verified_bytes_of(self.manifest, self._verified)

    @property
    def is_whole(self) -> bool:
        """Return whether all chunks are verified."""
        return all(self._verified)

    @property
    def size_bytes(self) -> int:
        """Return how long the file is, with what is not verified and what is merely reserved."""
        return os.fstat(self._descriptor).st_size

    def gap(self) -> tuple[int, int] | None:
        """Return where the first bytes that are missing begin and end; None where none are.

        It begins behind what an earlier process had written of the first chunk that is missing.
        """
        if self.is_whole:
            return None
        first = self._verified.index(False)
        last = next((n for n in range(first, len(self._verified)) if self._verified[n]), len(self._verified)) - 1
        return self.manifest.span(first)[0] + self._written_of(first), self.manifest.span(last)[1]

    def _written_of(self, number: int) -> int:
        started, written = self._placed()
        first, end = self.manifest.span(number)
        # A chunk that was written to its end and not verified was wrong, see `regain`.
        is_usable = started == number and written < end - first and first + written <= self.size_bytes
        return written if is_usable else 0

    def _placed(self) -> tuple[int, int]:
        return _place_in(os.pread(self._place, _PLACE.size, 0))

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return bytes of the file."""
        with disk_errors(self.folder, self.manifest.name):
            return os.pread(self._descriptor, size_bytes, offset)

    def is_right(self, number: int) -> bool:
        """Hash a chunk as it is in the file, and return whether it is what it should be."""
        first, end = self.manifest.span(number)
        return end <= self.size_bytes and self.hash_of(first, end).hexdigest() == self.manifest.chunks[number]

    def hash_of(self, first: int, end: int) -> hashlib._Hash:
        """Return the SHA-256 so far of what is in the file from one place up to another, piece by piece."""
        found = hashlib.sha256()
        while first < end and (piece := self.read(first, min(_PIECE_BYTES, end - first))):
            found.update(piece)
            first += len(piece)
        return found

    # What is done to it

    def reserve(self) -> None:
        """Take the room that the whole image needs.

        Raises:
            CatalogueFull: There is not enough; what is there stays.
        """
        size_bytes, status = self.manifest.size_bytes, os.fstat(self._descriptor)
        file_system = os.fstatvfs(self._descriptor)
        missing_bytes, free_bytes = size_bytes - status.st_blocks * 512, file_system.f_bavail * file_system.f_frsize
        if missing_bytes > free_bytes:
            raise disk_full(self.folder, self.manifest.name, missing_bytes, free_bytes)
        with disk_errors(self.folder, self.manifest.name, max(0, missing_bytes)):
            try:
                os.posix_fallocate(self._descriptor, 0, size_bytes)
            except OSError:
                # What was taken until then is given back.
                os.ftruncate(self._descriptor, min(status.st_size, size_bytes))
                raise
            if status.st_size > size_bytes:
                os.ftruncate(self._descriptor, size_bytes)

    def write(self, number: int, offset: int, data: bytes) -> None:
        """Write bytes of the chunk at hand.

        Raises:
            CatalogueFull: There is no room.
        """
        first, end = self.manifest.span(number)
        assert first <= offset
        assert offset + len(data) <= end
        rest, at = memoryview(data), offset
        with disk_errors(self.folder, self.manifest.name, self.manifest.size_bytes - self.verified_bytes):
            while rest:
                done = os.pwrite(self._descriptor, rest, at)
                rest, at = rest[done:], at + done
            os.pwrite(self._place, _PLACE.pack(number, at - first), 0)

    def keep(self, number: int) -> None:
        """Have a chunk that was found right count, for good.

        Raises:
            CatalogueFull: There is no room for the state.
        """
        self._verified[number] = True
        with disk_errors(self.folder, self.manifest.name, self.manifest.size_bytes - self.verified_bytes):
            os.fdatasync(self._descriptor)
            self._save()

    def regain(self) -> None:
        """Have a chunk count that a killed process had written to its end, and had no time to keep, if it is right."""
        started, written = self._placed()
        if started < len(self._verified) and not self._verified[started]:
            first, end = self.manifest.span(started)
            if written == end - first and self.is_right(started):
                self.keep(started)

    def drop(self, *numbers: int) -> None:
        """Have chunks that were found wrong count no more."""
        for number in numbers:
            self._verified[number] = False
        with disk_errors(self.folder, self.manifest.name):
            os.pwrite(self._place, _PLACE.pack(0, 0), 0)
            self._save()

    def start_over(self) -> None:
        """Have nothing count."""
        self._verified = [False] * len(self.manifest.chunks)
        with disk_errors(self.folder, self.manifest.name):
            os.ftruncate(self._place, 0)
            self._save()
            os.ftruncate(self._descriptor, 0)

    def cut(self, size_bytes: int) -> None:
        """Shorten the file: what stands behind does not count."""
        with disk_errors(self.folder, self.manifest.name):
            os.ftruncate(self._descriptor, size_bytes)

    def finish(self) -> None:
        """Have the file as long as the image, readable as new files are, and on disk."""
        with disk_errors(self.folder, self.manifest.name):
            os.ftruncate(self._descriptor, self.manifest.size_bytes)
            os.fchmod(self._descriptor, 0o644)
            os.fsync(self._descriptor)

    def _save(self) -> None:
        save_verified(self.folder, self.manifest, self._verified)


def verified_of(folder: Path, manifest: Manifest) -> list[bool] | None:
    """Return of each chunk of an image under way whether it is verified; None where nothing is kept of that image.

    Raises:
        ConfigInvalid: Something else stands in the state's place.
        OSError: It cannot be read.
    """
    data = load_json(beside(folder, manifest.name, STATE), PART_SCHEMA) or {}
    bits = data.get("verified")
    if data.get("manifest") != manifest.digest or not isinstance(bits, str):
        return None
    return [bit == "1" for bit in bits] if len(bits) == len(manifest.chunks) else None


def here_bytes_of(folder: Path, name: str, size_bytes: int, verified_bytes: int, verified: str) -> int:
    """Return how much of an image under way is on the disk, verified or not; nothing is read of it.

    Args:
        folder: The catalogue.
        name: The image.
        size_bytes: Its size, as it should be.
        verified_bytes: How much of it is verified.
        verified: Of each chunk whether it is, as its state has it: `1` or `0`.

    Raises:
        OSError: There is nothing under way of it.
    """
    length_bytes = beside(folder, name, PART).stat().st_size
    if length_bytes < size_bytes:
        # No room was taken for the whole: rsync's grows as it comes.
        return max(length_bytes, verified_bytes)
    raw = b""
    with suppress(OSError):
        raw = beside(folder, name, PLACE).read_bytes()
    started, written = _place_in(raw)
    return verified_bytes + (written if verified[started : started + 1] == "0" else 0)


def _place_in(raw: bytes) -> tuple[int, int]:
    started, written = _PLACE.unpack(raw) if len(raw) == _PLACE.size else (0, 0)
    return int(started), int(written)


def verified_bytes_of(manifest: Manifest, verified: list[bool]) -> int:
    """Return how many bytes the chunks have that are verified."""
    spans = (manifest.span(number) for number, bit in enumerate(verified) if bit)
    return sum(end - first for first, end in spans)


def save_verified(folder: Path, manifest: Manifest, verified: list[bool]) -> None:
    """Keep which chunks are verified; it is on disk when this returns.

    Raises:
        OSError: It cannot be written.
    """
    content = {
        "schema": PART_SCHEMA,
        "image": manifest.name,
        "size_bytes": manifest.size_bytes,
        "sha512": manifest.sha512,
        "manifest": manifest.digest,
        "verified_bytes": verified_bytes_of(manifest, verified),
        "verified": "".join("1" if bit else "0" for bit in verified),
    }
    write_whole(beside(folder, manifest.name, STATE), json.dumps(content), is_private=True)


def remove_part(folder: Path, name: str) -> None:
    """Remove what is under way of an image, with its state.

    Raises:
        OSError: It cannot be removed.
    """
    # The state first: a file without a state counts for nothing.
    for ending in (STATE, PLACE, PART):
        with suppress(FileNotFoundError):
            beside(folder, name, ending).unlink()


def _opened(path: Path) -> int:
    check_regular(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
