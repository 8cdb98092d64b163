"""A service with a clock that tests turn, and an admin."""

from __future__ import annotations

import pytest

from flashferry.service.people.sign_in import Passwords
from tests.served import QUICK, Served, serve


@pytest.fixture
def served(tmp_path) -> Served:
    made = serve(tmp_path)
    made.person("root", "admin")
    return made


@pytest.fixture
def passwords() -> Passwords:
    return Passwords(QUICK)
