"""The documents of an installation: listed with their titles, printed whole, and named by messages as they are here."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from flashferry.cli.program import build
from flashferry.core.errors import ConfigInvalid

ROOT = Path(__file__).parents[3]


def printed(*words: str) -> str:
    found = CliRunner().invoke(build(), ["docs", *words])
    assert found.exit_code == 0, found.output
    return found.output


def test_topics_are_listed_with_their_titles():
    """All pages, one a line."""
    lines = dict(line.split(maxsplit=1) for line in printed().splitlines())
    assert lines["plan"] == "Planning a run"
    assert set(lines) == {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}


def test_a_page_is_printed_whole():
    """By its topic, or as a message names its file."""
    page = (ROOT / "docs" / "dead-man.md").read_text()
    assert printed("dead-man") == printed("docs/dead-man.md") == page


def test_every_page_that_a_message_names_is_there():
    """In hints, templates and first files."""
    files = [path for top in ("flashferry", "inventory", "tasks", "templates") for path in (ROOT / top).rglob("*.*")]
    texts = [path.read_text() for path in files if path.suffix in {".py", ".toml", ".yaml", ".html"}]
    named = {name for text in texts for name in re.findall(r"docs/([a-z-]+)\.md", text)}
    assert len(named) > 10
    assert named <= {line.split()[0] for line in printed().splitlines()}


def test_an_unknown_topic_is_refused_with_the_one_that_was_meant():
    """Nothing outside of the folder is read."""
    found = CliRunner().invoke(build(), ["docs", "plann"])
    assert isinstance(found.exception, ConfigInvalid)
    assert "found 'plann'; did you mean 'plan'?" in str(found.exception)
    assert isinstance(CliRunner().invoke(build(), ["docs", "../README"]).exception, ConfigInvalid)
