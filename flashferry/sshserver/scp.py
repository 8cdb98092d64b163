"""Parsing and building of SCP and SFTP messages. No I/O. "Sink" is SCP's name for the receiving side."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

MOST_ANSWER_BYTES = 2048
"""Longest reply of a sink."""

_OK, _WARNING, _FATAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Answer:
    """Reply of a sink: success, or its error message."""

    is_ok: bool
    text: str = ""


class Answers:
    """Splits a sink's output, received in pieces, into replies."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> list[Answer]:
        """Add received bytes, and return the replies that are complete now.

        Raises:
            ValueError: The bytes are no reply of a sink.
        """
        self._left += data
        found = []
        while self._left and (answer := self._next()) is not None:
            found.append(answer)
        if len(self._left) > MOST_ANSWER_BYTES:
            raise ValueError("an answer without an end")
        return found

    def _next(self) -> Answer | None:
        kind = self._left[0]
        if kind == _OK:
            del self._left[0]
            return Answer(is_ok=True)
        if kind not in (_WARNING, _FATAL):
            raise ValueError(f"expected an answer of SCP, found byte 0x{kind:02x}")
        text, end, _ = self._left.partition(b"\n")
        if not end:
            return None
        del self._left[: len(text) + 1]
        return Answer(is_ok=False, text=readable(bytes(text[1:])))


def requested_name(command: str) -> str | None:
    """Return the base name of the file that a command requests; None if it is no `scp -f PATH`.

    Args:
        command: As the client sent it. Any flags are allowed except those that send a file to us.
    """
    program, _, rest = command.strip().partition(" ")
    if program.rsplit("/", 1)[-1] != "scp":
        return None
    flags, rest = "", rest.lstrip()
    while rest.startswith("-"):
        flag, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if flag == "--":
            break
        flags += flag[1:]
    if "f" not in flags or "t" in flags:
        return None
    return _unquoted(rest).rsplit("/", 1)[-1] or None


def _unquoted(path: str) -> str:
    for quote in ("'", '"'):
        if len(path) > 1 and path[0] == path[-1] == quote:
            return path[1:-1]
    return path


def header(size_bytes: int, name: str) -> bytes:
    """Return the line that precedes a file."""
    return f"C0644 {size_bytes} {name}\n".encode()


TRAILER = b"\0"
"""Byte that follows a file: success of the sender."""


def complaint(text: str) -> bytes:
    """Return an SCP error message."""
    return b"\x01scp: " + text.encode() + b"\n"


def readable(text: bytes, most: int = 200) -> str:
    """Return a client's text as one printable line of at most `most` characters."""
    decoded = text.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in decoded).strip()[:most]


MOST_PACKET_BYTES = 34_000
"""Longest request that is accepted. Requests here have a path but no data; with data OpenSSH allows 256 kB."""

MOST_READ_BYTES = 256 * 1024
"""Most bytes sent for one read request; the client requests the rest again."""

_NUMBER = struct.Struct(">I")

_READ = struct.Struct(">QI")

_LEAST_BODY = 5


class Kind(IntEnum):
    """Types of SFTP requests, section 3 of the draft."""

    INIT = 1
    OPEN = 3
    CLOSE = 4
    READ = 5
    LSTAT = 7
    FSTAT = 8
    OPENDIR = 11
    READDIR = 12
    REALPATH = 16
    STAT = 17
    READLINK = 19


WRITING = frozenset({6, 9, 10, 13, 14, 15, 18, 20})
"""Request types that would change something: write, setstat, fsetstat, remove, mkdir, rmdir, rename, symlink."""


class Status(IntEnum):
    """Status codes, section 7 of the draft."""

    OK = 0
    EOF = 1
    NO_SUCH_FILE = 2
    PERMISSION_DENIED = 3
    FAILURE = 4
    BAD_MESSAGE = 5
    UNSUPPORTED = 8


READ_FLAG = 1
"""Flag of an open request for reading; all other flags are for writing."""


@dataclass(frozen=True, slots=True)
class Request:
    """One SFTP request.

    Attributes:
        kind: Its type, known or not.
        number: Request id, repeated in the response; for INIT the client's version.
        text: Path or handle, if the type has one.
        offset: Offset of a read, in bytes.
        length: Number of bytes to read, or the flags of an open.
    """

    kind: int
    number: int
    text: bytes = b""
    offset: int = 0
    length: int = 0


