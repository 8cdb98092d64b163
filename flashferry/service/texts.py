r"""Types of texts, lists and numbers in bodies and forms, so that they can be stored, shown and sent on.

Facts
-----
* JSON's `"\ud800"` is a lone surrogate: a text to Python, but not to UTF-8, SQLite or clients.
* SQLite takes signed integers of 64 bits; Python's `json` takes any.
* Bidi controls change how a name is shown: `gpj.exe` for another file (Unicode Standard Annex 9, 2).
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Form
from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from flashferry.core.value_description import control_character

LONGEST_NAME = 500
"""Characters of a name, or of another text of one line."""
LONGEST_PROSE = 2000
LONGEST_PASSWORD = 1024
MOST_NAMES = 10_000
"""Entries of a list."""
LARGEST = 2**63 - 1

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def why_unfit(text: str, *, is_name: bool = False) -> str:
    """Return what makes a text unacceptable; empty for nothing. A name is one line without bidi controls."""
    if "\0" in text:
        return "NUL"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "half a character (a lone surrogate)"
    if not is_name:
        return ""
    return "a control of the direction of writing" if _BIDI & set(text) else control_character(text) or ""


def _name(text: str) -> str:
    return _fit(text, is_name=True)


def _fit(text: str, *, is_name: bool = False) -> str:
    if found := why_unfit(text, is_name=is_name):
        raise PydanticCustomError("text", "expected text without {found}, found it", {"found": found})
    return text


Name = Annotated[str, StringConstraints(max_length=LONGEST_NAME), AfterValidator(_name)]
"""A name, or another text of one line."""
Prose = Annotated[str, StringConstraints(max_length=LONGEST_PROSE), AfterValidator(_fit)]
"""A reason or a comment."""
Password = Annotated[str, StringConstraints(max_length=LONGEST_PASSWORD), AfterValidator(_fit)]
Names = Annotated[list[Name], Field(max_length=MOST_NAMES)]
Number = Annotated[int, Field(ge=-LARGEST - 1, le=LARGEST)]


FormName = Annotated[Name, Form()]
FormProse = Annotated[Prose, Form()]
FormPassword = Annotated[Password, Form()]
FormNames = Annotated[Names, Form()]
