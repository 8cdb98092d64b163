"""Words of error messages about wrong input."""

from __future__ import annotations

import pytest

from flashferry.core.value_description import of_these, unknown_key


@pytest.mark.parametrize(
    ("words", "expected"), [(("auditor",), "auditor"), (("a", "b"), "one of a, b"), (iter(("a",)), "a")]
)
def test_a_single_word_is_no_choice(words, expected):
    """It stands by itself, without "one of"."""
    assert of_these(words) == expected


def test_the_only_known_key_stands_by_itself():
    """As in a file, or a page's address, that takes one key."""
    assert unknown_key("colour", ["site"]) == "unknown key, text of 6 characters; expected site"
