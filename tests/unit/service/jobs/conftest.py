"""A service with two sites' plans and people, on a clock that stands still."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.database import ServiceDatabase

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
AT = "2026-11-23T12:00:00.000Z"
DIGEST = "ab" * 32
OTHERS = "cd" * 32


class Clock:
    """What time it is, as a test sets it."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(tmp_path: Path, clock: Clock) -> Service:
    state = tmp_path / "state"
    runs = RunSettings(inventory="/etc/fleet", images=Path("/srv/images"), options=("--secrets-command", "vault"))
    made = Service(state=state, settings=ServiceSettings(runs=runs), database=ServiceDatabase(state), now=clock)
    with made.database.writing() as database:
        for name in ("anna", "ben"):
            database.execute("INSERT INTO people (name, source, created_at) VALUES (?, 'local', ?)", (name, AT))
        for name, role in (("anna", "operator"), ("ben", "approver")):
            database.execute(
                "INSERT INTO grants (person, role, given_by, given_at) VALUES (?, ?, 'ben', ?)", (name, role, AT)
            )
        for digest, site in ((DIGEST, "AMS"), (OTHERS, "LIM")):
            database.execute(
                "INSERT INTO plans (digest, text, sites, devices, made_by, made_at, state, decided_by, decided_at) "
                "VALUES (?, '{}', ?, 3, 'anna', ?, 'approved', 'ben', ?)",
                (digest, f'["{site}"]', AT, AT),
            )
    return made


@pytest.fixture
def anna() -> Actor:
    """An operator of AMS, who may look at LIM."""
    grants = {Grant(role=Role.OPERATOR, site="AMS"), Grant(role=Role.VIEWER, site="LIM")}
    return Actor(name="anna", via=Via.SESSION, address="192.0.2.9", grants=frozenset(grants))


@pytest.fixture
def chief(anna: Actor) -> Actor:
    """An operator everywhere."""
    return replace(anna, name="ben", grants=frozenset({Grant(role=Role.OPERATOR)}))
