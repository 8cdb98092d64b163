"""What a client asks for, read from the head of its request: bytes in, a request or a refusal out. No I/O.

Facts
-----

- IOS sends HTTP/1.1 with `Host`, `User-Agent: cisco-IOS`, `Authorization: Basic` in its very first request, `Date` and
  `Connection: close`; no range, no body, no request for compression (packets of an old release).
- h11 bounds what it keeps of a head that is not complete yet, and not one that comes in one piece. So this bounds what
  h11 is given.
- One connection carries one request. What comes behind its head is never looked at, so no head can be hidden in another
  one's body.
"""

import base64
import binascii
from dataclasses import dataclass, field
from http import HTTPStatus

import h11

MOST_HEAD_BYTES = 8192
"""Request line and headers, with their ends of line."""

CONTROL_HEADER = "Flashferry-Congestion-Control"
"""In a request: what a depot's probe wants to be sent with; in an answer: that it is."""
CONTROLS = ("bbr", "cubic")

_MOST_AGENT_LETTERS = 100
_ONCE = (b"authorization", b"range", b"if-range", b"content-length", b"host")
_LONGEST_CREDENTIALS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """User and password as the client sent them."""

    username: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The head of a request.

    Attributes:
        method: As it was sent; methods have capital letters.
        target: The same, in ASCII.
        login: From its `Authorization`; None without one.
        byte_range: Its `Range`; empty without one.
        if_range: Its `If-Range`; empty without one.
        user_agent: What the client calls itself, in letters that can be shown; empty where it says nothing.
        congestion_control: One of `CONTROLS` that a depot's probe asks for; empty: none is asked for.
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
        """The request in a line for the log: a target that is no plain name may hold anything, and is not shown."""
        return f"{self.method} {self.target}" if plain_name(self.target) else f"{self.method} ***"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadHead:
    """Why a head is refused: the status to answer with, and a word for the log."""

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
        """How many bytes may still be taken; one more than a head may have, so that too long a one is known."""
        return MOST_HEAD_BYTES + 1 - self._taken_bytes

    def take(self, data: bytes) -> Request | BadHead | None:
        """Take some more bytes, at most `wants_bytes`; return the request once its head is complete, else None."""
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
    """Return the name in a target of the form `/name` or `//name`; empty for any other form: nothing is decoded."""
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
    """Return the congestion control that is asked for; empty where it is none that may be."""
    return next((name for name in CONTROLS if value.strip().lower() == name.encode()), "")


def _login_of(value: bytes) -> Login | None:
    """Return the credentials of `Basic ...` (RFC 7617); None where it is anything else."""
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
