"""What depots and neighbours save, and which sites should have a depot."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.model.fleet_plan import Remedy
from flashferry.model.limits import Limits
from flashferry.model.waves import WavePolicy
from flashferry.planning.fleet_planner import times_of
from flashferry.planning.forecast import Forecast, forecast
from flashferry.planning.remedies import depot_advice
from flashferry.planning.scenario import Estimate, LinkFacts, Rate, Scenario, play

NIGHT = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
OF_LINK = Rate(bytes_per_s=1e6, source="measured", is_of_link=True)
HOUR = 3600.0


def device(host: str, site: str = "ams", *, image: str = "new.bin", rate: Rate = OF_LINK) -> Estimate:
    """Return a device that is to have 200 MB."""
    return Estimate(
        host=host,
        link=site,
        site=site,
        group=None,
        model="ISR",
        image=image,
        size_bytes=200_000_000,
        rate=rate,
        hash_bytes_per_s=10e6,
        rtt_s=0.05,
    )


def fleet(*devices: Estimate, until_s: float | None = None, **facts) -> Scenario:
    """Return a run over links of 10 Mbit/s."""
    links = {one.link: LinkFacts(name=one.link, rate_bps=10e6, cap_share=0.8, **facts) for one in devices}
    policy = WavePolicy(canary=False, by=None)
    return Scenario(estimates=devices, links=links, limits=Limits(), policy=policy, until_s=until_s)


def many(count: int, site: str = "ams") -> tuple[Estimate, ...]:
    return tuple(device(f"{site}{number}", site) for number in range(count))


def advised(scenario: Scenario) -> Forecast:
    return forecast(scenario, NIGHT)


def test_a_site_that_would_gain_is_told_with_what_it_gains() -> None:
    """Twenty copies of 200 MB over a link that gives 0.97 MB/s: 69 minutes; with a depot one of them, and the LAN's."""
    (found,) = advised(fleet(*many(20))).depot_advice
    assert (found.site, found.devices, found.images) == ("ams", 20, 1)
    assert (found.bytes, found.bytes_with) == (4_000_000_000, 200_000_000)
    assert found.takes_s == pytest.approx(4e9 / 0.973e6, rel=0.02)
    assert found.takes_with_s == pytest.approx(0.2e9 / 0.973e6 + 4e9 / 12.2e6, rel=0.1)
    assert found.saved_s == pytest.approx(found.takes_s - found.takes_with_s, abs=0.2)
    assert (found.fits, found.nights) == (None, None)


def test_the_site_that_gains_most_comes_first() -> None:
    """Nights go before minutes."""
    found = advised(fleet(*many(6, "few"), *many(40, "many"), *many(12, "some"), until_s=HOUR)).depot_advice
    assert [one.site for one in found] == ["many", "some", "few"]


@pytest.mark.parametrize(
    ("devices", "facts", "why"),
    [
        (many(1), {}, "one device pulls once in any case"),
        ((device("r1", image="a.bin"), device("r2", image="b.bin")), {}, "no image is wanted twice"),
        (tuple(device(f"r{number}", rate=Rate(bytes_per_s=20e3, source="m")) for number in range(8)), {}, "slow flash"),
        (many(20), {"depot": "depot-1"}, "it has one"),
        (many(20), {"neighbours": True}, "its devices serve each other"),
        (many(4), {"lan_rate_bps": 8e6}, "the LAN is no faster than the link"),
    ],
)
def test_a_depot_that_would_save_nothing_is_not_advised(devices, facts, why) -> None:
    """Nobody is told to put up a host for it."""
    assert advised(fleet(*devices, **facts)).depot_advice == (), why


def test_what_takes_a_minute_is_worth_no_host() -> None:
    """Two devices behind 1 Gbit/s would gain by seconds."""
    fast = fleet(*many(2))
    fast = replace(fast, links={"ams": replace(fast.links["ams"], rate_bps=1e9)})
    assert advised(fast).depot_advice == ()


def test_a_depot_that_makes_a_run_fit_is_a_remedy() -> None:
    """It stands among the others, with the time at which the run would be done, and the inventory's key."""
    told = advised(fleet(*many(20), until_s=HOUR))
    assert told.fit.fits is False
    found: Remedy = next(one for one in told.fit.remedies if "depot" in one.change)
    assert found.change == "a depot at ams (depot in the inventory)"
    assert found.fits
    (advice,) = told.depot_advice
    assert (advice.fits, advice.fits_with) == (False, True)


def test_nights_become_fewer() -> None:
    """Three windows of a site become one, and the plan says so in words."""
    one_at_a_time = replace(fleet(*many(40), until_s=HOUR), limits=Limits(site_copies=1))
    (advice,) = advised(one_at_a_time).depot_advice
    assert (advice.nights, advice.nights_with) == (3, 1)
    links = {"ams": replace(one_at_a_time.links["ams"], depot="depot-1", lan_rate_bps=1e9)}
    saved = advised(replace(one_at_a_time, links=links)).savings
    assert saved is not None
    assert (saved.nights, saved.nights_without) == (1, 3)
    assert saved.sentence.endswith("3 nights become 1")


