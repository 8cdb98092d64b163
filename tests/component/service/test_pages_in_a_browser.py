"""Pages in a real browser: the wall screen through a crash of the service, eight tabs, hostile names, a phone.

A made-up night stands for a run: a process of its own, as a run is.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from benchmarks.subjects import free_port
from flashferry.service.pages.frame import link
from flashferry.service.principal import Role
from flashferry.store.journal import Journal
from flashferry.store.sites.agents import take_fetching
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import Part, PartDevice, SiteRun, add_run
from tests.browsing import browsing, cookie_of, is_as_wide_as_its_window, serving, signed_in
from tests.patience import until as until_so
from tests.showcase.checks import faults_of, unreached_of
from tests.showcase.sites import centre
from tests.unit.store.test_status import touch

NASTY = "r1<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202e"


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture
def state(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


@contextlib.contextmanager
def night(state, devices: int = 40):
    """Have a made-up night for the time of a block; yield its process and its run."""
    command = [sys.executable, "-m", "benchmarks.service_night", str(state), "--devices", str(devices), "--skip", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["run_id"]
        finally:
            process.kill()


def until(condition):
    """Wait until something holds; return it."""
    return until_so(condition, "what a page is to show")


def age_of(page) -> str:
    return page.locator("#age").inner_text()


def is_live(page) -> bool:
    return age_of(page).startswith("live") and "stale" not in (page.locator("body").get_attribute("class") or "")


def cells_on(page) -> list[str]:
    return page.locator("[data-cell]").all_inner_texts()


@pytest.mark.soak
def test_the_wall_screen_lives_through_a_crash_of_the_service(browser, state):
    """Grey while nothing comes, never a frozen green; live again by itself, and with what happened meanwhile."""
    with night(state) as (run, run_id), serving(state, free_port()) as served:
        page = signed_in(browser, served.url, cookie_of(state, Role.VIEWER)).new_page()
        page.goto("/tonight")
        until(lambda: is_live(page))
        assert run_id in page.locator("[data-table=runs]").inner_text()
        served.kill()
        until(lambda: age_of(page).startswith("No news for"))
        assert "stands still" in page.locator("#alarm").inner_text()
        run.kill()
        served.start()
        until(lambda: is_live(page))
        until(lambda: "NOT RESTORED" in page.locator("#alarm").inner_text())
        assert "died, NOT RESTORED" in page.locator("[data-table=runs]").inner_text()


@pytest.mark.soak
def test_a_stream_that_hangs_without_an_error_is_grey(browser, state):
    """No connection breaks and nothing comes: the page has a clock of its own, and comes back when the stream does."""
    with serving(state, free_port()) as served:
        page = signed_in(browser, served.url, cookie_of(state, Role.VIEWER)).new_page()
        page.goto("/tonight")
        until(lambda: is_live(page))
        served.process.send_signal(signal.SIGSTOP)
        until(lambda: age_of(page).startswith("No news for"))
        served.process.send_signal(signal.SIGCONT)
        until(lambda: is_live(page))


@pytest.mark.soak
@pytest.mark.parametrize("has_worker", [True, False])
def test_eight_tabs_of_one_browser_stay_live(browser, state, has_worker):
    """Over one stream: six connections are all that a browser has for a host. Also where it has no SharedWorker."""
    with night(state) as (_, run_id), serving(state, free_port()) as served:
        context = signed_in(browser, served.url, cookie_of(state, Role.VIEWER))
        if not has_worker:
            context.add_init_script("delete window.SharedWorker")
        paths = ["/tonight", f"/runs/{run_id}"] * 4
        pages = [context.new_page() for _ in paths]
        for page, path in zip(pages, paths, strict=True):
            page.goto(path)
        until(lambda: all(is_live(page) for page in pages))
        # Of all devices and all that is told of them: a copy may be over by now, and its rate stands.
        before = [cells_on(page) for page in pages]
        for page, was in zip(pages, before, strict=True):
            until(lambda page=page, was=was: cells_on(page) != was)
        # A page without a stream is grey by now, and stays so.
        until(lambda: all(is_live(page) for page in pages))
        context.close()


@pytest.mark.soak
def test_an_event_comes_to_the_page(browser, state):
    """From the journal's row to the cell."""
    hosts = ("r1", "r2", "r3")
    with Journal(state) as journal, serving(state, free_port()) as served:
        run_id = journal.begin_run("stage")
        for number, host in enumerate(hosts, 1):
            journal.add_device(run_id, host=host, address=f"192.0.2.{number}", port=22, platform="ios", site="AMS")
        page = signed_in(browser, served.url, cookie_of(state, Role.VIEWER)).new_page()
        page.goto(f"/runs/{run_id}")
        until(lambda: is_live(page))
        cells = page.locator("[data-table=devices] [data-cell=state]")
        assert cells.all_inner_texts() == ["queued"] * len(hosts)
        for number, host in enumerate(hosts, 1):
            touch(journal, run_id, host)
            until(lambda number=number: cells.all_inner_texts().count("under way") == number)


