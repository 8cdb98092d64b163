"""A plan from its file to its run by two people, each in a real browser of his own."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.subjects import free_port
from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.service.principal import Role
from flashferry.store.control import control_request
from flashferry.store.journal import Journal
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.images import ImageState, StoredImage, add_image
from tests.browsing import browsing, cookie_of, is_as_wide_as_its_window, serving, signed_in
from tests.patience import until

pytestmark = pytest.mark.soak

NASTY = "<img src=x onerror=\"document.title='owned'\">"


@pytest.fixture
def state(tmp_path):
    """Return a state folder with an image, and an inventory that no job can read."""
    tmp_path.chmod(0o700)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "new.bin").write_bytes(b"image")
    (tmp_path / "service.toml").write_text(f'[runs]\ninventory = "{tmp_path}/nowhere"\n')
    (tmp_path / "service.toml").chmod(0o600)
    # As the vendor published it: a plan with an image that nobody stands for is not approved.
    image = StoredImage(
        name="new.bin",
        size_bytes=5,
        sha512=hashlib.sha512(b"image").hexdigest(),
        state=ImageState.PUBLISHED,
        uploaded_by="system",
        created_at="2026-11-23T00:00:00.000Z",
    )
    with ServiceDatabase(tmp_path).writing() as database:
        add_image(database, image)
    return tmp_path


@pytest.fixture
def plan(state):
    """Return a plan whose model would like to be an element."""
    image = PlannedImage(
        name="new.bin",
        path=str(state / "images" / "new.bin"),
        size_bytes=5,
        md5=hashlib.md5(b"image").hexdigest(),
        sha512=hashlib.sha512(b"image").hexdigest(),
    )
    now = datetime.now(UTC).replace(microsecond=0)
    device = PlannedDevice(
        host="r1", address="192.0.2.1", site="AMS", image="new.bin", action=Action.STAGE, wave=0, model=NASTY
    )
    return FleetPlan(
        created_at=now.isoformat(),
        starts_at=now.isoformat(),
        ends_at=(now + timedelta(hours=8)).isoformat(),
        images=(image,),
        image_folders=(str((state / "images").resolve()),),
        limits=Limits(),
        policy=WavePolicy(),
        tune=TuneMode.AUTO,
        duration_s=600.0,
        fit=Fit(fits=True, sentence="it fits"),
        waves=(Wave(number=0, name="canary", hosts=("r1",), is_canary=True),),
        devices=(device,),
    )


def test_from_a_plans_file_to_its_run_by_two_people(state, plan, tmp_path):
    """Offered by one, who cannot approve it; read and approved by another; begun; then scheduled, and compared."""
    file = tmp_path / "plan.json"
    file.write_text(plan_text(plan))
    with serving(state, free_port()) as served, browsing() as browser:
        maker = cookie_of(state, Role.OPERATOR, Role.APPROVER, name="maker")
        one = signed_in(browser, served.url, maker).new_page()
        other = signed_in(browser, served.url, cookie_of(state, Role.APPROVER, name="ann")).new_page()
        complaints = []
        for page in (one, other):
            page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
            page.on("request", lambda asked: complaints.append(asked.url) if served.url not in asked.url else None)
        one.goto("/plans")
        one.set_input_files("input[type=file]", file)
        one.fill("#f-new", "core")
        one.click("button:text-is('Upload')")
        one.wait_for_selector("h1:has-text('core')")
        path = one.url.removeprefix(served.url)
        assert one.locator("button:has-text('Approve')").is_disabled()
        assert "You made this plan; someone else must approve it." in one.locator("main").inner_text()
        other.goto(path)
        assert NASTY in other.locator("main").inner_text()
        assert other.locator("button:has-text('Start run')").count() == 0
        other.fill("#f-approve", "read it")
        other.click("text=Approve as ann")
        other.wait_for_selector(".badge:has-text('approved')")
        one.reload()
        assert "Ready to start." in one.locator("main").inner_text()
        one.click("text=Start run")
        one.wait_for_selector("text=Runs of this plan")
        assert _told(one, "nowhere")
        one.click("text=Schedule this plan")
        # Within the plan's hours, whatever time it is now.
        one.fill("#f-calendar", f"daily {datetime.now(UTC) + timedelta(hours=1):%H:%M}")
        one.click("button:has-text('Schedule')")
        one.wait_for_selector("h2:has-text('Due next')")
        for page in (one, other):
            assert page.title().startswith("core")
        other.set_viewport_size({"width": 400, "height": 800})
        for where in ("/plans", path, f"{path}/diff", "/schedules", one.url.removeprefix(served.url)):
            other.goto(where)
            assert is_as_wide_as_its_window(other), where
        assert complaints == []


def test_what_differs_is_what_an_approver_is_shown(state, plan, tmp_path):
    """The second plan of a title against the first: its devices line by line, and the keyboard reaches the button."""
    with serving(state, free_port()) as served, browsing() as browser:
        page = signed_in(browser, served.url, cookie_of(state, Role.OPERATOR, name="maker")).new_page()
        for number, hosts in enumerate((("r1",), ("r2",))):
            file = tmp_path / f"{number}.json"
            devices = tuple(replace(plan.devices[0], host=host) for host in hosts)
            file.write_text(plan_text(replace(plan, devices=devices, waves=(replace(plan.waves[0], hosts=hosts),))))
            page.goto("/plans")
            page.set_input_files("input[type=file]", file)
            page.fill("#f-new", "core")
            page.press("#f-new", "Enter")
            page.wait_for_selector("h1:has-text('core')")
        page.click("text=Differences from the previous plan")
        page.wait_for_selector("h1:has-text('What differs')")
        assert page.locator("li.removed").all_inner_texts()[0] == "- r1"
        assert page.locator("li.added").all_inner_texts()[0] == "+ r2"


def test_a_wave_that_waits_is_approved_on_the_runs_page(state):
    """By an approver, for the run's plan; the run is told, and an operator is offered no such form."""
    with Journal(state) as journal, serving(state, free_port()) as served, browsing() as browser:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios", site="AMS", image="x.bin")
        journal.set_waiting_wave(run_id, 0)
        maker = signed_in(browser, served.url, cookie_of(state, Role.OPERATOR, name="maker")).new_page()
        maker.goto(f"/runs/{run_id}")
        assert maker.locator("button:has-text('Approve')").count() == 0
        page = signed_in(browser, served.url, cookie_of(state, Role.APPROVER, name="ann")).new_page()
        page.goto(f"/runs/{run_id}")
        page.fill("#f-wave", "canary is well")
        page.click("text=Approve wave 0 as ann")
        page.wait_for_url(f"**/runs/{run_id}")
        assert _told(page, "canary is well")
        assert control_request(state, run_id).approved_wave == 0


def _told(page, word: str) -> bool:
    """Wait until a job's row says what came of it."""
    main = page.locator("main")

    def seen() -> bool:
        if word in main.inner_text():
            return True
        page.reload()
        return False

    return until(seen, lambda: f"{word!r} in {main.inner_text()!r}")
