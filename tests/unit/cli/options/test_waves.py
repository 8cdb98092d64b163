"""Options about waves and limits."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from flashferry.api.options import Overrides, WaveBy
from flashferry.cli.options.waves import parse_failures, wave_options
from flashferry.core.errors import ConfigInvalid

NAMES = ("canary", "wave_by", "wave_size", "approve", "max_copies", "site_copies", "max_hashes")
"""Options that are not given here."""


@pytest.mark.parametrize(
    ("text", "meant"), [("3", 3), ("0", 0), ("10%", 0.1), ("100%", 1.0), ("0%", 0), ("2.5 %", 0.025)]
)
def test_failures_are_a_count_or_a_share(text: str, meant: float) -> None:
    """The sign of per cent tells them apart."""
    found = parse_failures(text)
    assert found == meant
    assert isinstance(found, type(meant))


@pytest.mark.parametrize("text", ["-1", "101%", "some", "0.5", "999999"])
def test_other_failures_are_refused(text: str) -> None:
    """What could be meant either way is refused."""
    with pytest.raises(ConfigInvalid, match="expected a count such as 3"):
        parse_failures(text)


def test_a_verb_gets_the_options_together_and_keeps_its_own() -> None:
    """The options stand in the help and arrive as one value beside the verb's own."""
    seen: list[tuple[Overrides, str]] = []
    app = typer.Typer()

    @app.command()
    @wave_options
    def verb(waves: Overrides, name: Annotated[str, typer.Option("--name")] = "") -> None:
        seen.append((waves, name))

    result = CliRunner().invoke(app, ["--name", "x", "--no-canary", "--wave-by", "group", "--site-copies", "2"])
    assert result.exit_code == 0, result.output
    assert seen == [(Overrides(canary=False, wave_by=WaveBy.GROUP, site_copies=2), "x")]


def test_what_is_said_in_words_arrives_as_values() -> None:
    """A share, and the next time that a clock shows so much."""
    seen: list[Overrides] = []

    @wave_options
    def verb(waves: Overrides) -> None:
        seen.append(waves)

    verb(max_failures="10%", until="22:00", max_logins=3, **dict.fromkeys(NAMES))
    assert (seen[0].max_failures, seen[0].logins) == (0.1, 3)
    assert seen[0].until is not None
    assert (seen[0].until.hour, seen[0].until.tzinfo is None) == (22, False)
