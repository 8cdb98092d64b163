"""The troubleshooting page quotes what flashferry says: each quoted sentence stands in the product."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.raises import trees

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
QUOTED = tuple(
    sentence
    for row in re.findall(r"^\| (.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for sentence in re.findall(r"`([^`]+ [^`]+)`", row)
)


@cache
def _texts() -> str:
    """Return every text of the product, with … in place of what a run fills in."""
    texts = []
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_the_page_quotes_sentences() -> None:
    """Else the test below would hold of nothing."""
    assert len(QUOTED) > 10


@pytest.mark.parametrize("sentence", QUOTED)
def test_a_quoted_sentence_is_said(sentence: str) -> None:
    """A sentence that nothing says any more sends an operator astray."""
    assert sentence in _texts()
