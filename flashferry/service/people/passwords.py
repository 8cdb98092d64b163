"""Passwords of local accounts: hashed with Argon2id, checked as slowly for names that there are not.

Facts
-----
* One hash takes 64 MiB and 0.2 s of a processor, on purpose: so one is made at a time, some wait, and more are turned
  away at once. A flood of sign-ins must not take the memory, nor the threads that answer everybody else.
* A password is in no text that leaves this module. It is not masked elsewhere either, as secrets of devices are:
  whoever chose `not restored` for his own would take these words off every page.
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
"""So many threads wait for those that hash; whoever comes then is told to try again."""
_NOBODYS = "the password of nobody"  # no account has it: its hash is made anew with each start


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a password.

    Attributes:
        is_right: Whether it was right.
        is_stale: Whether its hash was made with other parameters than are set now.
    """

    is_right: bool
    is_stale: bool = False


class Passwords:
    """Makes hashes and checks against them. Safe to use from all threads.

    Args:
        settings: How costly a hash is, and how long a password must be.
    """

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
        self._nobodys: str | None = None

    def hash(self, password: str) -> str:
        """Return the hash of a password.

        Raises:
            ServiceError: Too many are being hashed.
        """
        with self._place():
            return self._hasher.hash(_composed(password))

    def verdict(self, hash_: str | None, password: str) -> Verdict:
        """Return whether a password is right; it takes as long where there is no hash to check against.

        Raises:
            ServiceError: Too many are being checked.
        """
        given = _composed(password)[: 2 * MOST_CHARACTERS]
        with self._place():
            nobodys = self._nobodys_hash()  # before anything is told apart: the first sign-in pays for it, whoever's
            if hash_ is None:
                hash_, given = nobodys, ""
            try:
                self._hasher.verify(hash_, given)
            except (VerifyMismatchError, VerificationError, InvalidHashError):
                return Verdict(is_right=False)
        return Verdict(is_right=True, is_stale=self._hasher.check_needs_rehash(hash_))

    def check(self, password: str, *, name: str) -> None:
        """Check that a new password will do.

        Raises:
            ServiceError: It is too short, too long, or is the name.
        """
        length = len(_composed(password))
        least = self._settings.least_password
        if not least <= length <= MOST_CHARACTERS:
            raise _will_not_do(f"expected {least} to {MOST_CHARACTERS} characters, found {length}")
        if name.lower() in password.lower() and len(name) > 2:
            raise _will_not_do("expected a password without the name of its account, found one with it")
        if len(set(password)) < 5:
            raise _will_not_do(f"expected at least 5 different characters, found {len(set(password))}")

    def _nobodys_hash(self) -> str:
        if self._nobodys is None:
            self._nobodys = self._hasher.hash(_NOBODYS)
        return self._nobodys

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
    """Return a password in one spelling, whichever keyboard it came from (RFC 8265, OpaqueString: NFC)."""
    return unicodedata.normalize("NFC", password.encode("utf-8", "replace").decode())


def _will_not_do(sentence: str) -> ServiceError:
    return InvalidRequest(f"password: {sentence}", hint="Take some words, or a generated one")
