"""Commands that results name: they must find the journal that this command used."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.cli.terminal.output import command, here, remember


def test_without_a_state_folder_nothing_is_added():
    """The default is found by every command."""
    assert command("report 7f") == "flashferry report 7f"
    assert here("run 'flashferry recover'") == "run 'flashferry recover'"


@pytest.mark.parametrize("words", ["recover", "report 7f", "stage --resume 7f", "run approve 7f", "status"])
def test_a_given_state_folder_goes_into_every_command_that_reads_the_journal(words):
    """Quoted within a sentence or as a line of its own; quoted for the shell; once."""
    remember(Path("/srv/a b"))
    assert command(words) == f"flashferry {words} --state-dir '/srv/a b'"
    remember(Path("state"))
    told = here(f"a dead run: '{command(words)}' or 'flashferry {words}'")
    assert told == f"a dead run: 'flashferry {words} --state-dir state' or 'flashferry {words} --state-dir state'"


@pytest.mark.parametrize("text", ["'flashferry plan'", "flashferry recover", "'flashferry recoverable'", "it's 5"])
def test_other_words_are_left_alone(text):
    """A sentence is no place to guess in."""
    remember(Path("state"))
    assert here(text) == text
