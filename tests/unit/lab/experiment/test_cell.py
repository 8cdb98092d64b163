"""Results are kept by their cell, and nothing that is there is run again."""

import json
from pathlib import Path

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.cell import (
    Cell,
    Judgement,
    Ledger,
    Measured,
    Receiver,
    Sender,
    cell_from_json,
    measured_from_json,
)
from flashferry.lab.experiment.pool import interleaved
from flashferry.tcp.sample import Sample


def _cell(seed: int = 1, arm: str = "xe") -> Cell:
    sender = Sender(program="ours", control="auto", cap_share=0.98)
    return Cell(study="try", arm=arm, receiver=Receiver(kind="xe"), sender=sender, size_bytes=1000, seed=seed)


def _run(cell: Cell, **more: object) -> Measured:
    verdict = Judgement(kind="cap", share=1.0, sentence="Cap.", evidence=("a", "b"), advice="", by="server")
    sample = Sample(at_s=1.0, rtt_us=100, snd_mss_bytes=1460, snd_cwnd_segments=10, unacked_segments=3, bytes_acked=99)
    common = {"started_at": "2026-01-01T00:00:00+00:00", "load": 0.1, "size_bytes": 1000, "seconds": 2.0}
    return Measured(**{"cell": cell, "judgement": verdict, "samples": (sample,)} | common | more)  # type: ignore[arg-type]


def test_a_record_survives_json() -> None:
    """What is written is what is read, cell, verdict and readings included."""
    run = _run(_cell(), link={"lost_packets": 3})
    assert measured_from_json(json.loads(json.dumps(run.to_json()))) == run
    assert run.rate_bytes_per_s == 500


def test_a_cell_is_known_by_all_that_it_is() -> None:
    """The same description has the same key; another seed, size or cap has another."""
    cell = _cell()
    assert cell_from_json(json.loads(cell.key)) == cell
    assert cell_from_json(json.loads(cell.key)).key == cell.key
    others = [_cell(seed=2), _cell(arm="ios")]
    assert cell.key not in {other.key for other in others}


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    """A second look at the folder knows the good runs; failed ones are asked for again."""
    cells = [_cell(seed) for seed in (1, 2, 3)]
    first = Ledger(tmp_path / "new" / "results.jsonl")
    first.add(_run(cells[0]))
    first.add(_run(cells[1], error="the client ended"))
    again = Ledger(tmp_path / "new" / "results.jsonl")
    assert again.missing(cells) == cells[1:]
    assert [run.cell.seed for run in again.of(cells)] == [1, 2]


def test_a_line_cut_short_by_a_crash_is_run_again(tmp_path: Path) -> None:
    """Half a line at the end is no result, and the next one stands by itself."""
    path = tmp_path / "results.jsonl"
    ledger = Ledger(path)
    for seed in (1, 2):
        ledger.add(_run(_cell(seed)))
    path.write_bytes(path.read_bytes()[:-40])
    again = Ledger(path)
    assert [cell.seed for cell in again.missing([_cell(1), _cell(2)])] == [2]
    again.add(_run(_cell(2)))
    assert Ledger(path).missing([_cell(1), _cell(2)]) == []


def test_another_file_is_refused_with_its_line(tmp_path: Path) -> None:
    """A folder that holds something else is named, not overwritten."""
    path = tmp_path / "results.jsonl"
    path.write_text('{"hello": 1}\n')
    with pytest.raises(LabError, match=r"results\.jsonl: line 1: .*--output"):
        Ledger(path)


def test_each_seed_goes_round_all_arms() -> None:
    """Runs are interleaved by seed, in another order each time, and none is lost."""
    cells = [_cell(seed, arm) for arm in "abcdefgh" for seed in (1, 2)]
    order = interleaved(cells)
    assert [cell.seed for cell in order] == [1] * 8 + [2] * 8
    assert sorted(cell.key for cell in order) == sorted(cell.key for cell in cells)
    assert [cell.arm for cell in order[:8]] != [cell.arm for cell in order[8:]]
