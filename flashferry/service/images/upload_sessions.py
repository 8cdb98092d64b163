"""Upload sessions: one sender at a time writes a file, which is hashed while written and synced from time to time.

Facts
-----
* Written bytes survive a killed process but not a power cut: the synced offset is stored, and an upload continues
  there.
* A silent sender blocks no other: after `SILENT_S` the next one takes over, and late bytes of the first are refused.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flashferry.images.manifest import Contents, ContentsBuilder

SILENT_S = 15.0
"""A sender may be silent for so long before another one takes over."""
SYNC_BYTES = 8 << 20
"""After so much the file is synced and the table updated."""
_READ_BYTES = 1 << 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class HeldByAnother(Exception):
    """Another sender is active; `offset` is how far it got."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class UploadSession:
    """A sender's session with one file of which `offset` bytes are valid; `size_bytes` is its final size.

    `so_far` has their hashes (None: read them again); `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        place: Path,
        *,
        size_bytes: int,
        offset: int,
        so_far: ContentsBuilder | None,
        clock: Callable[[], float],
    ) -> None:
        self.name, self.size_bytes, self.offset = name, size_bytes, offset
        self._place = place
        self._so_far = so_far
        self._clock = clock
        self._last_seen_s = clock()
        self._lock = threading.RLock()
        self._descriptor = -1
        self._synced = offset
        self._is_over = False

    @property
    def is_whole(self) -> bool:
        """Return whether all bytes were written."""
        return self.offset == self.size_bytes

    @property
    def is_held(self) -> bool:
        """Return whether the sender is active and sent bytes recently."""
        return not self._is_over and self._clock() - self._last_seen_s < SILENT_S

    @property
    def so_far(self) -> ContentsBuilder | None:
        """Return the hash state for the next session; None if this one was never opened."""
        return self._so_far

    def open(self) -> None:
        """Open the file, truncate it to the offset, and hash the bytes in it. Raises `OSError`."""
        with self._lock:
            self._descriptor = os.open(self._place, _FLAGS, 0o600)
            held = os.fstat(self._descriptor).st_size
            if held < self.offset:
                self.offset, self._so_far = held, None
            os.ftruncate(self._descriptor, self.offset)
            if self._so_far is None:
                self._so_far = self._read()

    def write(self, data: bytes | bytearray) -> bool:
        """Write the next bytes; return whether a sync is due.

        Raises:
            HeldByAnother: Another sender took over.
            OSError: The bytes cannot be written; the offset is unchanged.
        """
        with self._lock:
            if self._is_over or self._so_far is None:
                raise HeldByAnother(self.offset)
            view, at = memoryview(data), self.offset
            while view:
                written = os.pwrite(self._descriptor, view, at)
                view, at = view[written:], at + written
            self._so_far.feed(data)
            self.offset = at
            self._last_seen_s = self._clock()
            return at - self._synced >= SYNC_BYTES

    def sync(self) -> int:
        """Sync to disk; return the number of synced bytes. Raises `OSError`."""
        with self._lock:
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
            self._synced = self.offset
            return self._synced

    def end(self) -> int:
        """End the session; return the number of synced bytes. Raises `OSError`."""
        with self._lock:
            self._is_over = True
            if self._descriptor < 0:
                return self._synced
            try:
                return self.sync()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1

    def contents(self) -> Contents:
        """Return size and digests of the complete file; callable once."""
        assert self._so_far is not None
        return self._so_far.end()

    def _read(self) -> ContentsBuilder:
        so_far, at = ContentsBuilder(), 0
        while chunk := os.pread(self._descriptor, min(_READ_BYTES, self.offset - at), at):
            so_far.feed(chunk)
            at += len(chunk)
            self._last_seen_s = self._clock()
        return so_far


class UploadSessions:
    """The upload sessions of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, UploadSession] = {}

    def take(self, name: str, place: Path, *, size_bytes: int, received_bytes: int) -> UploadSession:
        """Return a new session for an image.

        `received_bytes`, from the table, is the offset if this process has no session of the upload.

        Raises:
            HeldByAnother: Another sender is active.
            OSError: The file cannot be opened.
        """
        with self._lock:
            before = self._sessions.get(name)
            if before is not None and before.is_held:
                raise HeldByAnother(before.offset)
            if before is not None:
                received_bytes = before.end()
            turn = UploadSession(
                *(name, place),
                size_bytes=size_bytes,
                offset=received_bytes,
                so_far=before.so_far if before is not None else None,
                clock=self._clock,
            )
            self._sessions[name] = turn
        try:
            turn.open()
        except BaseException:
            self.forget(turn)
            turn.end()
            raise
        return turn

    def offset_of(self, name: str) -> int | None:
        """Return the offset of an upload; None if this process has no session of it."""
        with self._lock:
            known = self._sessions.get(name)
            return None if known is None else known.offset

    def forget(self, turn: UploadSession) -> None:
        """Forget a session."""
        with self._lock:
            if self._sessions.get(turn.name) is turn:
                del self._sessions[turn.name]

    def cut(self, name: str) -> None:
        """End the session of a deleted upload."""
        with self._lock:
            turn = self._sessions.pop(name, None)
        if turn is not None:
            turn.end()
