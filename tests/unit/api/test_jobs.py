"""What a run is to do, made from an image or a plan, and what is said before it begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from nornir.core import Nornir

from flashferry.api.jobs import dead_run_notices, job_for_image, job_for_plan, pace_notices
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.images.image import PlannedImage
from flashferry.images.manifest import manifest_of
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice, Supply, WindowState
from flashferry.model.limits import Limits, RetryPolicy
from flashferry.model.policy import StagePolicy, TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.run.run import run_waves
from flashferry.store.journal import Journal
from inventory.nornir_loader import open_inventory
from tests.unit.conftest import take


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "x.bin"
    path.write_bytes(b"an image")
    return path


@pytest.fixture
def nornir(tmp_path: Path) -> Nornir:
    (tmp_path / "hosts.yaml").write_text(
        "r1: {hostname: 192.0.2.1, platform: ios, data: {link_rate_bps: 8000000}}\n"
        "r2: {hostname: 192.0.2.2, platform: ios, data: {link_rate_bps: 8000000}}\n"
    )
    return open_inventory(tmp_path)


@pytest.fixture
def plan(image: Path) -> FleetPlan:
    return FleetPlan(
        created_at="2026-11-21T22:00:00+00:00",
        starts_at="2026-11-21T22:00:00+00:00",
        ends_at=None,
        images=(PlannedImage(name="x.bin", path=str(image), size_bytes=8, md5="0", sha512="0"),),
        limits=Limits(copies=7),
        policy=WavePolicy(max_failures=2),
        tune=TuneMode.ALWAYS,
        duration_s=12.5,
        fit=Fit(fits=None, sentence="no end is given"),
        waves=(Wave(number=0, name="canary", hosts=("r1",), is_canary=True),),
        devices=(
            PlannedDevice(host="r1", address="192.0.2.1", image="x.bin", action=Action.STAGE, wave=0, reason=""),
            PlannedDevice(host="r2", address="192.0.2.2", image="x.bin", action=Action.ALREADY_THERE, reason=""),
        ),
        digest="d1",
    )


def test_an_image_goes_to_all(nornir: Nornir, image: Path, tmp_path: Path) -> None:
    """With the defaults, and with where the inventory is, for whoever resumes the run."""
    job = job_for_image(nornir, image, inventory=tmp_path, state=tmp_path / "state")
    assert job.request.images == {"r1": image, "r2": image}
    assert job.options.policy == StagePolicy()
    assert job.request.stored == {"inventory": str(tmp_path.absolute())}
    assert job.sizes_bytes == {"r1": 8, "r2": 8}
    assert list(job.devices.inventory.hosts) == ["r1", "r2"]


def test_an_inventory_of_a_plugin_is_kept_by_its_name(nornir: Nornir, image: Path, tmp_path: Path) -> None:
    """What is no path stays as it was given; where none is given nothing is kept."""
    state = tmp_path / "state"
    assert job_for_image(nornir, image, inventory="sample", state=state).request.stored == {"inventory": "sample"}
    assert job_for_image(nornir, image, state=state).request.stored == {}


def test_a_plan_is_carried_out_as_it_says(nornir: Nornir, plan: FleetPlan, tmp_path: Path) -> None:
    """Its limits, waves and tuning; what it leaves alone takes no part, and the run keeps which plan it was."""
    job = job_for_plan(nornir, plan, path=tmp_path / "night.json")
    assert set(job.request.images) == set(job.devices.inventory.hosts) == {"r1"}
    assert (job.options.policy.limits, job.options.policy.waves) == (plan.limits, plan.policy)
    assert job.request.stored == {"plan": {"path": str(tmp_path / "night.json"), "digest": plan.digest}}
    assert job.options.policy.tunes


def of_three(plan: FleetPlan, nornir: Nornir) -> FleetPlan:
    """Return the plan with both devices to stage, r2 behind the canary."""
    devices = (plan.devices[0], replace(plan.devices[1], action=Action.STAGE, wave=1))
    return replace(plan, devices=devices, waves=(*plan.waves, Wave(number=1, name="all", hosts=("r2",))))


def test_chosen_devices_of_a_plan_are_staged_and_all_others_left_alone(nornir: Nornir, plan: FleetPlan) -> None:
    """In the plan's own waves; which are left alone is told, and that no canary is there to be waited for."""
    whole = of_three(plan, nornir)
    chosen = nornir.filter(filter_func=lambda host: host.name == "r2")
    job = job_for_plan(chosen, whole, is_part=True)
    assert set(job.request.images) == {"r2"}
    assert [(wave.number, wave.hosts) for wave in job.request.waves] == [(1, ("r2",))]
    assert (job.not_chosen, job.has_no_canary) == (("r1",), True)
    first = nornir.filter(filter_func=lambda host: host.name == "r1")
    job = job_for_plan(first, whole, is_part=True)
    assert (set(job.request.images), job.not_chosen, job.has_no_canary) == ({"r1"}, ("r2",), False)
    assert job_for_plan(nornir, whole).not_chosen == ()


