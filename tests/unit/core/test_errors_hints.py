"""Every error says what to do next, or why nothing can be done."""

from __future__ import annotations

import ast
import importlib

from flashferry.core.errors import FlashferryError
from tests.house.raises import error_classes, raises


def errors() -> dict[str, type[FlashferryError]]:
    """Return the classes themselves, by name."""
    found = {}
    for name, (file, _) in error_classes().items():
        module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
        found[name] = getattr(module, name)
    return found


def test_every_error_says_what_to_do_next():
    """A hint of its own, or its class's, or its class's reason for none."""
    classes = errors()
    silent = [
        (one.file, one.line, name)
        for one in raises()
        for name in one.classes
        if one.hint is None and classes[name].advice is None and classes[name].no_advice is None
    ]
    assert silent == []


def test_a_class_has_advice_or_a_reason_for_none():
    """Never both; and the reason is a class's own, not one that came along with a base's."""
    both = [name for name, one in errors().items() if one.advice is not None and one.no_advice is not None]
    assert both == []


def test_a_hint_is_a_sentence_that_stands_behind_another():
    """It begins with a capital or a command in quotes, and the full stop is not its own."""
    hints = [(f"{one.file}:{one.line}", text) for one in raises() if (text := words(one.hint)) is not None]
    hints += [(name, one.advice) for name, one in errors().items() if one.advice is not None]
    assert len(hints) > 200
    assert [(where, text) for where, text in hints if text[0].islower() or text.endswith(".")] == []


def words(hint: ast.expr | None) -> str | None:
    """Return a hint that is written where it is given; None for one that is made or kept elsewhere."""
    if isinstance(hint, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.Constant) else "X" for one in hint.values]
        return "".join(str(part) for part in parts)
    return hint.value if isinstance(hint, ast.Constant) and isinstance(hint.value, str) else None
