"""A plan for people: readable at any size, what needs attention first."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from flashferry.cli.view import layout, plan_table
from flashferry.cli.view.layout import ShownConsole
from flashferry.cli.view.plan_table import PlanProgress
from flashferry.images.digests import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, Remedy, TuneMode
from flashferry.model.limits import Limits
from flashferry.model.waves import Wave, WavePolicy
from flashferry.monitor.events import Event
from tests.some import some

Shown = Callable[[FleetPlan, int], list[str]]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    def lines(plan: FleetPlan, width: int) -> list[str]:
        def narrow(*, stderr: bool = False) -> Console:
            return ShownConsole(stderr=stderr, width=width)

        monkeypatch.setattr(layout, "console", narrow)
        monkeypatch.setattr(plan_table, "console", narrow)
        plan_table.print_plan(plan)
        return capsys.readouterr().out.splitlines()

    return lines


def _device(number: int, action: Action = Action.STAGE, **more: object) -> PlannedDevice:
    given: dict[str, object] = {"address": "192.0.2.1", "image": "new.bin", "model": "ISR4321/K9", "wave": 0}
    if action is Action.STAGE:
        given |= {"starts_s": 0.0, "copy_s": 100.0, "hash_s": 5.0, "total_s": 110.0, "expected_bytes_per_s": 1e6}
    return PlannedDevice(host=f"r{number}", action=action, **(given | more))  # type: ignore[arg-type]


def _plan(*devices: PlannedDevice, fit: Fit | None = None) -> FleetPlan:
    staged = tuple(device.host for device in devices if device.action is Action.STAGE)
    return FleetPlan(
        created_at="2026-11-21T22:00:00+00:00",
        starts_at="2026-11-21T22:00:00+00:00",
        ends_at=None,
        images=(PlannedImage(name="new.bin", path="/new.bin", size_bytes=100_000_000, md5="0" * 32, sha512="0" * 128),),
        limits=Limits(),
        policy=WavePolicy(),
        tune=TuneMode.AUTO,
        duration_s=110.0,
        fit=fit or Fit(fits=None, sentence="the run takes 110 s"),
        waves=(Wave(number=0, name="all", hosts=staged),) if staged else (),
        devices=devices,
    )


def test_trouble_comes_before_what_goes_as_planned(shown: Shown) -> None:
    """Unreachable devices stand first, then refused ones, then the late, then all others."""
    devices = (
        _device(1),
        _device(2),
        _device(3, Action.REFUSED, reason="no room"),
        _device(4, Action.UNREACHABLE, reason="no answer"),
    )
    text = shown(_plan(*devices, fit=Fit(fits=False, sentence="late", late=("r2",))), 100)
    rows = [line.split()[0] for line in text if line.startswith("r") and "ISR" in line]
    assert rows == ["r4", "r3", "r2", "r1"]


def test_a_large_fleet_shows_what_needs_attention_and_counts_the_rest(shown: Shown) -> None:
    """Of 500 devices those as planned have no row, and of many with trouble the rest is counted."""
    calm = [_device(number) for number in range(440)]
    bad = [_device(number, Action.REFUSED, reason="no room") for number in range(440, 500)]
    text = shown(_plan(*calm, *bad), 100)
    assert sum("ISR4321/K9" in line for line in text) == 40
    assert "and 20 devices more that need attention; --output and --json have all of them" in text
    assert any(line.startswith("60 devices: refused: no room (r440") for line in text)
    assert "500 devices: 440 to be staged, 60 refused; 0.0 MB to carry" in text
    assert len(text) < 60


@pytest.mark.parametrize("width", [80, 100, 160])
def test_rows_of_devices_are_one_line_each(shown: Shown, width: int) -> None:
    """At usual widths no row of the table wraps."""
    text = shown(_plan(*(_device(number, is_assumed=True) for number in range(10, 20))), width)
    start = next(number for number, line in enumerate(text) if line.startswith("device"))
    rows = text[start + 1 : start + 11]
    assert [row.split()[0] for row in rows] == [f"r{number}" for number in range(10, 20)]
    assert all(len(row) <= width for row in some(rows))


def test_what_would_help_is_told_with_its_end(shown: Shown) -> None:
    """Each remedy has a line with the time at which the run would be done."""
    fit = Fit(
        fits=False,
        sentence="it does not fit",
        remedies=(
            Remedy(change="more copies", fits=True, ends_s=3600),
            Remedy(change="more link", fits=False, ends_s=7200),
        ),
    )
    text = shown(_plan(_device(1), fit=fit), 100)
    assert "  would fit: more copies: done at 23:00" in text
    assert "  would help: more link: done at Sun 00:00" in text


@pytest.mark.parametrize(
    ("device", "told"),
    [
        (_device(1), "Kept in p.json: look at it, then run 'flashferry stage --plan p.json' with the same inventory"),
        (
            _device(1, Action.UNREACHABLE),
            "Kept in p.json, which stages nothing: make it anew once what is told above is mended",
        ),
        (_device(1, Action.ALREADY_THERE), "Kept in p.json, which stages nothing"),
    ],
)
def test_a_plan_that_stages_nothing_is_not_advised_to_be_staged(
    device: PlannedDevice, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is an image told to be for 0 devices."""
    monkeypatch.setattr(plan_table, "console", lambda: ShownConsole(width=200))
    plan_table.print_plan(_plan(device), Path("p.json"), digest="ab")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == told
    assert lines[0].endswith("for 1 device" if device.action is Action.STAGE else "for no device")


def test_looking_at_a_fleet_tells_trouble_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    """Of 100 devices in 10 s there are a handful of lines: how far it has come, and of how many the plan complains."""
    progress = PlanProgress(100)
    for number in range(100):
        status = "failed" if number == 7 else "done"
        progress(
            Event(host=f"r{number}", step="plan", status=status, text="no answer" * (number == 7), at_s=number / 10)
        )
    lines = capsys.readouterr().err.splitlines()
    assert "no answer" not in "".join(lines)
    assert lines[-1] == "flashferry: looked at 100 of 100 devices, 1 of them refused or out of reach"
    assert len(lines) <= 7
