"""Devices that a plan does not stage: the run leaves them alone, its report has them."""

from __future__ import annotations

import pytest
from nornir.core import Nornir
from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory

from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.reports.build import build_report
from flashferry.run.make_request import request_for_plan
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run

NAMES = ("staged", "there", "stays", "refused", "away")


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"an image")
    image = PlannedImage(name="x.bin", path=str(path), size_bytes=8, md5="0", sha512="0")
    actions = dict(zip(NAMES, Action, strict=True))
    return FleetPlan(
        created_at="2026-11-21T22:00:00+00:00",
        starts_at="2026-11-21T22:00:00+00:00",
        ends_at=None,
        images=(image,),
        limits=Limits(),
        policy=WavePolicy(),
        tune=TuneMode.AUTO,
        duration_s=12.5,
        fit=Fit(fits=None, sentence="no end is given"),
        waves=(Wave(number=0, name="canary", hosts=("staged",), is_canary=True),),
        devices=tuple(
            PlannedDevice(
                host=name,
                address="192.0.2.1",
                site="berlin",
                image="x.bin",
                action=action,
                wave=0 if action is Action.STAGE else -1,
                reason="12 MB free" if action is Action.REFUSED else "",
                hint="Make room" if action is Action.REFUSED else None,
            )
            for name, action in actions.items()
        ),
    )


def fleet(*names):
    hosts = Hosts({name: Host(name=name, hostname="192.0.2.1", platform="ios") for name in names})
    return Nornir(inventory=Inventory(hosts=hosts, groups=Groups(), defaults=Defaults()))


def request(plan, *names):
    return request_for_plan(fleet(*names), plan, plan.run_policy)


def test_the_report_has_every_device_of_the_plan(plan, journal):
    """Each with what the plan found and when; no resume is offered for them, and no wave waits for them."""
    wanted = request(plan, *NAMES)
    assert set(wanted.images) == {"staged"}
    run_id = journal.begin_run("stage", {})
    journal.exclude(run_id, wanted.excluded)
    journal.finish_run(run_id)
    run = read_run(journal.directory, run_id)
    found = {one.host: one for one in build_report(run, written_at="", written_by="", before={}).devices}
    assert {host: (one.outcome, one.needs_attention) for host, one in found.items()} == {
        "there": ("already there", False),
        "stays": ("not begun", False),
        "refused": ("refused", True),
        "away": ("failed", True),
    }
    assert {one.wave for one in found.values()} == {None}
    assert found["refused"].step == "plan"
    assert found["refused"].reason.endswith("2026-11-21 22:00 UTC, so this run did not touch it: 12 MB free")
    assert found["refused"].hint == "Make room"
    assert "this run did not look again" in found["there"].notes[0]
    assert not read_status(journal.directory).to_recover


def test_while_the_run_is_under_way_they_are_through(plan, journal):
    """They wait for nothing."""
    run_id = journal.begin_run("stage", {})
    journal.exclude(run_id, request(plan, *NAMES).excluded)
    report = build_report(read_run(journal.directory, run_id), written_at="", written_by="", before={})
    assert [one.outcome for one in report.devices] == ["already there", "not begun", "refused", "failed"]


def test_devices_that_were_not_chosen_are_not_told(plan):
    """With --host, or an inventory that has fewer, the report is about those."""
    assert [device.host for device, _ in request(plan, "staged", "away").excluded] == ["away"]
