"""Sessions: started at sign-in with a new id, ended at sign-out; and their cookie.

Facts
-----
* Browsers accept a cookie named `__Host-…` only with `Secure`, `Path=/` and without `Domain` (RFC 6265bis 4.1.3.2): no
  other host can replace it. Without TLS there is no such cookie.
* An id from before a sign-in is never reused: its planter would be signed in, too.
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
    """A started session: its id and the token of its forms, both secret."""

    session_id: str = field(repr=False)
    csrf: str = field(repr=False)


def digest_of(secret: str) -> str:
    """Return what is stored of a session's id or of a token: SHA-256, in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret() -> str:
    """Return 256 random bits as text, masked from now on."""
    made = secrets.token_urlsafe(_ID_BYTES)
    keep_secret(made, is_random=True)
    return made


def begin_session(
    service: Service, database: sqlite3.Connection, name: str, *, address: str, before: str | None = None
) -> NewSession:
    """Start a session in the caller's transaction, and end the browser's previous one (`before`)."""
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
    """Set the session's cookie."""
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
    """Delete the session's cookie."""
    response.delete_cookie(cookie_name(settings), path="/", secure=settings.is_secure, httponly=True, samesite="lax")
