"""Heads of HTTP requests and responses, and byte ranges."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import h11
from msgspec import Struct

_ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.IGNORECASE | re.ASCII)

_MOST_DIGITS = 18
"""Most digits of a position; one with more is after the end of every image."""


class Part(Struct, frozen=True, kw_only=True):
    """Byte range of an image, from `first_byte` to before `end_byte`."""

    first_byte: int
    end_byte: int

    @property
    def size_bytes(self) -> int:
        """Its length in bytes."""
        return self.end_byte - self.first_byte


class NoSuchPart(Exception):
    """The requested range has no byte of the image."""


def part_of(byte_range: str, if_range: str, *, size_bytes: int, tag: str) -> Part | None:
    """Return the byte range of a request; None for the whole image.

    Args:
        byte_range: Its `Range` header, or empty. A range of unknown form is ignored.
        if_range: Its `If-Range` header, or empty. The range is ignored if this is not the image's entity tag.
        size_bytes: Size of the image, > 0.
        tag: The image's entity tag.

    Raises:
        NoSuchPart: The range is after the end of the image.
    """
    found = _ONE_RANGE.fullmatch(byte_range.strip())
    if found is None or (if_range and if_range.strip() != tag):
        return None
    first, last = found.groups()
    if not first:
        return _last_bytes(last, size_bytes)
    begin, end = _position(first), _position(last) + 1 if last else size_bytes
    if last and end <= begin:
        return None
    if begin >= size_bytes:
        raise NoSuchPart
    return Part(first_byte=begin, end_byte=min(end, size_bytes))


def _position(digits: str) -> int:
    """Parse a position; a large one is bounded, for a client may send thousands of digits (RFC 9110 14.1.2)."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _last_bytes(count: str, size_bytes: int) -> Part | None:
    if not count:
        return None
    if not _position(count):
        raise NoSuchPart
    return Part(first_byte=max(0, size_bytes - _position(count)), end_byte=size_bytes)


MOST_HEAD_BYTES = 8192
"""Largest size of request line and headers, line ends included."""

CONTROL_HEADER = "Flashferry-Congestion-Control"
"""Header with the congestion control that a depot's probe requests, and in the response the one that is used."""

CONTROLS = ("bbr", "cubic")

_MOST_AGENT_LETTERS = 100

_ONCE = (b"authorization", b"range", b"if-range", b"content-length", b"host")

_LONGEST_CREDENTIALS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """User name and password that the client sent."""

    username: str = field(repr=False)
    password: str = field(repr=False)


class Request(Struct, frozen=True, kw_only=True):
    """The head of a request.

    Attributes:
        method: As sent, such as `GET`.
        target: As sent, in ASCII.
        login: From the header `Authorization`; None without one.
        byte_range: Header `Range`; empty without one.
        if_range: Header `If-Range`; empty without one.
        user_agent: Header `User-Agent` with printable characters only; empty without one.
        congestion_control: One of `CONTROLS` that a depot's probe requests; empty if none.
    """

    method: str
    target: str
    login: Login | None = None
    byte_range: str = ""
    if_range: str = ""
    user_agent: str = ""
    congestion_control: str = ""

    @property
    def line(self) -> str:
        """The request in a line for the log; a target that is no plain name is masked."""
        return f"{self.method} {self.target}" if plain_name(self.target) else f"{self.method} ***"


class BadHead(Struct, frozen=True, kw_only=True):
    """Rejected head: the status of the response, and the reason for the log."""

    status: HTTPStatus
    reason: str


class HeadReader:
    """Reads the head of one request."""

    __slots__ = ("_connection", "_taken_bytes")

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)
        self._taken_bytes = 0

    @property
    def wants_bytes(self) -> int:
        """Number of bytes that may still be read: one more than the limit, to detect a head that is too long."""
        return MOST_HEAD_BYTES + 1 - self._taken_bytes

    def take(self, data: bytes) -> Request | BadHead | None:
        """Add received bytes, at most `wants_bytes`; return the request once its head is complete, else None."""
        self._taken_bytes += len(data)
        try:
            self._connection.receive_data(data)
            event = self._connection.next_event()
        except h11.RemoteProtocolError as error:
            is_too_long = error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            return _TOO_LONG if is_too_long else BadHead(status=HTTPStatus.BAD_REQUEST, reason="not understood")
        if isinstance(event, h11.Request):
            rest = self._connection.trailing_data[0]
            return _TOO_LONG if self._taken_bytes - len(rest) > MOST_HEAD_BYTES else _request_of(event)
        return _TOO_LONG if self._taken_bytes > MOST_HEAD_BYTES else None


