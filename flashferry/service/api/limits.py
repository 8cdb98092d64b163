"""Limits on request bodies: memory per caller and in total; parser of forms with one large file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import anyio
from msgspec import Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request
from starlette.types import Message, Receive

from flashferry.service.access import MOST_BODY_BYTES, MOST_PLAN_BYTES
from flashferry.service.api.problems import BodyRefused
from flashferry.service.errors import BadForm, ServiceError, TooLarge, TooMany, TooSlow, Unavailable

MOST_FIELDS, LONGEST_FIELD = 20, 4096


class FormPieces:
    """Incremental parser of a form with one file. Raises `BadForm` for another content type.

    Attributes:
        fields: Fields parsed so far; those after the file may still be missing.
        file_name: Name of the file once its part started, else None.
        is_ended: Whether the form is complete.
    """

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise _no_form()
        self.fields: dict[str, str] = {}
        self.file_name: str | None = None
        self.is_ended = False
        self._header, self._value, self._disposition = b"", b"", b""
        self._name, self._text, self._is_file = "", bytearray(), False
        self._file = bytearray()
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._part_begins,
                "on_header_field": self._header_field,
                "on_header_value": self._header_value,
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._part_ends,
                "on_end": self._ends,
            },
        )

    def feed(self, piece: bytes) -> bytearray:
        """Parse the next bytes of the body; return the file's bytes among them.

        Raises:
            BadForm: The body is no form, has too many or too long fields, or a second file.
        """
        try:
            self._parser.write(piece)
        except (FormParserError, UnicodeDecodeError):
            raise _no_form() from None
        found, self._file = self._file, bytearray()
        return found

    def _part_begins(self) -> None:
        self._disposition, self._text, self._is_file = b"", bytearray(), False

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header, self._value = b"", b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode()
        self._is_file = b"filename" in options
        if self._is_file:
            if self.file_name is not None:
                raise _no_form()
            self.file_name = options[b"filename"].decode()

    def _data(self, data: bytes, start: int, end: int) -> None:
        (self._file if self._is_file else self._text).extend(data[start:end])
        if len(self._text) > LONGEST_FIELD or len(self.fields) > MOST_FIELDS:
            raise _no_form()

    def _part_ends(self) -> None:
        if not self._is_file:
            self.fields[self._name] = self._text.decode()

    def _ends(self) -> None:
        self.is_ended = True


def _no_form() -> ServiceError:
    return BadForm(
        "expected a form with one file, its fields before it, found what cannot be read as one",
        hint="Load the page again, and send it from there",
    )


MOST_PUBLIC_BYTES = 64 * 2**10
"""Limit for callers who are not signed in."""
BODY_S = 30.0
"""Time for a body, plus a second for each `LEAST_RATE` bytes that arrived."""
LEAST_RATE = 64 * 2**10
"""Bytes per second."""
BYTES_PER_VALUE = 16
"""Limit of values: one per this many bytes of the byte limit; our own plans have some 18 bytes a value."""
_VALUE_SIGNS = {b",": 1, b"[": 1, b"&": 1, b"{": 4}
"""Separators of values, and how many each counts for."""
_PAUSE_S = 10


class Quota(Struct, frozen=True, kw_only=True):
    """Memory limits for the bodies of one kind of caller, in bytes.

    Attributes:
        most_bytes: Limit of all callers together.
        share_bytes: Limit of one caller.
        first_bytes: Guaranteed to each caller, even when the limit of all is reached.
    """

    most_bytes: int
    share_bytes: int
    first_bytes: int = 0


SIGNED_IN = Quota(most_bytes=64 * 2**20, share_bytes=MOST_PLAN_BYTES + 4 * 2**20, first_bytes=MOST_BODY_BYTES)
"""Signed-in users, each counted by name."""
OTHERS = Quota(most_bytes=8 * 2**20, share_bytes=2**20)
"""All others, counted by address. The two quotas are apart, so that neither can block the other."""


class Bodies:
    """Number of body bytes in memory. For one event loop."""

    def __init__(self) -> None:
        self._held: dict[Quota, Counter[str]] = {SIGNED_IN: Counter(), OTHERS: Counter()}
        self._all: Counter[Quota] = Counter()

    def held_bytes(self, quota: Quota) -> int:
        """Return the bytes held under a quota."""
        return self._all[quota]

    def hold(self, quota: Quota, owner: str, size_bytes: int) -> type[ServiceError] | None:
        """Add bytes to a caller's count (negative: subtract); return the error to refuse them with, or None."""
        held = self._held[quota]
        self._all[quota] += size_bytes
        held[owner] += size_bytes
        if held[owner] <= 0:
            del held[owner]
        if held[owner] > quota.share_bytes:
            return TooMany
        is_full = self._all[quota] > quota.most_bytes and held[owner] > quota.first_bytes
        return Unavailable if is_full else None

    def counted(self, request: Request, most_bytes: int, *, quota: Quota, owner: Callable[[], str]) -> CountedBody:
        """Return a request's body, counted as it is read; call its `let_go` after the answer."""
        return CountedBody(self, request, most_bytes, quota=quota, owner=owner)


