"""Sessions: begun at sign-in under a new id, ended at sign-out; the cookie that carries the id.

Facts
-----
* A cookie whose name begins with `__Host-` is taken by browsers only with `Secure`, with `Path=/` and without `Domain`
  (RFC 6265bis 4.1.3.2): no neighbouring host can put its own in its place. Without TLS there is no such cookie.
* An id that was there before a sign-in is never used after it: whoever planted it would be signed in, too.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from dataclasses import dataclass, field
from datetime import timedelta

from starlette.responses import Response

from flashferry.core.outside import keep_secret
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import moment
from flashferry.store.service.sessions import (
    SessionRow,
    end_session,
    forget_ended_sessions,
    insert_session,
)

_ID_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session just begun: what the browser is to be given.

    Attributes:
        session_id: Its id, a secret; only its digest is kept.
        csrf: What forms bring back, a secret.
    """

    session_id: str = field(repr=False)
    csrf: str = field(repr=False)


def digest_of(secret: str) -> str:
    """Return what is kept of a session's id or of a token: its SHA-256, in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return 256 random bits as text; from now on they are masked wherever they come up."""
    made = secrets.token_urlsafe(_ID_BYTES)
    keep_secret(made, is_random=True)
    return made


def begin_session(
    service: Service, database: sqlite3.Connection, name: str, *, address: str, before: str | None = None
) -> NewSession:
    """Begin a session within the caller's transaction, and end the one that the browser had before.

    Args:
        service: The service.
        database: The caller's transaction.
        name: Whose session it is.
        address: From where he signs in.
        before: The id that the browser came with, or None.
    """
    now = service.now()
    forget_ended_sessions(database, at=moment(now))
    if before:
        end_session(database, digest_of(before))
    made = NewSession(session_id=new_secret(), csrf=new_secret())
    row = SessionRow(
        hash=digest_of(made.session_id),
        person=name,
        csrf=made.csrf,
        created_at=moment(now),
        expires_at=moment(now + timedelta(seconds=service.settings.session_s)),
        seen_at=moment(now),
        address=address,
    )
    insert_session(database, row)
    return made


def cookie_name(settings: ServiceSettings) -> str:
    """Return the name of the session's cookie."""
    return "__Host-flashferry" if settings.is_secure else "flashferry"


def set_cookie(response: Response, settings: ServiceSettings, session_id: str) -> None:
    """Give a browser its session."""
    response.set_cookie(
        cookie_name(settings),
        session_id,
        max_age=int(settings.session_s),
        path="/",
        secure=settings.is_secure,
        httponly=True,
        samesite="lax",
    )


def drop_cookie(response: Response, settings: ServiceSettings) -> None:
    """Have a browser forget its session."""
    response.delete_cookie(cookie_name(settings), path="/", secure=settings.is_secure, httponly=True, samesite="lax")
