"""The flows that verdicts are held against: what is played, what is right, what counts as too much said."""

import pytest

from benchmarks.causes import CASES, CONTROLS, SMALL_WINDOWS, causes_text, cells, claims_too_much
from flashferry.lab.experiment.cell import Cell, Judgement, LinkSetting, Measured, cell_from_json, measured_from_json
from flashferry.lab.experiment.pool import expected_share
from flashferry.lab.experiment.puller import _Nowhere as Nowhere
from flashferry.lab.experiment.study import Plan
from flashferry.tcp.verdict_rules import VerdictKind

_PLAYED = cells([1], seconds=8)


def _measured(cell: Cell, kind: str, alone: str, share_of_link: float) -> Measured:
    verdict = Judgement(kind=kind, share=1.0, sentence="", evidence=(), advice="", by="server")
    return Measured(
        cell=cell, started_at="2026-11-23T03:00:00+00:00", load=1.0, size_bytes=int(share_of_link * 8e6), seconds=8e6
        / cell.link.payload_bytes_per_s, control=cell.sender.control, judgement=verdict, kind_by_readings=alone,
    )  # fmt: skip


def test_thirty_flows_and_the_slow_readers_are_played() -> None:
    """Fifteen cases under each control, and those with small windows beside; no two are the same."""
    assert (len(CASES) * len(CONTROLS), len(SMALL_WINDOWS)) == (30, 3)
    assert len({cell.key for cell in _PLAYED}) == len(_PLAYED) == 36
    assert len(cells(range(1, 11), seconds=8)) == 360


@pytest.mark.parametrize("case", [*CASES, *SMALL_WINDOWS], ids=lambda case: str(case.name))
@pytest.mark.parametrize("control", CONTROLS)
def test_a_link_is_right_only_where_it_is_what_limits(case: object, control: str) -> None:
    """A slow reader, a cap and a window are no links, known or not; more is allowed only where no rate is known."""
    (played,) = [case_ for case_ in (*CASES, *SMALL_WINDOWS) if case_ is case]
    stated, alone = played.allowed(control, stated=True), played.allowed(control, stated=False)
    assert stated
    assert stated <= alone
    if played.read_bytes_per_s is not None or played.cap_share is not None:
        assert VerdictKind.BANDWIDTH not in alone


def test_a_cell_s_reader_and_policer_reach_link_and_ledger() -> None:
    """They are changes of the link, part of what tells a cell from others, and what it is expected to cost."""
    policed = next(cell for cell in _PLAYED if "burst 64 kB" in cell.arm)
    assert policed.link.changes()["policer_rate_bps"] == 10e6
    assert policed.link.changes()["policer_burst_bytes"] == 64_000
    # Every link says that it has none: the one before it may have had.
    assert LinkSetting().changes()["policer_rate_bps"] is None
    slow = next(cell for cell in _PLAYED if cell.receiver.read_bytes_per_s == 605e3)
    assert expected_share(slow) == pytest.approx(605e3 / slow.link.payload_bytes_per_s)
    assert expected_share(policed) < 0.22
    run = _measured(slow, "slow receiver", "bandwidth", 0.3)
    assert measured_from_json(run.to_json()) == run
    before = {name: value for name, value in run.to_json()["cell"]["link"].items() if "policer" not in name}
    assert cell_from_json(run.to_json()["cell"] | {"link": before}) == slow


def test_a_reader_takes_as_long_as_its_rate_says() -> None:
    """Each piece is spent with the pace; without one nothing waits."""

    class Pace:
        def __init__(self) -> None:
            self.spent: list[int] = []

        def spend(self, size: int) -> None:
            self.spent.append(size)

    pace = Pace()
    Nowhere(pace).write(b"12345")  # type: ignore[arg-type]
    Nowhere(None).write(b"12345")
    assert pace.spent == [5]


@pytest.mark.parametrize(("kind", "share", "too_much"), [("bandwidth", 0.79, True), ("bandwidth", 0.81, False),
                                                         ("policer", 0.2, False), ("window", 0.2, False)])  # fmt: skip
def test_a_full_link_below_80_percent_is_too_much_said(kind: str, share: float, too_much: bool) -> None:
    """What counts is the copy's mean rate, as the client measured it."""
    link = LinkSetting(rate_bps=16e6)
    assert claims_too_much(kind, share * link.payload_bytes_per_s, link) is too_much


def test_the_table_counts_what_is_right_with_and_without_a_rate() -> None:
    """A flow with exceptions has a row that counts what is right; the summary counts links wrongly called full."""
    cell = next(cell for cell in _PLAYED if cell.arm == "16 Mbit/s, window 64 kB, 605 kB/s")
    runs = [_measured(cell, "slow receiver", alone, 0.31) for alone in ("slow receiver", "slow receiver", "bandwidth")]
    text = causes_text(runs, Plan(folder=None, links=1, minutes=None, command="x"))  # type: ignore[arg-type]
    assert "Of 3 copies 0 call the link full below 80% of its stated rate; by the readings alone" in text
    assert "no rate known, 1 do." in text
    row = next(line for line in text.splitlines() if "605 kB/s" in line)
    assert "| slow receiver 3 | slow receiver 2, bandwidth 1: **2 of 3 right** |" in row


def test_a_flow_that_was_called_one_thing_is_named_in_a_line() -> None:
    """No row for what is right throughout."""
    cell = next(cell for cell in _PLAYED if cell.arm == "16 Mbit/s, window 64 kB, 605 kB/s")
    runs = [_measured(cell, "slow receiver", "slow receiver", 0.31)]
    text = causes_text(runs, Plan(folder=None, links=1, minutes=None, command="x"))  # type: ignore[arg-type]
    assert text.endswith("- throughout *slow receiver*, rightly: 16 Mbit/s, window 64 kB, 605 kB/s")
