"""HTTP and SCP over the WAN: what a case is held against, and what the tables say of the figures."""

from typing import Any

import pytest

from flashferry.lab.experiment.cell import LinkSetting

# No part of what is installed: the tests of the wheel run away from the checkout.
runner = pytest.importorskip("benchmarks.transports_wan")
tables = pytest.importorskip("benchmarks.transports_wan_tables")
CASES, model_bytes_per_s = runner.CASES, runner.model_bytes_per_s
undone, with_session = runner.undone, runner.with_session
NAMES, missed, targets, to_markdown = tables.NAMES, tables.missed, tables.targets, tables.to_markdown

SESSION = {
    "command": "x", "at": "today", "took_s": 1, "kernel": "6", "cpus": 2, "python": "3", "load_average": 0.1,
    "versions": {"nginx": "nginx/1", "sshd": ""},
}  # fmt: skip


def row(case: str, rate: float, **more: Any) -> dict[str, Any]:
    return {"case": case, "loss_ratio": 0.001, "seed": 1, "rate_bytes_per_s": rate, "model_bytes_per_s": None} | more


def case_of(name: str) -> Any:
    return next(case for case in CASES if case.name == name)


def test_every_case_has_a_name_for_people() -> None:
    """And no name is left over."""
    assert {case.name for case in CASES} == set(NAMES)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("ours scp untuned", 0.075e6, 0.082e6),  # 8 KiB in the channel
        ("ours scp tcp only", 0.8e6, 0.95e6),  # 128 KiB, refilled at its half
    ],
)
def test_the_model_is_the_smaller_window(name: str, least: float, most: float) -> None:
    """That of the channel here, with its refill rule: less than the window over 100 ms."""
    link = LinkSetting(loss_ratio=0.0, queue_packets=1000)
    assert least < model_bytes_per_s(case_of(name).puller, link) < most


@pytest.mark.parametrize(
    ("line", "back"),
    [
        ("ip tcp window-size 2500000", "no ip tcp window-size"),
        ("ip tcp selective-ack", "no ip tcp selective-ack"),
        ("ip ssh window-size 2500000", "no ip ssh window-size"),
        ("ip ssh bulk-mode 2500000", "ip ssh bulk-mode 131072"),
    ],
)
def test_what_is_set_is_taken_out(line: str, back: str) -> None:
    """Bulk mode of 17.x is a line by default, which comes back."""
    assert undone(line) == back


def test_a_run_that_is_measured_again_replaces_its_own() -> None:
    """Of the same case, loss and seed; everything else is kept, and a session as long as there is a row of it."""
    first, second = SESSION | {"at": "once"}, SESSION | {"at": "again"}
    old = [row("ours http", 1.0), row("ours http", 2.0, seed=2), row("nginx cubic", 3.0)]
    held = with_session({"sessions": [], "rows": []}, first, old)
    held = with_session(held, second, [row("ours http", 4.0)])
    assert [each["rate_bytes_per_s"] for each in held["rows"]] == [2.0, 3.0, 4.0]
    assert held["sessions"] == [first, second]
    held = with_session(held, SESSION, [row("ours http", 5.0, seed=2), row("nginx cubic", 6.0)])
    assert held["sessions"] == [second, SESSION]


@pytest.mark.parametrize(("ours", "met"), [(5.5e6, True), (5.3e6, False)])
def test_the_rate_is_a_target(ours: float, met: bool) -> None:
    """5.4 MB/s by HTTP, of the median."""
    assert [each[2] for each in targets([row("ours http", ours)])] == [met]


def test_cubic_is_left_behind_where_there_is_much_loss() -> None:
    """Five times nginx with CUBIC at 0.1 %; at less loss that is no target."""
    rows = [row("ours http", 5.5e6), row("nginx cubic", 1.2e6)]
    assert [met for text, _, met in targets(rows) if "times" in text] == [False]
    less = [each | {"loss_ratio": 0.0001} for each in rows]
    assert [text for text, _, _ in targets(less) if "times" in text] == []


@pytest.mark.parametrize(("rate", "met"), [(0.0739e6, True), (0.0728e6, False), (0.0901e6, False)])
def test_a_modelled_case_is_held_against_its_windows(rate: float, met: bool) -> None:
    """Within a tenth, from below and from above."""
    found = list(targets([row("ours scp untuned", rate, model_bytes_per_s=81_000)]))
    assert [each[2] for each in found] == [met]


def test_the_tables_say_what_failed() -> None:
    """A run without a rate counts as failed and as nothing else; a missed target is told."""
    held = {"sessions": [SESSION], "rows": [row("ours http", 5.3e6), row("nginx cubic", 0.0, error="gone")]}
    text = to_markdown(held)
    assert "1 runs failed" in text
    assert "| **our HTTP server** | 0.10% | 1 | 5.30 | 5.30 | 5.30 |  |" in text
    assert "nginx, CUBIC" not in text
    assert len(missed(held)) == 1