_WITH_TEXT = frozenset(Kind) - {Kind.INIT}


class Requests:
    """Splits a client's input, received in pieces, into requests."""

    def __init__(self) -> None:
        self._left = bytearray()
        self._at = 0

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes fed and not yet returned as requests."""
        return len(self._left) - self._at

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._at:
            del self._left[: self._at]
            self._at = 0
        self._left += data

    def next(self) -> Request | None:
        """Return the next request; None while it is incomplete.

        Raises:
            ValueError: The input is no request, or one longer than `MOST_PACKET_BYTES`.
        """
        if self.waiting_bytes < _NUMBER.size:
            return None
        (length,) = _NUMBER.unpack_from(self._left, self._at)
        if not _LEAST_BODY <= length <= MOST_PACKET_BYTES:
            raise ValueError(f"expected a request of {_LEAST_BODY} to {MOST_PACKET_BYTES} bytes, found {length}")
        if self.waiting_bytes < _NUMBER.size + length:
            return None
        begin = self._at + _NUMBER.size
        self._at = begin + length
        return _request(bytes(self._left[begin : self._at]))


def _request(body: bytes) -> Request:
    kind, number = body[0], _NUMBER.unpack_from(body, 1)[0]
    if kind not in _WITH_TEXT:
        return Request(kind, number)
    try:
        end = 9 + _NUMBER.unpack_from(body, 5)[0]
        text = body[9:end]
        if len(body) < end:
            raise ValueError(f"expected a text of {end - 9} bytes, found {len(text)}")
        if kind == Kind.READ:
            offset, length = _READ.unpack_from(body, end)
            return Request(kind, number, text, offset, length)
        flags = _NUMBER.unpack_from(body, end)[0] if kind == Kind.OPEN else 0
    except struct.error as error:
        raise ValueError(f"a request of kind {kind} that is too short") from error
    return Request(kind, number, text, 0, flags)


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a file or folder: size in bytes and mode."""

    size_bytes: int
    mode: int

    def encoded(self) -> bytes:
        """Return the encoded attributes, size and permissions (draft, section 5)."""
        return struct.pack(">IQI", 0x1 | 0x4, self.size_bytes, self.mode)


FOLDER = Attributes(0, 0o040555)
"""Attributes of the root folder, the only one."""


def image_attributes(size_bytes: int) -> Attributes:
    """Return the attributes of an image."""
    return Attributes(size_bytes, 0o100444)


def _packet(kind: int, number: int, rest: bytes) -> bytes:
    return struct.pack(">IBI", 5 + len(rest), kind, number) + rest


def _string(text: bytes) -> bytes:
    return _NUMBER.pack(len(text)) + text


def version() -> bytes:
    """Return the response to INIT; no extensions are offered."""
    return struct.pack(">IBI", 5, 2, 3)


def status(number: int, code: Status, text: str = "") -> bytes:
    """Return a response with a status."""
    return _packet(101, number, _NUMBER.pack(code) + _string(text.encode()) + _string(b""))


def handle(number: int, name: bytes) -> bytes:
    """Return a response with a handle."""
    return _packet(102, number, _string(name))


def data_header(number: int, length: int) -> bytes:
    """Return the header of the response to a read; the data follow."""
    return struct.pack(">IBII", 9 + length, 103, number, length)


def name(number: int, path: bytes) -> bytes:
    """Return a response with one name without attributes."""
    return _packet(104, number, _NUMBER.pack(1) + _string(path) + _string(path) + _NUMBER.pack(0))


def attributes(number: int, of: Attributes) -> bytes:
    """Return a response with the attributes of a file."""
    return _packet(105, number, of.encoded())


def real_path(path: bytes) -> bytes:
    """Return a path as an absolute one, without `.`, `..` and double slashes."""
    words: list[bytes] = []
    for word in path.split(b"/"):
        if word == b"..":
            words[-1:] = []
        elif word not in (b"", b"."):
            words.append(word)
    return b"/" + b"/".join(words)
