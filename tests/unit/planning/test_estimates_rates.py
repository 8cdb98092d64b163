"""How fast a copy may be expected to be, and that assumptions say that they are."""

from dataclasses import dataclass, field

import pytest

from flashferry.planning.estimates import (
    ModelRate,
    Speeds,
    Subject,
    add_rate,
    assumed_rate,
    bounded_rate,
    by_model,
    flash_rate,
    hash_rate,
    measured_rate,
)
from flashferry.planning.scenario import Rate


@dataclass(frozen=True)
class _Copy:
    tuned: bool = True
    counts: bool = True
    is_limited_by_device: bool = False
    whole_bytes_per_s: float = 1e6
    verdict: str = "cap"
    transport: str = "ftp"


@dataclass(frozen=True)
class _Expected:
    bytes_per_s: float = 1e6
    source: str = "staged 3 days ago, 1.00 MB/s"


@dataclass(frozen=True)
class _Past:
    copies: tuple[_Copy, ...] = ()
    expects: _Expected | None = field(default_factory=_Expected)

    def of(self, host: str) -> tuple[_Copy, ...]:
        return self.copies

    def expected(self, host: str, *, tuned: bool, size_bytes: int, transport: str) -> _Expected | None:
        return self.expects

    def fastest(self, host: str, transports: object, *, size_bytes: int) -> None:
        return None

    def shown_not_to_gain(self, host: str, transport: str) -> str | None:
        return None


