"""Bodies are kept in memory, so they are counted as they come: each by itself, and all that are held at once.

Whatever their sender calls them: a route that takes JSON reads a body of any content type to its end before it looks.
What goes to the disk as it comes, an image say, is not counted here; its route bounds it.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.types import Message, Receive

from flashferry.service.problems import BodyRefused

MOST_PUBLIC_BYTES = 64 * 2**10
"""So much is taken of who is not signed in."""
MOST_HELD_BYTES = 64 * 2**20
"""So much is held of all requests of signed-in people together."""
MOST_HELD_PUBLIC_BYTES = 8 * 2**20
"""So much is held of all other requests together; the two counts are apart, so that neither keeps the other out."""


class Bodies:
    """What is held of bodies at this moment; on one event loop.

    Attributes:
        held_bytes: Of all requests of signed-in people that are not answered yet.
        held_public_bytes: Of all others.
    """

    def __init__(self) -> None:
        self.held_bytes = self.held_public_bytes = 0

    def hold(self, size_bytes: int, *, is_public: bool) -> bool:
        """Count more bytes, or fewer where it is below zero; return whether there is room for all that are held."""
        if is_public:
            self.held_public_bytes += size_bytes
            return self.held_public_bytes <= MOST_HELD_PUBLIC_BYTES
        self.held_bytes += size_bytes
        return self.held_bytes <= MOST_HELD_BYTES

    def counted(self, request: Request, most_bytes: int, *, is_public: bool) -> CountedBody:
        """Return the body of a request, which is to be let go once it is answered."""
        return CountedBody(self, request, most_bytes, is_public=is_public)


class CountedBody:
    """One request's body, counted as it is read.

    Args:
        bodies: Where it counts.
        request: The request.
        most_bytes: The most that it may have.
        is_public: Whether it is of who needs not be signed in.
    """

    def __init__(self, bodies: Bodies, request: Request, most_bytes: int, *, is_public: bool) -> None:
        self._bodies = bodies
        self._receive: Receive = request.receive
        self._announced = request.headers.get("content-length", "")
        self._most_bytes = min(most_bytes, MOST_PUBLIC_BYTES) if is_public else most_bytes
        self._is_public = is_public
        self._size_bytes = 0

    async def receive(self) -> Message:
        """Return the next piece.

        Raises:
            BodyRefused: 413 where it is larger than it may be, also where it only says so; 503 where so much is held of
                others that it has no room.
        """
        # One digit more than the limit has is enough to know.
        if self._announced.isascii() and self._announced.isdigit():
            self._check(int(self._announced[:20]))
        message = await self._receive()
        size_bytes = len(message.get("body", b""))
        self._size_bytes += size_bytes
        has_room = self._bodies.hold(size_bytes, is_public=self._is_public)
        self._check(self._size_bytes)
        if self._size_bytes and not has_room:
            raise BodyRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "expected room for this request's body, found the service busy with the bodies of others",
                hint="Send it again in a moment",
            )
        return message

    def let_go(self) -> None:
        """Count it no more."""
        self._bodies.hold(-self._size_bytes, is_public=self._is_public)
        self._size_bytes = 0

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._most_bytes:
            raise BodyRefused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"expected a body of at most {self._most_bytes:,} bytes, found a larger one",
                hint="Send less at once",
            )
