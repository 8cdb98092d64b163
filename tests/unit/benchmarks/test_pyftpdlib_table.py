"""Tests of what `benchmarks.pyftpdlib_suite` holds against its reasons file, and of that file's table."""

from pathlib import Path
from typing import Any

import pytest

# No part of what is installed: the tests of the wheel run away from the checkout.
table = pytest.importorskip("benchmarks.pyftpdlib_table")

_ROOT = Path(__file__).parents[3]


def reasons() -> Any:
    writes = table.Reason(title="No commands that write", why="They harm.", tests={"A.test_stor": "STOR"})
    wording = table.Reason(title="Words", why="Only those.", tests={"A.test_retr": "550 in their words"})
    return table.Reasons(
        by_key={"writes": writes, "wording": wording},
        words={"550 Ours.": "550 Theirs."},
        says_nothing={"A.test_banner": "an attribute"},
    )


OUTCOMES = {"A.test_stor": "failed", "A.test_retr": "failed", "A.test_banner": "passed", "A.test_noop": "passed"}
IN_THEIR_WORDS = {"A.test_retr": "passed"}


def test_a_run_that_is_as_the_reasons_say_has_no_mistakes() -> None:
    """Those with a reason fail, all others pass, and the words were all that the wording's tests wanted."""
    assert table.mistakes(OUTCOMES, IN_THEIR_WORDS, reasons()) == []


@pytest.mark.parametrize(
    ("outcomes", "in_their_words", "expected"),
    [
        ({"A.test_noop": "failed"}, {}, "A.test_noop: failed; expected a reason for it, found none"),
        ({"A.test_stor": "passed"}, {}, "A.test_stor: reason 'writes', so expected failed, found passed"),
        ({"A.test_banner": "failed"}, {}, "A.test_banner: said to say nothing, so expected passed, found failed"),
        ({"A.test_noop": "skipped"}, {}, "A.test_noop: was skipped; expected all to be run"),
        ({}, {"A.test_retr": "failed"}, "A.test_retr: reason 'wording', so expected to pass with our words"),
    ],
)
def test_where_they_disagree_a_sentence_tells(
    outcomes: dict[str, str], in_their_words: dict[str, str], expected: str
) -> None:
    """No failure is without a reason, no reason without its failure, and wording is not said of what is more."""
    found = table.mistakes(OUTCOMES | outcomes, IN_THEIR_WORDS | in_their_words, reasons())
    assert any(mistake.startswith(expected) for mistake in found), found


def test_a_reason_for_a_test_that_is_not_there_is_a_mistake() -> None:
    """A test that another release of the suite has no more does not stay in the table."""
    gone = {name: outcome for name, outcome in OUTCOMES.items() if name != "A.test_stor"}
    assert table.mistakes(gone, IN_THEIR_WORDS, reasons()) == [
        "A.test_stor: reason 'writes', so expected failed, found not run"
    ]


def test_the_document_has_each_reason_of_the_file() -> None:
    """With the number of its tests, as the reasons file has it."""
    kept = table.Reasons.read(_ROOT / "benchmarks" / "pyftpdlib_reasons.toml")
    text = (_ROOT / "docs" / "ftp-conformance.md").read_text(encoding="utf-8")
    text = text.partition("<!-- pyftpdlib_suite: begin -->")[2].partition("<!-- pyftpdlib_suite: end -->")[0]
    assert f" pass and {len(kept.key_of)} do not." in text
    for reason in kept.by_key.values():
        assert text.count(f"- **{reason.title}** ({len(reason.tests)}). {reason.why}\n") == 1
