"""The people, images and plans of the plans' tests, an approved plan, and schedules of it."""

from __future__ import annotations

from datetime import datetime

import pytest

from flashferry.core.values import replace
from flashferry.service.plans.deciding import approve
from flashferry.service.schedules.scheduler import ScheduleSpec, make_schedule
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.jobs import ScheduleKind, occasions_of, schedule_of
from tests.unit.service.plans.conftest import clock, images, offered, plan, who
from tests.unit.service.plans.conftest import service as bare

__all__ = ["bare", "clock", "images", "offered", "plan", "who"]


@pytest.fixture
def service(bare: Service, tmp_path) -> Service:
    """Return the service with an inventory and a folder of nights."""
    nights = tmp_path / "nights"
    (nights / "labs").mkdir(parents=True)
    (nights / "labs" / "small.yaml").write_text("x")
    (tmp_path / "secret.yaml").write_text("x")
    (nights / "out.yaml").symlink_to(tmp_path / "secret.yaml")
    runs = RunSettings(images=bare.settings.runs.images, nights=nights, inventory="/etc/fleet")
    return Service(state=bare.state, settings=ServiceSettings(runs=runs), database=bare.database, now=bare.now)


@pytest.fixture
def digest(service, who, plan, offered) -> str:
    """Return an approved plan that takes an hour and may be at work from 20:00 on for a month."""
    made = offered(replace(plan, starts_at="2026-11-21T20:00:00+00:00", ends_at="2026-12-21T05:00:00+00:00"), title="t")
    approve(service, who("ann"), made)
    return made


@pytest.fixture
def schedule(service, who, digest):
    """Return what makes a schedule: of the plan, each night at 22:00 in Amsterdam, for two hours."""

    def schedule(by="maker", **changes):
        wish = ScheduleSpec(
            title="",
            kind=ScheduleKind.PLAN,
            subject=digest,
            calendar="daily 22:00",
            time_zone="Europe/Amsterdam",
            window_s=7200,
        )
        return make_schedule(service, who(by), replace(wish, **changes))

    return schedule


@pytest.fixture
def now(service):
    """Return what reads a schedule as it is now, with what became of its due times, the oldest first."""

    def now(schedule):
        with service.database.reading() as database:
            found = occasions_of(database, schedule.schedule_id)
            return schedule_of(database, schedule.schedule_id), found[::-1]

    return now


def at(text: str) -> datetime:
    """Return a time in November 2026, UTC: `21T21:00`."""
    return datetime.fromisoformat(f"2026-11-{text}+00:00")
