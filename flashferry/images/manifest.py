"""Digests, embedded name and manifest of an image file, all computed in one pass over its gigabyte.

`flashferry.images.catalogue` caches digests and name. A manifest also has the digest of each chunk, for depots.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from flashferry.core.codec import CodecError, decode_exactly, to_json
from flashferry.core.files import NotRegular, descriptor_of
from flashferry.images.errors import ImageUnreadable, ManifestInvalid
from flashferry.images.image import Digests
from flashferry.images.safe_open import FileIdentity

_READ_BYTES = 1 << 20

_BLOCK = b"CW_BEGIN"

_BLOCK_BYTES = 4096

_NAME_INSIDE = re.compile(rb"CW_IMAGE=?\$([\w.-]{3,120})\$")


class Contents(Struct, frozen=True, kw_only=True):
    """Digests and embedded name of an image file.

    Attributes:
        inside: Image name embedded in the file's content (`CW_IMAGE`), or None.
    """

    digests: Digests
    inside: str | None


def read_contents(descriptor: int, size_bytes: int, on_progress: Callable[[int, int], None] | None = None) -> Contents:
    """Read the first `size_bytes` of an open file and return their digests and embedded name.

    Raises:
        OSError: It cannot be read.
    """
    so_far, done = ContentsBuilder(), 0
    # Side by side, where there are two processors: hashing frees the interpreter for the rest.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sha512") as beside:
        for chunk in pieces_of(descriptor, size_bytes):
            so_far.feed(chunk, beside)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, size_bytes)
    return so_far.end()


class ContentsBuilder:
    """Computes the `Contents` of an image that is fed piece by piece, from its start."""

    def __init__(self) -> None:
        # MD5 only because old IOS verifies nothing better; it guards against damage, not against an attacker.
        self._md5, self._sha512, self._finder = hashlib.md5(usedforsecurity=False), hashlib.sha512(), NameFinder()

    def feed(self, piece: bytes | bytearray, beside: Executor | None = None) -> None:
        """Add the next bytes of the file; SHA-512 is computed in parallel if an executor is given."""
        longer = beside.submit(self._sha512.update, piece) if beside is not None else None
        self._md5.update(piece)
        self._finder.feed(bytes(piece))
        if longer is not None:
            longer.result()
        else:
            self._sha512.update(piece)

    def end(self) -> Contents:
        """Return the contents of the whole file."""
        return Contents(
            digests=Digests(md5=self._md5.hexdigest(), sha512=self._sha512.hexdigest()), inside=self._finder.end()
        )


def pieces_of(descriptor: int, size_bytes: int) -> Iterator[bytes]:
    """Yield the first `size_bytes` of an open file in pieces."""
    # Without this bound, reading a file that another process keeps appending to would never end.
    offset = 0
    while chunk := os.pread(descriptor, min(_READ_BYTES, size_bytes - offset), offset):
        offset += len(chunk)
        yield chunk


class NameFinder:
    """Finds the embedded image name in a file that is fed piece by piece."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Search the next bytes of the file."""
        if self._name is not None:
            return
        # Joining copies the piece, a tenth of the hashing time, so it is done only if a name may start in the rest.
        begins_before = self._rest.startswith(_BLOCK) or _BLOCK in self._rest + piece[: len(_BLOCK)]
        is_joined = begins_before or len(piece) < len(_BLOCK)
        self._rest = self._searched(self._rest + piece if is_joined else piece, is_whole=False)

    def end(self) -> str | None:
        """Search the rest at the end of the file, and return the name; None if there is none."""
        if self._name is None:
            self._searched(self._rest, is_whole=True)
        return self._name

    def _searched(self, data: bytes, *, is_whole: bool) -> bytes:
        """Search bytes and return those at their end in which a name may start."""
        start = 0
        while (at := data.find(_BLOCK, start)) >= 0:
            if len(data) - at < _BLOCK_BYTES and not is_whole:
                return data[at:]
            if (found := _NAME_INSIDE.search(data, at, at + _BLOCK_BYTES)) is not None:
                self._name = found[1].decode("ascii")
                return b""
            start = at + len(_BLOCK)
        # The first bytes of the block's marker may be at the end of this piece.
        return data[max(start, len(data) - len(_BLOCK)) :]


CHUNK_BYTES = 16 << 20
"""Size of a chunk, for each of which a manifest has a SHA-256."""

SCHEMA = "flashferry.manifest/1"

SUFFIX = ".manifest.json"
"""Suffix to the image's name that gives the name of its manifest file."""