def _subject(**changed: object) -> Subject:
    given: dict[str, object] = {
        "host": "r1",
        "model": "ISR4321/K9",
        "platform": "ios-xe",
        "size_bytes": 500_000_000,
        "rtt_s": 0.1,
        "cap_bytes_per_s": 4e6,
    }
    return Subject(**{**given, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("copy", "is_of_link"),
    [
        (_Copy(), True),
        (_Copy(verdict="bandwidth"), True),
        (_Copy(verdict="slow receiver"), False),
        (_Copy(is_limited_by_device=True), False),
        (_Copy(tuned=False), False),
        # Measured alone at 2 MB/s, but expected slower: something else than the link holds it back.
        (_Copy(whole_bytes_per_s=2e6), False),
    ],
)
def test_a_copy_that_shared_the_link_tells_no_limit_of_the_device(copy: _Copy, is_of_link: bool) -> None:
    """Where cap or link were the limit, the device takes what it gets; else what was measured is its limit."""
    found = measured_rate(_Past((copy,)), _subject(), tuned=True)
    assert found is not None
    assert (found.is_of_link, found.is_assumed) == (is_of_link, False)
    assert found.source.startswith("staged 3 days ago, 1.00 MB/s")
    assert found.bytes_per_s == (4e6 if is_of_link else 1e6)


def test_nothing_is_measured_where_history_is_silent() -> None:
    """A device without history has no measured rate."""
    assert measured_rate(_Past(expects=None), _subject(), tuned=True) is None


def test_like_devices_stand_in_before_the_link_does() -> None:
    """The median of the model is nearer to the truth than the link, and is told as what it is."""
    found = assumed_rate(_subject(), tuned=True, by_model={"ISR4321/K9": ModelRate(2e6, 3)})
    assert found == Rate(
        bytes_per_s=2e6, source="assumed: as fast as the median of 3 other ISR4321/K9", is_assumed=True
    )


def test_a_tuned_device_is_taken_to_fill_what_copies_may_have_of_the_link() -> None:
    """Without any measurement a tuned copy runs at the cap; the words say that its flash is not known."""
    found = assumed_rate(_subject(), tuned=True, by_model={})
    assert (found.bytes_per_s, found.is_assumed, found.is_of_link) == (4e6, True, True)
    assert "the speed of its flash is not known yet" in found.source


@pytest.mark.parametrize(("platform", "rate"), [("ios-xe", 149_000), ("ios", 102_000)])
def test_an_untuned_device_is_taken_to_run_at_a_window_per_round_trip(platform: str, rate: float) -> None:
    """Untuned, the window that was seen of such devices limits it."""
    found = assumed_rate(_subject(platform=platform), tuned=False, by_model={})
    assert found.bytes_per_s == pytest.approx(rate)
    assert "untuned and never measured" in found.source


def test_without_a_link_rate_the_slower_case_is_assumed() -> None:
    """A device whose link nobody knows is never taken for a fast one."""
    found = assumed_rate(_subject(cap_bytes_per_s=None, rtt_s=None), tuned=True, by_model={})
    assert found.bytes_per_s == pytest.approx(149_000)
    assert "link's rate is not known" in found.source


def test_hash_speed_is_the_devices_own_else_its_models_else_assumed() -> None:
    """What a device was seen to hash at counts first."""
    models: dict[str, str | None] = {"r1": "ISR4321/K9", "r2": "ISR4321/K9", "r3": "C2811"}
    assert hash_rate(_subject(), Speeds.of({"r1": 7e6, "r2": 3e6}, models)) == (7e6, True)
    assert hash_rate(_subject(), Speeds.of({"r2": 3e6, "r3": 1e6}, models)) == (3e6, True)
    assert hash_rate(_subject(platform="ios"), Speeds.of({}, models)) == (pytest.approx(400e6 / 720), False)


def test_a_rate_that_the_link_gave_says_nothing_about_a_model() -> None:
    """Only rates that devices limited themselves are passed on to others of their model."""
    own, shared = Rate(bytes_per_s=1e6, source=""), Rate(bytes_per_s=2e6, source="", is_of_link=True)
    assert by_model([("A", own), ("A", shared), (None, own)]) == {"A": ModelRate(1e6, 1)}
    assert by_model([("A", Rate(bytes_per_s=rate, source="")) for rate in (1e6, 3e6, 2e6)]) == {"A": ModelRate(2e6, 3)}


def test_a_device_that_shared_its_link_is_not_taken_for_faster_than_its_model() -> None:
    """What the link held back is bounded by what others of the model took, and only downwards."""
    shared = Rate(bytes_per_s=4e6, source="staged", is_of_link=True)
    found = bounded_rate(shared, _subject(), {"ISR4321/K9": ModelRate(2e6, 1)})
    assert (found.bytes_per_s, found.is_of_link, found.is_assumed) == (2e6, False, True)
    assert bounded_rate(shared, _subject(), {"ISR4321/K9": ModelRate(5e6, 1)}) == shared
    assert bounded_rate(shared, _subject(), {}) == shared


@pytest.mark.parametrize(
    ("tuned", "ceiling", "rate", "words"),
    [
        (True, 81_920.0, 81_920, "by scp its windows let no more through"),
        (True, 9e6, 4e6, "it takes up to all that its link gives"),
        (True, None, 4e6, "it takes up to all that its link gives"),
        (False, 81_920.0, 149_000, "untuned and never measured"),
    ],
)
def test_a_window_inside_the_window_bounds_what_is_assumed(tuned, ceiling, rate, words) -> None:
    """Where it lets less through than copies may have of the link."""
    found = assumed_rate(_subject(transport="scp", ceiling_bytes_per_s=ceiling), tuned=tuned, by_model={})
    assert (round(found.bytes_per_s), words in found.source, found.is_assumed) == (rate, True, True)


@pytest.mark.parametrize(
    ("rate", "usual", "words"),
    [
        (flash_rate, 11.9e6, "assumed: inside the box they copy 12 MB/s, as was published of other flash"),
        (add_rate, 11.3e6, "assumed: 'install add' goes through 11 MB/s, as on a C8000V"),
    ],
)
def test_what_is_done_inside_the_box_goes_as_measured_else_as_published(rate, usual, words) -> None:
    """A device's own figure first, then its model's; what is assumed says so."""
    models: dict[str, str | None] = {"r1": "ISR4321/K9", "r2": "ISR4321/K9"}
    assert rate(_subject(), Speeds.of({"r1": 7e6, "r2": 3e6}, models)).bytes_per_s == 7e6
    like = rate(_subject(), Speeds.of({"r2": 3e6}, models))
    assert (like.bytes_per_s, like.is_assumed) == (3e6, False)
    found = rate(_subject(), Speeds.of({}, models))
    assert (found.bytes_per_s, found.source, found.is_assumed) == (pytest.approx(usual, rel=0.01), words, True)


@pytest.mark.parametrize(
    ("verdict", "is_of_link"), [("window", True), ("random loss", True), ("cap", True), ("slow receiver", False)]
)
def test_what_held_a_copy_back_on_the_wan_does_not_on_a_lan(verdict: str, is_of_link: bool) -> None:
    """Its window per round trip and its losses are no limits of the device; its flash is."""
    past = _Past(copies=(_Copy(verdict=verdict),))
    found = measured_rate(past, _subject(is_local=True, cap_bytes_per_s=12e6), tuned=True)
    assert found is not None
    assert (found.is_of_link, found.bytes_per_s) == (is_of_link, 12e6 if is_of_link else 1e6)
    over_wan = measured_rate(past, _subject(cap_bytes_per_s=12e6), tuned=True)
    assert over_wan is not None
    assert over_wan.is_of_link is (verdict == "cap")
