"""Whether all sites may go on behind the canaries."""

from __future__ import annotations

import pytest

from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.waves import WavePolicy
from flashferry.sites.centre.gate import Decision, decide, first_wave, wave_that_waits
from flashferry.store.sites.words import DeviceOutcome
from tests.unit.sites.centre.plans import device, plan

DEVICES = [device(f"r{number}", site) for number, site in enumerate(["ams", "ams", "lim", "lim"])]


def outcomes(made: FleetPlan, canary: str | None) -> list[DeviceOutcome]:
    return [
        DeviceOutcome(
            host=one.host, site=one.site or "", round=0, wave=one.wave, outcome=canary if one.wave == 0 else None
        )
        for one in made.devices
    ]


@pytest.mark.parametrize(
    ("canary", "decision"),
    [
        (None, Decision()),
        ("done", Decision(goes_on=True)),
        ("already there", Decision(goes_on=True)),
        ("refused", Decision(goes_on=True)),
        ("failed", Decision(stop="1 of the first devices (canaries) failed, none may")),
        ("error", Decision(stop="1 of the first devices (canaries) failed, none may")),
    ],
)
def test_all_sites_wait_for_the_canary(canary: str | None, decision: Decision) -> None:
    """Nothing goes on before the canary is through, all do once it is good, none does once it failed."""
    made = plan(DEVICES, WavePolicy())
    assert first_wave(made) == 0
    assert decide(made, 0, outcomes(made, canary), is_stopped=False) == decision


def test_where_people_approve_the_centre_does_not() -> None:
    """With approval between waves a good canary opens nothing."""
    made = plan(DEVICES, WavePolicy(approve=True))
    assert decide(made, 0, outcomes(made, "done"), is_stopped=False) == Decision()


def test_without_canaries_all_begin_at_once() -> None:
    """A plan without a first wave of its own holds nobody back."""
    made = plan(DEVICES, WavePolicy(canary=False))
    assert first_wave(made) is None
    assert decide(made, None, outcomes(made, None), is_stopped=False) == Decision()


def test_what_was_stopped_is_not_opened_again() -> None:
    """Once it was decided that nothing new begins, a good canary changes nothing."""
    made = plan(DEVICES, WavePolicy())
    assert decide(made, 0, outcomes(made, "done"), is_stopped=True) == Decision()


@pytest.mark.parametrize(
    ("canary", "approved", "policy", "is_stopped", "waits"),
    [
        ("done", 0, WavePolicy(approve=True), False, 1),
        ("failed", 0, WavePolicy(approve=True), False, 1),
        (None, 0, WavePolicy(approve=True), False, None),
        ("done", 1, WavePolicy(approve=True), False, None),
        ("done", None, WavePolicy(approve=True), False, None),
        ("done", 0, WavePolicy(), False, None),
        ("done", 0, WavePolicy(approve=True), True, None),
    ],
)
def test_a_wave_waits_for_a_yes_once_all_before_it_is_through(
    canary: str | None, approved: int | None, policy: WavePolicy, is_stopped: bool, waits: int | None
) -> None:
    """Not before, not where nobody is asked, and not of a run that begins nothing more."""
    made = plan(DEVICES, policy)
    assert wave_that_waits(policy, approved, outcomes(made, canary), is_stopped=is_stopped) == waits