CATALOGUE_NAME = "catalogue.json"
"""Name of the file beside the images that lists what a source offers."""

CATALOGUE_SCHEMA = "flashferry.catalogue/1"

MOST_CHUNKS = 65_536
"""Most chunks of a manifest: a terabyte at the usual chunk size."""

MOST_PLAN_BYTES = 32 << 20
"""Largest size of a plan that a source offers."""

MOST_NAME_LETTERS = 200
"""Longest image name. Hidden files beside an image have longer names, which still must fit the file system's limit."""

_NAME = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9._+-]*", re.ASCII)

_PLAN = re.compile(r"plan-[0-9a-f]{16,128}\.json", re.ASCII)

_DIGITS = {"md5": 32, "sha512": 128}


class Manifest(Struct, frozen=True, kw_only=True):
    """Size and digests of an image and of its chunks.

    Attributes:
        name: The image's name, see `is_image_name`.
        size_bytes: Its size, > 0.
        sha512: SHA-512 of the whole image, in lower-case hexadecimal.
        md5: MD5 of the whole image, for devices that know no other; it guards against damage only.
        chunk_bytes: Size of each chunk but the last, > 0.
        chunks: SHA-256 of each chunk, in their order.

    Raises:
        ManifestInvalid: A value is not as described here, or the values contradict each other.
    """

    name: str
    size_bytes: int
    sha512: str
    md5: str
    chunk_bytes: int
    chunks: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check all values, for a manifest may come from another host."""
        _require(is_image_name(self.name), "a name of letters, digits and ._+-", repr(self.name[:80]))
        _require(self.size_bytes > 0 and self.chunk_bytes > 0, "sizes above 0", f"{self.size_bytes}")
        for kind, digits in _DIGITS.items():
            _require(_is_hex(getattr(self, kind), digits), f"{digits} small hexadecimal digits as {kind}", "others")
        count = -(-self.size_bytes // self.chunk_bytes)
        _require(count <= MOST_CHUNKS, f"at most {MOST_CHUNKS} chunks", f"{count}")
        _require(len(self.chunks) == count, f"{count} chunks for {self.size_bytes} bytes", f"{len(self.chunks)}")
        _require(all(_is_hex(one, 64) for one in self.chunks), "64 small hexadecimal digits for each chunk", "others")

    @property
    def tag(self) -> str:
        """Return the image's HTTP entity tag."""
        return entity_tag(self.sha512)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the manifest's own text."""
        return hashlib.sha256(to_text(self).encode()).hexdigest()

    def span(self, number: int) -> tuple[int, int]:
        """Return the offsets of a chunk's first byte and of the first byte after it."""
        first = number * self.chunk_bytes
        return first, min(first + self.chunk_bytes, self.size_bytes)


class Reading(Struct, frozen=True, kw_only=True):
    """Manifest and contents of an image's file.

    Attributes:
        contents: Digests and embedded name, as a catalogue caches them.
        identity: State of the file to which both belong.
    """

    manifest: Manifest
    contents: Contents
    identity: FileIdentity


def entity_tag(sha512: str) -> str:
    """Return an image's HTTP entity tag, by its SHA-512: different contents have different tags."""
    return f'"{sha512[:32]}"'


def is_image_name(name: str) -> bool:
    """Return whether a name can be an image's in a depot: letters, digits and `._+-`, no path, no reserved name."""
    return _NAME.fullmatch(name) is not None and len(name) <= MOST_NAME_LETTERS and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Return whether a name is reserved for a file beside the images: a manifest, the catalogue or a plan."""
    return name == CATALOGUE_NAME or name.endswith(SUFFIX) or is_plan_name(name)


def plan_name(digest: str) -> str:
    """Return the file name of a plan."""
    return f"plan-{digest}.json"


def is_plan_name(name: str) -> bool:
    """Return whether a file name is a plan's: `plan-DIGEST.json`."""
    return _PLAN.fullmatch(name) is not None


# The codec


def to_text(manifest: Manifest) -> str:
    """Return a manifest as the JSON text of its file; equal manifests give equal texts."""
    return json.dumps({"schema": SCHEMA, **to_json(manifest)}, indent=1) + "\n"


