"""Plans of a play for the centre's tests."""

from __future__ import annotations

from collections.abc import Sequence

from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import plan_from, plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import WavePolicy, waves

IMAGE = PlannedImage(name="image.bin", path="/images/image.bin", size_bytes=500, md5="0" * 32, sha512="0" * 128)


def device(host: str, site: str | None, *, group: str | None = None, action: Action = Action.STAGE) -> PlannedDevice:
    """Return a device of a plan."""
    reason = "" if action is Action.STAGE else "flash is full"
    return PlannedDevice(
        host=host,
        address="192.0.2.1",
        site=site,
        group=group,
        action=action,
        reason=reason,
        image=IMAGE.name,
        model="m",
    )


def plan(devices: Sequence[PlannedDevice], policy: WavePolicy | None = None, ends_at: str | None = None) -> FleetPlan:
    """Return a plan of such devices, in waves, with its digest."""
    way = policy or WavePolicy(canary=False, by=None)
    made = FleetPlan(
        created_at="2026-11-26T12:00:00+00:00",
        starts_at="2026-11-26T12:00:00+00:00",
        ends_at=ends_at,
        images=(IMAGE,),
        image_folders=("/images",),
        limits=Limits(),
        policy=way,
        tune=TuneMode.NEVER,
        duration_s=1.0,
        fit=Fit(fits=None, sentence=""),
        devices=tuple(devices),
    )
    found = waves(made.of(Action.STAGE), way)
    number = {host: wave.number for wave in found for host in wave.hosts}
    waved = tuple(replace(one, wave=number.get(one.host, -1)) for one in devices)
    return plan_from(plan_text(replace(made, waves=found, devices=waved)).encode(), "of a test")
