"""Bytes that come become verified chunks: hashed while they arrive, kept or fetched again, and at last proven whole.

Whatever they come by. A chunk that is wrong is fetched twice more; then it is the source that is wrong, for a line that
damages what it carries does not damage the same chunk three times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from flashferry.depot.catalogue.part import Part
from flashferry.depot.sync.errors import SourceUnreachable, SourceWrong
from flashferry.depot.sync.line import Interrupted, check
from flashferry.images.errors import ImageError
from flashferry.images.manifest import read_manifest

MOST_TRIES = 3
"""So often a chunk may come wrong."""

MOVED_BYTES = 1000
"""So many bytes are a sign of life: a line that brings some now and then is a broken one all the same."""

PIECE_BYTES = 256 * 1024


class SyncPhase(StrEnum):
    """What is done about an image."""

    ASK = "asking"
    COPY = "copying"
    WAIT = "waiting"
    PROVE = "proving"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncProgress:
    """An image on its way, at one moment.

    Attributes:
        image: Its name.
        phase: What is done.
        done_bytes: How much of it is there; while it is proven, how much was read.
        size_bytes: Its size.
        text: What happened, where something did: a line that broke, a chunk that was wrong.
    """

    image: str
    phase: SyncPhase
    done_bytes: int
    size_bytes: int
    text: str = ""


OnProgress = Callable[[SyncProgress], None]


def silent(progress: SyncProgress) -> None:
    """Ignore the progress."""


class Filling:
    """One image that is filled in.

    Args:
        part: What is there of it.
        on_progress: Called with what comes.
        interrupted: Whether to stop.
        where: The source in words, for complaints.

    Attributes:
        part: The same.
        interrupted: The same.
        came_bytes: How much came over the line.
        wrong_chunks: How often a chunk came wrong.
        moved_at_s: When something worth the name came last, monotonic.
    """

    def __init__(self, part: Part, on_progress: OnProgress, interrupted: Interrupted, where: str) -> None:
        self.part, self.interrupted, self._where = part, interrupted, where
        self.came_bytes = 0
        self.moved_at_s = time.monotonic()
        self._unmoved_bytes = 0
        self._on_progress = on_progress
        self._wrong: Counter[int] = Counter()

    @property
    def wrong_chunks(self) -> int:
        """Return how often a chunk came wrong."""
        return self._wrong.total()

    def report(self, phase: SyncPhase, done_bytes: int, text: str = "") -> None:
        """Report the progress."""
        manifest = self.part.manifest
        self._on_progress(
            SyncProgress(
                image=manifest.name, phase=phase, done_bytes=done_bytes, size_bytes=manifest.size_bytes, text=text
            )
        )

    def take(self, read: Callable[[int], bytes], first: int, end: int) -> None:
        """Take the bytes of the image from one place up to another.

        Args:
            read: Returns the next ones, so many at most; empty at their end.
            first: Where they begin.
            end: The first that is not wanted.

        Raises:
            SourceUnreachable: They ended before.
            SourceWrong: A chunk came wrong for the third time.
            SyncStopped: It was asked to stop.
            CatalogueFull: The disk has no room.
        """
        while first < end:
            number = first // self.part.manifest.chunk_bytes
            chunk_end = min(self.part.manifest.span(number)[1], end)
            if self.part.verified[number]:
                self._pass_over(read, first, chunk_end)
            else:
                self._take_chunk(read, number, first)
            first = chunk_end

    def _take_chunk(self, read: Callable[[int], bytes], number: int, first: int) -> None:
        part, started = self.part, self.part.manifest.span(number)[0]
        found, is_from_before = part.hash_of(started, first), first > started
        there_bytes = part.verified_bytes - started
        end = part.manifest.span(number)[1]
        while first < end:
            piece = self._piece(read, end - first)
            part.write(number, first, piece)
            found.update(piece)
            first += len(piece)
            self.report(SyncPhase.COPY, there_bytes + first)
        if found.hexdigest() == part.manifest.chunks[number]:
            part.keep(number)
        else:
            self.drop((number,), is_counted=not is_from_before)

    def _pass_over(self, read: Callable[[int], bytes], first: int, end: int) -> None:
        while first < end:
            first += len(self._piece(read, end - first))

    def _piece(self, read: Callable[[int], bytes], most_bytes: int) -> bytes:
        check(self.interrupted)
        piece = read(min(PIECE_BYTES, most_bytes))
        if not piece:
            raise SourceUnreachable(f"{self._where}: it ended before the image did")
        self.came(len(piece))
        return piece

    def came(self, size_bytes: int) -> None:
        """Note that bytes came over the line."""
        self.came_bytes += size_bytes
        self._unmoved_bytes += size_bytes
        if self._unmoved_bytes >= MOVED_BYTES:
            self._unmoved_bytes, self.moved_at_s = 0, time.monotonic()

    def drop(self, numbers: tuple[int, ...], *, is_counted: bool = True) -> None:
        """Have chunks that are wrong fetched again.

        Args:
            numbers: The chunks.
            is_counted: Whether all of their bytes came from the source just now.

        Raises:
            SourceWrong: One came wrong for the third time.
        """
        self.part.drop(*numbers)
        if is_counted:
            self._wrong.update(numbers)
        manifest = self.part.manifest
        for number in numbers:
            first, end = manifest.span(number)
            if self._wrong[number] >= MOST_TRIES:
                raise SourceWrong(
                    f"{self._where}: {manifest.name}: expected chunk {number} (bytes {first}-{end - 1}) to be what "
                    f"the manifest says, found other bytes at each of {MOST_TRIES} tries"
                )
            self.report(SyncPhase.COPY, self.part.verified_bytes, f"chunk {number} is wrong; it is fetched again")

    def prove(self) -> bool:
        """Read the whole from the disk; return whether it is right. Chunks that are not count no more.

        Raises:
            SourceWrong: All chunks are right and the whole is not: the manifest contradicts itself.
            SyncStopped: It was asked to stop.
        """
        manifest, path = self.part.manifest, self.part.path

        def read(done_bytes: int, _size_bytes: int) -> None:
            check(self.interrupted)
            self.report(SyncPhase.PROVE, done_bytes)

        try:
            found = read_manifest(path, name=manifest.name, chunk_bytes=manifest.chunk_bytes, on_progress=read).manifest
        except ImageError as error:
            raise SourceUnreachable(f"{manifest.name}: {error.message}") from None
        if found == manifest:
            return True
        chunks = enumerate(zip(found.chunks, manifest.chunks, strict=False))
        bad = tuple(number for number, (one, other) in chunks if one != other)
        if not bad:
            raise SourceWrong(
                f"{self._where}: {manifest.name}: expected SHA-512 {manifest.sha512[:16]}... and MD5 "
                f"{manifest.md5} of the whole, found {found.sha512[:16]}... and {found.md5}, though each chunk is "
                "what the manifest says"
            )
        self.drop(bad, is_counted=False)
        return False
