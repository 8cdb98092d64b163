"""Define the files of a catalogue (proofs, incomplete images and their state) and errors of its disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Self

from msgspec import Struct

from flashferry.core.codec import CodecError, decode, to_json
from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.files import write_whole
from flashferry.core.state_folder import check_regular, open_private
from flashferry.core.units import size
from flashferry.images.manifest import Manifest, is_image_name
from flashferry.images.safe_open import FileIdentity

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class CatalogueBusy(FlashferryError):
    """Report that another process has the catalogue."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_BUSY
    advice: ClassVar[str | None] = "Let it end; what it brings is there then"


class CatalogueFull(FlashferryError):
    """Report that the disk has no space for an image; verified chunks are kept."""

    kind: ClassVar[Kind] = Kind.CATALOGUE_FULL
    advice: ClassVar[str | None] = "Free some space there, then sync again: it continues after what is there"


def disk_full(folder: Path, name: str, needed_bytes: int, free_bytes: int | None = None) -> CatalogueFull:
    """Return the error for a full disk; `free_bytes` is None if the system gave no number."""
    found = "the disk says that it is full" if free_bytes is None else f"found {size(free_bytes)}"
    return CatalogueFull(f"catalogue {folder}: expected room for {size(needed_bytes)} of {name}, {found}")


@contextmanager
def disk_errors(folder: Path, name: str, needed_bytes: int = 0) -> Iterator[None]:
    """Turn an `OSError` of the block into an error with the catalogue, the image and what to do.

    Raises:
        CatalogueFull: There is no space.
        ConfigInvalid: Reading or writing failed for another reason.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise disk_full(folder, name, needed_bytes) from None
        raise ConfigInvalid(
            f"catalogue {folder}: {name}: {error.strerror or error}",
            hint="Look at the disk and the folder's permissions; what was verified is kept",
        ) from None


PROOF_SCHEMA = "flashferry.proof/1"
PART, STATE, PLACE, PROOF = ".part", ".part.json", ".part.at", ".proof.json"
"""Endings of the files beside an image: incomplete content, its state, its write position, and the proof."""

_MOST_BYTES = 16 << 20


class Proof(Struct, frozen=True, kw_only=True):
    """The proof of an image.

    Attributes:
        proven_at: When its whole SHA-512 was last verified.
        source: Where it came from, without a login; empty: it was already there.
        identity: State of the file that was read; None while the image is given its name.
    """

    manifest: Manifest
    proven_at: datetime
    source: str = ""
    identity: FileIdentity | None = None


class ProvenImage(Struct, frozen=True, kw_only=True):
    """An image whose whole SHA-512 was verified and whose file is unchanged since."""

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
        """Return when it was last verified."""
        return self.proof.proven_at


class HeldState(StrEnum):
    """The state of a name in a catalogue."""

    PROVEN = "proven"
    UNPROVEN = "not proven"
    """A file that no sync wrote, so its right content is unknown."""
    DAMAGED = "damaged"
    """It differs from its proof: 'depot verify' takes its name, the next sync fetches the bad chunks."""
    PARTIAL = "under way"
    """It is incomplete, under a hidden name."""
    MISSING = "missing"
    """It was proven, and its file is gone."""


class Held(Struct, frozen=True, kw_only=True):
    """A name in a catalogue.

    Attributes:
        size_bytes: Its expected size.
        sha512: Its expected SHA-512; empty: unknown.
        verified_bytes: Bytes in verified chunks.
        here_bytes: Bytes on the disk, verified or not.
        proven_at: When it was last verified; None: it is not.
        source: Where it came from; empty: unknown.
        bad_chunks: Numbers of bad chunks, from 0, if they were checked.
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
    """Yield the names of images that have a file with an ending beside them, in order.

    Raises:
        OSError: The folder cannot be read.
    """
    for path in sorted(folder.iterdir()):
        name = path.name.removeprefix(".").removesuffix(ending)
        if path.name == f".{name}{ending}" and is_image_name(name):
            yield name


def load_proof(folder: Path, name: str) -> Proof | None:
    """Return the proof of a name; None if there is no valid one.

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
    """Write a proof and flush it to disk.

    Raises:
        OSError: It cannot be written.
    """
    path = beside(folder, proof.manifest.name, PROOF)
    write_whole(path, json.dumps({"schema": PROOF_SCHEMA, **to_json(proof)}), is_private=True)


def load_json(path: Path, schema: str) -> dict[str, object] | None:
    """Return the JSON object in our file with a schema; None if there is no such file.

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
    """Return the current time, to the second."""
    return datetime.now(UTC).replace(microsecond=0)


PART_SCHEMA = "flashferry.part/1"
_PLACE = struct.Struct(">QQ")
_PIECE_BYTES = 1 << 20