@pytest.mark.soak
def test_a_page_that_stays_open_offers_what_fits_the_run(browser, state):
    """Pause while it runs, what is left to do once it is over; nobody loads the page again. What is typed is kept."""
    with Journal(state) as journal, serving(state, free_port()) as served:
        run_id = journal.begin_run("stage", {"policy": {"policy": {"approve": True}}})
        for wave, host in enumerate(("r1", "r2")):
            journal.add_device(run_id, host=host, address="192.0.2.1", port=22, platform="ios", site="AMS", wave=wave)
        page = signed_in(browser, served.url, cookie_of(state, Role.OPERATOR, Role.APPROVER)).new_page()
        page.goto(f"/runs/{run_id}")
        until(lambda: is_live(page))
        assert page.get_by_role("button", name="Pause").is_visible()
        reason = page.get_by_label("Reason", exact=True)
        reason.fill("storm")
        journal.set_waiting_wave(run_id, 1)
        until(lambda: "waits for approval" in page.locator("[data-cell=hold]").inner_text())
        assert reason.input_value() == "storm", "a form that is being filled in stays"
        reason.fill("")
        page.get_by_role("button", name=re.compile("Approve wave 1")).wait_for()
        journal.finish_run(run_id)
        page.get_by_role("button", name="Pause").wait_for(state="detached")
        assert "ended" in page.locator("[data-cell=state]").first.inner_text()
        assert page.get_by_role("button", name=re.compile("Approve wave")).count() == 0


@pytest.mark.soak
@pytest.mark.parametrize("width", [1400, 400])
def test_hostile_names_stay_text_nothing_is_fetched_elsewhere_and_no_page_scrolls_sideways(browser, state, width):
    """On every page, by the server's templates and by the script alike; the content policy complains of nothing."""
    with Journal(state) as journal:
        run_id = journal.begin_run("stage")
        site = "A" * 60 + NASTY
        journal.add_device(run_id, host=NASTY, address="192.0.2.1", port=22, platform="ios", site=site)
        touch(journal, run_id, NASTY)
        with serving(state, free_port()) as served:
            context = signed_in(browser, served.url, cookie_of(state, *Role), viewport={"width": width, "height": 800})
            asked, complaints = [], []
            context.on("request", lambda request: asked.append(request.url))
            page = context.new_page()
            page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            for path in ("/tonight", "/runs", link("/runs", run_id), link("/runs", run_id, "devices", NASTY)):
                answer = page.goto(path)
                assert answer is not None
                assert answer.status == 200, path
                until(lambda: is_live(page))
                assert page.title() != "owned"
                assert page.locator("img").count() == 0
                assert is_as_wide_as_its_window(page), path
            assert complaints == []
            assert [url for url in asked if not url.startswith(served.url)] == []
            context.close()


@pytest.mark.soak
def test_pages_work_without_scripts(browser, state):
    """All is there but that it moves by itself: the page loads itself anew."""
    with Journal(state) as journal, serving(state, free_port()) as served:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios", site="AMS")
        page = signed_in(browser, served.url, cookie_of(state, Role.VIEWER), java_script_enabled=False).new_page()
        page.goto("/tonight")
        assert page.locator("#alarm").inner_text().startswith("Nothing is left changed")
        assert re.match(r"as of \d{4}-", age_of(page))
        page.get_by_role("link", name=run_id).first.click()
        assert page.get_by_role("rowheader", name="r1").count() == 1
        assert page.locator("noscript meta[http-equiv=refresh]").count() == 1


