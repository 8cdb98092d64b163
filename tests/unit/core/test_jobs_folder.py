"""What a job's verb left in its folder, read without believing that it is whole or small."""

from __future__ import annotations

import pytest

from flashferry.cli.terminal.output import result_document
from flashferry.core.jobs import JobFolder, Outcome
from flashferry.model.exit_codes import ExitCode


@pytest.fixture
def folder(tmp_path):
    made = JobFolder.of(tmp_path, "j1")
    made.make()
    return made


def test_the_command_lines_documents_are_understood(folder):
    """A result says what its code means, an error what is wrong; a device's words are none of it."""
    devices = [{"host": "r1", "error": "a device's"}]
    folder.write(folder.result, result_document("check", ExitCode.REFUSED, {"devices": devices}))
    assert folder.outcome() == Outcome(exit_code=4, sentence=ExitCode.REFUSED.meaning_for("check"))
    error = {"verb": "stage", "error": 'image "x" ö: it has changed'}
    folder.write(folder.result, result_document("error", ExitCode.USAGE, error))
    assert folder.outcome() == Outcome(exit_code=2, sentence='image "x" ö: it has changed')


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "x", "exit_code": 0', "Traceback", '{"exit_code": true}'])
def test_what_is_no_whole_document_says_nothing(folder, text):
    """Its process died, or printed something else."""
    folder.write(folder.result, text)
    assert folder.outcome() is None


def test_a_document_that_was_cut_says_nothing(folder):
    """At whatever place."""
    text = result_document("check", ExitCode.OK, {"devices": [{"a": 1}, {"b": {}}]}).rstrip()
    for length in range(len(text)):
        folder.write(folder.result, text[:length])
        assert folder.outcome() is None, text[:length]
    folder.write(folder.result, text)
    assert folder.outcome() is not None


def test_a_large_document_is_not_loaded(folder):
    """Its end is known by its beginning."""
    folder.write(folder.result, result_document("stage", ExitCode.OK, {"run": ["x" * 2_000_000]}))
    assert folder.outcome() == Outcome(exit_code=0, sentence=ExitCode.OK.meaning_for("stage"))
    assert folder.document() == {}
    assert folder.document(4_000_000)["exit_code"] == 0


def test_last_words_are_the_last_line(folder):
    """Of whatever length; none where nothing was said."""
    assert folder.last_error_line() == ""
    folder.stderr.write_text("x" * 9000 + "\n last \n\n")
    assert folder.last_error_line() == "last"