class Part:
    """An incomplete image, used by one process under the catalogue's lock.

    Raises:
        CatalogueFull: There is no space for the state.
        ConfigInvalid: A file cannot be opened, or another kind of file is in its place.
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
        """Close it; verified chunks are kept. Idempotent."""
        for descriptor in (self._descriptor, self._place):
            if descriptor >= 0:
                os.close(descriptor)
        self._descriptor = self._place = -1

    # What is there

    @property
    def verified(self) -> tuple[bool, ...]:
        """Return for each chunk whether it is verified."""
        return tuple(self._verified)

    @property
    def verified_bytes(self) -> int:
        """Return the bytes in verified chunks."""
        return verified_bytes_of(self.manifest, self._verified)

    @property
    def is_whole(self) -> bool:
        """Return whether all chunks are verified."""
        return all(self._verified)

    @property
    def size_bytes(self) -> int:
        """Return the file's length, including unverified and reserved bytes."""
        return os.fstat(self._descriptor).st_size

    def gap(self) -> tuple[int, int] | None:
        """Return start and end of the first missing bytes; None: none are missing.

        It starts after what an earlier process wrote of the first missing chunk.
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
        """Hash a chunk of the file, and return whether it matches the manifest."""
        first, end = self.manifest.span(number)
        return end <= self.size_bytes and self.hash_of(first, end).hexdigest() == self.manifest.chunks[number]

    def hash_of(self, first: int, end: int) -> hashlib._Hash:
        """Return the SHA-256 of a span of the file, to be continued."""
        found = hashlib.sha256()
        while first < end and (piece := self.read(first, min(_PIECE_BYTES, end - first))):
            found.update(piece)
            first += len(piece)
        return found

    # What is done to it

    def reserve(self) -> None:
        """Reserve disk space for the whole image.

        Raises:
            CatalogueFull: There is not enough; existing content is kept.
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
        """Write bytes of the current chunk.

        Raises:
            CatalogueFull: There is no space.
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
        """Mark a correct chunk as verified, durably.

        Raises:
            CatalogueFull: There is no space for the state.
        """
        self._verified[number] = True
        with disk_errors(self.folder, self.manifest.name, self.manifest.size_bytes - self.verified_bytes):
            os.fdatasync(self._descriptor)
            self._save()

    def regain(self) -> None:
        """Verify the last chunk that a killed process wrote completely without marking it."""
        started, written = self._placed()
        if started < len(self._verified) and not self._verified[started]:
            first, end = self.manifest.span(started)
            if written == end - first and self.is_right(started):
                self.keep(started)

    def drop(self, *numbers: int) -> None:
        """Mark chunks as not verified."""
        for number in numbers:
            self._verified[number] = False
        with disk_errors(self.folder, self.manifest.name):
            os.pwrite(self._place, _PLACE.pack(0, 0), 0)
            self._save()

    def start_over(self) -> None:
        """Discard all content."""
        self._verified = [False] * len(self.manifest.chunks)
        with disk_errors(self.folder, self.manifest.name):
            os.ftruncate(self._place, 0)
            self._save()
            os.ftruncate(self._descriptor, 0)

    def cut(self, size_bytes: int) -> None:
        """Truncate the file."""
        with disk_errors(self.folder, self.manifest.name):
            os.ftruncate(self._descriptor, size_bytes)

    def finish(self) -> None:
        """Give the file the image's length and the usual permissions, and flush it to disk."""
        with disk_errors(self.folder, self.manifest.name):
            os.ftruncate(self._descriptor, self.manifest.size_bytes)
            os.fchmod(self._descriptor, 0o644)
            os.fsync(self._descriptor)

    def _save(self) -> None:
        save_verified(self.folder, self.manifest, self._verified)


def verified_of(folder: Path, manifest: Manifest) -> list[bool] | None:
    """Return for each chunk of an incomplete image whether it is verified; None if nothing of that image is kept.

    Raises:
        ConfigInvalid: Another kind of file is in the state's place.
        OSError: It cannot be read.
    """
    data = load_json(beside(folder, manifest.name, STATE), PART_SCHEMA) or {}
    bits = data.get("verified")
    if data.get("manifest") != manifest.digest or not isinstance(bits, str):
        return None
    return [bit == "1" for bit in bits] if len(bits) == len(manifest.chunks) else None


def here_bytes_of(folder: Path, name: str, size_bytes: int, verified_bytes: int, verified: str) -> int:
    """Return how many bytes of an incomplete image are on the disk, without reading it.

    Args:
        folder: The catalogue.
        name: The image.
        size_bytes: Its expected size.
        verified_bytes: Bytes in verified chunks.
        verified: For each chunk `1` (verified) or `0`, as in the state file.

    Raises:
        OSError: There is no incomplete image.
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
    """Return the bytes in verified chunks."""
    spans = (manifest.span(number) for number, bit in enumerate(verified) if bit)
    return sum(end - first for first, end in spans)


def save_verified(folder: Path, manifest: Manifest, verified: list[bool]) -> None:
    """Write which chunks are verified, and flush it to disk.

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
    """Remove an incomplete image and its state.

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
