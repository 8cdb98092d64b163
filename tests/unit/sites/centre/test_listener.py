"""A centre that is always there: all open runs kept going, those too that are begun meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.model.waves import WavePolicy
from flashferry.sites.centre.following import FleetFollower
from flashferry.sites.wire import OrderJob
from flashferry.store.control_requests import Asker
from tests.unit.sites.centre.ground import RELEASE, Ground
from tests.unit.sites.centre.plans import device, plan

AMS = [device(f"ams-r{number}", "ams") for number in range(2)]


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr("flashferry.sites.centre.centre.our_release", lambda: RELEASE)
    monkeypatch.setattr("flashferry.sites.centre.following._GATE_EVERY_S", 0.0)
    return Ground(tmp_path, "ams")


def test_runs_are_kept_going_with_nobody_at_them(ground: Ground) -> None:
    """Orders go out, canaries open the rest, and the end is seen, of two runs one begun behind the other."""
    said: list[str] = []
    listener = FleetFollower(ground.centre, Asker(), said.append)
    first = ground.begin(plan(AMS, WavePolicy()))
    assert listener.check() == ()
    assert ground.broker.jobs(OrderJob.STAGE) == [("stage", f"{first}.ams.canary")]
    second = ground.begin(plan(AMS))
    ground.do_all("ams", f"{first}.ams.canary", ["ams-r0"])
    listener.check()
    ground.now_s += 60
    listener.check()
    assert ("stage", f"{first}.ams") in ground.broker.jobs(OrderJob.STAGE)
    assert ("stage", f"{second}.ams") in ground.broker.jobs(OrderJob.STAGE)
    ground.do_all("ams", f"{first}.ams", ["ams-r1"])
    assert listener.check() == (first,)
    assert f"run {first} has ended at all sites" in said
    assert listener.check() == ()


def test_a_run_whose_plan_is_damaged_is_left_alone_and_others_go_on(ground: Ground) -> None:
    """One run that cannot be read is told once; it keeps no other from going on."""
    said: list[str] = []
    bad, good = ground.begin(plan(AMS)), ground.begin(plan(AMS))
    with ground.ledger.writing() as database:
        database.execute("UPDATE runs SET plan = '{' WHERE run = ?", (bad,))
    listener = FleetFollower(ground.centre, Asker(), said.append)
    listener.check()
    listener.check()
    assert ground.broker.jobs(OrderJob.STAGE) == [("stage", f"{good}.ams")]
    assert [text.partition(":")[0] for text in said if "left alone" in text] == [f"run {bad} is left alone"]
