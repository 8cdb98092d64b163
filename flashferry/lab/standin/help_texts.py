"""The texts behind the words that a question mark lists, read from `help.toml`."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@functools.cache
def _texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(Path(__file__).with_name("help.toml").read_text(encoding="utf-8"))


def help_lines(words: Sequence[str], after: str) -> str:
    """Return the words that may follow, a line each: two blanks, the word, and what it is about.

    Args:
        words: The words and forms of values.
        after: The word before them, which says what a value is.
    """
    width = max(len(word) for word in words) + 2
    return "".join(f"  {word:<{width}}{_text(word, after)}".rstrip() + "\n" for word in words)


def _text(word: str, after: str) -> str:
    texts = _texts()
    return texts["values"].get(after, texts["words"].get(word, "")) if _is_value(word) else texts["words"].get(word, "")


def _is_value(word: str) -> bool:
    return word[0] == "<" or word[0].isupper()
