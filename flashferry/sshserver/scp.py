"""The SCP and SFTP dialogues."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

MOST_ANSWER_BYTES = 2048

"""A sink whose answer is longer is no sink."""

_OK, _WARNING, _FATAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sink answered: that all is well, or in its own words why not."""

    is_ok: bool
    text: str = ""


class Answers:
    """Takes a sink's answers apart, however they are cut."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> list[Answer]:
        """Take bytes in and return the answers that are whole now.

        Raises:
            ValueError: These are no answers of a sink.
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
    """Return the base name that a command asks to be sent; None if it is no `scp -f PATH`.

    Args:
        command: As the client sent it. Flags before the path may be any but those that send to us.
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
    """Return the line before a file."""
    return f"C0644 {size_bytes} {name}\n".encode()


TRAILER = b"\0"

"""What stands behind a file's last byte: we have read all of it."""


def complaint(text: str) -> bytes:
    """Return an error for the client's user."""
    return b"\x01scp: " + text.encode() + b"\n"


def readable(text: bytes, most: int = 200) -> str:
    """Return a stranger's text on one line of so many letters at most, without what a terminal would obey."""
    decoded = text.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in decoded).strip()[:most]


MOST_PACKET_BYTES = 34_000

"""A request of ours holds a name and no data; OpenSSH's longest packet is 256 kB, with data."""

MOST_READ_BYTES = 256 * 1024

"""More is not sent for one request; a client asks again for the rest."""

_NUMBER = struct.Struct(">I")

_READ = struct.Struct(">QI")

_LEAST_BODY = 5


class Kind(IntEnum):
    """Kinds of requests, section 3 of the draft."""

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

"""Kinds that would change something: write, setstat, fsetstat, remove, mkdir, rmdir, rename, symlink."""


class Status(IntEnum):
    """What became of a request, section 7 of the draft."""

    OK = 0
    EOF = 1
    NO_SUCH_FILE = 2
    PERMISSION_DENIED = 3
    FAILURE = 4
    BAD_MESSAGE = 5
    UNSUPPORTED = 8


READ_FLAG = 1

"""Of an open request: for reading. All other flags write."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        kind: Its kind, known or not.
        number: What the answer carries; of INIT the client's version.
        text: Path or handle, of those that have one.
        offset: Where to read.
        length: How much to read, or the flags of an open.
    """

    kind: int
    number: int
    text: bytes = b""
    offset: int = 0
    length: int = 0


_WITH_TEXT = frozenset(Kind) - {Kind.INIT}


class Requests:
    """Takes a client's requests apart, however they are cut."""

    def __init__(self) -> None:
        self._left = bytearray()
        self._at = 0

    @property
    def waiting_bytes(self) -> int:
        """What was fed and not asked for yet."""
        return len(self._left) - self._at

    def feed(self, data: bytes) -> None:
        """Take bytes in."""
        if self._at:
            del self._left[: self._at]
            self._at = 0
        self._left += data

    def next(self) -> Request | None:
        """Return the next request; None while it is not whole.

        Raises:
            ValueError: This is no request, or one that is longer than any of ours.
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
        """Return it as in the draft's section 5, with size and permissions."""
        return struct.pack(">IQI", 0x1 | 0x4, self.size_bytes, self.mode)


FOLDER = Attributes(0, 0o040555)

"""The one folder that there is."""


def image_attributes(size_bytes: int) -> Attributes:
    """Return the attributes of an image."""
    return Attributes(size_bytes, 0o100444)


def _packet(kind: int, number: int, rest: bytes) -> bytes:
    return struct.pack(">IBI", 5 + len(rest), kind, number) + rest


def _string(text: bytes) -> bytes:
    return _NUMBER.pack(len(text)) + text


def version() -> bytes:
    """Answer the first request; no extensions are offered."""
    return struct.pack(">IBI", 5, 2, 3)


def status(number: int, code: Status, text: str = "") -> bytes:
    """Answer by what became of a request."""
    return _packet(101, number, _NUMBER.pack(code) + _string(text.encode()) + _string(b""))


def handle(number: int, name: bytes) -> bytes:
    """Answer by a handle."""
    return _packet(102, number, _string(name))


def data_header(number: int, length: int) -> bytes:
    """Return what stands before the data that answer a read."""
    return struct.pack(">IBII", 9 + length, 103, number, length)


def name(number: int, path: bytes) -> bytes:
    """Answer by one name without attributes."""
    return _packet(104, number, _NUMBER.pack(1) + _string(path) + _string(path) + _NUMBER.pack(0))


def attributes(number: int, of: Attributes) -> bytes:
    """Answer with the attributes of a file."""
    return _packet(105, number, of.encoded())


def real_path(path: bytes) -> bytes:
    """Return a path from the one folder on, without `.`, `..` and double slashes."""
    words: list[bytes] = []
    for word in path.split(b"/"):
        if word == b"..":
            words[-1:] = []
        elif word not in (b"", b"."):
            words.append(word)
    return b"/" + b"/".join(words)
