"""What the product's documents come to: copies, figures, and whose fault a failure is."""

from __future__ import annotations

import pytest

from flashferry.nightly.backend import PlannedNode
from flashferry.nightly.night import Fault, NightFault
from flashferry.nightly.product import (
    ProductRun,
    check_ended_well,
    copies_of_probe,
    copies_of_stage,
    figures_of,
    troubles,
)
from tests.unit.nightly.fakes import arm, failed_device, probe_device, stage_device

NODES = {"xe1": PlannedNode(label="xe1", node_definition="iosv", condition_name="wan50", platform="cisco_ios")}


def run_of(*devices):
    return {"schema": "flashferry.stage/1", "run": {"devices": list(devices)}}


def test_both_arms_of_a_probe_are_copies_and_the_tuned_one_has_the_gain():
    untuned, tuned = copies_of_probe(run_of(probe_device("xe1", 500e3, 5e6)), NODES)
    assert (untuned.is_tuned, untuned.rate_bytes_per_s, untuned.gain) == (False, 500e3, None)
    assert (tuned.is_tuned, tuned.rate_bytes_per_s, tuned.gain, tuned.verdict) == (True, 5e6, 10.0, "window")


def test_a_copy_that_was_too_short_is_no_measurement():
    device = probe_device("xe1")
    device["probe"]["as_is"] = arm(1e6) | {"too_short": "0.2 s are fewer than ten round trips"}
    assert [one.is_tuned for one in copies_of_probe(run_of(device), NODES)] == [True]


@pytest.mark.parametrize(
    ("sender", "cap"),
    [
        ({"cap_bytes_per_s": 5_000_000}, 5e6),
        ({"cap_bytes_per_s": 5_000_000, "pace_bytes_per_s": 4_000_000}, 4e6),
        ({"cap_bytes_per_s": None, "pace_bytes_per_s": None}, None),
    ],
)
def test_what_our_server_held_a_copy_to_goes_with_it(sender, cap):
    """A share of the cap is judged by it."""
    device = stage_device("xe1")
    device["transfer"]["sender"] = sender
    assert copies_of_stage(run_of(device), NODES)[0].cap_bytes_per_s == cap


@pytest.mark.parametrize("change", [{"outcome": "failed"}, {"outcome": "already there"}, {"transfer": None}])
def test_only_what_was_delivered_is_a_copy(change):
    assert copies_of_stage(run_of(stage_device("xe1") | change), NODES) == ()


def test_a_router_that_is_not_the_nights_counts_for_nothing():
    found = run_of(stage_device("other") | {"seconds_by_step": {"connect": 1.0}})
    assert copies_of_stage(found, NODES) == tuple(copies_of_probe(found, NODES)) == figures_of(found, NODES) == ()


def test_logins_and_hashes_are_timed():
    device = stage_device("xe1") | {"seconds_by_step": {"connect": 1.25, "check": 3.0, "verify": 20.0}}
    assert [(one.what, one.value) for one in figures_of(run_of(device), NODES)] == [("connect", 1.25), ("verify", 20.0)]


REFUSED = failed_device("xe1", outcome="refused", failure={"kind": "DeviceRefused", "reason": "no room on flash"})


@pytest.mark.parametrize(
    ("code", "document", "fault", "is_unrestored", "told"),
    [
        (4, {"devices": [REFUSED]}, Fault.DEVICE, False, "no room on flash"),
        (3, run_of(failed_device("xe1")), Fault.PRODUCT, False, "the copy broke off"),
        (3, run_of(failed_device("xe1"), failed_device("xe2")), Fault.PRODUCT, False, "and 1 router more"),
        (5, run_of(failed_device("xe1", restored="incomplete")), Fault.PRODUCT, True, "exit code 5"),
        (1, {"error": "KeyError: 'x'"}, Fault.PRODUCT, False, "KeyError"),
        (2, {"error": "no such option"}, Fault.PRODUCT, False, "no such option"),
        (-9, {}, Fault.PRODUCT, False, "signal 9: out of memory"),
    ],
)
def test_whose_fault_a_failure_is(code, document, fault, is_unrestored, told):
    """A device that refuses is the device's; all else that the product ends in is its own."""
    with pytest.raises(NightFault) as caught:
        check_ended_well(
            "stage", ProductRun(verb="stage", exit_code=code, document=document, said="line\nout of memory\n\n")
        )
    assert (caught.value.fault, caught.value.is_unrestored) == (fault, is_unrestored)
    assert told in str(caught.value)


def test_a_login_that_is_refused_is_the_devices_fault():
    refused = failed_device("xe1", failure={"kind": "LoginRefused", "reason": "login was refused"})
    with pytest.raises(NightFault) as caught:
        check_ended_well("check", ProductRun(verb="check", exit_code=3, document={"devices": [refused]}))
    assert caught.value.fault is Fault.DEVICE


def test_good_devices_are_no_trouble_unless_they_are_not_restored():
    """A good copy on an unrestored device is both."""
    fine = run_of(stage_device("xe1"), stage_device("xe2") | {"outcome": "already there", "restored": "untouched"})
    assert tuple(troubles(fine)) == ()
    assert [one.is_unrestored for one in troubles(run_of(stage_device("xe1") | {"restored": "incomplete"}))] == [True]


def test_what_recovery_could_not_restore_is_trouble():
    """Its records have no outcome."""
    pairs = (("xe1", "incomplete"), ("xe2", "restored"))
    found = {"devices": [{"host": host, "restored": restored, "failure": None} for host, restored in pairs]}
    assert [one.host for one in troubles(found)] == ["xe1"]
