"""Tests of the tables of `benchmarks.fleet`."""

from typing import Any

import pytest

# No part of what is installed: the tests of the wheel run away from the checkout.
tables = pytest.importorskip("benchmarks.fleet_tables")


def waiting(theirs_ms: float, *, saturated: bool) -> dict[str, Any]:
    spread = {"count": 40, "median": 0.3, "p95": 0.4, "most": 0.5}
    ours = {
        "devices": 500, "cpu_ms_per_s_and_device": 0.2, "server_cpu_ms_per_s_and_device": 0.2,
        "rss_bytes_per_device": 180_000, "reaction_s": spread, "steps_s": {},
    }  # fmt: skip
    naive = {
        "devices": 500, "cpu_ms_per_s_and_device": theirs_ms, "rss_bytes_per_device": 130_000, "saturated": saturated,
    }  # fmt: skip
    about = {"command": "c", "at": "t", "took_s": 1, "kernel": "k", "cpus": 2, "python": "p", "load_average": 0.1}
    return {"waiting": {"ours": ours, "naive": naive} | about}


def test_a_naive_fleet_with_a_full_core_is_a_lower_bound() -> None:
    """What a process takes that has no more of the core to take is shown as the least that it wants."""
    shown = tables.to_markdown(waiting(1.9, saturated=True))
    assert "at least 1.90 ms" in shown
    assert "| at least 9.5 | met |" in shown
    assert "a lower bound" in shown


def test_a_naive_fleet_with_room_left_is_shown_as_it_is() -> None:
    """Where the core was not full, the figure is no bound, and the table says nothing of one."""
    shown = tables.to_markdown(waiting(0.8, saturated=False))
    assert "| 0.80 ms |" in shown
    assert "at least" not in shown


def test_a_bound_below_the_wanted_ratio_is_missed() -> None:
    """A lower bound proves a ratio only where the bound itself reaches it."""
    assert tables.missed(waiting(0.5, saturated=True)) == ["its processor time over ours"]
