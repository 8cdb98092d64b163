"""Options of `flashferry lab experiment`: what they leave, and the command that a report names."""

import shlex
from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.lab.cli.experiment import _command as command
from flashferry.lab.cli.experiment import _experiment_cells as experiment_cells
from flashferry.lab.cli.experiment import experiment


def test_a_report_names_the_command_that_was_typed() -> None:
    """Typed again it asks for the same runs: every option that changes them is there, quoted for a shell."""
    options = {"--arm": ["XE tuned"], "--server": ["auto"], "--loss": [0.01, 0.1], "--size-mb": [200.0]}
    words = shlex.split(command(("--runs", "10", "--links", "3", "--full"), options))
    assert words == [
        "flashferry", "lab", "experiment", "--runs", "10", "--links", "3", "--full", "--arm", "XE tuned",
        "--server", "auto", "--loss", "0.01", "--loss", "0.1", "--size-mb", "200",
    ]  # fmt: skip


def test_losses_are_given_in_per_cent() -> None:
    """The article's loss by option is the article's own: the same cells, so that nothing is run twice."""
    given = experiment_cells(2, full=False, arm=["XE tuned"], server=None, loss=[0.01], size_mb=None)
    own = experiment_cells(2, full=False, arm=["XE tuned"], server=None, loss=None, size_mb=None)
    assert [cell.key for cell in given] == [cell.key for cell in own]
    assert len(own) == 8


def test_a_longer_file_is_for_the_arms_that_copy_it_whole() -> None:
    """What is held by its window or its flash copies as little as before: its rate does not depend on the length."""
    long = experiment_cells(1, full=False, arm=None, server=["auto"], loss=[0.01], size_mb=200.0)
    own = experiment_cells(1, full=False, arm=None, server=["auto"], loss=[0.01], size_mb=None)
    sizes = {cell.arm: cell.size_bytes for cell in own}
    changed = {cell.arm: cell.size_bytes for cell in long if cell.size_bytes != sizes[cell.arm]}
    assert changed == {"Linux client": 200_000_000, "IOS-XE tuned": 200_000_000}


def test_the_article_s_experiment_has_the_article_s_file() -> None:
    """Another length is refused there in a sentence, before anything is run."""
    with pytest.raises(ConfigInvalid, match="--size-mb: expected beside --loss"):
        experiment(SimpleNamespace(invoked_subcommand=None), size_mb=200.0)


def test_an_unknown_arm_is_answered_with_those_there_are() -> None:
    """One sentence, with the names to choose from."""
    with pytest.raises(ConfigInvalid, match=r"expected part of an arm \(Linux client, .* found none"):
        experiment_cells(1, full=False, arm=["NX-OS"], server=None, loss=None, size_mb=None)
