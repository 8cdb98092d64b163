"""The benchmark of real agents says no: a router left out, staged twice or changed, a record that is missing."""

import json
from typing import Any

import pytest

from flashferry.core.values import replace

# No part of what is installed: the tests of the wheel run away from the checkout.
ground = pytest.importorskip("benchmarks.sites_real_ground")
seen = pytest.importorskip("benchmarks.sites_real_seen")
hardships = pytest.importorskip("benchmarks.sites_real_hardships")
tables = pytest.importorskip("benchmarks.sites_real_tables")
deaths = pytest.importorskip("benchmarks.sites_real_deaths")

TOLD = seen.Told(devices=20, bad=(), held=(), words=90, events=600, size_bytes=400_000)
SEEN = seen.Routers(left_out=(), twice=(), changed=(), begun=21)
GOOD = seen.Figures(
    agents_are="real", routers=20, sites=4, agents=2, image_bytes=1000, run_s=100.0, copying_s=60.0, most_copying=20,
    centre_share=0.04, centre_share_run=0.05, centre_most_share=0.06, centre_rss_bytes=90_000_000, redis_share=0.01,
    agent_share=0.03, busy_cores=1.2, told=TOLD, seen=SEEN, hardships=(), exit_code=0,
)  # fmt: skip


def sample(at_s: float, centre_s: float = 0.0, copying: int = 0, whole: int = 0) -> Any:
    """Return a sample in which only this counts."""
    return seen.Sample(
        at_s=at_s, centre_s=centre_s, redis_s=0.0, agents_s=0.0, busy_s=0.0, copying=copying, whole=whole
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (GOOD, []),
        (replace(GOOD, centre_share=0.11), ["centre at most 10% of a core while they copy"]),
        (replace(GOOD, seen=replace(SEEN, left_out=("r1",))), ["routers left out, by their flash"]),
        (replace(GOOD, seen=replace(SEEN, twice=("r1",))), ["routers staged twice, by their flash"]),
        (
            replace(GOOD, seen=replace(SEEN, changed=("r1",))),
            ["routers with another configuration than at the start"],
        ),
        (replace(GOOD, told=replace(TOLD, held=("r1",))), ["routers that the centre takes for not restored"]),
        (replace(GOOD, told=replace(TOLD, devices=19)), ["records at the centre"]),
        (
            replace(GOOD, told=replace(TOLD, bad=("r1",))),
            ["records missing, or of a router that is not staged and restored", "records at the centre"],
        ),
        (replace(GOOD, exit_code=3), ["exit code of the centre's command"]),
    ],
)
def test_what_is_not_as_it_must_be_is_found(found: Any, missed: list[str]) -> None:
    """Each of the things that a run must not do is missed by the target of that name, and by no other."""
    assert [one.text for one in seen.targets(found) if not one.met] == missed


def test_every_router_stands_at_one_site_and_every_site_has_one_agent() -> None:
    """Where it does not come out even, none has two more than another."""
    placed = ground.placed(ground.Size(routers=1003, sites=50, agents=4))
    sites = [site for own in placed.values() for site in own]
    routers = [name for own in placed.values() for names in own.values() for name in names]
    assert (len(placed), len(sites), len(set(sites))) == (4, 50, 50)
    assert (len(routers), len(set(routers))) == (1003, 1003)
    assert {len(names) for own in placed.values() for names in own.values()} == {20, 21}
    assert {len(own) for own in placed.values()} == {12, 13}


def test_the_inventory_has_several_slow_sites_where_the_lab_has_one() -> None:
    """Each has a line of its own, as wide as its routers need together, and no depot."""
    size = ground.Size(routers=5, sites=2, agents=1)
    spec = ground.world_of(size)
    from flashferry.lab.world_spec import settle

    (site,) = settle(spec)
    found = ground.inventory_sites(site, ground.placed(size)["region1"])
    assert [(one.name, len(one.devices), one.profile.rate_bps) for one in found] == [
        ("branch01", 2, 40_000),
        ("branch02", 3, 60_000),
    ]
    assert all(device.site == one.name for one in found for device in one.devices)
    assert all(one.depot is None for one in found)


def test_a_counter_that_begins_anew_is_counted_on() -> None:
    """What a broker took that was started again: what it took before is not taken off."""
    assert seen.spent_s([1.0, 3.0, 0.5, 2.5]) == 4.0


def test_the_stretch_is_that_in_which_routers_copy() -> None:
    """The canary before and stragglers behind are left out; what is less in between is not."""
    samples = [sample(at, copying=count) for at, count in enumerate([0, 1, 5, 1, 9, 1, 0])]
    assert [one.at_s for one in seen.while_copying(samples, 20)] == [2, 3, 4]
    assert list(seen.while_copying(samples[:2], 20)) == []


