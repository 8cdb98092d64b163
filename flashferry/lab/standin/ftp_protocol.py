"""The FTP client's side of RFC 959 without sockets: replies, and the addresses in them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PASV = re.compile(r"(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)")
_EPSV = re.compile(r"\(\|\|\|(\d{1,5})\|\)")
_SIZE = re.compile(r"\((\d+) bytes")
_LONGEST_LINE_BYTES = 8192


class FtpProtocolError(Exception):
    """The server said something that is not FTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole reply."""

    code: int
    text: str

    @property
    def is_preliminary(self) -> bool:
        """1yz: something is starting."""
        return 100 <= self.code < 200

    @property
    def is_completion(self) -> bool:
        """2yz: done."""
        return 200 <= self.code < 300


class ReplyReader:
    """Turns bytes of the control connection into replies (RFC 959 4.2)."""

    def __init__(self) -> None:
        self._buffer = b""
        self._lines: list[str] = []

    def feed(self, data: bytes) -> list[Reply]:
        """Take bytes and return the replies that are now whole.

        Raises FtpProtocolError: a line has no code, or is too long.
        """
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > _LONGEST_LINE_BYTES:
            raise FtpProtocolError("a reply line is too long")
        return [reply for line in lines if (reply := self._line(line.decode("latin-1").rstrip("\r")))]

    def _line(self, line: str) -> Reply | None:
        if not self._lines and not re.match(r"[1-5]\d\d[ -]", line + " "):
            raise FtpProtocolError("a reply does not begin with a code")
        self._lines.append(line)
        code = self._lines[0][:3]
        if not line.startswith(code) or line[3:4] == "-":
            return None
        text = "\n".join(self._lines)
        self._lines = []
        return Reply(code=int(code), text=text[4:])


def passive_address(text: str) -> tuple[str, int]:
    """Return host and port of a 227 reply. Raises FtpProtocolError: there is no address in it."""
    found = _PASV.search(text)
    numbers = [int(each) for each in found.groups()] if found else []
    if len(numbers) != 6 or max(numbers) > 255:
        raise FtpProtocolError("a 227 reply without an address")
    return ".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5]


def extended_passive_port(text: str) -> int:
    """Return the port of a 229 reply (RFC 2428). Raises FtpProtocolError: there is no port in it."""
    found = _EPSV.search(text)
    if found is None or not 0 < int(found[1]) < 65536:
        raise FtpProtocolError("a 229 reply without a port")
    return int(found[1])


def announced_size(text: str) -> int | None:
    """Return the size that a 150 reply names, if it does (RFC 959 leaves its text free)."""
    found = _SIZE.search(text)
    return int(found[1]) if found else None
