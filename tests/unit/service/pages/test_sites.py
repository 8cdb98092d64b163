"""The page of sites, over a centre's ledger: who is heard, what is in hand, and what is said where there is nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flashferry.service.pages.sites import clock
from flashferry.service.site_centre import STOPPED
from flashferry.store.sites.database import SitesDatabase
from tests.served import BEGIN, serve
from tests.showcase.sites import centre, settings_text
from tests.unit.service.pages.test_runs import page, view

HOSTILE = ("<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>", "\u202etxet")
RUN, BEFORE = "20261123-190000-a7f3", "20261122-220000-c1d2"


def people(made):
    """Enter who looks."""
    made.person("ada", "viewer")
    made.person("ines", "viewer@LIM")
    made.person("otto", "viewer@XYZ")
    made.person("nell")
    return made


@pytest.fixture
def empty(tmp_path):
    return people(serve(tmp_path))


@pytest.fixture
def served(empty):
    centre(empty.service.state, BEGIN)
    return empty


def test_each_site_stands_with_its_agent(served):
    """Ready, of another release, silent, with a wrong clock, never heard; in a word, its tone, and why."""
    rows = {one["site"]: one for one in view(served, served.browser("ada"), "/sites")["sites"]}
    assert {site: (one["word"], one["tone"], one["heard"]) for site, one in rows.items()} == {
        "ams": ("ready", "good", "6 s ago"),
        "gva": ("not ready", "bad", "11 s ago"),
        "lim": ("silent", "warn", "12 min ago"),
        "osl": ("not ready", "bad", "3 s ago"),
        "trn": ("no contact yet", "warn", "never"),
    }
    assert "found 0.0.9" in rows["gva"]["why"]
    assert (rows["osl"]["clock"], rows["osl"]["clock_tone"]) == ("74.0 s ahead", "bad")
    assert (rows["lim"]["clock"], rows["gva"]["clock"], rows["trn"]["clock"]) == ("right", "1.4 s behind", "")
    assert len(rows["ams"]["images"]) == 6
    text = page(served, served.browser("ada"), "/sites")
    assert 'title="2026-11-23 19:48:00 UTC">12 min ago</time>' in text
    assert "6 images</summary>" in text


def test_a_site_is_silent_after_what_the_settings_say(served):
    """To the second; the page tells after how long."""
    ada = served.browser("ada")
    for seconds, word in ((114, "ready"), (115, "silent")):
        served.clock.now = BEGIN + timedelta(seconds=seconds)
        assert view(served, ada, "/sites")["sites"][0]["word"] == word
    assert "without a report for 2 min 00 s" in page(served, ada, "/sites")


def test_what_runs_is_told_by_site_and_by_run(served):
    """Parts by state at the site, devices by what they came to at the run; what was left in hand first."""
    ada = served.browser("ada")
    told = view(served, ada, "/sites")
    assert [one["run_id"] for one in told["runs"]] == [RUN, BEFORE]
    in_hand = {one["site"]: [(part["run"], part["state"]) for part in one["parts"]] for one in told["sites"]}
    assert in_hand == {
        "ams": [(RUN, "running")],
        "gva": [],
        "lim": [(RUN, "running")],
        "osl": [(RUN, "given")],
        "trn": [],
    }
    alive = told["runs"][0]
    assert (alive["through"], alive["all"], alive["unrestored"]) == (21, 41, ["trn-sw07"])
    tallies = {
        (one["site"], one["is_canaries"]): {tally["word"]: tally["count"] for tally in one["tallies"]}
        for one in alive["parts"]
    }
    assert tallies["ams", True] == {"done": 1}
    assert tallies["ams", False] == {"open": 6, "done": 1, "failed": 1}
    assert tallies["osl", False] == {"open": 8}
    text = page(served, ada, "/sites")
    assert f'<a href="#run-1">{RUN}</a>: running' in text
    assert f'<h2 id="run-1">Run {RUN}' in text
    assert "1 device left changed and not restored:</b> trn-sw07." in text
    assert '<span class="bad">1 failed</span>' in text


def test_who_may_see_one_site_sees_its_part_alone(served):
    """By the names that sites have in inventories; why a run was stopped may be about a device of another site."""
    with SitesDatabase(served.service.state).writing() as database:
        database.execute("UPDATE runs SET stopped = 'ams-sw02 failed'")
    ines = served.browser("ines")
    told = view(served, ines, "/sites")
    assert [one["site"] for one in told["sites"]] == ["lim"]
    assert {part["site"] for run in told["runs"] for part in run["parts"]} == {"lim"}
    assert [run["stopped"] for run in told["runs"]] == [STOPPED] * 2
    assert [(run["unrestored"], run["all"]) for run in told["runs"]] == [([], 8)] * 2
    text = page(served, ines, "/sites")
    assert not any(word in text for word in ("ams", "trn-sw07", "gva"))
    assert "ams-sw02 failed" in page(served, served.browser("ada"), "/sites")


def test_who_sees_none_of_the_sites_is_told_so(served):
    """And nothing else."""
    text = page(served, served.browser("otto"), "/sites")
    assert "No sites that you may see" in text
    assert RUN not in text


def test_it_takes_a_role_that_looks(served):
    """As the other pages: who was given none is refused."""
    assert served.call("GET", "/sites").status_code == 401
    for path in ("/sites",):
        assert served.call("GET", path, served.browser("nell")).status_code == 403


def test_hostile_texts_stay_text(empty):
    """Of agents, depots, people and parts."""
    centre(empty.service.state, BEGIN, names=HOSTILE)
    text = page(empty, empty.browser("ada"), "/sites")
    assert "<img" not in text
    assert "<script>document" not in text
    assert "&lt;img src=x" in text
    assert "\u202e" not in text


def test_the_navigation_has_sites_where_there_is_a_centre(empty):
    """Settings or a ledger are enough; who may not call it is not offered it."""
    ada = empty.browser("ada")
    assert 'href="/sites"' not in page(empty, ada, "/devices")
    (empty.service.state / "sites.toml").write_text(settings_text())
    assert 'href="/sites"' in page(empty, ada, "/devices")
    assert 'href="/sites"' not in page(empty, empty.browser("nell"), "/me")
    (empty.service.state / "sites.toml").unlink()
    SitesDatabase(empty.service.state)
    assert 'href="/sites"' in page(empty, ada, "/devices")


def test_without_a_centre_the_page_says_what_to_do(empty):
    """And makes no ledger by being looked at."""
    text = page(empty, empty.browser("ada"), "/sites")
    assert "flashferry sites init --key-only" in text
    assert "<table" not in text
    assert not (empty.service.state / "sites.sqlite3").exists()


def test_settings_without_a_ledger_are_sites_that_were_never_heard(empty):
    """The page says which commands are missing."""
    (empty.service.state / "sites.toml").write_text(settings_text())
    ada = empty.browser("ada")
    assert [one["word"] for one in view(empty, ada, "/sites")["sites"]] == ["no contact yet"] * 5
    assert "No agent is in contact" in page(empty, ada, "/sites")


def test_a_ledger_without_settings_has_its_runs(served):
    """Sites are called by the centre's names then, which somebody may have roles at, or not."""
    (served.service.state / "sites.toml").unlink()
    text = page(served, served.browser("ada"), "/sites")
    assert "its settings are missing: put <code>sites.toml</code>" in text
    assert RUN in text
    assert RUN not in page(served, served.browser("ines"), "/sites")


