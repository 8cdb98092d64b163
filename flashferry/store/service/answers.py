"""Answers kept for who asks twice: a client whose connection broke sends its request again, and gets no second job.

A key is its sender's own. It is kept in the transaction of what was asked for, so that there is no moment in which one
is there without the other.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """A request that is to be carried out once, however often it is sent.

    Attributes:
        key: What its sender calls it.
        request: Digest of what was asked for: the same key for something else is a mistake.
    """

    key: str
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """What was answered before.

    Attributes:
        request: Digest of what was asked for.
        answer: What came of it, such as the identifier of a job.
    """

    request: str
    answer: str


def answer_of(database: sqlite3.Connection, person: str, key: str) -> KeptAnswer | None:
    """Return what an actor was answered under a key; None where they have not used it."""
    query = "SELECT request, answer FROM answers WHERE person = ? AND key = ?"
    row = database.execute(query, (person, key)).fetchone()
    return None if row is None else KeptAnswer(request=row["request"], answer=row["answer"])


def keep_answer(database: sqlite3.Connection, person: str, once: Once, *, answer: str, at: str) -> None:
    """Keep an answer.

    Raises:
        sqlite3.IntegrityError: He has used that key.
    """
    database.execute(
        "INSERT INTO answers (person, key, request, answer, at) VALUES (?, ?, ?, ?, ?)",
        (person, once.key, once.request, answer, at),
    )


def forget_answers(database: sqlite3.Connection, before: str) -> int:
    """Forget what was answered before a time; return how many that were."""
    return database.execute("DELETE FROM answers WHERE at < ?", (before,)).rowcount
