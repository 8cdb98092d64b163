"""Worlds for pytest: ``pytest_plugins = ["flashferry.lab.testing"]`` in the top conftest.py, or what is needed.

- ``loopback_world``: one router on plain loopback, in less than a second, without any right; its receive window is
  real, the rest of the WAN is not.
- ``wan_world``: the same router behind the published WAN; skips with the reason where the lab cannot be built.
- ``new_world``: starts worlds of the test's own, any number, on any rung.

Each is a world of its own per test. To share one among a module's tests, start it in a fixture of that scope by
`flashferry.lab.world.start_world`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import pytest

from flashferry.lab.capability_levels import check_rung
from flashferry.lab.errors import LabError
from flashferry.lab.world import Rung, World, WorldSpec, start_world


class NewWorld(Protocol):
    """Starts a world that ends with the test."""

    def __call__(self, spec: WorldSpec | None = None, *, rung: Rung = Rung.LOOPBACK) -> World:
        """Return a running world; the test skips, with the reason, where the rung cannot be built."""


@pytest.fixture
def new_world() -> Iterator[NewWorld]:
    """Start worlds of the test's own."""
    with contextlib.ExitStack() as stack:

        def start(spec: WorldSpec | None = None, *, rung: Rung = Rung.LOOPBACK) -> World:
            try:
                check_rung(rung)
            except LabError as error:
                pytest.skip(str(error))
            return stack.enter_context(start_world(spec, rung=rung))

        yield start


@pytest.fixture
def loopback_world(new_world: NewWorld) -> World:
    """One router on plain loopback."""
    return new_world()


@pytest.fixture
def wan_world(new_world: NewWorld) -> World:
    """One router behind the published WAN."""
    return new_world(rung=Rung.FULL)
