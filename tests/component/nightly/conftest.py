"""The command line of nights as it is called, and a controller for nights that fail."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from flashferry.cli.main import main
from flashferry.lab.cml.standin import RunningController
from tests.component.nightly.matrix.ground import Ground, open_ground

Called = tuple[int, str, str]
Call = Callable[..., Called]


@pytest.fixture
def nightly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what calls `flashferry nightly` and returns exit code, standard output and standard error."""

    def call(*words: str) -> Called:
        monkeypatch.setattr(sys, "argv", ["flashferry", "nightly", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return (int(left.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def log_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunningController], None]:
    """Return what has the login of a stand-in in the environment."""

    def log_in(running: RunningController) -> None:
        monkeypatch.setenv("FLASHFERRY_CML_USERNAME", running.username)
        monkeypatch.setenv("FLASHFERRY_CML_PASSWORD", running.password)

    return log_in


@pytest.fixture(scope="module")
def _ground() -> Iterator[Ground]:
    with open_ground() as made:
        yield made


@pytest.fixture
def ground(_ground: Ground) -> Ground:
    """The ground of a module, with others' labs on it and none of a night before."""
    _ground.begin()
    return _ground
