"""Sign-in with a password: the same answer after the same time, whatever was wrong.

Facts
-----
* An unknown name costs the same hash, transaction and entry as a wrong password: it is counted on the account of the
  system, which cannot sign in.
* People type their password into the name field, so an unknown name is never stored.
* A lock is checked before the password, and again in the transaction that starts the session: forty parallel attempts
  are no more than forty in a row.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil

from flashferry.service.auditing import note
from flashferry.service.errors import ServiceError, TooMany, Unauthenticated
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.people.identity import anonymous
from flashferry.service.people.login_rate_limit import LoginRateLimit
from flashferry.service.people.passwords import Passwords
from flashferry.service.people.refusals import DenialLog
from flashferry.service.people.sessions import NewSession, begin_session
from flashferry.service.principal import ANONYMOUS, SYSTEM, Actor, Via
from flashferry.service.service import Service
from flashferry.store.service import people as rows
from flashferry.store.service.database import moment, moment_of

FAILED = "login.failed"
_WRONG = "that name and password are not those of an account"
_AGAIN = "Check both; after {} wrong ones in a row the name is locked for {:.0f} min"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A sign-in attempt; `before` is the browser's previous session id, or None."""

    name: str
    password: str = field(repr=False)
    address: str
    before: str | None = field(default=None, repr=False)


class PasswordLogin:
    """Sign-in with a password. Safe to use from all threads."""

    def __init__(self, service: Service, book: DenialLog) -> None:
        self._service = service
        self._book = book
        self.passwords = Passwords(service.settings.people)
        self._tries = LoginRateLimit(service.settings.people)

    def sign_in(self, given: SignIn) -> NewSession:
        """Return a new session for the right password.

        Raises:
            Unauthenticated: Wrong name or password, or disabled.
            TooMany: The name is locked, or too many attempts.
        """
        if wait_s := self._tries.take(given.address, self._service.now()):
            self._refuse(given, None, "too many sign-ins from this address")
            raise _too_many(f"expected at most {self._service.settings.people.most_tries} sign-ins", wait_s)
        with self._service.database.reading() as database:
            person = rows.person(database, given.name)
            hash_ = rows.password_hash(database, given.name)
        known = person if hash_ is not None and person is not None and person.source == rows.LOCAL else None
        verdict = self.passwords.verdict(hash_ if known is not None else None, given.password)
        fresh = self.passwords.hash(given.password) if verdict.is_right and verdict.is_stale else None
        reason, wait_s, started = "wrong password", 0.0, None
        with self._service.database.writing() as database:
            if wait_s := self._locked_s(database, given.name, is_known=known is not None):
                reason = "the name is locked"
            elif verdict.is_right and _is_active(database, given.name):
                started = self._begin(database, given, fresh)
            else:
                reason = "the account is disabled" if verdict.is_right else reason
                if self._count(database, given.name, is_known=known is not None):
                    reason, wait_s = f"{reason}, and the name is locked from now on", self._lock_s
        if started is not None:
            return started
        self._refuse(given, known, reason)
        if wait_s:
            raise _too_many("the name is locked after wrong passwords", wait_s)
        settings = self._service.settings.people
        raise Unauthenticated(_WRONG, hint=_AGAIN.format(settings.most_failures, settings.lock_s / 60))

    def is_right(self, name: str, password: str, *, address: str) -> bool:
        """Return whether a signed-in user's password is right; it counts as an attempt. Raises `TooMany`."""
        if wait_s := self._tries.take(address, self._service.now()):
            raise _too_many(f"expected at most {self._service.settings.people.most_tries} sign-ins", wait_s)
        with self._service.database.reading() as database:
            hash_ = rows.password_hash(database, name)
        verdict = self.passwords.verdict(hash_, password)
        with self._service.database.writing() as database:
            if wait_s := self._locked_s(database, name, is_known=True):
                raise _too_many("the name is locked after wrong passwords", wait_s)
            if not verdict.is_right:
                self._count(database, name, is_known=True)
        return verdict.is_right

    @property
    def _lock_s(self) -> float:
        return self._service.settings.people.lock_s

    def _locked_s(self, database: sqlite3.Connection, name: str, *, is_known: bool) -> float:
        person, unknown_until = rows.person(database, name), self._tries.unknown_locked_until(name)
        known_until = moment_of(person.locked_until) if person is not None and person.locked_until else None
        until = known_until if is_known else unknown_until
        # A lock that is further away than any is made of a clock that went back.
        left_s = (until - self._service.now()).total_seconds() if until is not None else 0.0
        return left_s if 0 < left_s <= self._lock_s else 0.0

    def _count(self, database: sqlite3.Connection, name: str, *, is_known: bool) -> bool:
        """Count a wrong password; return whether the name is locked now."""
        now = self._service.now()
        if not is_known:
            rows.count_failure(database, SYSTEM.name)
            return self._tries.count_unknown(name, now)
        if rows.count_failure(database, name) < self._service.settings.people.most_failures:
            return False
        rows.lock(database, name, moment(now + timedelta(seconds=self._lock_s)))
        return True

    def _begin(self, database: sqlite3.Connection, given: SignIn, fresh: str | None) -> NewSession:
        service = self._service
        rows.clear_failures(database, given.name)
        if fresh is not None:
            rows.set_password_hash(database, given.name, fresh)
        actor = Actor(name=given.name, via=Via.SESSION, address=given.address)
        note(service, database, actor, "login.ok", f"user:{given.name}", reason="password")
        if service.settings.oidc is not None or service.settings.proxy.user_header:
            announce(
                service,
                database,
                NoticeKind.EMERGENCY_LOGIN,
                f"user:{given.name}",
                f"{given.name} signed in with a local password although users sign in elsewhere",
                {"address": given.address},
                path="/audit",
            )
        return begin_session(service, database, given.name, address=given.address, before=given.before)

    def _refuse(self, given: SignIn, known: rows.Person | None, reason: str) -> None:
        object_ = f"user:{known.name}" if known is not None else f"user:{ANONYMOUS}"
        self._book.note(anonymous(given.address), FAILED, object_, reason)


def _is_active(database: sqlite3.Connection, name: str) -> bool:
    person = rows.person(database, name)
    return person is not None and person.state == rows.ACTIVE


def _too_many(sentence: str, wait_s: float) -> ServiceError:
    return TooMany(sentence, hint=f"Try again in {ceil(wait_s / 60)} min", retry_after_s=ceil(wait_s))
