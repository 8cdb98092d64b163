"""Passwords of local accounts: Argon2id, checked as slowly for unknown names.

Facts
-----
* A hash takes 64 MiB and 0.2 s on purpose: one is computed at a time, some wait, more are refused, so that a flood of
  sign-ins takes neither memory nor threads.
* No password leaves this module. It is not masked elsewhere, as device secrets are: a password `not restored` would
  mask these words on every page.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from flashferry.service.errors import InvalidRequest, ServiceError, Unavailable
from flashferry.service.settings import PeopleSettings

MOST_CHARACTERS = 256
MOST_AT_ONCE = 1
MOST_WAITING = 7
"""Threads that wait for a hash; more are refused."""
_NO_ACCOUNT = "the password of no account"  # its hash is computed at each start


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a check; `is_stale` if the hash has other parameters than are set now."""

    is_right: bool
    is_stale: bool = False


class Passwords:
    """Hashes and checks passwords. Safe to use from all threads."""

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
        """Return the hash of a password. Raises `Unavailable` if too many wait."""
        with self._place():
            return self._hasher.hash(_composed(password))

    def verdict(self, hash_: str | None, password: str) -> Verdict:
        """Return whether a password is right; takes as long without a hash. Raises `Unavailable`."""
        given = _composed(password)[: 2 * MOST_CHARACTERS]
        with self._place():
            dummy = self._dummy_hash()  # before the cases differ: the first sign-in pays for it
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
    """Return a password in one Unicode form, whatever the keyboard (RFC 8265, OpaqueString: NFC)."""
    return unicodedata.normalize("NFC", password.encode("utf-8", "replace").decode())


def _will_not_do(sentence: str) -> ServiceError:
    return InvalidRequest(f"password: {sentence}", hint="Take some words, or a generated one")
