"""Waves: who goes first, who goes together, and when a run must stop."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.errors import ConfigInvalid
from flashferry.model.limits import Limits
from flashferry.model.waves import WaveDevice, WavePolicy, may_go_on, parse_failures, waves


def _fleet() -> list[WaveDevice]:
    return [
        WaveDevice(host="a1", site="a", group="gold", model="ISR"),
        WaveDevice(host="a2", site="a", group="gold", model="ISR"),
        WaveDevice(host="b1", site="b", group="iron", model="ISR"),
        WaveDevice(host="a3", site="a", group="iron", model="ASR"),
        WaveDevice(host="x1", site=None, group=None, model="ISR"),
    ]


def _shown(policy: WavePolicy) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(wave.number, wave.name, wave.hosts) for wave in waves(_fleet(), policy)]


def test_one_canary_of_each_model_goes_first_then_the_sites() -> None:
    """The first device of each model is a canary; the others follow by site, in the order of the inventory."""
    assert _shown(WavePolicy()) == [
        (0, "canary", ("a1", "a3")),
        (1, "site a", ("a2",)),
        (2, "site b", ("b1",)),
        (3, "without a site", ("x1",)),
    ]


def test_waves_follow_groups_where_that_is_asked_for() -> None:
    """By group, each group is a wave."""
    assert _shown(WavePolicy(by="group", canary=False)) == [
        (0, "group gold", ("a1", "a2")),
        (1, "group iron", ("b1", "a3")),
        (2, "without a group", ("x1",)),
    ]


def test_a_large_wave_is_split() -> None:
    """No wave has more devices than its size, and its name tells which part it is."""
    assert _shown(WavePolicy(by=None, canary=False, size=2)) == [
        (0, "all, part 1 of 3", ("a1", "a2")),
        (1, "all, part 2 of 3", ("b1", "a3")),
        (2, "all, part 3 of 3", ("x1",)),
    ]


def test_only_canaries_make_one_wave() -> None:
    """A fleet of one device per model has no second, empty wave."""
    assert [wave.name for wave in waves(_fleet()[2:4], WavePolicy())] == ["canary"]
    assert waves([], WavePolicy()) == ()


def test_where_no_model_is_known_one_of_each_image_goes_first() -> None:
    """A first run without a plan knows no models: the first to get an image is its canary, known ones aside."""
    fleet = [
        WaveDevice(host="a1", site="a", image="x.bin"),
        WaveDevice(host="a2", site="a", image="x.bin"),
        WaveDevice(host="b1", site="b", image="y.bin"),
        WaveDevice(host="b2", site="b", image="x.bin", model="ISR"),
        WaveDevice(host="b3", site="b", image="y.bin"),
    ]
    assert [wave.hosts for wave in waves(fleet, WavePolicy())] == [("a1", "b1", "b2"), ("a2",), ("b3",)]


_devices = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["g", "h", None]), st.sampled_from(["m", "n", None])),
    max_size=30,
)


@given(
    kinds=_devices,
    canary=st.booleans(),
    by=st.sampled_from(["site", "group", None]),
    size=st.one_of(st.none(), st.integers(1, 5)),
)
def test_each_device_is_in_exactly_one_wave(kinds: list, canary: bool, by: str | None, size: int | None) -> None:
    """Whatever the policy, no device is lost, doubled, or in an empty or too large wave."""
    fleet = [
        WaveDevice(host=f"r{number}", site=site, group=group, model=model)
        for number, (site, group, model) in enumerate(kinds)
    ]
    made = waves(fleet, WavePolicy(canary=canary, by=by, size=size))
    assert sorted(host for wave in made for host in wave.hosts) == sorted(device.host for device in fleet)
    assert [wave.number for wave in made] == list(range(len(made)))
    assert all(wave.hosts for wave in made)
    assert all(len(wave.hosts) <= size for wave in made if size is not None and not wave.is_canary)


@pytest.mark.parametrize(
    ("allowed", "begun", "failed", "stops"),
    [
        (0, 5, 0, False),
        (0, 5, 1, True),
        (2, 5, 2, False),
        (2, 5, 3, True),
        (0.3, 10, 3, False),
        (0.3, 10, 4, True),
        (1.0, 10, 10, False),
        (0.5, 0, 0, False),
    ],
)
def test_one_failure_more_than_allowed_stops_the_run(allowed: float, begun: int, failed: int, stops: bool) -> None:
    """A count or a share is what the run bears; one more is too many."""
    assert (may_go_on(WavePolicy(max_failures=allowed), begun, failed) is not None) is stops


def test_a_failed_canary_stops_the_run_by_itself() -> None:
    """No canary may fail, whatever the run bears otherwise; the reason says what was seen and what is allowed."""
    assert may_go_on(WavePolicy(), 2, 1, canaries_failed=1) == "1 of the first devices (canaries) failed, none may"
    assert may_go_on(WavePolicy(canary_failures=1), 2, 1, canaries_failed=1) is None


@pytest.mark.parametrize("wrong", [{"size": 0}, {"max_failures": -1}, {"max_failures": 1.5}, {"max_failures": 0.0}])
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict) -> None:
    """A wave of nobody and a share above all are slips of the finger."""
    with pytest.raises(ConfigInvalid, match="expected"):
        WavePolicy(**wrong)


def test_limits_are_checked_and_a_site_may_have_a_lower_one() -> None:
    """A limit is at least one; a site's own limit only lowers the run's."""
    with pytest.raises(ConfigInvalid, match="limit of site_copies: expected a whole number from 1"):
        Limits(site_copies=0)
    assert Limits(site_copies=8).of_site(None) == 8
    assert Limits(site_copies=8).of_site(2) == 2
    assert Limits(site_copies=8).of_site(12) == 8
    assert Limits(copies=3).of_site(None) == 3


def test_by_default_none_waits_for_its_hash_behind_its_copy() -> None:
    """Whoever waits there is tuned meanwhile: as many may hash as may copy."""
    assert Limits().hashes >= Limits().copies


@pytest.mark.parametrize(
    ("text", "meant"), [("3", 3), ("0", 0), ("10%", 0.1), ("100%", 1.0), ("0%", 0), ("2.5 %", 0.025)]
)
def test_failures_are_a_count_or_a_share(text: str, meant: float) -> None:
    """The sign of per cent tells them apart."""
    found = parse_failures(text)
    assert found == meant
    assert isinstance(found, type(meant))


@pytest.mark.parametrize("text", ["-1", "101%", "some", "0.5", "999999"])
def test_other_failures_are_refused(text: str) -> None:
    """What could be meant either way is refused."""
    with pytest.raises(ConfigInvalid, match="expected a count such as 3"):
        parse_failures(text)
