"""Users and tokens: signed, with an expiry, shaped as JSON Web Tokens (RFC 7519), worth nothing outside of the lab."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flashferry.lab.cml.texts import refused


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A local account of the stand-in.

    Attributes:
        username: The name to log in by.
        password: In the clear, as everything in a lab.
        is_admin: Sees and ends the labs of all.
        user_id: The controller's id of the account.
    """

    username: str
    password: str = field(repr=False)
    is_admin: bool = True
    user_id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Access:
    """Who may come in, and with what.

    Args:
        users: The accounts.
        clock: Seconds, of any beginning.
        lifetime_s: How long tokens live, asked at each use: a switch may change it.
    """

    def __init__(self, users: Iterable[User], *, clock: Callable[[], float], lifetime_s: Callable[[], float]) -> None:
        self._users = {user.username: user for user in users}
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._key = secrets.token_bytes(32)
        self._revoked: set[str] = set()

    @property
    def users(self) -> tuple[User, ...]:
        """All accounts."""
        return tuple(self._users.values())

    def token(self, username: object, password: object) -> str:
        """Return a new token.

        Raises Refused: 403, as the real one does, not 401: there is no such account, or the password is wrong.
        """
        user = self._users.get(str(username))
        if user is None or not hmac.compare_digest(user.password, str(password)):
            raise refused("wrong_login")
        return self._signed({"sub": user.username, "iat": self._clock(), "jti": secrets.token_hex(8)})

    def user(self, header: str | None) -> User:
        """Return whose token an `Authorization` header holds.

        Raises Refused: 401: there is none, it is not ours, it was revoked, or its time is over.
        """
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise refused("no_token")
        head, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(head), signature) or token in self._revoked:
            raise refused("bad_token")
        claims = _decoded(head.partition(".")[2])
        if self._clock() - claims["iat"] >= self._lifetime_s():
            raise refused("bad_token")
        return self._users[claims["sub"]]

    def revoke(self, header: str | None) -> None:
        """End the token of an `Authorization` header."""
        self._revoked.add((header or "").partition(" ")[2])

    def _signed(self, claims: dict[str, Any]) -> str:
        head = f"{_encoded({'alg': 'HS256', 'typ': 'JWT'})}.{_encoded(claims)}"
        return f"{head}.{self._signature(head)}"

    def _signature(self, head: str) -> str:
        return _base64(hmac.new(self._key, head.encode(), hashlib.sha256).digest())


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _decoded(part: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return value


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
