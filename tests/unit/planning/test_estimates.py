"""From what devices told and what is known of them to what a forecast is made from."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.images.image import Image
from flashferry.model.fleet_plan import Action, PlannedDevice, Supply
from flashferry.model.link_rates import STATED, LinkRate
from flashferry.model.policy import StagePolicy, TuneMode
from flashferry.planning.deadline import first_opening
from flashferry.planning.estimates import Known, decided, estimates_of, links_of
from flashferry.planning.fleet_planner import PlanRequest, plan_fleet
from flashferry.planning.gather import Found
from flashferry.transports.transport_selection import TransportRequest
from inventory.host_view import HostView
from inventory.nornir_loader import open_inventory
from inventory.sites import Site, sites_of
from inventory.time_window import TimeWindow
from tasks.check import TargetImage

NIGHT = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
WINDOW = TimeWindow(opens="23:00", closes="05:00")


@dataclass(frozen=True)
class _Expected:
    bytes_per_s: float
    source: str = "staged"


class _Past:
    """History in which r1 gains nothing from tuning and runs at 2 MB/s tuned, 1 MB/s as it is."""

    def of(self, host: str) -> tuple[()]:
        return ()

    def expected(self, host: str, *, tuned: bool, size_bytes: int, transport: str) -> _Expected | None:
        return _Expected(2e6 if tuned else 1e6) if host == "r1" else None

    def fastest(self, host: str, transports: object, *, size_bytes: int) -> tuple[str, _Expected] | None:
        return ("http", _Expected(3e6, "staged 2 days ago, 3.00 MB/s")) if host == "r1" else None

    def shown_not_to_gain(self, host: str, transport: str) -> str | None:
        return "its flash is the limit" if host == "r1" else None


def _view(name: str, site: str | None = "a", windows: tuple[TimeWindow, ...] = (), **more: object) -> HostView:
    return HostView(
        name=name,
        address="192.0.2.1",
        port=22,
        platform="ios",
        site=site,
        link_rate_bps=80e6,
        cap_share=0.5,
        server_address=None,
        windows=windows,
        max_copies=3,
        **({"vrf": None} | more),  # type: ignore[arg-type]
    )


def _found(name: str, action: Action = Action.STAGE, **view: object) -> Found:
    device = _view(name, **view)  # type: ignore[arg-type]
    planned = PlannedDevice(host=name, address="192.0.2.1", site=device.site, model="ISR", action=action)
    wanted = TargetImage(image=Image(name="new.bin", size_bytes=100_000_000, md5="0" * 32, sha512="0" * 128))
    rate = LinkRate(rate_bps=80e6, source=STATED)
    return Found(planned=planned, view=device, platform="ios-xe", target=wanted, link_rate=rate)


def _sites(*found: Found) -> dict[str, Site]:
    return sites_of(one.view for one in found)


@pytest.mark.parametrize(
    ("mode", "rate", "tune"), [(TuneMode.AUTO, 1e6, False), (TuneMode.ALWAYS, 2e6, True), (TuneMode.NEVER, 1e6, False)]
)
def test_a_device_that_gains_nothing_is_tuned_only_when_asked(mode: TuneMode, rate: float, tune: bool) -> None:
    """Its rate is that of how it will be copied, and the reason stands in the plan."""
    found, known = _found("r1"), Known(past=_Past(), tune=mode)
    (estimate,) = estimates_of([found], links_of([found], _sites(found), NIGHT), known)
    planned = decided(found, estimate, known)
    assert (estimate.rate.bytes_per_s, planned.tune, bool(planned.tune_reason)) == (rate, tune, not tune)
    assert (estimate.tuned_rate is None) is tune


def test_only_devices_to_be_staged_are_before_the_run() -> None:
    """Refused, unreachable and finished devices cost no time, and their links none either."""
    everyone = [_found(f"r{number}", action, site=action.name) for number, action in enumerate(Action)]
    links = links_of(everyone, _sites(*everyone), NIGHT)
    assert list(links) == ["STAGE"]
    assert [one.host for one in estimates_of(everyone, links, Known(past=_Past()))] == ["r0"]


def test_a_device_without_a_site_has_a_link_of_its_own() -> None:
    """It shares with nobody, not even with a site that has its name."""
    everyone = [_found("a", site=None), _found("r2", site="a"), _found("r3", site="a")]
    links = links_of(everyone, _sites(*everyone), NIGHT)
    assert list(links) == ["device a", "a"]
    assert links["a"].max_copies == 3
    assert links["a"].cap_bytes_per_s == pytest.approx(80e6 * 0.5 / 8 * 1460 / 1500, abs=1)


def test_a_window_counts_from_the_start_of_the_run() -> None:
    """A site that opens an hour later and closes at five is open from 1 h to 7 h."""
    found = _found("r1", windows=(WINDOW,))
    (link,) = links_of([found], _sites(found), NIGHT).values()
    assert (link.opens_s, link.closes_s) == (3600, 7 * 3600)


def test_a_run_begins_now_or_when_the_first_site_opens() -> None:
    """Planned in the afternoon, a run of sites with windows begins with the first one; else now."""
    later = TimeWindow(opens="23:30", closes="05:00")
    assert first_opening([_view("r1", windows=(later,)), _view("r2", windows=(WINDOW,))], NIGHT) == NIGHT.replace(
        hour=23
    )
    assert first_opening([_view("r1", windows=(later,)), _view("r2")], NIGHT) == NIGHT
    assert first_opening([_view("r1", windows=(TimeWindow(opens="21:00", closes="05:00"),))], NIGHT) == NIGHT


def test_an_end_before_the_first_site_opens_is_refused_before_any_login(tmp_path: Path) -> None:
    """A run that must have ended before anything may begin is a slip: both times are named."""
    (tmp_path / "hosts.yaml").write_text("r1:\n  hostname: 192.0.2.1\n  platform: ios\n  groups: [a]\n")
    (tmp_path / "groups.yaml").write_text(
        "a:\n  data:\n    site: a\n    link_rate_bps: 8000000\n    windows: [{from: '23:00', until: '05:00'}]\n"
    )
    request = PlanRequest(policy=StagePolicy(until=NIGHT.replace(minute=30)), state_directory=tmp_path)
    with pytest.raises(ConfigInvalid, match=r"must end at 2026-11-21 22:30 and cannot start before 2026-11-21 23:00"):
        plan_fleet(open_inventory(tmp_path), request, now=NIGHT)


def test_auto_plans_the_fastest_that_is_known_and_says_why() -> None:
    """Of a device of which nothing is known the first that is allowed; without `auto` nothing is chosen."""
    found = (_found("r1"), _found("r2"), _found("r3", clear_text=False))
    links = links_of(found, _sites(*found), NIGHT)
    known = Known(past=_Past(), transport=TransportRequest(asked="auto"))
    planned = [
        decided(one, estimate, known) for one, estimate in zip(found, estimates_of(found, links, known), strict=True)
    ]
    assert [one.transport for one in planned] == ["http", "ftp", "scp"]
    assert planned[0].transport_reason == "the fastest that is known: staged 2 days ago, 3.00 MB/s"
    assert planned[1].transport_reason.startswith("the first that is allowed")
    usual = Known(past=_Past())
    assert [
        decided(one, estimate, usual).transport_reason
        for one, estimate in zip(found, estimates_of(found, links, usual), strict=True)
    ] == ["", "", ""]


def test_an_ssh_login_is_in_the_forecast() -> None:
    """Ten round trips of 150 ms, the round trip that is assumed where none was measured."""
    found = (_found("r1"), _found("r2", transports=("scp",)))
    estimates = estimates_of(found, links_of(found, _sites(*found), NIGHT), Known(past=_Past()))
    assert [one.job().extra_round_trips for one in estimates] == [0, 10]


@pytest.mark.parametrize(
    ("places", "members", "adds", "is_added", "copies", "hashes"),
    [
        (0, 0, False, False, 0, 0),
        # A stack of three in bundle mode; by a rule that adds, the members are hashed again in the end.
        (2, 2, False, False, 2, 2),
        (2, 2, True, False, 2, 4),
        # In install mode the device hands it on by itself.
        (0, 2, False, False, 0, 0),
        (0, 2, True, True, 0, 2),
    ],
)
def test_members_and_adding_are_in_the_forecast(places, members, adds, is_added, copies, hashes) -> None:
    """What is copied inside the box, what is hashed, and whether the image is added."""
    bare = _found("r1")
    planned = replace(bare.planned, other_places=places, adds=adds)
    found = replace(bare, planned=planned, other_members=members, is_added=is_added)
    (estimate,) = estimates_of([found], links_of([found], _sites(found), NIGHT), Known(past=_Past()))
    finish = estimate.finish
    assert (finish.copies, finish.hashes) == (copies, hashes)
    assert (finish.copy_rate is not None, finish.add_rate is not None) == (bool(copies), is_added)


def test_over_a_lan_a_device_takes_what_that_gives() -> None:
    """What its flash was seen to take holds there, too; a window per round trip of the WAN does not."""
    found = (_found("r1", depot="depot-1"), _found("r2", depot="depot-1"))
    found = (found[0], replace(found[1], planned=replace(found[1].planned, model="another")))
    links = links_of(found, _sites(*found), NIGHT)
    assert (links["a"].depot, links["a"].lan_rate_bps, links["a"].supply) == ("depot-1", None, Supply.DEPOT)
    known = Known(past=_Past(), tune=TuneMode.NEVER)
    first, second = estimates_of(found, links, known)
    assert first.lan_rate is not None
    assert (first.rate.bytes_per_s, first.lan_rate.bytes_per_s) == (1e6, 1e6)
    assert second.lan_rate is not None
    assert second.rate.bytes_per_s < 0.2e6 < 10e6 < second.lan_rate.bytes_per_s
    planned = decided(found[1], second, known, Supply.DEPOT)
    assert (planned.pulls_from, planned.expected_bytes_per_s) == (Supply.DEPOT, round(second.lan_rate.bytes_per_s, 1))
    neighbour = decided(found[1], second, known, Supply.NEIGHBOUR)
    assert (neighbour.expected_bytes_per_s, neighbour.is_assumed) == (2e6, True)


def test_a_device_in_a_vrf_or_without_clear_text_is_nobodys_neighbour() -> None:
    """Whether a device serves in a VRF nobody has seen, and nothing of such a copy is encrypted."""
    found = (_found("r1"), _found("r2", vrf="Mgmt-intf"), _found("r3", clear_text=False))
    estimates = estimates_of(found, links_of(found, _sites(*found), NIGHT), Known(past=_Past()))
    assert [one.takes_part for one in estimates] == [True, False, False]
