"""Sites for people: devices are counted by the words of the table of outcomes."""

from __future__ import annotations

from flashferry.cli.view.sites_table import print_site_run, print_site_runs
from flashferry.sites.centre.overview import PartOverview, RunOverview

PART = PartOverview(
    site="AMS",
    is_canaries=False,
    state="ended",
    sentence="",
    agent="a1",
    heard_at=None,
    heard="now",
    is_whole=True,
    fetching=None,
    devices={"done": 2, "not begun": 3, "failed": 1, "error": 1, "open": 4},
)
RUN = RunOverview(
    run_id="r",
    plan_digest="0" * 64,
    begun_at="2026-11-22T01:00:00+00:00",
    begun_by="",
    ended_at=None,
    stopped=None,
    approved_wave=None,
    waiting_wave=None,
    paused=(),
    left_out=(),
    parts=(PART,),
    wishes=(),
)


def test_devices_are_counted_by_the_words_of_outcomes(monkeypatch, capsys):
    """Values of the journal do not reach people, and outcomes of one word are one count."""
    monkeypatch.setenv("COLUMNS", "200")
    for show in (lambda: print_site_runs([RUN]), lambda: print_site_run(RUN)):
        show()
        printed = capsys.readouterr().out
        assert "not begun" not in printed
        for count in ("2 done", "3 not started", "2 failed", "4 open"):
            assert count in printed
