"""Which orders are carried out, and what of a plan is a site's: decided without a device, a clock or a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, SiteForecast
from flashferry.model.limits import Limits
from flashferry.model.plan_file import check_places, plan_from, plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.sites.agent.execution import site_part
from flashferry.sites.agent.order_intake import OrderRefused, check_order, work_of
from flashferry.sites.wire import Order, OrderJob, moment_text

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
ORDER = Order(
    id="o1",
    job=OrderJob.STAGE,
    run="part-1",
    site="ams",
    plan="a" * 64,
    devices=("r1", "r2"),
    valid_from=moment_text(NOW),
    valid_until=moment_text(NOW + timedelta(hours=8)),
    release="1.2.3",
)


def image(name: str) -> PlannedImage:
    return PlannedImage(name=name, path=f"/centre/{name}", size_bytes=1, md5="0" * 32, sha512="0" * 128)


def device(host: str, image_name: str = "a.bin", site: str = "ams", action: Action = Action.STAGE) -> PlannedDevice:
    return PlannedDevice(host=host, address=host, site=site, image=image_name, action=action)


def forecast(site: str) -> SiteForecast:
    return SiteForecast(
        site=site,
        devices=1,
        link_rate_bps=None,
        link_source="",
        cap_share=0.5,
        cap_bytes_per_s=None,
        copies=1,
        peak_copies=1,
        load_share=None,
        busy_s=0.0,
        bytes=1,
        starts_s=0.0,
        ends_s=1.0,
    )


PLAN = FleetPlan(
    created_at="2026-11-26T11:00:00+00:00",
    starts_at="2026-11-26T11:00:00+00:00",
    ends_at=None,
    images=(image("a.bin"), image("b.bin")),
    image_folders=("/centre",),
    limits=Limits(),
    policy=WavePolicy(),
    tune=TuneMode.AUTO,
    duration_s=1.0,
    fit=Fit(fits=None, sentence="no window"),
    sites=(forecast("ams"), forecast("rtm")),
    waves=(
        Wave(number=0, name="canary", hosts=("x1",), is_canary=True),
        Wave(number=1, name="site ams", hosts=("r1", "r2")),
        Wave(number=2, name="site rtm", hosts=("x2",)),
    ),
    devices=(
        *(device("r1"), device("r2"), device("r3", action=Action.ALREADY_THERE)),
        *(device("x1", "b.bin", "rtm"), device("x2", "b.bin", "rtm")),
    ),
)


def check(order: Order, now: datetime = NOW, release: str = "1.2.3") -> None:
    check_order(order, site="ams", release=release, now=now, clock_differs_s=60.0)


def test_an_order_for_us_and_now_is_taken() -> None:
    """Also where the centre's clock is a little ahead, and where the release has a suffix."""
    check(ORDER)
    check(ORDER, now=NOW - timedelta(seconds=59))
    check(ORDER, release="1.2.3.dev4+g12")


@pytest.mark.parametrize(
    ("order", "now", "release", "told"),
    [
        (replace(ORDER, site="rtm"), NOW, "1.2.3", "expected one for site ams, found one for rtm"),
        (ORDER, NOW - timedelta(seconds=61), "1.2.3", "the clocks differ"),
        (ORDER, NOW + timedelta(hours=8), "1.2.3", "still valid, found that it ended at 2026-11-26T20:00:00.000Z"),
        (ORDER, NOW, "1.2.4", "release 1.2.4, as this agent is, found 1.2.3"),
    ],
)
def test_any_other_order_is_refused_in_a_sentence(order: Order, now: datetime, release: str, told: str) -> None:
    """With what was expected, what was found, and what to do."""
    with pytest.raises(OrderRefused) as caught:
        check(order, now, release)
    assert told in caught.value.message
    assert caught.value.hint


def test_a_confirmation_is_taken_from_a_centre_of_another_release() -> None:
    """Words that were sent before an update would else be sent for ever."""
    check(replace(ORDER, job=OrderJob.ACKNOWLEDGE, offset=1), release="9.0.0")


def test_a_sites_part_has_its_devices_alone_and_its_images_as_they_lie_there(tmp_path: Path) -> None:
    """Waves keep their numbers, by which they are approved; it is a whole plan, with a digest of its own."""
    part = site_part(PLAN, ORDER, folder=tmp_path, inventory={"r1", "r2", "r9"})
    assert [one.host for one in part.devices] == ["r1", "r2"]
    assert [(wave.number, wave.hosts) for wave in part.waves] == [(1, ("r1", "r2"))]
    assert [(one.name, one.path) for one in part.images] == [("a.bin", str(tmp_path / "a.bin"))]
    assert [one.site for one in part.sites] == ["ams"]
    read = plan_from(plan_text(part).encode(), "part")
    check_places(read, "part")
    assert read == part
    assert read.digest != plan_from(plan_text(PLAN).encode(), "plan").digest


@pytest.mark.parametrize(
    ("devices", "inventory", "told"),
    [
        (("r1", "r9"), {"r1", "r9"}, "expected devices of the plan"),
        (("r1", "r2"), {"r1"}, "expected devices of the inventory of site ams, found r2"),
        (("x1",), {"r1", "r2"}, "expected devices of the inventory of site ams, found x1"),
        (("r3",), {"r3"}, "expected a device that the plan stages"),
    ],
)
def test_devices_that_are_not_the_plans_or_not_ours_are_refused(devices, inventory, told) -> None:
    """Before anything is fetched for them."""
    with pytest.raises(OrderRefused) as caught:
        site_part(PLAN, replace(ORDER, devices=devices), folder=Path("/depot"), inventory=inventory)
    assert told in caught.value.message


def test_orders_of_two_names_for_the_same_are_one_piece_of_work() -> None:
    """Whatever the order of the names and the times; another device, run or plan is another."""
    assert work_of(ORDER) == work_of(replace(ORDER, id="o2", devices=("r2", "r1"), release="1.2.4"))
    for other in ({"devices": ("r1",)}, {"run": "part-2"}, {"plan": "b" * 64}, {"job": OrderJob.SYNC}):
        assert work_of(ORDER) != work_of(replace(ORDER, **other))
