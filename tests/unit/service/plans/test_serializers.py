"""What differs between two plans is what an approver has to read, and nothing else."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from flashferry.model.fleet_plan import Action, Supply
from flashferry.model.limits import Limits
from flashferry.model.policy import settings
from flashferry.model.waves import Wave
from flashferry.service.plans.serializers import Differs, difference, expected_lines, forecast_end
from tests.policy import another_value


def values(found, host):
    return {
        one.what: (one.before, one.after) for device in found.changed if device.host == host for one in device.changes
    }


def test_a_plan_does_not_differ_from_itself_made_later(plan):
    """When it was made, and the seconds of a device's forecast, are nobody's change."""
    again = replace(
        plan,
        created_at="2026-11-21T19:30:00+00:00",
        devices=tuple(replace(one, rtt_s=0.1, total_s=10.0, starts_s=3.0) for one in plan.devices),
    )
    assert difference(plan, again).is_none


def test_devices_come_and_go(plan):
    """By name."""
    new = replace(plan, devices=(plan.devices[0], replace(plan.devices[1], host="r3")))
    found = difference(plan, new)
    assert (found.added, found.removed, found.changed) == (("r3",), ("r2",), ())


def test_a_device_differs_in_what_is_done_to_it(plan):
    """Action, image, wave and the lines to be set, each with what it was."""
    staged = replace(plan.devices[1], action=Action.STAGE, wave=1, reason="")
    new = replace(
        plan, devices=(plan.devices[0], staged), waves=(*plan.waves, Wave(number=1, name="site LIM", hosts=("r2",)))
    )
    found = values(difference(plan, new), "r2")
    assert found["action"] == ("refused", "stage")
    assert found["wave"] == ("", "site LIM")
    assert found["lines"][0] == ""
    assert found["lines"][1].startswith("ip tcp window-size ")


def test_a_round_trip_that_needs_another_window_is_a_changed_line(plan):
    """Ten times the distance on the same link."""
    new = replace(plan, devices=(replace(plan.devices[0], rtt_s=1.0), plan.devices[1]))
    found = values(difference(plan, new), "r1")
    assert set(found) == {"lines"}
    assert found["lines"] == (
        "ip tcp window-size 250000; ip tcp selective-ack",
        "ip tcp window-size 2500000; ip tcp selective-ack",
    )


def test_another_file_of_the_same_name_is_another_image(plan):
    """Its digest says so."""
    other = replace(plan.images[0], sha512="0" * 128)
    (found,) = difference(plan, replace(plan, images=(other,))).images
    assert found.what == "new.bin"
    assert found.after.endswith("0" * 128)


def test_limits_waves_and_ends_are_told(plan):
    """With old and new value each."""
    new = replace(
        plan,
        limits=Limits(copies=5),
        duration_s=7200.0,
        waves=(Wave(number=0, name="all", hosts=("r1",)),),
    )
    found = difference(plan, new)
    assert found.rules == (Differs(what="limits: copies", before="200", after="5"),)
    assert found.ends == (
        Differs(what="forecast end", before="2026-11-21T23:00:00+00:00", after="2026-11-22T00:00:00+00:00"),
    )
    assert [(one.what, one.before, one.after) for one in found.waves] == [("canary", "1: r1", ""), ("all", "", "1: r1")]


def test_a_device_that_is_not_tuned_is_given_no_window(plan):
    """Its copy is good enough as it is."""
    assert expected_lines(replace(plan, devices=(replace(plan.devices[0], tune=False),))) == {"r1": ()}


@pytest.mark.parametrize("changes", [{"rtt_s": -1.0}, {"rtt_s": 1e308}, {"transport": "pigeon"}])
def test_figures_that_no_plan_has_bring_no_page_down(plan, changes):
    """No line is told of such a device; a run would refuse it."""
    assert expected_lines(replace(plan, devices=(replace(plan.devices[0], **changes),))) == {"r1": ()}


@pytest.mark.parametrize(("starts_at", "duration_s"), [("never", 1.0), ("2026-11-21T22:00:00+00:00", 1e300)])
def test_an_end_that_cannot_be_told_is_not(plan, starts_at, duration_s):
    """Empty, and no error."""
    assert forecast_end(replace(plan, starts_at=starts_at, duration_s=duration_s)) == ""


def test_a_depot_that_comes_or_goes_is_told(plan):
    """Of its site and of each device that pulls from it then; what it saves is a figure of the forecast."""
    site = replace(plan.sites[0], depot="depot-1", saved_bytes=7)
    new = replace(
        plan,
        sites=(site, *plan.sites[1:]),
        devices=(replace(plan.devices[0], pulls_from=Supply.DEPOT), plan.devices[1]),
    )
    found = difference(plan, new)
    assert found.rules == (Differs(what="depot of AMS", before="", after="depot-1"),)
    assert values(found, "r1") == {"pulls_from": ("centre", "depot")}


@pytest.mark.parametrize("known", [one for one in settings().values() if one.label], ids=lambda known: known.name)
def test_every_setting_that_a_plan_carries_is_compared(plan, known):
    """An approver reads it whichever it is, also one that did not exist when this was written."""
    new = replace(plan, **plan.run_policy.changed({known.name: another_value(known, plan)}).of_plan())
    assert [one.what for one in difference(plan, new).rules] == [": ".join(known.path)]


def test_a_device_that_adds_its_image_by_its_rule_differs(plan):
    """`install add` is done to the device."""
    new = replace(plan, devices=(replace(plan.devices[0], adds=True), plan.devices[1]))
    assert values(difference(plan, new), "r1")["adds"] == ("no", "yes")
