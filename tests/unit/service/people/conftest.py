"""A service with a clock that tests turn, and an admin."""

from __future__ import annotations

import pytest

from flashferry.service.actor import Actor, Grant, Role, Via
from flashferry.service.people.passwords import Passwords
from tests.served import QUICK, Served, serve

ADMIN = Actor(name="root", via=Via.SESSION, address="192.0.2.1", grants=frozenset({Grant(role=Role.ADMIN)}))


@pytest.fixture
def served(tmp_path) -> Served:
    made = serve(tmp_path)
    made.person("root", "admin")
    return made


@pytest.fixture
def passwords() -> Passwords:
    return Passwords(QUICK)
