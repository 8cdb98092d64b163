"""A device that says no to its activation: looked at, and followed where it shows that it is under way all the same."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from flashferry.devices.errors import DeviceUnreachable, InstallRefused
from flashferry.model.activation import ActivationOutcome
from flashferry.model.doubts import Remembered
from flashferry.run.activation import device as one_device
from tests.unit.model.test_activation import ACTIVE, OLD, activation, installed
from tests.unit.run.test_activation_following import ADDED, AFTER, BEFORE, PENDING, Device, away, follows

WORKS = (installed(OLD, "U    17.12.04.0.1", "D    17.06.03.0.1", timer=ACTIVE), BEFORE)


def ended(monkeypatch, *looks):
    """Return what became of a device that refused `install activate`, and what was told as the failure."""
    device = Device(monkeypatch, *looks)
    following, _ = follows()
    # Since when a device runs is not asked of one that is under way.
    monkeypatch.setattr(following, "drop_session", lambda: device.next() if device.looks[0] == WORKS else None)
    monkeypatch.setattr(one_device, "Following", lambda *_, **__: following)
    following._task.host.connections.clear()

    def refused(self, following):
        raise InstallRefused("'install activate': FAILED", host="r1")

    monkeypatch.setattr(one_device._Work, "_restarted", refused)
    found = SimpleNamespace(reports=[], failures=[])
    work = object.__new__(one_device._Work)
    work._task = following._task
    work._context = SimpleNamespace(journal=None, run_id="run", interrupted=lambda: False)
    work.run = SimpleNamespace(
        fail=found.failures.append,
        event=lambda *_: None,
        take=lambda report, **_: found.reports.append(report),
    )
    monkeypatch.setattr(type(following), "is_as_before", lambda _: True)
    work._activate(activation(before=BEFORE), None)
    return found


def test_a_device_that_said_no_and_stays_is_not_activated(monkeypatch):
    """One look tells; it is not waited for."""
    found = ended(monkeypatch, (ADDED, BEFORE))
    assert [report.outcome for report in found.reports] == [ActivationOutcome.NOT_ACTIVATED]


def test_a_device_that_said_no_and_restarts_is_followed(monkeypatch):
    """A word of failure in its output, or somebody's broadcast, is not what holds: `show install summary` is."""
    monkeypatch.setattr(type(follows()[0]), "_committed", lambda self: self._read())
    found = ended(monkeypatch, WORKS, WORKS, WORKS, away, (PENDING, AFTER))
    assert [report.outcome for report in found.reports] == [ActivationOutcome.COMMITTED]


def test_a_device_that_does_not_answer_behind_its_no_stays_in_hand(monkeypatch):
    """Nobody knows what it does."""
    with pytest.raises(DeviceUnreachable):
        ended(monkeypatch, *[away] * 100_000)


def test_readiness_knows_what_earlier_runs_saw(monkeypatch, tmp_path):
    """A member that left is in none of the device's tables, nor is an add that failed or a copy that was false."""
    asked = {}

    def look(*_, **given):
        asked.update(given)
        return SimpleNamespace(verdict=one_device.Verdict.NO)

    monkeypatch.setattr(one_device, "check_readiness", look)
    work = object.__new__(one_device._Work)
    work._name = "r1"
    work._device = SimpleNamespace(target=SimpleNamespace(image=SimpleNamespace(name="cat9k.bin")))
    work._context = SimpleNamespace(
        signature=True,
        hash_speeds={},
        interrupted=lambda: False,
        staged_members={("r1", "cat9k.bin"): (1, 2, 3)},
        journal=SimpleNamespace(directory=tmp_path),
    )
    known = {
        "cat9k.bin": (
            Remembered(run_id="RUN1", host="r7", identity="9X/sw-1", false_copy=True),
            Remembered(run_id="RUN2", host="r1", failed_add=True),
        )
    }
    monkeypatch.setattr(one_device, "doubts", lambda directory, *names: known)
    work.run = SimpleNamespace(timed=lambda _: nullcontext(), update=lambda **_: None, refuse=lambda _: None)
    session = SimpleNamespace(facts=lambda: SimpleNamespace(serial_number="9X", hostname="sw-1"))
    assert work._is_ready(session) is False
    assert asked["expected_members"] == (1, 2, 3)
    assert "RUN1" in asked["false_copy"]
    assert "RUN2" in asked["failed_add"]
