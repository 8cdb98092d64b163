"""Sites that work for themselves, as the API tells them: who sees which, and what is said where there is no centre."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from flashferry.sites.keys import PublicKey
from flashferry.store.database import moment_of
from flashferry.store.sites.agents import AgentBeat, take_beat, take_depot
from flashferry.store.sites.database import SitesDatabase
from tests.served import Served, serve

AT = "2026-11-26T12:00:00.000Z"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    made = serve(tmp_path)
    made.person("vera", "viewer")
    made.person("ines", "viewer@LIM")
    return made


def told(served: Served, name: str) -> list[dict[str, object]]:
    answer = served.call("GET", "/api/v1/sites", served.token(name))
    assert answer.status_code == 200, answer.text
    return list(answer.json()["sites"])


def a_centre(state: Path) -> None:
    key = PublicKey(raw=bytes(32)).line
    (state / "sites.toml").write_text(
        f'[centre]\nkey = "k"\nplans_folder = "p"\n[broker]\nurl = "redis://127.0.0.1/0"\n'
        f'[sites.ams]\nagent_key = "{key}"\n[sites.lima]\nagent_key = "{key}"\ninventory_sites = ["LIM"]\n'
    )
    beat = AgentBeat(site="lima", agent="agent-1", instance="1", release="0.0.1", last_message_at=AT, clock_ahead_s=2.0)
    with SitesDatabase(state).writing() as database:
        take_beat(database, beat)
        take_depot(database, "lima", ["image.bin"])


def test_without_a_centre_there_are_no_sites(served: Served) -> None:
    """A service whose state folder has no ledger of sites says so with an empty list, and makes none."""
    assert told(served, "vera") == []
    assert not (served.service.state / "sites.sqlite3").exists()


def test_sites_are_told_with_their_agents(served: Served) -> None:
    """Release, clock, when heard last and what the depot has; of a site that was never heard, that."""
    a_centre(served.service.state)
    served.clock.now = moment_of(AT) + timedelta(minutes=12)
    ams, lima = told(served, "vera")
    assert (ams["site"], ams["agent"], ams["heard"]) == ("ams", None, "never")
    assert (lima["release"], lima["heard_at"], lima["clock_ahead_s"]) == ("0.0.1", AT, 2.0)
    assert lima["images"] == ["image.bin"]
    assert str(lima["trouble"]).startswith("expected its agent to answer, found it silent; last message 12 min ago")


def test_sites_that_were_never_heard_are_told_before_there_is_a_ledger(served: Served) -> None:
    """As `sites list --no-ask` tells them; a look makes no ledger."""
    a_centre(served.service.state)
    for path in served.service.state.glob("sites.sqlite3*"):
        path.unlink()
    assert [(one["site"], one["heard"]) for one in told(served, "vera")] == [("ams", "never"), ("lima", "never")]
    assert not (served.service.state / "sites.sqlite3").exists()


def test_who_has_a_role_at_some_sites_sees_these(served: Served) -> None:
    """By the names that sites have in inventories, as roles are given."""
    a_centre(served.service.state)
    assert [one["site"] for one in told(served, "ines")] == ["lima"]