def from_text(text: str | bytes, *, what: str = "manifest") -> Manifest:
    """Parse a manifest; `what` names the text in error messages.

    Raises:
        ManifestInvalid: The text is no valid manifest.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ManifestInvalid(f"{what}: expected JSON, found something else") from None
    schema = data.pop("schema", None) if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise ManifestInvalid(f"{what}: expected the schema {SCHEMA}, found {str(schema)[:60]!r}")
    try:
        return decode_exactly(Manifest, data)
    except CodecError as error:
        raise ManifestInvalid(f"{what}: {error.message}") from None
    except ManifestInvalid as error:
        raise ManifestInvalid(f"{what}: {error.message}") from None


# From bytes


class ManifestBuilder:
    """Computes the manifest of an image that is fed piece by piece, from its start."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._contents = ContentsBuilder()
        self._chunks: list[str] = []
        self._chunk, self._left_bytes = hashlib.sha256(), chunk_bytes
        self._size_bytes = 0

    def feed(self, piece: bytes, beside: ThreadPoolExecutor | None = None) -> None:
        """Add the next bytes of the file; chunks are hashed in parallel if an executor is given."""
        chunks = beside.submit(self._feed_chunks, piece) if beside is not None else None
        self._contents.feed(piece)
        if chunks is not None:
            chunks.result()
        else:
            self._feed_chunks(piece)
        self._size_bytes += len(piece)

    def end(self, name: str) -> tuple[Manifest, Contents]:
        """Return the manifest and the contents once the whole image was fed.

        Raises:
            ManifestInvalid: Nothing was fed, or the name cannot be an image's.
        """
        if self._left_bytes < self._chunk_bytes:
            self._end_chunk()
        contents = self._contents.end()
        manifest = Manifest(
            name=name,
            size_bytes=self._size_bytes,
            sha512=contents.digests.sha512,
            md5=contents.digests.md5,
            chunk_bytes=self._chunk_bytes,
            chunks=tuple(self._chunks),
        )
        return manifest, contents

    def _feed_chunks(self, piece: bytes) -> None:
        rest = memoryview(piece)
        while rest:
            part, rest = rest[: self._left_bytes], rest[self._left_bytes :]
            self._chunk.update(part)
            self._left_bytes -= len(part)
            if not self._left_bytes:
                self._end_chunk()

    def _end_chunk(self) -> None:
        self._chunks.append(self._chunk.hexdigest())
        self._chunk, self._left_bytes = hashlib.sha256(), self._chunk_bytes


def read_manifest(
    path: Path,
    *,
    name: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    on_progress: Callable[[int, int], None] | None = None,
) -> Reading:
    """Read an image's file once, and return its manifest and contents. No link is followed.

    `on_progress` is called with bytes read and size; an exception that it raises ends the reading.

    Raises:
        ImageUnreadable: The file is gone, empty, unreadable, no regular file, or changed while it was read.
        ManifestInvalid: Its name cannot be an image's.
    """
    try:
        descriptor = descriptor_of(path, follow_links=False)
    except OSError as error:
        why = f"expected a file, found {error.found}" if isinstance(error, NotRegular) else error.strerror
        raise ImageUnreadable(f"image {path}: {why}", hint="Put the file itself there") from None
    try:
        identity = FileIdentity.of(os.fstat(descriptor))
        manifest, contents = _read(descriptor, identity.size_bytes, name or path.name, chunk_bytes, on_progress)
        if FileIdentity.of(os.fstat(descriptor)) != identity:
            raise ImageUnreadable(
                f"image {path}: it changed while it was read", hint="Wait until it is copied completely, then try again"
            )
    except OSError as error:
        raise ImageUnreadable(f"image {path}: {error.strerror}", hint="Look at the disk it is on") from None
    finally:
        os.close(descriptor)
    return Reading(manifest=manifest, contents=contents, identity=identity)


def manifest_of(path: Path, *, chunk_bytes: int = CHUNK_BYTES) -> Manifest:
    """Return the manifest of an image's file; raises what `read_manifest` does."""
    return read_manifest(path, chunk_bytes=chunk_bytes).manifest


def _read(
    descriptor: int, size_bytes: int, name: str, chunk_bytes: int, on_progress: Callable[[int, int], None] | None
) -> tuple[Manifest, Contents]:
    so_far, done = ManifestBuilder(chunk_bytes), 0
    # Side by side, where there are two processors: hashing frees the interpreter for the rest.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sha256") as beside:
        for piece in pieces_of(descriptor, size_bytes):
            so_far.feed(piece, beside)
            done += len(piece)
            if on_progress is not None:
                on_progress(done, size_bytes)
    return so_far.end(name)


def _is_hex(text: str, digits: int) -> bool:
    return len(text) == digits and re.fullmatch(r"[0-9a-f]+", text) is not None


def _require(is_so: bool, expected: str, found: str) -> None:
    if not is_so:
        raise ManifestInvalid(f"expected {expected}, found {found}")
