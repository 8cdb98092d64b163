"""What all tests share: tests of the lab skip with the reason where it cannot run, and fail in CI."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inventory.outside import forget_secrets
from lab.namespaces import probe


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("lab") is None:
        return
    able = probe()
    if not able.may_run:
        if os.environ.get("CI") == "true":
            pytest.fail(f"The lab must run in CI. {able.reason}")
        pytest.skip(able.reason)


@pytest.fixture
def documentation() -> Callable[[str], str]:
    """Return a function that reads a page of docs/; tests away from the checkout have none and skip."""

    def page(name: str) -> str:
        path = Path(__file__).resolve().parent.parent / "docs" / name
        if not path.is_file():
            pytest.skip("the tests run away from the checkout, without docs")
        return path.read_text()

    return page


@pytest.fixture(autouse=True)
def _no_secret_of_another_test() -> Iterator[None]:
    """Forget at the end what a test had masked: in life a process has one command, and its secrets."""
    yield
    forget_secrets()
    # What a command has taken out of the environment.
    if (module := sys.modules.get("flashferry.fleet")) is not None:
        module._TAKEN.clear()
