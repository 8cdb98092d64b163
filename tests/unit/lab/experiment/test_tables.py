"""What the figures answer, and what of it goes into documents: sections, the README's graph and table, the heat map."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from flashferry.lab.experiment.cell import Cell, Judgement, Measured
from flashferry.lab.experiment.chart import evidence_svg
from flashferry.lab.experiment.documents import document_published, document_sweep, published_text, short_table
from flashferry.lab.experiment.heat_map import heat_map_svg
from flashferry.lab.experiment.published import ARMS, FILE_BYTES, SENDERS, by_loss, cells, expected_kinds, summed_up
from flashferry.lab.experiment.study import Plan, write_published, write_seeds
from flashferry.lab.experiment.sweep import SENDERS as SWEEP_SENDERS
from flashferry.lab.experiment.sweep import Arm, Place, Regret, by_place, regrets
from flashferry.lab.experiment.sweep import cells as sweep_cells
from flashferry.lab.experiment.tables import beside_host_bbr, beside_published, held_to, seeds_table, tally

_MARKED = "a\n<!-- {0}: begin -->\nold\n<!-- {0}: end -->\nb\n"


def _run(cell: Cell, rate: float, kind: str, again: int = 1) -> Measured:
    verdict = Judgement(kind=kind, share=1.0, sentence="So it was.", evidence=("a | b",), advice="", by="witness")
    return Measured(
        cell=cell, started_at="2026-01-02T03:04:05+00:00", load=0.5, size_bytes=cell.size_bytes,
        seconds=cell.size_bytes / rate, sent_bytes=10_000, again_bytes=again, control="cubic", syn="window 9",
        judgement=verdict,
    )  # fmt: skip


def _all_runs() -> list[Measured]:
    """Return a run of every arm from every server at the published rate, ours twice as fast, with right verdicts."""
    found = []
    for cell in cells([1, 2]):
        arm = next(each for each in ARMS if each.name == cell.arm)
        rate = arm.published_bytes_per_s * (2 if cell.sender == SENDERS[-1] else 1)
        found.append(_run(cell, rate, expected_kinds(arm, cell.sender)[0]))
    return found


def _seeds(loss: float, rates: dict[int, tuple[float, ...]], again: dict[int, int] | None = None) -> list[Measured]:
    tuned = [cell for cell in cells([1, 2, 3], losses=[loss]) if cell.arm == "IOS-XE tuned"]
    return [
        _run(cell, rates[number][cell.seed - 1], "cap", (again or {}).get(number, 1))
        for cell in tuned
        for number in rates
        if cell.sender == SENDERS[number]
    ]


def _plan(folder: Path) -> Plan:
    return Plan(folder=folder, links=1, minutes=None, command="flashferry lab experiment")


def test_an_arm_near_the_article_is_so_and_another_says_what_held_it() -> None:
    """Within 15 % is a yes; beyond it the verdict stands, with how many losses decided."""
    near, far = cells([1])[0], next(cell for cell in cells([1]) if cell.arm == "IOS-XE default")
    table = beside_published(summed_up([_run(near, 2.763e6 * 1.2, "random loss"), _run(far, 152_000, "window")]))
    assert "| 1.20x | no: random loss; about 3.6 packets of a copy are lost, and chance decides when |" in table
    assert table.splitlines()[-1].endswith("| 1.00x | yes |")
    assert "| 1.94 to 4.25 |" in table


def test_what_was_not_asked_for_has_no_empty_table(tmp_path: Path) -> None:
    """With ours alone there is nothing beside the article: no heading for it; of the verdicts the totals remain."""
    ours = next(cell for cell in cells([1]) if cell.arm == "IOS tuned" and cell.sender == SENDERS[-1])
    runs = [_run(ours, 83_000, "slow receiver")]
    text = published_text(summed_up(runs), runs, _plan(tmp_path))
    assert "| IOS tuned | " in text
    assert "- All: 1 of 1 (100%) verdicts are right." in text
    assert "beside the article" not in text
    assert "name slow receiver" not in text


def test_the_tally_counts_wrong_verdicts() -> None:
    """A verdict that names something else than the arm was built for is counted against it."""
    cubic = next(cell for cell in cells([1]) if cell.arm == "IOS tuned")
    runs = [_run(cubic, 83_000, "slow receiver"), _run(cells([2])[16], 83_000, "window")]
    assert tally(summed_up(runs)).splitlines() == [
        "- IOS tuned, vsftpd CUBIC: 1 of 2 (50%) name slow receiver.",
        "- All: 1 of 2 (50%) verdicts are right.",
    ]


def test_the_tally_names_a_server_once() -> None:
    """Rows of two losses count together."""
    slow, fast = (cells([1], losses=[loss])[0] for loss in (0.0001, 0.001))
    rows = [row for each in (slow, fast) for row in summed_up([_run(each, 1e6, "random loss")])]
    assert tally(rows).splitlines()[0] == "- Linux client, vsftpd CUBIC: 2 of 2 (100%) name random loss."


def test_a_copy_at_the_link_s_rate_was_not_held_by_its_losses() -> None:
    """It counts against the verdicts all the same, and is told; one that only says so at half the rate is not."""
    one, two = cells([1])[0], cells([2])[0]
    shown = tally(summed_up([_run(one, 5.6e6, "bandwidth"), _run(two, 3e6, "bandwidth")])).splitlines()
    reached = "reached at least 90% of what the link carries, in spite of the losses"
    assert shown[-2:] == [
        "- All: 0 of 2 (0%) verdicts are right.",
        f"- Of the 2 others 1 named bandwidth and {reached}.",
    ]


def test_a_paced_sender_is_not_expected_to_be_held_by_losses() -> None:
    """With random loss BBR ends at the link and `auto` at its cap; a window holds every sender."""
    assert [expected_kinds(ARMS[2], sender) for sender in SENDERS] == [
        ("random loss",), ("bandwidth",), ("random loss",), ("cap", "bandwidth"),
    ]  # fmt: skip
    assert {expected_kinds(ARMS[1], sender) for sender in SENDERS} == {("window",)}


def test_the_tuned_router_copies_the_whole_file_at_every_loss() -> None:
    """A shorter copy would flatter CUBIC, whose quick start weighs more in it."""
    tuned = [cell for cell in cells([1], losses=[0.0001, 0.001]) if cell.arm == "IOS-XE tuned"]
    assert {(cell.link.loss_ratio, cell.size_bytes) for cell in tuned} == {(0.0001, FILE_BYTES), (0.001, FILE_BYTES)}


def test_what_auto_is_held_to_is_kept_or_missed() -> None:
    """Median, spread, ratios and what is sent again are each judged by their own bar."""
    at_little = _seeds(
        0.0001, {0: (2e6, 4e6, 5e6), 1: (5.7e6,) * 3, 3: (5.5e6, 5.6e6, 5.9e6)}, again={1: 30, 3: 2}
    )  # fmt: skip
    at_much = _seeds(0.001, {0: (1e6, 1.2e6, 1.4e6), 3: (5.5e6,) * 3})
    rows = by_loss(at_little + at_much)
    assert held_to(rows).splitlines() == [
        "- 0.01% loss: median of 3 seeds 5.60 MB/s, at least 5.40 asked for: kept.",
        "- 0.01% loss: spread 7.1%, at most 5% asked for: **missed**.",
        "- 0.01% loss: 1.40 times the article's server by medians, at least 1.3 asked for: kept.",
        "- 0.01% loss: 2.75 times by the slowest run of each, at least 2 asked for: kept.",
        "- 0.01% loss: 98.2% of vsftpd host-wide BBR, at least 95% asked for: kept.",
        "- 0.01% loss: 0.020% sent again, fewer than vsftpd host-wide BBR's 0.300% asked for: kept.",
        "- 0.10% loss: 4.58 times the article's server by medians, at least 5 asked for: **missed**.",
    ]
    assert "| 0.01% | IOS-XE tuned | ours auto | 3 | 52.4 | 5.50 | 5.60 | 5.90 | 7.1% | 1.40x | 2.75x |" in seeds_table(
        rows
    )


def test_ours_may_not_be_much_below_host_wide_bbr() -> None:
    """Five per cent less is kept, more is missed; what either sends again stands beside it."""
    runs = _seeds(0.0001, {1: (5.7e6,) * 3, 3: (5.4e6,) * 3}, again={1: 30, 3: 2})
    assert beside_host_bbr(summed_up(runs)).endswith("| IOS-XE tuned | 5.70 | 5.40 | 0.95x | missed | 0.02% | 0.30% |")
    runs = _seeds(0.0001, {1: (5.7e6,) * 3, 3: (5.5e6,) * 3})
    assert " kept " in beside_host_bbr(summed_up(runs))


def test_a_loss_that_was_not_published_is_held_against_nothing() -> None:
    """The article's figure stands only beside the article's link."""
    (row,) = by_loss(_seeds(0.001, {0: (1e6, 1e6, 1e6)}))[0.001]
    assert (row.published_bytes_per_s, row.is_near_published) == (None, None)


def test_the_document_the_graph_and_the_readme_are_written_together(tmp_path: Path) -> None:
    """All arms measured: the section, the graph beside it, and the README above it with graph and table."""
    docs, readme = tmp_path / "docs" / "evidence.md", tmp_path / "README.md"
    docs.parent.mkdir()
    docs.write_text(_MARKED.format("published"))
    readme.write_text(_MARKED.format("evidence"))
    runs = _all_runs()
    rows = write_published(runs, _plan(tmp_path / "out"))
    written = document_published(docs, rows, runs, _plan(tmp_path / "out"))
    assert written == [docs, docs.parent / "evidence.svg", readme]
    assert "- All: 40 of 40 (100%) verdicts are right." in docs.read_text()
    assert "BBR for the whole host" not in docs.read_text()
    assert (
        "Ours beside the article's server with BBR for the whole host" in (tmp_path / "out" / "report.html").read_text()
    )
    assert "](docs/evidence.svg)" in readme.read_text()
    assert "| IOS-XE tuned | 1.60 | 1.60 | 3.21 | 2.00x | 11x | 3 min | random loss | cap |" in readme.read_text()
    assert "All: 40 of 40" in (tmp_path / "out" / "report.html").read_text()


def test_part_of_the_arms_leaves_the_readme_alone(tmp_path: Path) -> None:
    """A graph of some arms would pass for that of all."""
    docs, readme = tmp_path / "docs" / "evidence.md", tmp_path / "README.md"
    docs.parent.mkdir()
    docs.write_text(_MARKED.format("published"))
    readme.write_text(_MARKED.format("evidence"))
    runs = [run for run in _all_runs() if run.cell.arm == "IOS-XE tuned"]
    assert document_published(docs, summed_up(runs), runs, _plan(tmp_path)) == [docs]
    assert readme.read_text() == _MARKED.format("evidence")
    assert short_table(summed_up(runs)).count("\n") == 2


def test_the_graph_is_well_formed_and_holds_every_figure() -> None:
    """Five arms with three marks each, the figures in words too, for those who cannot see it."""
    root = ET.fromstring(evidence_svg(summed_up(_all_runs())))
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(text.startswith("3.21") for text in texts) == 1
    assert "2.0x published" in " ".join(texts)
    assert "IOS tuned: published (2021) 0.087" in root.attrib["aria-label"]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == len(ARMS) + 1


@pytest.mark.parametrize(("share", "again", "step", "ring"), [(-0.1, 0.0, 0, 0), (0.07, 0.06, 1, 1), (0.5, 0.0, 4, 0)])
def test_a_field_has_the_colour_of_its_regret(share: float, again: float, step: int, ring: int) -> None:
    """Better than the best counts as nothing missed; a ring marks what is sent again too often."""
    place = Place(loss_ratio=0.01, rtt_s=0.1, sack=True, window="auto")
    best = Arm(runs=5, bytes_per_s=1e6, again_share=0.0, right_verdicts=5)
    auto = Arm(runs=5, bytes_per_s=1e6 * (1 - share), again_share=again, right_verdicts=5)
    drawn = heat_map_svg([Regret(place=place, auto=auto, best_sender=SWEEP_SENDERS[0], best=best)])
    figure = f"{max(0.0, share) * 100:.0f}"
    assert f">{figure}</text>" in drawn
    assert drawn.count(f'class="f f{step}"') == 1
    assert drawn.count('class="ring"') == 1 + ring
    assert drawn.count('class="none"') == 5


def test_the_sweeps_heat_map_lies_beside_the_document(tmp_path: Path) -> None:
    """The section refers to the file that is written with it, also before any place has two senders."""
    docs = tmp_path / "evidence.md"
    docs.write_text(_MARKED.format("sweep"))
    runs = [_run(cell, 1e6, "window") for cell in sweep_cells([1], seconds=10)[:4]]
    assert document_sweep(docs, "the text", runs) == [docs, tmp_path / "sweep.svg"]
    assert "](sweep.svg)\n\nthe text" in docs.read_text()
    assert len(regrets(by_place(runs))) == 1
    ET.fromstring((tmp_path / "sweep.svg").read_text())
    ET.fromstring(heat_map_svg([]))


def test_many_seeds_are_written_by_loss(tmp_path: Path) -> None:
    """The page has a part per loss, and the CSV a line per run."""
    runs = _seeds(0.001, {3: (5e6, 5e6, 5e6)}) + _seeds(0.0001, {3: (5e6, 5e6, 5e6)})
    assert list(write_seeds(runs, _plan(tmp_path))) == [0.0001, 0.001]
    assert (tmp_path / "runs.csv").read_text().count("\n") == 7
    assert "6 copies in" in (tmp_path / "report.html").read_text()
