"""What trials come to: the login subtracted, medians, what binds, and in which order rows stand."""

import pytest

from flashferry.depot.probing.figures import (
    Ceilings,
    Login,
    Row,
    Spread,
    Trial,
    best_of,
    bound_by,
    in_order,
    is_by_cost,
    login_of,
    ranked,
    ranking_text,
    row_of,
)

MB = 1_000_000


def trial(wall_s: float, number: int = 1, **more) -> Trial:
    return Trial(key="scp aes128-ctr", number=number, size_bytes=100 * MB, wall_s=wall_s, **more)


def row(key: str, rate: float, *, spread: float = 1.0, here: float | None = 1.0, far: float | None = 1.0) -> Row:
    def cost(value: float | None) -> Spread | None:
        return None if value is None else Spread(median=value, least=value, most=value)

    rates = Spread(median=rate, least=rate / spread, most=rate)
    return Row(key=key, trials=3, rate=rates, here_cpu=cost(here), far_cpu=cost(far))


def test_the_login_is_subtracted_from_time_and_processors():
    """100 MB in 1.5 s of which 0.5 are login is 100 MB/s; the same for processor time."""
    trials = [trial(wall, here_cpu_s=0.3, far_cpu_s=0.2) for wall in (1.4, 1.5, 2.5)]
    found = row_of("k", trials, Login(wall_s=0.5, here_cpu_s=0.1, far_cpu_s=0.1), Ceilings())
    assert found.rate is not None
    assert found.rate.median == pytest.approx(100 * MB)
    assert (found.rate.least, found.rate.most) == (pytest.approx(50 * MB), pytest.approx(100 * MB / 0.9))
    assert found.here_cpu is not None
    assert found.far_cpu is not None
    assert (found.here_cpu.median, found.far_cpu.median) == (pytest.approx(2.0), pytest.approx(1.0))
    assert found.cost == pytest.approx(3.0)


def test_a_login_longer_than_the_copy_leaves_a_rate():
    """A login that took unusually long must not divide by nothing."""
    found = row_of("k", [trial(0.4)], Login(wall_s=0.5), Ceilings())
    assert found.rate is not None
    assert found.rate.median == pytest.approx(100 * MB / 0.04)


def test_failed_trials_count_for_nothing_and_are_told():
    """The error stays with the row, whether some succeeded or none."""
    some = row_of("k", [trial(1.0), trial(0.0, error="broke")], Login(), Ceilings())
    none = row_of("k", [trial(0.0, error="broke")], Login(), Ceilings())
    assert (some.trials, some.error, none.trials, none.error, none.rate) == (1, "broke", 0, "broke", None)
    assert login_of([trial(0.0, error="broke")]) == Login()


@pytest.mark.parametrize(
    ("key", "rate", "busy", "ceilings", "expected"),
    [
        ("scp x", 95 * MB, (1.0, 1.0), Ceilings(link_bytes_per_s=100 * MB), "link"),
        ("scp x", 89 * MB, (0.95, 0.2), Ceilings(link_bytes_per_s=100 * MB), "cpu here"),
        ("scp x", 89 * MB, (0.5, 0.9), Ceilings(), "cpu far"),
        # 2 MiB over 100 ms are 21 MB/s.
        ("scp x", 20 * MB, (0.1, 0.1), Ceilings(rtt_s=0.1), "window"),
        ("rsync x", 11 * MB, (0.1, None), Ceilings(rtt_s=0.1), "window"),
        ("http", 20 * MB, (0.1, None), Ceilings(rtt_s=0.1), "other"),
        ("nc bs=65536", 20 * MB, (0.1, None), Ceilings(rtt_s=0.1), "other"),
        ("scp x", 5 * MB, (0.1, 0.1), Ceilings(rtt_s=0.1), "other"),
        ("scp x", 50 * MB, (0.1, 0.1), Ceilings(rtt_s=0.0001), "other"),
        ("scp x", 50 * MB, (0.1, 0.1), Ceilings(write_here_bytes_per_s=52 * MB), "disk"),
        ("scp x", 50 * MB, (0.1, None), Ceilings(read_far_bytes_per_s=52 * MB), "disk"),
        ("scp x", 50 * MB, (None, None), Ceilings(), "other"),
    ],
)
def test_what_binds_is_the_first_that_fits(key, rate, busy, ceilings, expected):
    """Link, processor, window, disk, in this order; and a window is none for what has no channel."""
    assert bound_by(key, rate, busy, ceilings) == expected


def test_rates_rank_where_they_hold_still():
    """Within 1.3 the rate decides."""
    rows = [row("slow", 50.0, here=0.1), row("fast", 90.0, spread=1.2, here=9.0)]
    assert not is_by_cost(rows)
    assert [one.key for one in ranked(rows)] == ["fast", "slow"]
    assert "Ranked by rate" in ranking_text(rows)


def test_processor_time_ranks_where_rates_scatter():
    """A single method that scatters is enough, for what it met the others met too."""
    rows = [row("dear", 90.0, here=3.0), row("cheap", 50.0, spread=1.4, here=1.0)]
    assert is_by_cost(rows)
    assert [one.key for one in ranked(rows)] == ["cheap", "dear"]
    assert "processor seconds per GB" in ranking_text(rows)


def test_rates_rank_with_a_warning_where_processors_were_not_seen():
    """Nothing is ranked by a figure that some have not."""
    rows = [row("a", 90.0, spread=2.0), row("b", 50.0, here=None, far=None)]
    assert not is_by_cost(rows)
    assert "Measure again" in ranking_text(rows)


def test_the_far_end_counts_only_where_it_was_seen_of_all():
    """HTTP shows no processor of the source: it must not look cheap for that."""
    rows = [row("http", 50.0, spread=2.0, here=1.5, far=None), row("scp", 50.0, here=1.0, far=1.0)]
    assert [one.key for one in ranked(rows)] == ["scp", "http"]


def test_over_a_full_link_the_cheapest_is_taken():
    """All fill it, so what they take of the processors decides."""
    rows = [row("dear", 100.0, here=3.0), row("cheap", 98.0, here=1.0), row("slow", 80.0, here=0.5)]
    best = best_of(rows)
    assert best is not None
    assert best.key == "cheap"
    assert [one.key for one in in_order(rows)] == ["cheap", "dear", "slow"]


def test_costs_that_are_alike_leave_the_choice_to_the_rate():
    """Two in a hundred are no difference."""
    rows = [row("a", 50.0, spread=2.0, here=1.00), row("b", 90.0, here=1.02), row("c", 200.0, here=1.3)]
    best = best_of(rows)
    assert best is not None
    assert best.key == "b"


def test_nothing_that_failed_is_chosen():
    """Nor is anything chosen of nothing."""
    failed = Row(key="x", trials=0, error="broke")
    assert best_of([failed]) is None
    assert best_of([]) is None
    assert in_order([failed, row("a", 1.0)])[0].key == "a"
    assert ranked([failed, row("a", 1.0)])[-1] is failed
    assert ranking_text([failed]) == "Nothing was timed."