def test_the_share_of_a_core_is_processor_time_over_time_and_its_worst_half_minute_is_found() -> None:
    """Two seconds of work within thirty of a hundred: 2 % of all, a fifteenth of those."""
    samples = [sample(float(at), centre_s=min(2.0, max(0.0, (at - 40) / 15))) for at in range(0, 101, 10)]
    assert seen.share(samples, lambda one: one.centre_s) == pytest.approx(0.02)
    assert seen.most_share(samples, lambda one: one.centre_s) == pytest.approx(2 / 30, abs=1e-4)
    assert seen.most_share(samples[:2], lambda one: one.at_s) == pytest.approx(1.0)
    assert seen.share(samples[:1], lambda one: one.centre_s) == 0.0


@pytest.mark.parametrize(
    ("record", "good"),
    [
        ({"outcome": "done", "restored": "restored"}, True),
        ({"outcome": "already there", "restored": "untouched"}, True),
        ({"outcome": "done", "restored": "unknown"}, False),
        ({"outcome": "failed", "restored": "restored"}, False),
        (None, False),
    ],
)
def test_a_record_is_good_where_the_router_was_staged_and_is_as_it_was(
    record: dict[str, str] | None, good: bool
) -> None:  # fmt: skip
    """All else is told by name."""
    assert seen.is_good(None if record is None else json.dumps(record)) is good


def test_a_router_that_does_not_answer_counts_as_changed() -> None:
    """As does one with a line more."""
    before = {"r1": ("a", "b"), "r2": ("a",), "r3": ("a",)}
    assert seen.differing(before, {"r1": ("a", "b"), "r2": ("a", "b")}) == ("r2", "r3")


def test_hardships_begin_once_half_of_the_routers_copy_and_each_is_done_once_when_it_is_due() -> None:
    """Time counts from then on; what is late is done in its order."""
    done: list[str] = []
    steps = [
        hardships.Step(at_s=at, text=f"step {at:.0f}", act=lambda at=at: done.append(at)) for at in (0.0, 5.0, 9.0)
    ]
    troubles = hardships.Hardships(routers=4, left=steps)
    for now in (sample(100, copying=1), sample(110, copying=1, whole=1), sample(114), sample(130), sample(140)):
        troubles.look(now)
    assert done == [0.0, 5.0, 9.0]
    assert troubles.done[:2] == [
        "10 s: step 0, with 1 routers copying and 1 done",
        "30 s: step 5, with 0 routers copying and 0 done",
    ]


def test_a_death_is_good_where_every_router_is_as_it_was() -> None:
    """A router that is another one, or is held, or a recovery that says no, makes it bad."""
    good = deaths.Death(
        seed=1, agent="region1", waited_s=3.0, killed=4, states={"copying": 5}, tuned=5, changed=(), held=(),
        recover_s=4.0, exit_code=0,
    )  # fmt: skip
    assert good.is_good
    bad = ({"changed": ("r1",)}, {"held": ("r1",)}, {"exit_code": 5}, {"changed_elsewhere": ("r1",)})
    assert not any(replace(good, **one).is_good for one in bad)


def test_the_tables_say_what_the_agents_were_and_what_was_done() -> None:
    """Each row has as many cells as its head; hardships are counted, and deaths summed up."""
    from dataclasses import asdict

    where = {"command": "c", "at": "2026-11-27 05:10", "took_s": 9, "kernel": "6", "cpus": 2, "python": "3.11"}
    where["load_average"] = 0.5
    calm = asdict(GOOD) | where
    hard = asdict(replace(GOOD, hardships=("10 s: the broker killed -9",))) | where
    rounds = [
        {"tuned": tuned, "recover_s": took_s, "exit_code": 0, "changed": (), "changed_elsewhere": ()}
        for tuned, took_s in ((20, 13.0), (0, 64.0))
    ]
    death = {"size": asdict(ground.Size()), "rounds": rounds} | where
    text = tables.to_markdown({"calm": calm, "hardships": hard, "deaths": death})
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {14}
    assert "agents real" in text
    assert "In *hardships*: 1 hardships" in text
    assert "2 agents killed with their runs, 20 routers tuned at that moment" in text
    assert "took 13 to 64 s (exit code 0), and 0 configurations differ afterwards" in text
    assert "| calm | 100 s | 60 s | 20 | 4.0% |" in text
    assert "| 20 of 20 | 0, 0, 0 |" in text
