"""The jobs as one module: its names, where they come from, and what asking for one costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flashferry import api
from tests.patience import PATIENCE_S

FOLDER = Path(api.__file__).parent


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    """With a docstring of its own; a function's says what it takes."""
    found = getattr(api, name)
    assert found.__doc__
    assert found.__doc__ != object.__doc__


def test_the_list_is_sorted_and_whole() -> None:
    """What can be imported is what is listed; nobody else's name is."""
    assert sorted(api.__all__) == dir(api)
    with pytest.raises(AttributeError, match="has no attribute 'no_such_job'"):
        _ = api.no_such_job  # type: ignore[attr-defined] # that is the point


def test_no_name_is_that_of_a_module() -> None:
    """Importing the module would put it in the function's place."""
    assert {path.stem for path in FOLDER.glob("*.py")}.isdisjoint(api.__all__)


def test_nothing_is_printed_and_nothing_parsed() -> None:
    """Neither a terminal nor a command line is known here."""
    for path in FOLDER.glob("*.py"):
        text = path.read_text()
        for word in ("typer", "rich", "print(", "sys.exit", "sys.argv", "sys.std", "getpass", "flashferry.cli"):
            assert word not in text, (path.name, word)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("from flashferry import api", ("nornir", "paramiko", "sqlite3", "jinja2", "flashferry.run")),
        ("from flashferry.api import FleetOptions, StagePolicy, stage", ("paramiko.client", "jinja2")),
        ("from flashferry.api import report", ("nornir", "paramiko", "jinja2", "flashferry.run")),
        ("from flashferry.api import status", ("jinja2", "flashferry.run", "nornir", "flashferry.transports")),
    ],
)
def test_whoever_asks_for_one_job_waits_for_no_other(code: str, absent: tuple[str, ...]) -> None:
    """A name brings what it needs alone."""
    told = f"import sys; {code}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-P", "-c", told], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "[]\n"
