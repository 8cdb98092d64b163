"""What one reading of an image file shows: its digests, and the name that it carries in itself.

Both come from one pass over the gigabyte; `flashferry.images.hash_cache` keeps them, and `flashferry.images.fit` says
where the name stands.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from flashferry.images.image import Digests

_READ_BYTES = 1 << 20
_BLOCK = b"CW_BEGIN"
_BLOCK_BYTES = 4096
_NAME_INSIDE = re.compile(rb"CW_IMAGE=?\$([\w.-]{3,120})\$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What one reading of an image file showed.

    Attributes:
        inside: The name that it carries in itself, or None.
    """

    digests: Digests
    inside: str | None


def read_contents(descriptor: int, size_bytes: int, on_progress: Callable[[int, int], None] | None = None) -> Contents:
    """Read an open file once, up to the size given, and return its contents; what is appended meanwhile is not read.

    Raises:
        OSError: It cannot be read.
    """
    so_far, done = ContentsSoFar(), 0
    # Side by side, where there are two processors: hashing frees the interpreter for the rest.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="sha512") as beside:
        for chunk in pieces_of(descriptor, size_bytes):
            so_far.feed(chunk, beside)
            done += len(chunk)
            if on_progress is not None:
                on_progress(done, size_bytes)
    return so_far.end()


class ContentsSoFar:
    """The contents of an image that comes piece by piece, from its beginning on."""

    def __init__(self) -> None:
        # MD5 only because old IOS verifies nothing better; it guards against damage, not against an attacker.
        self._md5, self._sha512, self._finder = hashlib.md5(usedforsecurity=False), hashlib.sha512(), NameFinder()

    def feed(self, piece: bytes | bytearray, beside: Executor | None = None) -> None:
        """Take the next bytes of the file; SHA-512 is computed in parallel where there is a thread for it."""
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
    """Yield an open file in pieces, up to the size given."""
    # Bounded by the size: a file that is appended to would otherwise never end.
    offset = 0
    while chunk := os.pread(descriptor, min(_READ_BYTES, size_bytes - offset), offset):
        offset += len(chunk)
        yield chunk


class NameFinder:
    """Finds the name in a file that comes piece by piece."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the file."""
        if self._name is not None:
            return
        # What is left is seldom more than a border: not to copy every piece after it saves a tenth of all hashing.
        begins_before = self._rest.startswith(_BLOCK) or _BLOCK in self._rest + piece[: len(_BLOCK)]
        is_joined = begins_before or len(piece) < len(_BLOCK)
        self._rest = self._searched(self._rest + piece if is_joined else piece, is_whole=False)

    def end(self) -> str | None:
        """Return the name once the file is at its end; None where it carries none."""
        if self._name is None:
            self._searched(self._rest, is_whole=True)
        return self._name

    def _searched(self, data: bytes, *, is_whole: bool) -> bytes:
        """Search bytes and return those that may be the beginning of more."""
        start = 0
        while (at := data.find(_BLOCK, start)) >= 0:
            if len(data) - at < _BLOCK_BYTES and not is_whole:
                return data[at:]
            if (found := _NAME_INSIDE.search(data, at, at + _BLOCK_BYTES)) is not None:
                self._name = found[1].decode("ascii")
                return b""
            start = at + len(_BLOCK)
        # The block's first bytes may stand at the end of this piece.
        return data[max(start, len(data) - len(_BLOCK)) :]
