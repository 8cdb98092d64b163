"""What is to be expected of a run, whether it fits, and what would make it fit."""

from datetime import UTC, datetime

import pytest

from flashferry.core.values import replace
from flashferry.model.fleet_plan import Remedy
from flashferry.model.limits import Limits
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.waves import WavePolicy
from flashferry.planning.forecast import forecast
from flashferry.planning.scenario import Estimate, Finish, LinkFacts, Rate, Scenario, play

NIGHT = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
OF_LINK = Rate(bytes_per_s=1e6, source="measured", is_of_link=True)


def _estimate(host: str, site: str = "a", *, rate: Rate = OF_LINK, megabytes: int = 100) -> Estimate:
    return Estimate(
        host=host,
        link=site,
        site=site,
        group=None,
        model="ISR",
        size_bytes=megabytes * 1_000_000,
        rate=rate,
        hash_bytes_per_s=10e6,
        rtt_s=0.1,
    )


def _scenario(*estimates: Estimate, until_s: float | None = None, by: str | None = None) -> Scenario:
    sites = dict.fromkeys(one.link for one in estimates)
    return Scenario(
        estimates=estimates,
        links={site: LinkFacts(name=site, rate_bps=10e6, source="stated", cap_share=0.8) for site in sites},
        limits=Limits(),
        policy=WavePolicy(canary=False, by=by),  # type: ignore[arg-type]
        until_s=until_s,
    )


def _remedy(found: tuple[Remedy, ...], word: str) -> Remedy:
    return next(one for one in found if word in one.change)


def test_a_run_takes_as_long_as_its_bytes_need_and_a_little_more() -> None:
    """Ten images over one link take the time of their bytes at the cap, and no more than 5 % on top."""
    scenario = _scenario(*(_estimate(f"r{number}") for number in range(10)))
    told = forecast(scenario, NIGHT)
    cap = payload_cap_bytes_per_s(8e6)
    assert cap is not None
    assert 1e9 / cap < told.duration_s < 1.05 * 1e9 / cap
    assert told.sites[0].load_share == pytest.approx(1.0)
    assert told.fit.fits is None
    assert "no end is given" in told.fit.sentence


def test_a_run_that_fits_says_when_it_ends_and_what_is_to_spare() -> None:
    """The end and the spare time of the tightest device stand in the sentence; nothing is proposed."""
    told = forecast(_scenario(_estimate("r1", megabytes=1000), until_s=7200), NIGHT)
    assert told.fit.fits is True
    assert told.fit.sentence == (
        "it fits: the run takes 19 min and ends at 22:19; the tightest device has 99 min to spare"
    )
    assert told.fit.remedies == ()


def test_two_minutes_are_kept_for_restoring() -> None:
    """A device that is done within the last two minutes is late, for the run would not begin it."""
    scenario = _scenario(_estimate("r1"))
    end = play(scenario).run.ends_s
    assert play(replace(scenario, until_s=end + 121)).late == ()
    assert play(replace(scenario, until_s=end + 119)).late == ("r1",)


def test_sites_one_after_another_are_put_side_by_side() -> None:
    """Where waves by site make a run too long, all sites at once is proposed first, and it fits."""
    estimates = [_estimate(f"{site}{number}", site) for site in "abcd" for number in range(4)]
    told = forecast(_scenario(*estimates, until_s=900, by="site"), NIGHT)
    assert told.fit.fits is False
    assert told.fit.remedies[0].change.startswith("all sites side by side")
    assert told.fit.remedies[0].fits
    assert "would not be done in time" in told.fit.sentence


def test_a_run_that_fits_is_told_what_makes_it_much_shorter() -> None:
    """Sites that wait for each other cost the night for nothing; where little is won nothing is proposed."""
    estimates = [_estimate(f"{site}{number}", site) for site in "abcd" for number in range(4)]
    told = forecast(_scenario(*estimates, until_s=7200, by="site"), NIGHT)
    assert told.fit.fits is True
    (found,) = told.fit.remedies
    assert "--wave-by all" in found.change
    assert found.ends_s < 0.5 * told.duration_s
    uneven = [_estimate("a1", "a"), _estimate("b1", "b", megabytes=1000)]
    assert forecast(_scenario(*uneven, until_s=7200, by="site"), NIGHT).fit.remedies == ()
    assert forecast(_scenario(*estimates, until_s=7200), NIGHT).fit.remedies == ()


def test_slow_devices_ask_for_more_copies_at_once() -> None:
    """Where the devices and not the link are slow, more copies at once make the run fit, and the number is told."""
    slow = Rate(bytes_per_s=50e3, source="measured")
    estimates = [_estimate(f"r{number}", rate=slow) for number in range(32)]
    told = forecast(_scenario(*estimates, until_s=2 * 3600), NIGHT)
    found = _remedy(told.fit.remedies, "copies at once per site")
    assert found.fits
    assert "--site-copies 16" in found.change
    assert not any("cap_share" in one.change for one in told.fit.remedies)


def test_a_limit_of_the_inventory_is_named_where_it_is_in_the_way() -> None:
    """More copies at a site with max_copies need a change of the inventory too."""
    slow = Rate(bytes_per_s=50e3, source="measured")
    scenario = _scenario(*(_estimate(f"r{number}", rate=slow) for number in range(8)), until_s=2 * 3600)
    links = {name: replace(link, max_copies=2) for name, link in scenario.links.items()}
    told = forecast(replace(scenario, links=links), NIGHT)
    assert "max_copies in the inventory" in _remedy(told.fit.remedies, "copies at once per site").change


def test_a_full_link_asks_for_a_larger_share() -> None:
    """Where the link is full the least share that fits is told, in steps of 5 %."""
    told = forecast(_scenario(*(_estimate(f"r{number}") for number in range(10)), until_s=1150), NIGHT)
    found = _remedy(told.fit.remedies, "cap_share")
    assert found.fits
    assert found.change.startswith("85%")