class CountedBody:
    """The body of one request, counted as it is read. `owner` is called when reading starts."""

    def __init__(
        self, bodies: Bodies, request: Request, most_bytes: int, *, quota: Quota, owner: Callable[[], str]
    ) -> None:
        self._bodies = bodies
        self._receive: Receive = request.receive
        self._announced = request.headers.get("content-length", "")
        self._most_bytes = min(most_bytes, MOST_PUBLIC_BYTES) if quota is OTHERS else most_bytes
        self._quota, self._owner_of, self._owner = quota, owner, ""
        self._size_bytes = self._held_bytes = self._values = 0
        self._began_s: float | None = None
        self._is_whole = False

    async def receive(self) -> Message:
        """Return the next ASGI message of the body.

        Raises:
            BodyRefused: Too large or too many values (413), too slow (408), too much held by the caller (429), or
                no memory left (503).
        """
        if self._is_whole:  # what follows is the disconnect, which has no time limit
            return await self._receive()
        if self._began_s is None:
            self._began_s, self._owner = time.monotonic(), self._owner_of()
            # A number with more digits than the limit is too large.
            if self._announced.isascii() and self._announced.isdigit():
                self._check(int(self._announced[:20]))
                # Reserve the whole size at once: otherwise concurrent bodies could each hold a part and none complete.
                self._hold(int(self._announced[:20]))
        message = await self._next(self._began_s)
        body = message.get("body", b"")
        self._is_whole = not message.get("more_body", False)
        self._size_bytes += len(body)
        self._check(self._size_bytes)
        self._hold(self._size_bytes)
        self._check_values(body)
        return message

    def _hold(self, size_bytes: int) -> None:
        more, self._held_bytes = max(size_bytes - self._held_bytes, 0), max(size_bytes, self._held_bytes)
        if more and (refusal := self._bodies.hold(self._quota, self._owner, more)) is not None:
            raise _refused(refusal)

    async def _next(self, began_s: float) -> Message:
        left_s = began_s + BODY_S + self._size_bytes / LEAST_RATE - time.monotonic()
        with anyio.move_on_after(max(left_s, 0.0)):
            return await self._receive()
        raise BodyRefused(
            TooSlow(
                f"expected the whole body within {BODY_S:.0f} s and a second for each {LEAST_RATE:,} bytes of it, "
                f"found {self._size_bytes:,} bytes by then",
                hint="Send it without pauses",
            )
        )

    def let_go(self) -> None:
        """Subtract the body from the count. Idempotent."""
        self._bodies.hold(self._quota, self._owner, -self._held_bytes)
        self._held_bytes = 0

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._most_bytes:
            raise BodyRefused(
                TooLarge(
                    f"expected a body of at most {self._most_bytes:,} bytes, found a larger one",
                    hint="Send less at once",
                )
            )

    def _check_values(self, body: bytes) -> None:
        most = self._most_bytes // BYTES_PER_VALUE
        self._values += sum(body.count(sign) * count for sign, count in _VALUE_SIGNS.items())
        if self._values > most:
            raise BodyRefused(
                TooLarge(
                    f"expected a body of at most {most:,} values, found more",
                    hint="Send fewer at once",
                )
            )


def _refused(kind: type[ServiceError]) -> BodyRefused:
    origin = "your other" if kind is TooMany else "other"
    sentence = f"expected room for this request's body, found the service busy with {origin} bodies"
    return BodyRefused(kind(sentence, hint="Send it again in a moment", retry_after_s=_PAUSE_S))