_TOO_LONG = BadHead(status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, reason="more than 8 kB of head")


def plain_name(target: str) -> str:
    """Return the name in a target of the form `/name` or `//name`; empty for any other form. Nothing is decoded."""
    name = target.lstrip("/")
    plain = all(letter.isalnum() or letter in "._+-" for letter in name)
    return name if target.startswith("/") and name.isascii() and plain and name not in (".", "..") else ""


def _request_of(event: h11.Request) -> Request | BadHead:
    if event.http_version not in (b"1.0", b"1.1"):
        return BadHead(status=HTTPStatus.BAD_REQUEST, reason="another version")
    found: dict[bytes, bytes] = {}
    for name, value in event.headers:
        if name in _ONCE and name in found:
            return BadHead(status=HTTPStatus.BAD_REQUEST, reason=f"{name.decode('ascii')} twice")
        found.setdefault(name, value)
    if b"transfer-encoding" in found or found.get(b"content-length", b"0").strip(b"0"):
        return BadHead(status=HTTPStatus.BAD_REQUEST, reason="a body")
    login: Login | None = None
    if b"authorization" in found:
        login = _login_of(found[b"authorization"])
        if login is None:
            return BadHead(status=HTTPStatus.BAD_REQUEST, reason="credentials not understood")
    return Request(
        method=event.method.decode("ascii"),
        target=event.target.decode("ascii"),
        login=login,
        byte_range=_text(found.get(b"range", b"")),
        if_range=_text(found.get(b"if-range", b"")),
        user_agent=_text(found.get(b"user-agent", b""))[:_MOST_AGENT_LETTERS],
        congestion_control=_control(found.get(CONTROL_HEADER.lower().encode(), b"")),
    )


def _control(value: bytes) -> str:
    """Return the requested congestion control if it is one of `CONTROLS`, else an empty text."""
    return next((name for name in CONTROLS if value.strip().lower() == name.encode()), "")


def _login_of(value: bytes) -> Login | None:
    """Return the credentials of an `Authorization: Basic ...` (RFC 7617); None for any other value."""
    scheme, _, token = value.partition(b" ")
    token = token.strip(b" ")
    if scheme.lower() != b"basic" or len(token) > _LONGEST_CREDENTIALS:
        return None
    try:
        plain = base64.b64decode(token, validate=True).decode("utf-8", "surrogateescape")
    except binascii.Error:
        return None
    username, colon, password = plain.partition(":")
    return Login(username=username, password=password) if colon else None


def _text(value: bytes) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in value.decode("latin-1"))


REALM = "flashferry"

_MORE: Mapping[HTTPStatus, Mapping[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": f'Basic realm="{REALM}"'},
    HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": "GET, HEAD"},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "60"},
}


def refusal(status: HTTPStatus, *, with_text: bool = True, size_bytes: int | None = None) -> bytes:
    """Return a complete error response.

    Args:
        status: 400 or above.
        with_text: Whether it has a body with the status as text; False for `HEAD`.
        size_bytes: Size of the image, for status 416.
    """
    text = f"{status.phrase}\n".encode("ascii")
    fields = {"Content-Type": "text/plain", "Content-Length": str(len(text)), **_MORE.get(status, {})}
    if size_bytes is not None:
        fields["Content-Range"] = f"bytes */{size_bytes}"
    return _head(status, fields) + (text if with_text else b"")


def image_head(tag: str, size_bytes: int, part: Part | None, control: str = "") -> bytes:
    """Return the head of a response with an image, or a part of one, as body.

    Args:
        tag: The image's entity tag.
        size_bytes: Its size.
        part: The byte range; None for the whole image.
        control: Congestion control that was requested and set; empty if none.
    """
    fields = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(size_bytes if part is None else part.size_bytes),
        "Accept-Ranges": "bytes",
        "ETag": tag,
    } | ({CONTROL_HEADER: control} if control else {})
    if part is None:
        return _head(HTTPStatus.OK, fields)
    fields["Content-Range"] = f"bytes {part.first_byte}-{part.end_byte - 1}/{size_bytes}"
    return _head(HTTPStatus.PARTIAL_CONTENT, fields)


def _head(status: HTTPStatus, fields: Mapping[str, str]) -> bytes:
    # No proxy may cache or change the image.
    whole = {**fields, "Cache-Control": "no-store, no-transform", "Connection": "close"}
    lines = (f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in whole.items()))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
