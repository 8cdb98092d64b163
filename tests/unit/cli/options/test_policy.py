"""The settings of a run as options."""

from datetime import datetime
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from flashferry.cli.options.policy import chosen_of, policy_options
from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import settings
from flashferry.model.waves import WaveBy


def test_a_verb_gets_the_options_together_and_keeps_its_own() -> None:
    """The options stand in the help and arrive as one value beside the verb's own."""
    seen: list[tuple[dict[str, object], str]] = []
    app = typer.Typer()

    @app.command()
    @policy_options(settings().values())
    def verb(chosen: dict[str, object], name: Annotated[str, typer.Option("--name")] = "") -> None:
        seen.append((chosen, name))

    result = CliRunner().invoke(
        app, ["--name", "x", "--no-canary", "--wave-by", "group", "--site-copies", "2", "--add"]
    )
    assert result.exit_code == 0, result.output
    assert seen == [({"site_copies": 2, "canary": False, "wave_by": "group", "add": True}, "x")]


def test_what_is_given_in_words_arrives_as_values() -> None:
    """A share, the next time that a clock shows so much, one wave of all, and each extra once."""
    found = chosen_of(
        {
            "max_failures": "10%",
            "until": "22:00",
            "wave_by": WaveBy.ALL,
            "logins": 3,
            "extra": ["timestamps", "timestamps"],
            "md5": None,
            "add": False,
            "dead_man": False,
        }
    )
    until = found.pop("until")
    assert isinstance(until, datetime)
    assert (until.hour, until.tzinfo is None) == (22, False)
    expected = {"max_failures": 0.1, "wave_by": None, "logins": 3, "extra": ("timestamps",), "dead_man": False}
    assert found == expected


@pytest.mark.parametrize(
    "given", [{"extra": ["swift"]}, {"transport": "carrier"}, {"max_failures": "some"}, {"md5": "0"}]
)
def test_a_word_that_is_no_value_is_refused(given: dict[str, object]) -> None:
    """Before anything is asked of a device, with what was expected."""
    with pytest.raises(ConfigInvalid, match="expected"):
        chosen_of(given)