def test_a_ledger_in_which_nothing_was_begun_says_how_to_begin(empty):
    """Where a centre listens, and no run was given yet."""
    (empty.service.state / "sites.toml").write_text(settings_text())
    SitesDatabase(empty.service.state)
    assert "<code>flashferry stage --plan plan.json --sites sites.toml</code> starts one" in page(
        empty, empty.browser("ada"), "/sites"
    )


@pytest.mark.parametrize("what", ["settings", "ledger"])
def test_what_cannot_be_read_is_told_with_what_to_do(served, what):
    """The page stays; programs are refused with the same sentence."""
    state = served.service.state
    if what == "settings":
        (state / "sites.toml").write_text("[centre]\nkey = 1\n")
    else:
        for path in state.glob("sites.sqlite3-*"):
            path.unlink(missing_ok=True)
        # Another file: into the one that is open somewhere its own log might be written back.
        (state / "damaged").write_bytes(b"no database" * 999)
        (state / "damaged").chmod(0o600)
        (state / "damaged").replace(state / "sites.sqlite3")
    ada = served.browser("ada")
    told = view(served, ada, "/sites")
    assert ("sites.toml" if what == "settings" else "is damaged") in told["trouble"]
    assert told["hint"]
    text = page(served, ada, "/sites")
    assert '<div class="banner bad' in text
    assert (f'<p class="as-is">{state}' in text) == told["trouble"].startswith("/"), "a path keeps its first letter"
    answer = served.call("GET", "/api/v1/sites", ada)
    assert (answer.status_code, answer.json()["detail"]) == (422, told["trouble"])


@pytest.mark.parametrize(
    ("ahead_s", "within_s", "told"),
    [
        (None, 0.0, ""),
        (0.49, 0.1, "right"),
        (-0.5, 0.1, "0.5 s behind"),
        (3600.0, 0.1, "3600.0 s ahead"),
        (-2.0, 3.0, "within 5.0 s"),
        (0.1, 0.3, "right"),
    ],
)
def test_a_clock_is_told_for_people(ahead_s, within_s, told):
    """Which way it is off, right where that is next to nothing, and no more than is known."""
    assert clock(ahead_s, within_s) == told
