"""A plan for people: readable at any size, what needs attention first."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from flashferry.cli.view import layout, plan_table
from flashferry.cli.view.layout import ShownConsole
from flashferry.cli.view.plan_table import PlanProgress
from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import (
    Action,
    DepotAdvice,
    Fit,
    FleetPlan,
    PlannedDevice,
    Remedy,
    Savings,
    SiteForecast,
)
from flashferry.model.limits import Limits
from flashferry.model.policy import TuneMode
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
            "Kept in p.json, which stages nothing: make a new one once the above is corrected",
        ),
        (_device(1, Action.ALREADY_THERE), "Kept in p.json, which stages nothing"),
    ],
)
def test_a_plan_that_stages_nothing_is_not_advised_to_be_staged(
    device: PlannedDevice, told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is an image told to be for 0 devices."""
    monkeypatch.setattr(plan_table, "console", lambda: ShownConsole(width=200))
    plan = _plan(device)
    plan_table.print_plan(plan)
    lines = capsys.readouterr().out.splitlines()
    assert plan_table.next_lines(plan, Path("p.json"), "ab") == ("SHA-256 ab", told)
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
    assert lines[-1] == "flashferry: checked 100 of 100 devices, 1 of them refused or out of reach"
    assert len(lines) <= 7


def test_what_follows_the_restore_is_told_where_there_is_any(shown: Shown) -> None:
    """A stack has its members and the time for them in its row; a fleet of single devices has no such column."""
    stack = _device(1, other_places=2, finish_s=600.0, adds=True)
    text = shown(_plan(stack, _device(2, finish_s=0.0)), 160)
    assert any(line.startswith("device") and "behind" in line for line in text)
    assert "r1: once restored: copied inside the box to 2 other members, hashed there" in text
    assert "r1: once restored: 'install add', by the rule of its image" in text
    plain = shown(_plan(_device(2, finish_s=0.0)), 160)
    assert not any("behind" in line or "inside the box" in line for line in plain)


def _site(name: str, **more: object) -> SiteForecast:
    given: dict[str, object] = {
        "site": name,
        "devices": 20,
        "link_rate_bps": 10e6,
        "link_source": "stated in the inventory",
        "cap_share": 0.8,
        "cap_bytes_per_s": 973333,
        "copies": 8,
        "peak_copies": 8,
        "load_share": 1.0,
        "busy_s": 206.0,
        "bytes": 200_000_000,
        "starts_s": 207.0,
        "ends_s": 660.0,
    }
    return SiteForecast(**(given | more))  # type: ignore[arg-type]


def _with_depots() -> FleetPlan:
    lan: dict[str, object] = {"lan_rate_bps": 100e6, "lan_source": "assumed", "lan_bytes": 4_000_000_000}
    saved = Savings(
        sentence="0.80 GB over the links instead of 8.00 GB; 11 min instead of 69 min; 3 nights become 1",
        bytes=800,
        bytes_without=8000,
        lan_bytes=9000,
        duration_s=660.0,
        duration_without_s=4140.0,  # type: ignore[arg-type]
        nights=1,
        nights_without=3,
    )
    sites = (
        _site("ams", depot="depot-1", at_depot_s=207.0, saved_bytes=3_800_000_000, saved_s=3480.0, **lan),
        _site("lim", neighbours=True, saved_s=-300.0, **(lan | {"lan_source": "stated in the inventory"})),
        _site("gva"),
    )
    return replace(_plan(_device(1)), sites=sites, savings=saved)


def _advice(number: int, **more: object) -> DepotAdvice:
    given: dict[str, object] = {
        "site": f"s{number}",
        "devices": 20,
        "images": 1,
        "bytes": 4_000_000_000,
        "bytes_with": 200_000_000,
        "takes_s": 4140.0,
        "takes_with_s": 660.0,
        "saved_s": 3480.0,
        "fits": True,
        "fits_with": True,
        "nights": 1,
        "nights_with": 1,
    }
    return DepotAdvice(**(given | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 120])
def test_sites_with_a_depot_or_neighbours_say_what_that_saves(shown: Shown, width: int) -> None:
    """A line each, whatever the width: where images come from, what crosses the link, and what it saves or costs."""
    text = shown(_with_depots(), width)
    start = next(number for number, line in enumerate(text) if line.startswith("site") and "images from" in line)
    ams, lim, after = (" ".join(line.split()) for line in text[start + 1 : start + 4])
    assert ams.startswith("ams its depot 22:03 200.0 MB 4.00 GB")
    assert ams.endswith("3.80 GB, 58 min")
    assert lim.startswith("lim neighbours - 200.0 MB 4.00 GB")
    assert lim.endswith("0.0 MB, costs 5 min")
    assert after == ""
    if width == 120:
        assert "~100 Mbit/s" in ams
        assert " 100 Mbit/s" in lim
    assert "Depots and neighbours: 0.80 GB over the links instead of 8.00 GB" in " ".join(text)


def test_sites_that_should_have_a_depot_are_told_with_what_is_now(shown: Shown) -> None:
    """Nights and fit have a column where a depot changes them; of many sites the rest is counted."""
    few = replace(_plan(_device(1)), depot_advice=(_advice(1), _advice(2)))
    text = [" ".join(line.split()) for line in shown(few, 80)]
    assert "site devices over the link takes saves" in text
    assert "s1 20 200.0 MB, now 4.00 GB 11 min, now 69 min 58 min" in text
    many = (
        _advice(0, nights=3, fits=False),
        *(_advice(number, nights=None, nights_with=None) for number in range(1, 50)),
    )
    text = [" ".join(line.split()) for line in shown(replace(few, depot_advice=many), 120)]
    assert "s0 20 200.0 MB, now 4.00 GB 11 min, now 69 min 58 min 1, now 3 yes, now no" in text
    assert any(line.endswith("58 min -, now - yes, now yes") for line in text)
    assert "and 10 sites more; --output and --json have all of them" in text


def test_without_depots_nothing_is_said_of_them(shown: Shown) -> None:
    """A fleet without them is shown as ever."""
    assert not any(
        "depot" in line or "LAN" in line for line in shown(replace(_plan(_device(1)), sites=(_site("a"),)), 120)
    )
