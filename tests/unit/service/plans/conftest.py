"""A service with people, a folder of images, and plans over two sites."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, SiteForecast
from flashferry.model.limits import Limits
from flashferry.model.plan_file import plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.service.plans.eligibility import offer
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.images import ImageState, StoredImage, add_image

NOW = datetime(2026, 11, 21, 20, 0, tzinfo=UTC)
PEOPLE = {
    "maker": [("operator", "*")],
    "ann": [("approver", "*")],
    "bob": [("approver", "AMS"), ("operator", "AMS"), ("viewer", "*")],
    "eve": [("admin", "*"), ("operator", "*")],
    "viv": [("viewer", "LIM")],
    "nil": [("viewer", "GVA")],
}


def site(name: str) -> SiteForecast:
    return SiteForecast(
        site=name,
        devices=1,
        link_rate_bps=10e6,
        link_source="inventory",
        cap_share=0.8,
        cap_bytes_per_s=1e6,
        copies=4,
        peak_copies=1,
        load_share=0.5,
        busy_s=60.0,
        bytes=5,
        starts_s=0.0,
        ends_s=60.0,
    )


@pytest.fixture
def clock() -> list[datetime]:
    """Return what time it is, to be changed."""
    return [NOW]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "new.bin").write_bytes(b"image")
    return folder


@pytest.fixture
def service(tmp_path: Path, images: Path, clock: list[datetime]) -> Service:
    made = Service(
        state=tmp_path / "state",
        settings=ServiceSettings(runs=RunSettings(images=images)),
        database=ServiceDatabase(tmp_path / "state"),
        now=lambda: clock[0],
    )
    with made.database.writing() as database:
        for name, grants in PEOPLE.items():
            database.execute("INSERT INTO people (name, source, created_at) VALUES (?, 'local', '2026')", (name,))
            for role, where in grants:
                database.execute(
                    "INSERT INTO grants (person, role, site, given_by, given_at) VALUES (?, ?, ?, 'eve', '2026')",
                    (name, role, where),
                )
        digest = hashlib.sha512(b"image").hexdigest()
        add_image(database, image("new.bin", state=ImageState.PUBLISHED, sha512=digest))
    return made


def image(name: str, **values: Any) -> StoredImage:
    """Return an image's row as the image store has it."""
    return StoredImage(name=name, **{"size_bytes": 5, "uploaded_by": "maker", "created_at": "2026"} | values)


@pytest.fixture
def able(service: Service, images: Path) -> Service:
    """Return the service with an inventory, so that jobs can be asked for."""
    settings = ServiceSettings(runs=RunSettings(images=images, inventory="/etc/fleet"))
    return Service(state=service.state, settings=settings, database=service.database, now=service.now)


@pytest.fixture
def who() -> Callable[[str], Actor]:
    """Return somebody as he signs in."""
    return lambda name: Actor(
        name=name, via=Via.SESSION, grants=frozenset(Grant(role=Role(r), site=s) for r, s in PEOPLE[name])
    )


@pytest.fixture
def plan(images: Path) -> FleetPlan:
    """Return a plan for AMS and LIM that must end at 05:00 UTC."""
    image = PlannedImage(
        name="new.bin",
        path=str(images / "new.bin"),
        size_bytes=5,
        md5=hashlib.md5(b"image").hexdigest(),
        sha512=hashlib.sha512(b"image").hexdigest(),
    )
    device = PlannedDevice(
        host="r1", address="192.0.2.1", site="AMS", image="new.bin", action=Action.STAGE, wave=0, rtt_s=0.1, total_s=9.0
    )
    return FleetPlan(
        created_at="2026-11-21T19:00:00+00:00",
        starts_at="2026-11-21T22:00:00+00:00",
        ends_at="2026-11-22T06:00:00+01:00",
        images=(image,),
        image_folders=(str(images.resolve()),),
        limits=Limits(),
        policy=WavePolicy(),
        tune=TuneMode.AUTO,
        duration_s=3600.0,
        fit=Fit(fits=True, sentence="it fits"),
        sites=(site("AMS"), site("LIM")),
        waves=(Wave(number=0, name="canary", hosts=("r1",), is_canary=True),),
        devices=(device, replace(device, host="r2", site="LIM", action=Action.REFUSED, wave=-1, reason="flash full")),
    )


@pytest.fixture
def offered(service: Service, who: Callable[[str], Actor]) -> Callable[..., str]:
    """Return what offers a plan and returns its digest."""

    def offered(plan: FleetPlan, by: str = "maker", title: str = "") -> str:
        return offer(service, who(by), plan_text(plan).encode(), title)[0].digest

    return offered
