"""The name that an image file carries in itself, whatever somebody called it; `flashferry.images.fit` says where.

Found while the file is hashed, so that nobody reads a gigabyte twice. Pure.
"""

from __future__ import annotations

import re

_BLOCK = b"CW_BEGIN"
_BLOCK_BYTES = 4096
_NAME_INSIDE = re.compile(rb"CW_IMAGE=?\$([\w.-]{3,120})\$")


class NameFinder:
    """Looks for the name in a file that comes piece by piece."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the file."""
        if self._name is not None:
            return
        # What is left is seldom more than a border: not to copy every piece behind it saves a tenth of all hashing.
        begins_before = self._rest.startswith(_BLOCK) or _BLOCK in self._rest + piece[: len(_BLOCK)]
        is_joined = begins_before or len(piece) < len(_BLOCK)
        self._rest = self._searched(self._rest + piece if is_joined else piece, is_whole=False)

    def end(self) -> str | None:
        """Return the name once the file is at its end; None where it carries none."""
        if self._name is None:
            self._searched(self._rest, is_whole=True)
        return self._name

    def _searched(self, data: bytes, *, is_whole: bool) -> bytes:
        """Look through bytes and return those that may be the beginning of more."""
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
