"""Texts that are data: beside the words that a question mark lists (`help.toml`), and in outputs (`printed.toml`)."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@functools.cache
def _read(name: str) -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def printed(name: str, /, **values: object) -> str:
    """Return a text of outputs, filled in where there are values."""
    text = str(_read("printed")[name])
    return text.format(**values) if values else text


def printed_rows(name: str) -> tuple[str, ...]:
    """Return the lines of a text of outputs."""
    return tuple(printed(name).split("\n"))


def help_lines(words: Sequence[str], after: str) -> str:
    """Return the words that may follow a word, a line each: two blanks, the word, and what it is about."""
    width = max(len(word) for word in words) + 2
    return "".join(f"  {word:<{width}}{_text(word, after)}".rstrip() + "\n" for word in words)


def _text(word: str, after: str) -> str:
    texts = _read("help")
    of_word = str(texts["words"].get(word, ""))
    return str(texts["values"].get(after, of_word)) if (word[0] == "<" or word[0].isupper()) else of_word
