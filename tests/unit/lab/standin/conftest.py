"""Consoles on new devices, and what holds their outputs against captures."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.lab.standin.console import Console, new_console


@pytest.fixture
def make_console(tmp_path: Path) -> Callable[..., Console]:
    """Return what makes a console on a new device of a platform."""

    def make(platform: str = "csr1000v-16.11", **settings: Any) -> Console:
        return new_console(tmp_path / f"flash-{platform}", platform, **settings)

    return make


@pytest.fixture
def console(make_console: Callable[..., Console]) -> Console:
    """A console on a CSR1000V."""
    return make_console()


@pytest.fixture(scope="session")
def strangers() -> Callable[[str, str, tuple[str, ...]], list[str]]:
    """Return what finds the lines of an output that have no like in a capture, but for known ones.

    A shape keeps words and punctuation and drops what is a device's own: numbers, names with digits, lengths of blanks.
    """
    return _strangers


def _shape(line: str) -> str:
    """Return a line without what differs from device to device."""
    line = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b", "@", line)
    line = re.sub(r"\S*\d\S*", "#", line)
    return re.sub(r"(#[ ,]*)+", "# ", re.sub(r"\s+", " ", line)).strip()


def _strangers(output: str, capture: str, known: tuple[str, ...]) -> list[str]:
    """Return the lines of an output that have no like in the capture."""
    shapes = {_shape(line) for line in capture.splitlines()}
    lines = [line for line in output.splitlines() if _shape(line) not in shapes]
    return [line for line in lines if not any(re.search(pattern, line) for pattern in known)]