def test_what_came_to_a_depot_in_one_night_is_there_in_the_next() -> None:
    """An image that takes most of a short night is not waited for again; the second night does what the first left."""
    short = fleet(*many(30), until_s=500.0, depot="depot-1", lan_rate_bps=100e6)
    saved = advised(short).savings
    assert saved is not None
    assert saved.nights == 3
    slow = replace(short, links={"ams": replace(short.links["ams"], rate_bps=1e6)})
    assert advised(slow).savings.nights is None


def test_what_a_depot_saves_is_told_of_the_run_and_of_its_site() -> None:
    """Bytes over the link, over the LAN, and time; sites without one save nothing."""
    mixed = fleet(*many(20), *many(3, "lim"))
    mixed = replace(mixed, links={**mixed.links, "ams": replace(mixed.links["ams"], depot="depot-1")})
    told = advised(mixed)
    ams, lim = told.sites
    assert (ams.depot, ams.bytes, ams.lan_bytes, ams.saved_bytes) == (
        "depot-1",
        200_000_000,
        4_000_000_000,
        3_800_000_000,
    )
    assert ams.at_depot_s is not None
    assert ams.busy_s < ams.at_depot_s < ams.ends_s
    assert ams.saved_s > 3000
    assert ams.load_share == pytest.approx(1.0)
    assert (ams.lan_rate_bps, ams.lan_source) == (100e6, "assumed, for the inventory does not state it")
    assert (lim.depot, lim.neighbours, lim.lan_rate_bps, lim.lan_bytes, lim.saved_bytes, lim.saved_s) == (
        *(None, False, None, 0, 0),
        0.0,
    )
    saved = told.savings
    assert saved is not None
    assert (saved.bytes, saved.bytes_without, saved.lan_bytes) == (800_000_000, 4_600_000_000, 4_000_000_000)
    assert saved.sentence == (
        "800.0 MB over the links instead of 4.60 GB if each device pulled for itself; 11 min instead of 69 min"
    )


def test_without_depots_nothing_is_said_to_be_saved() -> None:
    """There is nothing to compare with."""
    assert advised(fleet(*many(3))).savings is None


def test_a_site_of_neighbours_is_told_with_what_it_saves() -> None:
    """One copy over the WAN, the rest from device to device."""
    told = advised(fleet(*many(20), neighbours=True))
    (site,) = told.sites
    assert (site.depot, site.neighbours, site.at_depot_s) == (None, True, None)
    assert (site.bytes, site.lan_bytes) == (200_000_000, 3_800_000_000)
    assert site.saved_s > 1000


def test_what_is_taken_for_granted_of_depots_and_neighbours_is_told() -> None:
    """The LAN where nobody states it, what the depot has, and how neighbours serve."""
    told = advised(fleet(*many(2), *many(2, "lim"), depot="depot-1")).assumptions
    assert told == (
        "ams, lim: assumed: the LAN there carries 100 Mbit/s; 'lan_rate_bps' in the inventory states it",
        (
            "ams, lim: assumed: the depot there has none of the images yet, takes each once, one after the other from "
            "the beginning of the run on, and proves it at 200 MB/s"
        ),
    )
    told = advised(fleet(*many(2), neighbours=True, lan_rate_bps=1e9)).assumptions
    assert told == (
        "1 of 2 devices: assumed: a neighbour gives a device no more than 2.00 MB/s",
        (
            "ams: assumed: the first device there for each image pulls over the WAN; each that has proven it serves 3 "
            "to 5 others at a time"
        ),
    )


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["x.bin", "y.bin"]), st.floats(5e4, 5e6), st.booleans()),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([None, 600.0, HOUR]),
)
def test_advice_holds_what_it_says(given_devices, until_s: float | None) -> None:
    """Whoever follows it finds the site done as much earlier, and only images that are wanted twice are behind it."""
    devices = [
        device(f"r{number}", site, image=image, rate=Rate(bytes_per_s=rate, source="m", is_of_link=is_of_link))
        for number, (site, image, rate, is_of_link) in enumerate(given_devices)
    ]
    made = fleet(*devices, until_s=until_s)
    for advice in depot_advice(made, play(made)):
        alone = made.at(advice.site)
        followed = play(alone.with_depots([advice.site]))
        assert followed.run.ends_s == pytest.approx(advice.takes_with_s, abs=0.1)
        assert advice.takes_with_s < advice.takes_s
        assert advice.bytes_with < advice.bytes
        assert advice.devices > advice.images
        assert depot_advice(made.with_depots([advice.site]), play(made.with_depots([advice.site]))) == tuple(
            one for one in depot_advice(made, play(made)) if one.site != advice.site
        )


@pytest.mark.parametrize("size_bytes", [2_000_000, 8_000_000, 200_000_000, 20_000_000_000])
def test_a_copy_over_a_fast_lan_has_its_rate_in_the_plan(size_bytes: int) -> None:
    """The canary has the LAN for itself, and is through in a blink: not in no time, for its rate is told by that."""
    devices = (replace(one, size_bytes=size_bytes) for one in many(3))
    scenario = replace(fleet(*devices, depot="depot-1", lan_rate_bps=1e9), policy=WavePolicy(canary=True))
    told = advised(scenario)
    planned = times_of(told.waves[0].number, told.devices["ams0"])
    timeline = told.devices["ams0"]
    assert planned["wave"] == 0
    assert planned["copy_s"]
    assert size_bytes / planned["copy_s"] == pytest.approx(
        size_bytes / (timeline.copied_s - timeline.copies_from_s), rel=0.04
    )
