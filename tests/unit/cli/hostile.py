"""What a hostile device, inventory or journal puts into every text, and what must not come of it."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import quote

from flashferry.core.redaction import keep_secret
from flashferry.core.values import field_names

LOGIN = "Tr0ub4dor&3 ünd$x"
ENABLE = "en-able$Sommer"
SHORT = "x7Q"
USER, TICKET = "kQ7vWm2Z", "bT9cXe4RnL5pYs8D"
TOKEN = "nbt_0123456789abcdef"

MARK = "\x1b[58;5;99m"
"""A sequence that nothing of ours ever sends."""

SPELLINGS = (
    LOGIN,
    ENABLE,
    USER,
    TICKET,
    TOKEN,
    quote(LOGIN),
    repr(LOGIN),
    LOGIN.encode().decode("iso-8859-1"),
    f"{TICKET[:5]}\r\n{TICKET[5:]}",
    f"{TICKET[:7]}\b\b${TICKET[7:]}",
    TICKET[4:],
    f"ftp://{USER}:{TICKET}@192.0.2.1/x",
    f"https://ann:other-word@nb.example/{TOKEN}",
)
SIGNS = (
    "=cmd()",
    MARK,
    "\x9b58;5;99m",
    "\x1b]0;title\x07",
    "a\rb",
    "a\bb",
    "a\nflashferry: error: forged",
    "\x00\x7f\x85",
    "\u202eoverride\u2066\u200b\u2028",
    "\U000e0041\ufeff",
    "[bold red]markup[/bold red] [link=http://x]l[/link]",
    ":fire: :warning:",
    "<script>alert(1)</script>",
    "]]>&amp;\"'",
    "{{ 7 * 7 }}",
)
HOSTILE = " ".join((*SIGNS, *SPELLINGS, f"'{SHORT}'"))

_OF_OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AKGJ]|\r")
"""What a console of ours sends by itself: colours, and the cursor's way in a live view."""


def known() -> None:
    """Have the process know its secrets, as one that has opened an inventory and issued a ticket does."""
    keep_secret(LOGIN, ENABLE, SHORT, TOKEN)
    keep_secret(USER, TICKET, is_random=True)


def secrets_in(text: str) -> list[str]:
    """Return which secrets, or halves of them, a text still holds; where a table folds it, that is no mask."""
    closed = re.sub(r"\s|\\[nrtbx]|[\x00-\x1f\x7f-\x9f│]", "", text)
    wanted = [LOGIN.replace(" ", ""), "Tr0ub4dor", quote(LOGIN), ENABLE, TOKEN, USER, "other-word", f"'{SHORT}'"]
    wanted += [TICKET[at : at + 8] for at in range(len(TICKET) - 7)]
    return [one for one in wanted if one in closed]


def obeyed_in(text: str, *, is_terminal: bool = False) -> list[str]:
    """Return which characters of a text a terminal or a reader would obey; line feeds are ours."""
    rest = _OF_OURS.sub("", text) if is_terminal else text
    found = [repr(one) for one in rest if one != "\n" and not one.isprintable() and one != "\xa0"]
    return found + [MARK] * text.count(MARK)


def forged_in(text: str) -> list[str]:
    """Return lines that a text of somebody else's began."""
    return [line for line in text.splitlines() if line.startswith("flashferry: error: forged")]


def assert_harmless(text: str, *, is_terminal: bool = False) -> None:
    """Check that a text holds no secret, and nothing that is obeyed."""
    assert secrets_in(text) == []
    assert obeyed_in(text, is_terminal=is_terminal) == []
    assert forged_in(text) == []


def texts_in(value: object) -> Iterable[str]:
    """Yield all texts of JSON types, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts_in(one)


AT = "2026-11-21T22:00:00.000+00:00"
_BY_NAME: dict[str, object] = {
    "run_id": "20261121-220000-abcd",
    "md5": "0" * 32,
    "sha512": "0" * 128,
    "starts_at": AT,
    "started_at": AT,
    "finished_at": AT,
    "ends_at": AT,
    "closes_at": AT,
    "created_at": AT,
    "updated_at": AT,
    "written_at": AT,
    "at": AT,
    "mode": "passive",
}
"""Fields that are ours: times, digests, identifiers."""


class Built:
    """Makes values of dataclasses with hostile texts wherever a text may be; a new field is filled by itself.

    Args:
        by_name: Values of fields by their names.
        by_type: What makes values of types that check what they are given.
    """

    def __init__(
        self, by_name: dict[str, object] | None = None, by_type: dict[Any, Callable[[], object]] | None = None
    ) -> None:
        self._by_name = _BY_NAME | (by_name or {})
        self._by_type = by_type or {}

    def one(self, kind: Any, **given: object) -> Any:
        """Return a value of a dataclass."""
        hints = _hints(kind)
        values = {
            name: given[name]
            if name in given
            else self._by_name[name]
            if name in self._by_name and str in _kinds(hints[name])
            else self._made(hints[name])
            for name in field_names(kind)
        }
        return kind(**values)

    def _made(self, hint: Any) -> Any:
        kinds = _kinds(hint)
        kind = kinds[0]
        origin, inside = get_origin(kind), get_args(kind)
        if kind in self._by_type:
            return self._by_type[kind]()
        if origin is Literal:
            return inside[0]
        if origin is tuple:
            return (self._made(inside[0]),)
        if origin in (list, frozenset, set):
            return origin([self._made(inside[0])])
        if getattr(origin, "__name__", "") in ("dict", "Mapping"):
            return {self._made(inside[0]): self._made(inside[1])}
        if kind is str:
            return HOSTILE
        if kind in (int, float, bool):
            return kind(True) if kind is bool else kind(4_000_000)
        if kind is Path:
            return Path("/images") / HOSTILE.replace("\x00", "").replace("/", "|")
        if isinstance(kind, type) and issubclass(kind, Enum):
            return next(iter(kind))
        if isinstance(kind, type) and field_names(kind):
            return self.one(kind)
        if kind in (Any, object):
            return HOSTILE
        raise TypeError(f"no hostile value for {hint!r}: say in the test how it is made")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _kinds(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [one for one in get_args(hint) if one is not type(None)]
    return [hint]
