"""Password sign-in: Argon2id hashes, limits on attempts, and refusals in the audit."""

from __future__ import annotations

import sqlite3
import threading
import unicodedata
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError
from msgspec import Struct

from flashferry.core.units import counted
from flashferry.service.errors import InvalidRequest, ServiceError, TooMany, Unauthenticated, Unavailable
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.people.identity import NewSession, anonymous, begin_session, digest_of
from flashferry.service.principal import ANONYMOUS, SYSTEM, Actor, Via
from flashferry.service.service import Service
from flashferry.service.settings import PeopleSettings
from flashferry.store.service import people as rows
from flashferry.store.service.database import moment, moment_of

MOST_TRACKED = 10_000
_HOME_BITS = 64
"""Prefix of IPv6 that belongs to one customer."""


class LoginRateLimit:
    """Recent sign-in attempts. Thread-safe."""

    def __init__(self, settings: PeopleSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, deque[datetime]] = OrderedDict()
        self._names: OrderedDict[str, tuple[int, datetime | None]] = OrderedDict()

    def take(self, address: str, now: datetime) -> float:
        """Count an attempt from an address; return the seconds until the next one is allowed, or 0."""
        with self._lock:
            tried = self._addresses.setdefault(network_of(address), deque(maxlen=self._settings.most_tries))
            self._addresses.move_to_end(network_of(address))
            while len(self._addresses) > MOST_TRACKED:
                self._addresses.popitem(last=False)
            since = now - timedelta(seconds=self._settings.tries_s)
            while tried and not since < tried[0] <= now:
                tried.popleft()
            if len(tried) >= self._settings.most_tries:
                return (tried[0] - since).total_seconds()
            tried.append(now)
            return 0.0

    def unknown_locked_until(self, name: str) -> datetime | None:
        """Return when the lock of an unknown user name ends, or None."""
        with self._lock:
            return self._names.get(digest_of(name), (0, None))[1]

    def count_unknown(self, name: str, now: datetime) -> bool:
        """Count an attempt with an unknown name; return whether the name is locked now."""
        name = digest_of(name)  # it may be a password
        with self._lock:
            count = self._names.get(name, (0, None))[0] + 1
            is_locked = count >= self._settings.most_failures
            until = now + timedelta(seconds=self._settings.lock_s) if is_locked else None
            self._names[name] = (0 if is_locked else count, until)
            self._names.move_to_end(name)
            while len(self._names) > MOST_TRACKED:
                self._names.popitem(last=False)
            return is_locked