@pytest.mark.soak
def test_the_wall_screen_is_read_by_keyboard_and_by_ear(browser, state):
    """Landmarks, a way past the navigation, heads that say what they are of, and one line alone that speaks up."""
    with serving(state, free_port()) as served:
        page = signed_in(browser, served.url, cookie_of(state, Role.VIEWER)).new_page()
        page.goto("/tonight")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        for role in ("banner", "navigation", "main", "contentinfo"):
            assert page.get_by_role(role).count() == 1, role
        assert page.locator("[aria-live]").count() == 1
        assert page.locator("[aria-live]").get_attribute("id") == "alarm"
        assert page.locator("th:not([scope])").count() == 0


@pytest.mark.soak
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (700, "light"), (360, "dark")])
def test_sites_are_looked_at_at_any_width(browser, state, width, scheme):
    """From the navigation, by keyboard into what is folded and to the run that a site has in hand; names stay text."""
    with serving(state, free_port()) as served:
        who = cookie_of(state, Role.VIEWER)
        context = signed_in(browser, served.url, who, viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.goto("/tonight")
        assert page.get_by_role("link", name="Sites").count() == 0
        run_id = centre(state, datetime.now(UTC), names=(NASTY, "n" * 120))
        page.reload()
        page.get_by_role("link", name="Sites").click()
        assert page.title() == "Sites - flashferry"
        row = page.get_by_role("region", name="Sites").locator("tbody tr").filter(has=page.get_by_text("silent"))
        assert "12 min ago" in row.inner_text()
        folded = row.locator("summary")
        folded.focus()
        page.keyboard.press("Enter")
        assert row.get_by_text("n" * 120).is_visible()
        row.get_by_role("link", name=run_id).click()
        assert page.url.endswith("#run-1")
        assert page.locator("img").count() == 0
        assert is_as_wide_as_its_window(page)
        assert [*faults_of(page), *unreached_of(page)] == []
        context.close()


@pytest.mark.soak
def test_the_page_of_sites_is_looked_at_again_by_itself_and_leaves_the_reader_where_he_is(browser, state):
    """What is new stands there; scroll, focus and what is unfolded stay, through a new run and a dead service."""
    centre(state, datetime.now(UTC))
    ledger = SitesDatabase(state)
    with serving(state, free_port()) as served:
        who = cookie_of(state, Role.VIEWER)
        page = signed_in(browser, served.url, who, viewport={"width": 1000, "height": 300}).new_page()
        page.goto("/sites")
        row = page.get_by_role("region", name="Sites").locator("tbody tr").filter(has=page.get_by_text("gva-5e0c9a1"))
        assert "43" in row.locator(".fetched").inner_text()
        page.locator("summary").first.click()
        link = page.get_by_role("link", name=re.compile("a7f3")).first
        link.focus()
        page.evaluate("window.scrollTo(0, 150)")
        run = SiteRun(run="20301231-000000-beef", digest="d" * 64, plan="{}", started_at="2030-12-31T00:00:00.000Z",
                      valid_until="2030-12-31T00:00:00.000Z")  # fmt: skip
        part = Part(run=run.run, site="ams", round=1, from_wave=0, agent="a", changed_at=run.started_at)
        with ledger.writing() as database:
            take_fetching(database, "gva", None)
            add_run(database, run, [part], [PartDevice(host="ams-sw00", site="ams", round=1, wave=0)])
        until(lambda: row.locator(".fetched").count() == 0)
        assert page.get_by_role("heading", name=re.compile("beef")).count() == 1
        assert page.locator("section h2").first.get_attribute("id") == "run-1"
        assert page.evaluate("document.activeElement.getAttribute('href')") in ("#run-1", "#run-2")
        assert page.evaluate("window.scrollY") == 150
        assert page.locator("details[open]").count() == 1
        served.kill()
        until(lambda: age_of(page).startswith("No news for"))
        assert "stale" in (page.locator("body").get_attribute("class") or "")
        served.start()
        until(lambda: is_live(page))
        page.context.close()