def test_a_device_that_is_missing_though_nobody_chose_is_refused(nornir: Nornir, plan: FleetPlan) -> None:
    """An inventory that has lost a device of the plan is not taken for a choice."""
    chosen = nornir.filter(filter_func=lambda host: host.name == "r2")
    with pytest.raises(ConfigInvalid, match="the plan has r1, not in the inventory or not selected"):
        job_for_plan(chosen, of_three(plan, nornir))


def test_a_choice_of_which_the_plan_stages_none_is_refused(nornir: Nornir, plan: FleetPlan) -> None:
    """r2 has its image already: there is nothing to do."""
    chosen = nornir.filter(filter_func=lambda host: host.name == "r2")
    with pytest.raises(ConfigInvalid, match="expected a device that the plan stages among those chosen, found none"):
        job_for_plan(chosen, plan, is_part=True)


def test_what_is_said_overrides_a_plan(nornir: Nornir, plan: FleetPlan) -> None:
    """Each for itself: a limit, the tuning, and leave that the plan has not."""
    insisted = replace(plan, any_image=True)
    chosen = {"uncapped": True, "site_copies": 1, "tune": TuneMode.NEVER, "retries": 0}
    policy = job_for_plan(nornir, insisted, insisted.run_policy.changed(chosen)).options.policy
    assert policy.limits == Limits(copies=7, site_copies=1)
    assert policy.retry == RetryPolicy(times=0)
    assert (policy.tunes, policy.any_image, policy.uncapped) == (False, True, True)


def test_what_was_approved_with_a_plan_holds_for_its_run(nornir: Nornir, plan: FleetPlan) -> None:
    """Every setting that it carries, and no other device is treated otherwise."""
    approved = replace(plan, add=True, ready=True, dead_man=False, verify_signature=True, transport="scp")
    policy = job_for_plan(nornir, approved).options.policy
    assert policy.of_plan() == approved.of_plan()


def test_a_plan_whose_end_is_past_takes_another(nornir: Nornir, plan: FleetPlan) -> None:
    """Last night's end would leave every device alone: that is said, with what to do."""
    past = replace(plan, ends_at="2026-11-22T05:00:00+00:00")
    with pytest.raises(ConfigInvalid, match="its window has passed: it was to end by 2026-11-22 05:00 UTC"):
        job_for_plan(nornir, past)


@pytest.mark.parametrize(
    ("chosen", "untuned"),
    [
        ({}, {"r1"}),
        ({"tune": TuneMode.ALWAYS}, set()),
        ({"window_bytes": 1_250_000}, set()),
        ({"extra": ("timestamps",)}, set()),
    ],
)
def test_who_names_a_window_wants_it_set(
    nornir: Nornir,
    image: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: dict[str, object],
    untuned: set[str],
) -> None:
    """By itself a device that was shown not to gain is left as it is."""
    told = {"r1": "no gain"}
    monkeypatch.setattr(
        "flashferry.store.history.History.shown_not_to_gain", lambda self, host, transport: told.get(host)
    )
    policy = StagePolicy.without_plan(chosen)
    assert set(job_for_image(nornir, image, policy, state=tmp_path).request.untuned) == untuned


