"""The FTP client's side of RFC 959 without sockets: replies, the PASV address, and the URL of `copy`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DEFAULT_PORTS = {"ftp": 21, "http": 80, "https": 443, "rcp": 514, "scp": 22, "sftp": 22, "tftp": 69}
"""The protocols that `copy` knows, and where their servers listen."""
_URL = re.compile(
    rf"(?P<scheme>{'|'.join(DEFAULT_PORTS)}):(?://(?:(?P<user>[^:@/]*)(?::(?P<word>[^@/]*))?@)?(?P<host>[^:/]*)(?::(?P<port>\d*))?)?(?P<path>/.*)?",
    re.IGNORECASE,
)
_PASV = re.compile(r"(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)")
_EPSV = re.compile(r"\(\|\|\|(\d{1,5})\|\)")
_SIZE = re.compile(r"\((\d+) bytes")
_LONGEST_LINE_BYTES = 8192


class FtpProtocolError(Exception):
    """The server said something that is not FTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FtpUrl:
    """What `copy ftp://user:password@host:port/path` names; the same of the other protocols, by ``scheme``.

    ``port_is_open``: a colon without a port stands behind the host; the device then asks for the host.
    """

    host: str
    port: int
    path: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    port_is_open: bool = False
    scheme: str = "ftp"

    @property
    def shown(self) -> str:
        """How the device prints it: credentials masked, only where the URL has them (captures)."""
        mask = "*:*@" if self.user is not None else ""
        port = f":{self.port}" if self.port != DEFAULT_PORTS[self.scheme] else ""
        return f"{self.scheme}://{mask}{self.host}{port}/{self.path}"

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def parse_url(text: str) -> FtpUrl | None:
    """Read a URL; None when it is not one of a server. ``//`` behind the host makes the path absolute."""
    found = _URL.fullmatch(text)
    if found is None:
        return None
    return FtpUrl(
        host=found["host"] or "",
        port=int(found["port"] or DEFAULT_PORTS[found["scheme"].lower()]),
        path=(found["path"] or "")[1:],
        user=found["user"],
        password=found["word"],
        port_is_open=found["port"] == "",
        scheme=found["scheme"].lower(),
    )


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

        Raises:
            FtpProtocolError: A line has no code, or is too long.
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
    """Return host and port of a 227 reply.

    Raises:
        FtpProtocolError: There is no address in it.
    """
    found = _PASV.search(text)
    numbers = [int(each) for each in found.groups()] if found else []
    if len(numbers) != 6 or max(numbers) > 255:
        raise FtpProtocolError("a 227 reply without an address")
    return ".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5]


def extended_passive_port(text: str) -> int:
    """Return the port of a 229 reply (RFC 2428).

    Raises:
        FtpProtocolError: There is no port in it.
    """
    found = _EPSV.search(text)
    if found is None or not 0 < int(found[1]) < 65536:
        raise FtpProtocolError("a 229 reply without a port")
    return int(found[1])


def announced_size(text: str) -> int | None:
    """Return the size that a 150 reply names, if it does (RFC 959 leaves its text free)."""
    found = _SIZE.search(text)
    return int(found[1]) if found else None
