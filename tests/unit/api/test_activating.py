"""What an activation is refused for before a device is asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.api.activating import ActivationOptions, activate, activation_plan
from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import PlannedImage
from flashferry.model.activation import ActivationLimits
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import save_plan
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from inventory.nornir_loader import open_inventory

IMAGE = PlannedImage(name="x.17.09.04.SPA.bin", path="/x.17.09.04.SPA.bin", size_bytes=1, md5="m", sha512="s")


@pytest.fixture
def nornir(tmp_path):
    (tmp_path / "hosts.yaml").write_text(
        "r1: {hostname: 192.0.2.1, platform: ios, data: {console_access: true}}\n"
        "r2: {hostname: 192.0.2.2, platform: ios, data: {console_access: true, upstream: 'yes'}}\n"
        "r3: {hostname: 192.0.2.3, platform: ios}\n"
    )
    return open_inventory(tmp_path)


def written(tmp_path, *hosts):
    devices = tuple(
        PlannedDevice(host=host, address="x", action=Action.STAGE, image=IMAGE.name, identity=f"SN/{host}", wave=0)
        for host in hosts
    )
    plan = FleetPlan(
        created_at="2026-11-26T12:00:00+00:00",
        starts_at="2026-11-26T12:00:00+00:00",
        ends_at=None,
        images=(IMAGE,),
        limits=Limits(),
        policy=WavePolicy(),
        tune=TuneMode.AUTO,
        duration_s=1.0,
        fit=Fit(fits=None, sentence="x"),
        waves=(Wave(number=0, name="all", hosts=hosts),),
        devices=devices,
    )
    path = tmp_path / "night.json"
    save_plan(plan, path)
    return path


def test_a_plan_is_put_into_rounds(nornir, tmp_path):
    """By what the inventory says of each device; those that the plan does not have take no part."""
    found = activation_plan(nornir, written(tmp_path, "r1", "r2"))
    assert [one.hosts for one in found.rounds] == [("r1",), ("r2",)]
    assert (found.hosts, found.image_of("r1"), found.identities["r2"]) == (("r1", "r2"), IMAGE.name, "SN/r2")
    assert set(found.nornir.inventory.hosts) == {"r1", "r2"}


def test_somebody_must_be_able_to_get_at_the_console(nornir, tmp_path):
    """By the inventory, or by the operator's word for all."""
    plan = written(tmp_path, "r1", "r3")
    with pytest.raises(ConfigInvalid, match="of r3 the inventory does not say"):
        activation_plan(nornir, plan)
    assert activation_plan(nornir, plan, ActivationOptions(has_console_access=True)).hosts == ("r1", "r3")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ActivationLimits(timer_min=29), "expected 30 to 1200 minutes, found 29"),
        (ActivationLimits(timer_min=30), "expected at least 40 minutes"),
        (ActivationLimits(timer_min=60, settle_s=1800.0), "expected at least 65 minutes"),
    ],
)
def test_a_timer_that_would_run_out_before_anybody_looks_is_refused(nornir, tmp_path, limits, words):
    """The old image would come back in the middle of the comparison."""
    with pytest.raises(ConfigInvalid, match=words):
        activation_plan(nornir, written(tmp_path, "r1"), ActivationOptions(limits=limits))


@pytest.mark.parametrize("approved", ["", "abc", "0" * 64, "ABCDEF1"])
def test_another_approval_is_none(approved, tmp_path):
    """Too few digits, or those of another plan; nothing is opened."""
    plan = SimpleNamespace(path="night.json", digest="abcdef1234567890", hosts=("r1",))
    with pytest.raises(ConfigInvalid, match="expected the approval"):
        activate(plan, approved, state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
