"""The command line of a pilot: consent comes from a terminal or step by step, never from an option for all."""

from __future__ import annotations

import pytest

from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid


def run(*words: str) -> None:
    build()(["pilot", "r1", "--output", "folder", "--inventory", "none", *words], standalone_mode=False)


def test_a_step_that_is_none_is_refused():
    """There is no word for all steps."""
    with pytest.raises(ConfigInvalid, match="--yes all: expected a step, one of check, reach, probe, tune, copy, kill"):
        run("--yes", "all")


def test_without_a_terminal_each_step_must_be_named():
    """The first step without consent is named before anything is opened."""
    with pytest.raises(ConfigInvalid, match="no one can consent to 'reach': standard input is no terminal"):
        run("--yes", "check", "--yes", "kill")
