"""An image that arrives, as bytes on disk: one sender at a time, digests while it is written, synced now and then.

Facts
-----
* What was written is in the file when the process is killed, and may not be when the machine is: so what is synced is
  told to the table, and another process goes on from there.
* One who sends and falls silent holds nobody up: after a while the next one takes over, and his last piece is refused.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from flashferry.images.contents import Contents, ContentsSoFar

SILENT_S = 15.0
"""So long a sender may be silent before another one takes over."""
SYNC_BYTES = 8 << 20
"""After so much it is on disk for good, and the table knows."""
_READ_BYTES = 1 << 20
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class HeldByAnother(Exception):
    """Somebody else is sending it; `offset` is where he is."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Arrival:
    """One sender's turn with a file.

    Args:
        name: The image.
        place: Its file.
        size_bytes: How much there is to be in the end.
        offset: How much of the file is good.
        so_far: What that much tells; None: it is read again.
        clock: Monotonic time in seconds.

    Attributes:
        offset: From where it goes on.
    """

    def __init__(
        self,
        name: str,
        place: Path,
        *,
        size_bytes: int,
        offset: int,
        so_far: ContentsSoFar | None,
        clock: Callable[[], float],
    ) -> None:
        self.name, self.size_bytes, self.offset = name, size_bytes, offset
        self._place = place
        self._so_far = so_far
        self._clock = clock
        self._heard_s = clock()
        self._lock = threading.RLock()
        self._descriptor = -1
        self._synced = offset
        self._is_over = False

    @property
    def is_whole(self) -> bool:
        """Return whether all of it is there."""
        return self.offset == self.size_bytes

    @property
    def is_held(self) -> bool:
        """Return whether its sender has his turn, and was heard of lately."""
        return not self._is_over and self._clock() - self._heard_s < SILENT_S

    @property
    def so_far(self) -> ContentsSoFar | None:
        """Return what has arrived tells, for the next turn; None where this one never began."""
        return self._so_far

    def open(self) -> None:
        """Open the file, without what is behind the offset, and read what is before it where nobody has.

        Raises:
            OSError: It cannot be opened, or there is no room.
        """
        with self._lock:
            self._descriptor = os.open(self._place, _FLAGS, 0o600)
            held = os.fstat(self._descriptor).st_size
            if held < self.offset:
                self.offset, self._so_far = held, None
            os.ftruncate(self._descriptor, self.offset)
            if self._so_far is None:
                self._so_far = self._read()

    def write(self, data: bytes | bytearray) -> bool:
        """Take the next bytes; return whether enough is written since the last sync to sync again.

        Raises:
            HeldByAnother: Somebody took over meanwhile.
            OSError: They cannot be written; what of them was is taken back.
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
            self._heard_s = self._clock()
            return at - self._synced >= SYNC_BYTES

    def sync(self) -> int:
        """Have all that was written on disk; return how much that is.

        Raises:
            OSError: It cannot be had there.
        """
        with self._lock:
            if self._descriptor >= 0:
                os.fsync(self._descriptor)
            self._synced = self.offset
            return self._synced

    def end(self) -> int:
        """End this sender's turn; return how much is on disk for good.

        Raises:
            OSError: What was written last cannot be had on disk.
        """
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
        """Return what the whole file tells; once."""
        assert self._so_far is not None
        return self._so_far.end()

    def _read(self) -> ContentsSoFar:
        so_far, at = ContentsSoFar(), 0
        while chunk := os.pread(self._descriptor, min(_READ_BYTES, self.offset - at), at):
            so_far.feed(chunk)
            at += len(chunk)
            self._heard_s = self._clock()
        return so_far


class Arrivals:
    """Who is sending which image to this process.

    Args:
        clock: Monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._arrivals: dict[str, Arrival] = {}

    def take(self, name: str, place: Path, *, size_bytes: int, received_bytes: int) -> Arrival:
        """Return somebody's turn with an image.

        Args:
            name: The image.
            place: Its file.
            size_bytes: How much there is to be.
            received_bytes: How much is on disk as the table has it: what counts where this process knows nothing.

        Raises:
            HeldByAnother: It is somebody else's turn.
            OSError: The file cannot be opened.
        """
        with self._lock:
            before = self._arrivals.get(name)
            if before is not None and before.is_held:
                raise HeldByAnother(before.offset)
            if before is not None:
                received_bytes = before.end()
            turn = Arrival(
                *(name, place),
                size_bytes=size_bytes,
                offset=received_bytes,
                so_far=before.so_far if before is not None else None,
                clock=self._clock,
            )
            self._arrivals[name] = turn
        try:
            turn.open()
        except BaseException:
            self.forget(turn)
            turn.end()
            raise
        return turn

    def offset_of(self, name: str) -> int | None:
        """Return where the sender of an image is; None where nobody has sent it to this process."""
        with self._lock:
            known = self._arrivals.get(name)
            return None if known is None else known.offset

    def forget(self, turn: Arrival) -> None:
        """Know nothing more of an image that is whole, or that nobody wants."""
        with self._lock:
            if self._arrivals.get(turn.name) is turn:
                del self._arrivals[turn.name]

    def cut(self, name: str) -> None:
        """End whoever's turn it is with an image, for nobody wants it any more."""
        with self._lock:
            turn = self._arrivals.pop(name, None)
        if turn is not None:
            turn.end()
