"""Options about waves and limits."""

from datetime import UTC, datetime
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from flashferry.cli.options.waves import WaveBy, WaveOptions, parse_failures, wave_options
from flashferry.core.errors import ConfigInvalid
from flashferry.model.limits import Limits
from flashferry.model.waves import WavePolicy


def test_what_is_not_given_is_as_in_the_plan() -> None:
    """Only options that were given override what a plan says."""
    base = WavePolicy(canary=False, by="group", size=3, max_failures=2)
    assert WaveOptions().policy(base) == base
    assert WaveOptions(canary=True, wave_by=WaveBy.ALL).policy(base) == WavePolicy(by=None, size=3, max_failures=2)
    assert WaveOptions(site_copies=2).limits(Limits(logins=5)) == Limits(logins=5, site_copies=2)


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
    seen: list[tuple[WaveOptions, str]] = []
    app = typer.Typer()

    @app.command()
    @wave_options
    def verb(waves: WaveOptions, name: Annotated[str, typer.Option("--name")] = "") -> None:
        seen.append((waves, name))

    result = CliRunner().invoke(app, ["--name", "x", "--no-canary", "--wave-by", "group", "--site-copies", "2"])
    assert result.exit_code == 0, result.output
    assert seen == [(WaveOptions(canary=False, wave_by=WaveBy.GROUP, site_copies=2), "x")]
    assert seen[0][0].deadline(datetime.now(UTC)) is None
