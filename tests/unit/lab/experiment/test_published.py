"""The published experiment: its figures, the model, and the table."""

import statistics

import pytest

from flashferry.lab.experiment import page
from flashferry.lab.experiment.cell import Judgement, Measured
from flashferry.lab.experiment.published import ARMS, BASELINE, FILE_BYTES, SENDERS, cells, model_bytes_per_s, summed_up
from flashferry.lab.experiment.tables import published_table, runs_csv, syn_table


def _run(arm: str, sender: int, seed: int, rate: float, kind: str = "random loss") -> Measured:
    cell = next(
        each for each in cells([seed]) if each.arm == arm and each.sender == SENDERS[sender]
    )  # fmt: skip
    verdict = Judgement(
        kind=kind, share=1.0, sentence="It was so.", evidence=("one <number>",), advice="", by="witness"
    )
    return Measured(
        cell=cell, started_at="2026-01-02T03:04:05+00:00", load=0.5, size_bytes=cell.size_bytes,
        seconds=cell.size_bytes / rate, sent_bytes=100, again_bytes=1, control="cubic", syn="window 65535",
        judgement=verdict,
    )  # fmt: skip


def test_the_article_is_quoted_as_printed() -> None:
    """Mean times give the rates of the article, in its own order of arms."""
    rates = {arm.name: FILE_BYTES / statistics.mean(arm.seconds) for arm in ARMS}
    assert {name: round(rate, -3) for name, rate in rates.items()} == {
        "Linux client": 2_763_000,
        "IOS-XE default": 152_000,
        "IOS-XE tuned": 1_605_000,
        "IOS default": 82_000,
        "IOS tuned": 87_000,
    }


def test_every_arm_gets_every_server_with_every_seed() -> None:
    """Five arms, four servers, three runs; slow arms copy less unless the whole file is asked for."""
    short, full = cells(range(3)), cells(range(3), full=True)
    assert len(short) == len(full) == 60
    assert {cell.size_bytes for cell in full} == {FILE_BYTES}
    assert min(cell.size_bytes for cell in short) < FILE_BYTES / 10


@pytest.mark.parametrize(
    ("arm", "sender", "expected"),
    [(0, 0, 2.74e6), (1, 0, 160_600), (1, 3, 160_600), (2, 3, 5.96e6), (2, 1, 6.08e6), (4, 3, 83_000)],
)
def test_the_model_is_the_least_ceiling(arm: int, sender: int, expected: float) -> None:
    """Loss holds CUBIC, the cap holds auto, the window and the flash hold both."""
    assert model_bytes_per_s(ARMS[arm], SENDERS[sender]) == pytest.approx(expected, rel=0.01)


def test_a_row_compares_with_the_articles_server() -> None:
    """Ratios are of medians and of the worst runs; verdicts are counted."""
    runs = [_run("IOS-XE tuned", 0, seed, rate) for seed, rate in ((1, 2e6), (2, 3e6), (3, 4e6))]
    runs += [_run("IOS-XE tuned", 3, seed, rate, "cap") for seed, rate in ((1, 5e6), (2, 6e6), (3, 6e6))]
    base, ours = summed_up(runs)
    assert base.sender == BASELINE
    assert (base.ratio, base.right_verdicts, ours.right_verdicts) == (None, 3, 3)
    assert (ours.ratio, ours.worst_ratio) == (2.0, 2.5)
    assert ours.published_bytes_per_s is None
    table = published_table([base, ours])
    assert "| IOS-XE tuned | vsftpd CUBIC | 3 | 52.4 | 2.00 | 3.00 | 4.00 | 1.60 | 2.74 |" in table
    assert "2.00x" in table
    assert "window 65535" in syn_table([base, ours])
    assert runs_csv(runs).count("\n") == 7


def test_the_page_fetches_nothing_and_escapes_what_it_is_told() -> None:
    """What a device or a server said is shown as text."""
    html = page.page("A <title>", [page.run_section(_run("IOS-XE tuned", 0, 1, 2e6))])
    assert "one &lt;number&gt;" in html
    assert "A &lt;title&gt;" in html
    assert "http" not in html.replace("http-equiv", "")
