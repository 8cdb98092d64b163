"""A run played through: what must hold whatever the fleet, and a few whose figures can be worked out by hand."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.model.limits import Limits
from flashferry.planning.simulation import CHECK_S, RESTORE_S, SETUP_S, Job, Link, SharedLink, simulate

OVERHEAD_S = CHECK_S + SETUP_S + RESTORE_S


def _job(host: str, megabytes: float, *, site: str = "a", limit: float = math.inf, hash_s: float = 0.0) -> Job:
    return Job(host=host, site=site, size_bytes=int(megabytes * 1e6), limit_bytes_per_s=limit, hash_s=hash_s)


def _link(cap: float = 1e6, copies: int = 8) -> dict[str, Link]:
    return {"a": Link(cap_bytes_per_s=cap, copies=copies)}


def test_one_device_takes_its_copy_its_hash_and_the_overhead() -> None:
    """With nobody else there is nothing to wait for."""
    found = simulate([[_job("r1", 10, hash_s=3)]], _link(), Limits())
    assert found.ends_s == pytest.approx(OVERHEAD_S + 10 + 3)
    assert found.devices["r1"].copied_s - found.devices["r1"].copies_from_s == pytest.approx(10)


def test_a_slow_device_leaves_its_share_to_the_others() -> None:
    """Of 1 MB/s a device that takes 0.2 leaves 0.8: 8 MB take ten seconds beside it."""
    found = simulate([[_job("slow", 4, limit=0.2e6), _job("fast", 8)]], _link(), Limits())
    fast = found.devices["fast"]
    assert fast.copied_s - fast.copies_from_s == pytest.approx(10)
    slow = found.devices["slow"]
    assert slow.copied_s - slow.copies_from_s == pytest.approx(20)


def test_hash_runs_go_on_beside_copies_and_have_a_limit() -> None:
    """With one hash at a time, three hashes of 100 s follow each other."""
    jobs = [_job(f"r{number}", 1, hash_s=100) for number in range(3)]
    found = simulate([jobs], _link(), Limits(hashes=1))
    assert found.ends_s == pytest.approx(CHECK_S + SETUP_S + 3 + 300 + RESTORE_S)


def test_waves_follow_each_other() -> None:
    """No device of a wave begins before the wave ahead has ended."""
    found = simulate([[_job("r1", 1)], [_job("r2", 1)]], _link(), Limits())
    assert found.devices["r2"].begins_s == pytest.approx(found.devices["r1"].ends_s)
    assert found.wave_ends_s == pytest.approx((OVERHEAD_S + 1, 2 * (OVERHEAD_S + 1)))


def test_a_site_is_not_begun_before_it_opens() -> None:
    """A window that opens later holds back its own site only."""
    links = {"a": Link(cap_bytes_per_s=1e6, copies=8), "b": Link(cap_bytes_per_s=1e6, copies=8, opens_s=60)}
    found = simulate([[_job("r1", 1), _job("r2", 1, site="b")]], links, Limits())
    assert found.devices["r1"].begins_s == 0
    assert found.devices["r2"].begins_s == 60


def test_copies_of_the_whole_run_are_limited() -> None:
    """Two slots in all carry two sites at a time, though each site would take eight."""
    links = {site: Link(cap_bytes_per_s=1e6, copies=8) for site in "abcd"}
    jobs = [_job(f"{site}{number}", 1, site=site) for number in range(3) for site in "abcd"]
    found = simulate([jobs], links, Limits(copies=2))
    spans = [(one.copies_from_s, one.copied_s) for one in found.devices.values()]
    assert max(sum(start <= at < end for start, end in spans) for at, _ in spans) == 2


def test_an_empty_run_takes_no_time() -> None:
    """Where nothing is to be staged nothing takes time."""
    found = simulate([], {}, Limits())
    assert (found.ends_s, found.links) == (0.0, {})


_sizes = st.integers(100_000, 50_000_000)
_limits = st.one_of(st.just(math.inf), st.floats(1e4, 1e7))


@st.composite
def _fleets(draw: st.DrawFn) -> tuple[list[list[Job]], dict[str, Link], Limits]:
    links = {
        site: Link(cap_bytes_per_s=draw(st.floats(1e4, 1e7)), copies=draw(st.integers(1, 5)))
        for site in ("a", "b", "c")
    }
    job = st.builds(
        Job,
        host=st.just(""),
        site=st.sampled_from(sorted(links)),
        size_bytes=_sizes,
        limit_bytes_per_s=_limits,
        hash_s=st.floats(0, 100),
        rtt_s=st.floats(0, 0.5),
    )
    raw = draw(st.lists(st.lists(job, max_size=8), max_size=3))
    waves = [[_named(one, f"r{w}-{n}") for n, one in enumerate(wave)] for w, wave in enumerate(raw)]
    limits = Limits(logins=draw(st.integers(1, 4)), copies=draw(st.integers(1, 8)), hashes=draw(st.integers(1, 4)))
    return waves, links, limits


def _named(job: Job, host: str) -> Job:
    return Job(
        host=host,
        site=job.site,
        size_bytes=job.size_bytes,
        limit_bytes_per_s=job.limit_bytes_per_s,
        hash_s=job.hash_s,
        rtt_s=job.rtt_s,
    )


@given(_fleets())
def test_no_device_is_lost_and_no_limit_is_passed(fleet: tuple) -> None:
    """Every device gets through, in order, and at no moment are there more copies than allowed."""
    waves, links, limits = fleet
    found = simulate(waves, links, limits)
    jobs = {job.host: job for wave in waves for job in wave}
    assert set(found.devices) == set(jobs)
    for host, one in found.devices.items():
        job = jobs[host]
        assert one.begins_s < one.copies_from_s < one.copied_s <= one.hashes_from_s <= one.ends_s <= found.ends_s
        own = min(job.limit_bytes_per_s, links[job.site].cap_bytes_per_s)
        assert one.copied_s - one.copies_from_s >= job.size_bytes / own * (1 - 1e-6)
    moments = [one.copies_from_s for one in found.devices.values()]
    for at_s in moments:
        running = [host for host, one in found.devices.items() if one.copies_from_s <= at_s < one.copied_s]
        assert len(running) <= limits.copies
        for site, link in links.items():
            assert sum(jobs[host].site == site for host in running) <= link.copies


@given(_fleets())
def test_a_link_never_carries_more_than_its_cap(fleet: tuple) -> None:
    """All bytes of a site take at least as long as its cap needs for them."""
    waves, links, limits = fleet
    for site, use in simulate(waves, links, limits).links.items():
        assert use.last_byte_s - use.first_byte_s >= use.carried_bytes / links[site].cap_bytes_per_s * (1 - 1e-6)


@given(st.lists(st.integers(1_000_000, 50_000_000), min_size=1, max_size=20), st.integers(2, 6))
def test_a_run_keeps_a_link_busy_while_work_is_left(sizes: list[int], copies: int) -> None:
    """With two slots or more, copies that fill the link leave no gap in it: the next device is ready when one ends."""
    jobs = [_job(f"r{number}", size / 1e6) for number, size in enumerate(sizes)]
    found = simulate([jobs], _link(cap=1e6, copies=copies), Limits())
    use = found.links["a"]
    # Begun together, the copies of a link may end together: then it waits once for the next ones to be set up.
    rounds = math.ceil(len(sizes) / copies)
    assert use.busy_s == pytest.approx(use.carried_bytes / 1e6, rel=1e-6)
    assert use.last_byte_s - use.first_byte_s <= use.busy_s + rounds * SETUP_S + 1e-6


@given(st.lists(st.tuples(_sizes, st.floats(0, 20), _limits), min_size=1, max_size=12), st.floats(1e4, 1e7))
def test_a_link_is_shared_as_by_filling_water(copies: list, cap: float) -> None:
    """The quick bookkeeping ends every copy when a plain walk over all copies does."""
    assert _quick(copies, cap) == pytest.approx(_plain(copies, cap), rel=1e-6)


@given(st.lists(st.tuples(_limits), min_size=1, max_size=20), st.floats(1e4, 1e7))
def test_a_link_is_busy_while_its_copies_can_use_it(limits: list, cap: float) -> None:
    """The copies get the whole cap or all that they can take, whichever is less, and never more than the cap."""
    link = SharedLink(cap)
    for key, (limit,) in enumerate(limits):
        link.begin(0.0, key, 1e6, limit)
        wanted = sum(one for (one,) in limits[: key + 1])
        assert link.rate_bytes_per_s == pytest.approx(min(cap, wanted), rel=1e-6)


@given(st.lists(st.tuples(_sizes, st.floats(0, 20), _limits), min_size=1, max_size=12), st.floats(1e4, 1e7))
def test_a_wider_link_ends_no_copy_later(copies: list, cap: float) -> None:
    """With more room on the link every copy ends as early or earlier.

    This holds for a link. A whole run can become slower by more of something, as jobs on machines can (Graham's
    anomalies): another order of slots may leave the longest job for the end.
    """
    before, after = _quick(copies, cap), _quick(copies, cap * 1.5)
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in zip(before, after, strict=True))


def _quick(copies: Sequence[tuple[int, float, float]], cap: float) -> list[float]:
    link, ends = SharedLink(cap), [0.0] * len(copies)
    for key in sorted(range(len(copies)), key=lambda key: copies[key][1]):
        size, start, limit = copies[key]
        while (end := link.next_end_s()) is not None and end <= start:
            at, done = link.end_next()
            ends[done] = at
        link.begin(start, key, size, limit)
    while len(link):
        at, done = link.end_next()
        ends[done] = at
    return ends


def _plain(copies: Sequence[tuple[int, float, float]], cap: float) -> list[float]:
    """Return the ends by recomputing all rates at every event."""
    left = {key: float(size) for key, (size, _, _) in enumerate(copies)}
    ends, now = [0.0] * len(copies), min(start for _, start, _ in copies)
    while left:
        running = [key for key in left if copies[key][1] <= now]
        rates = _filled({key: copies[key][2] for key in running}, cap)
        coming = [copies[key][1] for key in left if copies[key][1] > now]
        dones = [now + left[key] / rates[key] for key in running]
        following = min([*coming, *dones])
        for key in running:
            left[key] -= rates[key] * (following - now)
            if left[key] <= 1e-7 * copies[key][0]:
                ends[key] = following
                del left[key]
        now = following
    return ends


def _filled(limits: dict[int, float], cap: float) -> dict[int, float]:
    rates, left = {}, cap
    for number, (key, limit) in enumerate(sorted(limits.items(), key=lambda item: item[1])):
        rates[key] = min(limit, left / (len(limits) - number))
        left -= rates[key]
    return rates


def test_two_thousand_devices_at_one_site_get_through() -> None:
    """A fleet with all copies at once, each with a rate of its own, carries every byte and fills the link."""
    jobs = [_job(f"r{number}", 500, limit=1e4 + 37 * number, hash_s=60) for number in range(2000)]
    found = simulate([jobs], _link(cap=50e6, copies=2000), Limits(copies=2000, site_copies=2000, hashes=500))
    assert found.links["a"].peak_copies > 1000
    assert found.links["a"].carried_bytes == 2000 * 500_000_000


def test_a_login_of_more_round_trips_begins_to_copy_later() -> None:
    """Ten of 100 ms are a second, and nothing else changes."""
    plain, ssh = (
        Job(host="r1", site="a", size_bytes=1_000_000, limit_bytes_per_s=1e6, rtt_s=0.1, extra_round_trips=trips)
        for trips in (0, 10)
    )
    found = [simulate([[job]], _link(), Limits()).devices["r1"] for job in (plain, ssh)]
    assert found[1].copies_from_s - found[0].copies_from_s == pytest.approx(1.0)
    assert found[1].ends_s - found[0].ends_s == pytest.approx(1.0)


def test_what_follows_the_restore_takes_no_slot() -> None:
    """A device that goes on for ten minutes inside the box keeps neither the link nor a hash run from the next one."""
    jobs = [_finishing("r1", 600), _finishing("r2", 0)]
    one_at_a_time = Limits(copies=1, hashes=1)
    alone = simulate([[_finishing("r1", 0), jobs[1]]], _link(), one_at_a_time)
    found = simulate([jobs], _link(), one_at_a_time)
    assert found.devices["r2"] == alone.devices["r2"]
    assert found.devices["r1"].ends_s - found.devices["r1"].restored_s == pytest.approx(600)
    assert found.links["a"].busy_s == alone.links["a"].busy_s


def test_a_wave_waits_for_what_follows_the_restore() -> None:
    """A canary that has not handed its image on yet has shown nothing."""
    found = simulate([[_finishing("r1", 600)], [_finishing("r2", 0)]], _link(), Limits())
    assert found.devices["r2"].begins_s == pytest.approx(OVERHEAD_S + 1 + 3 + 600)


def _finishing(host: str, finish_s: float) -> Job:
    return replace(_job(host, 1, hash_s=3), finish_s=finish_s)
