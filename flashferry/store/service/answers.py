"""Stored answers to requests with an idempotency key, so that a repeated request does not create a second job.

An answer is stored in the same transaction as the change.
"""

from __future__ import annotations

import sqlite3

from msgspec import Struct


class Once(Struct, frozen=True, kw_only=True):
    """A request to be carried out once, however often it is sent.

    Attributes:
        key: Idempotency key; each person has their own.
        request: Digest of the request; the same key with another request is an error.
    """

    key: str
    request: str


class KeptAnswer(Struct, frozen=True, kw_only=True):
    """A stored answer.

    Attributes:
        request: Digest of the request.
        answer: The result, such as the identifier of a job.
    """

    request: str
    answer: str


def answer_of(database: sqlite3.Connection, person: str, key: str) -> KeptAnswer | None:
    """Return the answer stored for a person's key; None for none."""
    query = "SELECT request, answer FROM answers WHERE person = ? AND key = ?"
    row = database.execute(query, (person, key)).fetchone()
    return None if row is None else KeptAnswer(request=row["request"], answer=row["answer"])


def keep_answer(database: sqlite3.Connection, person: str, once: Once, *, answer: str, at: str) -> None:
    """Store an answer.

    Raises:
        sqlite3.IntegrityError: The person has used that key.
    """
    database.execute(
        "INSERT INTO answers (person, key, request, answer, at) VALUES (?, ?, ?, ?, ?)",
        (person, once.key, once.request, answer, at),
    )


def forget_answers(database: sqlite3.Connection, before: str) -> int:
    """Delete answers from before a time; return how many."""
    return database.execute("DELETE FROM answers WHERE at < ?", (before,)).rowcount