def test_links_without_a_rate_are_told(nornir: Nornir, image: Path, tmp_path: Path) -> None:
    """Before any device is asked; where all have one, nothing is said."""
    job = job_for_image(nornir, image, StagePolicy(uncapped=True), state=tmp_path)
    assert pace_notices(job, tmp_path) == ()
    del nornir.inventory.hosts["r2"].data["link_rate_bps"]
    (told,) = pace_notices(job, tmp_path)
    assert told.startswith("no link rate is stated for device r2: ")


def test_a_plan_that_counts_on_a_depot_is_told_where_it_is_carried_out_elsewhere(
    nornir: Nornir, plan: FleetPlan, image: Path, tmp_path: Path
) -> None:
    """Not at the depot itself, whose catalogue has the images."""
    counted = replace(plan, devices=(replace(plan.devices[0], pulls_from=Supply.DEPOT, site="AMS"), plan.devices[1]))
    (told,) = pace_notices(job_for_plan(nornir, counted), tmp_path)
    assert "depots (AMS)" in told
    catalogue = CatalogueFolder(tmp_path)
    catalogue.make()
    with catalogue.locked():
        assert catalogue.adopted(manifest_of(image), "by hand") is not None
    assert pace_notices(job_for_plan(nornir, counted), tmp_path) == ()


def test_what_a_dead_run_holds_is_told(tmp_path: Path) -> None:
    """No other run will touch it; of a run that is alive nothing is said."""
    with Journal(tmp_path) as dying:
        run_id = dying.begin_run("stage")
        dying.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios")
        take(dying, run_id, "r1", "r1")
        assert list(dead_run_notices(dying)) == []
    with Journal(tmp_path) as journal:
        (notice,) = dead_run_notices(journal)
    assert notice == "warning: a dead run still holds r1; run 'flashferry recover'"


def _closed_now(tmp_path: Path, *, other: str = "") -> tuple[Nornir, datetime]:
    """Return routers of which the first one's site opens in six hours, and when that is."""
    opens = (datetime.now(UTC) + timedelta(hours=6)).replace(second=0, microsecond=0)
    window = f"windows: [{{from: '{opens:%H:%M}', until: '{opens + timedelta(hours=2):%H:%M}'}}]"
    (tmp_path / "hosts.yaml").write_text(
        f"r1: {{hostname: 192.0.2.1, platform: ios, data: {{link_rate_bps: 8000000, {window}}}}}\n"
        f"r2: {{hostname: 192.0.2.2, platform: ios, data: {{link_rate_bps: 8000000{other or ', ' + window}}}}}\n"
    )
    return open_inventory(tmp_path), opens


def test_a_run_without_a_plan_waits_for_its_first_site(image: Path, tmp_path: Path) -> None:
    """All sites are closed: its window opens with the first of them, so that the run does not exist until then."""
    nornir, opens = _closed_now(tmp_path)
    job = job_for_image(nornir, image, state=tmp_path / "state")
    assert job.window.opens_at == opens
    nornir, _ = _closed_now(tmp_path, other=" ")
    assert job_for_image(nornir, image, state=tmp_path / "state").window.opens_at is None


def test_a_run_that_ends_before_its_first_site_opens_is_refused(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, with both times, and there is no run."""
    nornir, opens = _closed_now(tmp_path)
    policy = StagePolicy(until=opens - timedelta(hours=1))
    job = job_for_image(nornir, image, policy, state=tmp_path / "state")
    assert job.window.state(datetime.now(UTC)) is WindowState.OVER
    assert "is before its window opens" in job.window.why_closed(datetime.now(UTC))
    monkeypatch.setattr(Journal, "begin_run", lambda *_: pytest.fail("there is a run"))
    with Journal(tmp_path / "j") as journal, pytest.raises(ConfigInvalid, match="staged in time, found none: r1"):
        run_waves(job.nornir, job.request, job.options, journal=journal)


def test_a_plan_whose_site_opens_later_waits_for_the_site(plan: FleetPlan, image: Path, tmp_path: Path) -> None:
    """The inventory was changed after the plan was made: its window is open, and its only site's is not."""
    nornir, opens = _closed_now(tmp_path)
    assert job_for_plan(nornir, plan).window.opens_at == opens