def network_of(address: str) -> str:
    """Return the key of an address in limits; for IPv6 its network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _HOME_BITS), strict=False))
    return str(parsed)


MOST_CHARACTERS = 256
MOST_AT_ONCE = 1
MOST_WAITING = 7
"""Threads that wait for a hash; more are refused."""
_NO_ACCOUNT = "the password of no account"  # hashed once per process


class Verdict(Struct, frozen=True, kw_only=True):
    """Result of a password check; `is_stale` if the hash has other parameters than configured now."""

    is_right: bool
    is_stale: bool = False


class Passwords:
    """Hashes and checks passwords. Thread-safe."""

    def __init__(self, settings: PeopleSettings) -> None:
        self._settings = settings
        self._hasher = PasswordHasher(
            time_cost=settings.argon2_rounds,
            memory_cost=settings.argon2_memory_kib,
            parallelism=settings.argon2_lanes,
            type=Type.ID,
        )
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE + MOST_WAITING)
        self._working = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._dummy: str | None = None

    def hash(self, password: str) -> str:
        """Hash a password. Raises `Unavailable` if too many requests wait."""
        with self._place():
            return self._hasher.hash(_composed(password))

    def verdict(self, hash_: str | None, password: str) -> Verdict:
        """Check a password; takes the same time without a hash. Raises `Unavailable` if too many requests wait."""
        given = _composed(password)[: 2 * MOST_CHARACTERS]
        with self._place():
            dummy = self._dummy_hash()  # in both cases, so that timing reveals nothing
            if hash_ is None:
                hash_, given = dummy, ""
            try:
                self._hasher.verify(hash_, given)
            except (VerifyMismatchError, VerificationError, InvalidHashError):
                return Verdict(is_right=False)
        return Verdict(is_right=True, is_stale=self._hasher.check_needs_rehash(hash_))

    def check(self, password: str, *, name: str) -> None:
        """Check a new password. Raises `InvalidRequest` if it is too short, too long, or contains the name."""
        length = len(_composed(password))
        least = self._settings.least_password
        if not least <= length <= MOST_CHARACTERS:
            raise _will_not_do(f"expected {least} to {MOST_CHARACTERS} characters, found {length}")
        if name.lower() in password.lower() and len(name) > 2:
            raise _will_not_do("expected a password without the name of its account, found one with it")
        if len(set(password)) < 5:
            raise _will_not_do(f"expected at least 5 different characters, found {len(set(password))}")

    def _dummy_hash(self) -> str:
        if self._dummy is None:
            self._dummy = self._hasher.hash(_NO_ACCOUNT)
        return self._dummy

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise Unavailable("more sign-ins at once than this service takes", hint="Try again in a few seconds")
        try:
            with self._working:
                yield
        finally:
            self._places.release()


def _composed(password: str) -> str:
    """Return a password in one Unicode form, independent of the keyboard (RFC 8265, OpaqueString: NFC)."""
    return unicodedata.normalize("NFC", password.encode("utf-8", "replace").decode())


def _will_not_do(sentence: str) -> ServiceError:
    return InvalidRequest(f"password: {sentence}", hint="Take some words, or a generated one")


FIRST_WINDOW_S = 60.0
LAST_WINDOW_S = 3600.0
MOST_KEPT = 1024
"""Kinds of refusals counted at once; the oldest is written and dropped for a new one."""
BUCKET = 60
"""Entries that an actor may cause at once, then one each `REFILL_S`."""
REFILL_S = 60.0


@dataclass(slots=True, kw_only=True)
class _Repeated:
    """A refusal in the audit, and how often it was repeated since."""

    actor: Actor
    action: str
    object: str
    reason: str
    until: datetime
    window_s: float
    count: int = 0


@dataclass(slots=True)
class _Bucket:
    """Number of audit entries that an actor can still cause."""

    left: float
    at: datetime
    unwritten: int = 0

    def takes(self, now: datetime) -> bool:
        """Count an entry; return whether it is allowed."""
        past_s = max((now - self.at).total_seconds(), 0.0)
        self.left, self.at = min(self.left + past_s / REFILL_S, float(BUCKET)), now
        if self.left < 1:
            self.unwritten += 1
            return False
        self.left -= 1
        return True


class DenialLog:
    """Log of refusals that writes repeated ones as counts. Thread-safe."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], _Repeated] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def note(self, actor: Actor, action: str, object_: str, reason: str) -> bool:
        """Write a refusal, or count a repeated one; return whether it was written.

        `object_` must have few values, such as a route: each is counted separately.
        """
        now = self._service.now()
        with self._lock:
            key = (actor.name, actor.via.value, actor.address, action, object_, reason)
            known = self._kept.get(key)
            if known is not None and known.until - timedelta(seconds=known.window_s) <= now < known.until:
                known.count += 1
                return False
            if known is None:
                known = _Repeated(
                    actor=actor, action=action, object=object_, reason=reason, until=now, window_s=FIRST_WINDOW_S / 2
                )
                self._kept[key] = known
            known.window_s = min(known.window_s * 2, LAST_WINDOW_S)
            known.until = now + timedelta(seconds=known.window_s)
            self._kept.move_to_end(key)
            is_written = self._write(known, now)
            while len(self._kept) > MOST_KEPT:
                self._end(self._kept.popitem(last=False)[1], now)
            return is_written

    def flush(self, *, is_end: bool = False) -> None:
        """Write the counts of finished time windows; with `is_end`, of all."""
        now = self._service.now()
        with self._lock:
            over = [key for key, one in self._kept.items() if is_end or one.until <= now]
            for key in over:
                self._end(self._kept.pop(key), now)

    def _end(self, one: _Repeated, now: datetime) -> None:
        if one.count:
            self._write(one, now)

    def _write(self, one: _Repeated, now: datetime) -> bool:
        bucket = self._buckets.setdefault(one.actor.name, _Bucket(float(BUCKET), now))
        self._buckets.move_to_end(one.actor.name)
        while len(self._buckets) > MOST_KEPT:
            self._buckets.popitem(last=False)
        times, one.count = one.count, 0
        if not bucket.takes(now):
            bucket.unwritten += times
            return False
        more = f"; {counted(times, 'time')} more since it was written last" if times else ""
        if bucket.unwritten:
            more += f"; {bucket.unwritten} other refusals of {one.actor.name} were not written"
            bucket.unwritten = 0
        with self._service.database.writing() as database:
            self._service.note(database, one.actor, one.action, one.object, outcome="refused", reason=one.reason + more)
        return True


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
    """Sign-in with a password. Thread-safe."""

    def __init__(self, service: Service, book: DenialLog) -> None:
        self._service = service
        self._book = book
        self.passwords = Passwords(service.settings.people)
        self._tries = LoginRateLimit(service.settings.people)

    def sign_in(self, given: SignIn) -> NewSession:
        """Check a password and return a new session.

        Raises:
            Unauthenticated: Name or password is wrong, or the user is disabled.
            TooMany: The name is locked, or there were too many attempts.
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
        """Check the password of a signed-in user; counts as an attempt. Raises `TooMany`."""
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
        # A lock longer than the configured time means that the clock was set back.
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
        service.note(database, actor, "login.ok", f"user:{given.name}", reason="password")
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
