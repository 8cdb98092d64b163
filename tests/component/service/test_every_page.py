"""Every page in a real browser, with hostile names on it: read, heard, reached by keyboard, on a phone and on paper.

One service that has been used for weeks, with names that would like to be more than text wherever people, devices or
programs may say something; and a fresh one, which says what to do first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from benchmarks.subjects import free_port
from flashferry.service.pages.frame import link
from flashferry.service.principal import Role
from tests.browsing import browsing, context_of, cookie_of, is_as_wide_as_its_window, serving, signed_in
from tests.showcase.checks import faults_of, unreached_of
from tests.showcase.service import Showcase, showcase
from tests.showcase.tour import EMPTY, EVERYTHING, NOBODY, PAGES, cookies_of, lacking

HOSTILE = (
    "r1<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>",
    "\u202eelor-evitaler",
    "n" * 120,
    "two\nlines",
)
PHONE = {"width": 400, "height": 800}
SCREEN = {"width": 1400, "height": 900}
PAPER = {"width": 703, "height": 1000}
"""The width of A4 between our margins, 186 mm, at 96 points to the inch."""


@dataclass(frozen=True, slots=True)
class Looking:
    """A browser at a service."""

    browser: object
    url: str
    cookies: Mapping[str, tuple[str, str]]
    shown: Showcase | None = None

    def page(self, who: str = EVERYTHING, **options):
        """Open a page of somebody, or of nobody."""
        if who == NOBODY:
            return context_of(self.browser, base_url=self.url, **options).new_page()
        return signed_in(self.browser, self.url, self.cookies[who], **options).new_page()


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def used(browser, tmp_path_factory):
    """A service that has been used."""
    state = tmp_path_factory.mktemp("used") / "state"
    state.mkdir(mode=0o700)
    with ExitStack() as held:
        shown = held.enter_context(showcase(state, names=HOSTILE))
        served = held.enter_context(serving(state, free_port()))
        yield Looking(browser, served.url, cookies_of(state), shown)


def each(looking: Looking, **options):
    """Yield each page of the tour as it is open in a browser, all that is folded unfolded."""
    pages = {who: looking.page(who, **options) for who in {one.who for one in PAGES}}
    for one in PAGES:
        page = pages[one.who]
        answer = page.goto(one.path(looking.shown))
        assert answer.status == one.status, one.name
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        yield one, page
    for page in pages.values():
        page.context.close()


def test_no_page_is_left_out():
    """A page of the table of access that the tour lacks is one that nobody looks at."""
    assert lacking() == []


@pytest.mark.soak
@pytest.mark.parametrize(("size", "scheme"), [(SCREEN, "light"), (PHONE, "dark")])
def test_every_page_is_read_and_heard(used, size, scheme):
    """Names, heads, labels, contrast, nothing to scroll to sideways; hostile names stay text."""
    found, complaints = [], []
    for one, page in each(used, viewport=size, color_scheme=scheme):
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        found += [f"{one.name}: {fault}" for fault in faults_of(page)]
        assert page.locator("img").count() == 0, one.name
        assert page.title() != "owned", one.name
    assert found == []
    assert [text for text in complaints if not re.search("status of 40[34]", text)] == []


@pytest.mark.soak
def test_every_page_is_reached_by_keyboard(used):
    """Each link and control in the order of the page, and it is seen where one is."""
    found = []
    for one, page in each(used, viewport=SCREEN):
        found += [f"{one.name}: {fault}" for fault in unreached_of(page)]
    assert found == []


@pytest.mark.soak
def test_every_page_goes_onto_paper(used):
    """Without navigation, forms and buttons, and no column is cut off at the edge."""
    for one, page in each(used, viewport=PAPER, color_scheme="dark"):
        if one.who == NOBODY:
            continue
        page.emulate_media(media="print")
        assert is_as_wide_as_its_window(page), one.name
        shown = page.locator("nav, form, button, input").evaluate_all(
            "all => all.filter(o => o.checkVisibility()).length"
        )
        assert shown == 0, one.name
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", one.name


@pytest.mark.soak
@pytest.mark.parametrize("is_scripted", [True, False])
def test_the_name_of_what_is_sent_stays_text(used, is_scripted):
    """On a phone, by the page's script and by the form alone: refused in a sentence that has it, and goes nowhere."""
    page = used.page(viewport=PHONE, java_script_enabled=is_scripted)
    for name in (HOSTILE[0], "../../" + "n" * 120 + ".bin", "a\u202enib.bin"):
        page.goto("/images")
        page.set_input_files("#f-file", {"name": name, "mimeType": "application/octet-stream", "buffer": b"image"})
        page.click("section[aria-labelledby=send] button")
        told = page.locator("#upload-state" if is_scripted else "[role=alert]")
        told.filter(has_text="expected").wait_for()
        assert page.locator("img").count() == 0
        assert page.title() != "owned"
        assert is_as_wide_as_its_window(page), name
    assert [one.name for one in (used.shown.state / "images" / ".arriving").iterdir()] == [
        f"{used.shown.arriving}.part"
    ]
    page.context.close()


@pytest.mark.soak
def test_two_people_lead_a_plan_to_its_report(used):
    """Each in a browser of his own: who made it cannot approve it, another does, he begins, and reads what came."""
    state, shown = used.shown.state, used.shown
    anna, olga = (
        signed_in(used.browser, used.url, cookie_of(state, name=name), viewport=PHONE).new_page()
        for name in ("anna", "olga")
    )
    path = link("/plans", shown.draft)
    anna.goto(path)
    assert anna.get_by_role("button", name="Approve").is_disabled()
    assert anna.get_by_role("button", name="Start run").count() == 0
    olga.goto(path)
    olga.fill("#f-approve", HOSTILE[0])
    olga.get_by_role("button", name="Approve as olga").click()
    olga.get_by_text("Ready to start").wait_for()
    anna.reload()
    anna.get_by_role("button", name="Start run").click()
    anna.get_by_role("heading", name="Runs of this plan").wait_for()
    # What it begins here has nobody to talk to; of the plan before it there was a run.
    anna.goto(link("/plans", shown.approved))
    anna.get_by_role("link", name=shown.runs.good).first.click()
    with anna.expect_download() as begun:
        anna.get_by_role("link", name="HTML").click()
    report = begun.value.path()
    assert shown.runs.device in report.read_text()
    assert "<script>document" not in report.read_text()
    for page in (anna, olga):
        page.context.close()


@pytest.mark.soak
def test_a_fresh_service_says_what_to_do_first(browser, tmp_path):
    """To its first admin, on each page, with a way to it; also at a phone's width."""
    tmp_path.chmod(0o700)
    with serving(tmp_path, free_port()) as served:
        looking = Looking(browser, served.url, {EVERYTHING: cookie_of(tmp_path, Role.ADMIN, Role.AUDITOR)})
        page = looking.page(viewport=PHONE)
        for path in EMPTY:
            page.goto(path)
            assert faults_of(page) == [], path
        page.goto("/tonight")
        page.get_by_role("link", name="Add users").click()
        assert "No other users yet" in page.locator("main").inner_text()
        page.context.close()