def test_tuning_is_proposed_where_it_helps() -> None:
    """Untuned devices whose tuned speed is known are proposed for tuning."""
    slow = Rate(bytes_per_s=100e3, source="probed as it is")
    told = forecast(_scenario(replace(_estimate("r1", rate=slow), tuned_rate=OF_LINK), until_s=600), NIGHT)
    assert _remedy(told.fit.remedies, "--tune always").fits


def test_what_does_not_fit_into_one_night_is_divided_over_several() -> None:
    """The late devices are named, with how many nights all of them need."""
    told = forecast(_scenario(*(_estimate(f"r{number}") for number in range(20)), until_s=1000), NIGHT)
    found = _remedy(told.fit.remedies, "nights")
    assert found.fits
    assert found.change.startswith("3 nights: leave ")


def test_a_device_that_no_night_is_long_enough_for_is_named() -> None:
    """One slow device is told as what it is: waiting for another night does not help it."""
    crawling = Rate(bytes_per_s=2e3, source="measured")
    estimates = [_estimate("slow", rate=crawling), *(_estimate(f"r{number}") for number in range(3))]
    told = forecast(_scenario(*estimates, until_s=3600), NIGHT)
    assert told.fit.late == ("slow",)
    assert _remedy(told.fit.remedies, "leaving out slow; slow fit into no night of this length").fits


def test_a_site_that_opens_hours_later_is_waited_for_and_holds_no_other() -> None:
    """Its wave is the first one: the second, whose site is open, is not held until then."""
    scenario = _scenario(_estimate("r1"), _estimate("r2", "b"), until_s=36_000)
    links = {**scenario.links, "a": replace(scenario.links["a"], opens_s=7200.0)}
    found = forecast(replace(scenario, links=links), NIGHT)
    assert found.fit.fits
    assert found.devices["r2"].begins_s < 7200 <= found.devices["r1"].begins_s


@pytest.mark.parametrize(("opens_s", "until_s"), [(36_000.0, 36_000), (25 * 3600.0, 200_000)])
def test_a_site_that_opens_too_late_for_the_run_is_late(opens_s: float, until_s: int) -> None:
    """At the run's end, or more than a day after its start: the plan reports it, and it holds no other."""
    scenario = _scenario(_estimate("r1"), _estimate("r2", "b"), until_s=until_s)
    links = {**scenario.links, "b": replace(scenario.links["b"], opens_s=opens_s)}
    found = forecast(replace(scenario, links=links), NIGHT)
    assert found.fit.late == ("r2",)
    assert set(found.devices) == {"r1"}
    assert "opens too late for the run" in found.fit.sentence


def test_the_earlier_of_two_ends_is_named() -> None:
    """A site that closes before the run's end is what a device is late for."""
    scenario = _scenario(_estimate("r1", megabytes=2000), until_s=36_000)
    links = {name: replace(link, closes_s=600.0) for name, link in scenario.links.items()}
    assert "its site closes at 22:10" in forecast(replace(scenario, links=links), NIGHT).fit.sentence


def test_assumptions_are_told_with_how_many_devices_they_are_about() -> None:
    """What nobody measured stands in a sentence of its own."""
    guess = replace(OF_LINK, is_assumed=True, source="assumed: as fast as the link")
    other = replace(guess, source="staged 3 days ago; assumed: as fast as the link")
    told = forecast(_scenario(_estimate("r1", rate=guess), _estimate("r2", rate=other), _estimate("r3")), NIGHT)
    assert told.assumptions == ("2 of 3 devices: assumed: as fast as the link",)


def test_nothing_to_stage_is_no_run() -> None:
    """A plan of a fleet that has its images is told as such."""
    assert forecast(_scenario(), NIGHT).fit.sentence == "nothing is to be staged"


def _finishing(host: str, finish: Finish) -> Estimate:
    return replace(_estimate(host), finish=finish)


def test_members_cost_their_copies_and_hashes_and_no_link() -> None:
    """100 MB to two members at 10 MB/s, hashed there at 10 MB/s, and added at 5: 20 + 20 + 20 s behind the restore."""
    finish = Finish(
        copies=2, copy_rate=Rate(bytes_per_s=10e6, source=""), hashes=2, add_rate=Rate(bytes_per_s=5e6, source="")
    )
    plain, told = (forecast(_scenario(one), NIGHT) for one in (_estimate("r1"), _finishing("r1", finish)))
    assert told.duration_s - plain.duration_s == pytest.approx(60)
    assert told.sites[0].busy_s == plain.sites[0].busy_s
    assert told.sites[0].bytes == plain.sites[0].bytes


def test_what_is_assumed_of_the_inside_of_a_box_is_told() -> None:
    """A rate that nobody measured has its sentence, with how many devices it is about."""
    guess = Finish(copies=1, copy_rate=Rate(bytes_per_s=1e6, source="assumed: inside the box", is_assumed=True))
    told = forecast(_scenario(_finishing("r1", guess), _estimate("r2")), NIGHT)
    assert told.assumptions == ("1 of 2 devices: assumed: inside the box",)


def test_a_stack_that_is_late_for_its_members_is_late() -> None:
    """Its copy over the link fits, and what follows its restore does not: it is the one that is proposed to be left."""
    finish = Finish(copies=8, copy_rate=Rate(bytes_per_s=1e6, source=""), hashes=8)
    told = forecast(_scenario(_estimate("r1"), _finishing("r2", finish), until_s=600), NIGHT)
    assert told.fit.late == ("r2",)
    assert _remedy(told.fit.remedies, "leaving out r2").fits
