"""Two runs at once over one site: by the host's depot its cap is one cap, and both outlive the depot's death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from flashferry.depot.handshake import DepotView
from flashferry.depot.status import find_depot
from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from flashferry.lab.world_spec import SiteSpec
from flashferry.model.link_rates import payload_cap_bytes_per_s
from tests.e2e.conftest import Done
from tests.e2e.test_fleet import FleetRig, outcomes
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

SITE = "branch"
FIRST, SECOND = ("a1", "a2"), ("b1", "b2")
CAP_SHARE = 0.5
"""Of a line of 16 Mbit/s: two runs that did not know of each other would fill it."""
IMAGE_BYTES = 3_000_000


class DepotRig(FleetRig):
    """Four routers behind one line, and a depot on the host in front of it."""

    cap_share = CAP_SHARE

    @property
    def cap_bytes_per_s(self) -> int:
        """What copies to the site may take together."""
        cap = payload_cap_bytes_per_s(self.world.sites[0].profile.rate_bps * CAP_SHARE)
        assert cap is not None
        return cap

    @contextmanager
    def depot(self, *more: str) -> Iterator[subprocess.Popen[str]]:
        """Run a depot, ready to be used, and end it in order."""
        with self.started("depot", "--json", *more) as process:
            assert json.loads(process.stdout.readline())["event"] == "ready"
            yield process
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0
                process.communicate()

    @contextmanager
    def staging(self, image: Path, hosts: tuple[str, ...], *more: str) -> Iterator[subprocess.Popen[str]]:
        """Stage an image on some devices, in all at once."""
        given = ("--inventory", self.inventory, "--image", image, "--no-canary", "--json")
        named = [word for host in hosts for word in ("--host", host)]
        with self.started("stage", *given, *named, *more) as process:
            yield process

    def seen(self) -> DepotView:
        """Return how the depot stands."""
        found = find_depot(self.state)
        assert found is not None
        assert found.view is not None, found.trouble
        return found.view

    def both_begun(self, image: Path) -> bool:
        """Return whether every device has some of the image."""
        return all(self.begun(name, image) for name in (*FIRST, *SECOND))


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait for the end of a command."""
    out, err = process.communicate(timeout=180)
    return Done(code=process.returncode, out=out, err=err)


@contextmanager
def open_depot_rig(folder: Path) -> Iterator[DepotRig]:
    """Start four routers of one site, and yield a rig for them."""
    devices = tuple(DeviceSpec(name=name) for name in (*FIRST, *SECOND))
    with start_world(WorldSpec(devices=(), sites=(SiteSpec(name=SITE, profile="dsl", devices=devices),))) as world:
        yield DepotRig(world, folder)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DepotRig]:
    with open_depot_rig(tmp_path) as opened:
        yield opened


def test_two_runs_have_one_cap_between_them(rig):
    """Both copy at once under the one cap that the depot has for their site; all restored."""
    # So large that the first run still copies when a busy machine has the second one begin.
    before, image = rig.everywhere(), rig.image(2 * IMAGE_BYTES)
    with rig.depot():
        with rig.staging(image, FIRST) as one, rig.staging(image, SECOND) as two:
            assert rig.until(lambda: rig.both_begun(image) or None not in (one.poll(), two.poll()))
            seen = rig.seen()
            told = rig.run("status", "--json").json["depot"]["view"]
            done = ended(one), ended(two)
        assert [one.code for one in done] == [0, 0], [one.err for one in done]
    assert [run.copies for run in seen.runs] == [2, 2]
    assert [(site["site"], site["cap_bytes_per_s"]) for site in told["sites"]] == [(SITE, rig.cap_bytes_per_s)]
    assert outcomes(done[0]) | outcomes(done[1]) == dict.fromkeys((*FIRST, *SECOND), "done")
    assert all(rig.has(name, image) for name in (*FIRST, *SECOND))
    assert rig.everywhere() == before


def test_a_site_s_slots_are_all_runs(rig):
    """Each run would have two copies there, and so they have two in all: the other's devices wait untuned."""
    before, image = rig.everywhere(), rig.image(IMAGE_BYTES)
    with rig.depot(), rig.staging(image, FIRST, "--site-copies", "2") as one:
        assert rig.until(lambda: all(rig.begun(name, image) for name in FIRST))
        with rig.staging(image, SECOND, "--site-copies", "2") as two:
            most = 0

            def are_over() -> bool:
                nonlocal most
                for site in rig.seen().sites:
                    most = max(most, site.copies)
                    assert site.limit in {None, 2}
                return one.poll() is not None and two.poll() is not None

            until(are_over, "the end of both runs", poll_s=0.1)
            done = ended(one), ended(two)
    assert [one.code for one in done] == [0, 0], [one.err for one in done]
    assert most == 2
    assert rig.everywhere() == before


def test_runs_outlive_the_depot(rig):
    """Killed in mid-copy and started again some seconds later: all are restored, tried again and staged."""
    before, image = rig.everywhere(), rig.image(IMAGE_BYTES)
    with ExitStack() as stack:
        depot = stack.enter_context(rig.depot())
        one, two = (
            stack.enter_context(rig.staging(image, hosts, "--remove-partial", "--retries", "2"))
            for hosts in (FIRST, SECOND)
        )
        assert rig.until(lambda: rig.both_begun(image))
        os.killpg(depot.pid, signal.SIGKILL)
        depot.communicate()
        time.sleep(3)
        stack.enter_context(rig.depot())
        done = ended(one), ended(two)
    assert [one.code for one in done] == [0, 0], [one.err for one in done]
    devices = [device for one in done for device in one.json["run"]["devices"]]
    assert {device["outcome"] for device in devices} == {"done"}
    assert all(rig.has(name, image) for name in (*FIRST, *SECOND))
    assert rig.everywhere() == before


def test_every_verb_that_serves_uses_it(rig):
    """A look that fetches, a speed test, and a copy by SCP under the depot's host keys; all is as before."""
    before, image = rig.everywhere(), rig.image(300_000)
    given = ("--inventory", rig.inventory, "--json")
    with rig.depot("--transports", "ftp,scp"):
        reached = rig.run("check", "--reach", "--host", "a1", *given)
        assert reached.code == 0, reached.err
        probed = rig.run("probe", "--host", "a2", *given)
        assert probed.code == 0, probed.err
        staged = rig.run("stage", "--image", image, "--host", "b1", "--transport", "scp", *given)
        assert staged.code == 0, staged.err
        assert staged.json["run"]["devices"][0]["transfer"]["transport"] == "scp"
        refused = rig.run("stage", "--image", image, "--host", "b2", "--transport", "http", *given)
        assert refused.code == 2
        assert "b2: transport http: expected it at the depot" in refused.err
        assert "which serves ftp, scp" in refused.err
    assert rig.has("b1", image)
    assert rig.everywhere() == before


def test_a_depot_that_stays_away_fails_the_run_and_leaves_nothing(rig):
    """As with a server of one's own that is dead for good: restored, named, and gone on with later."""
    before, image = rig.everywhere(), rig.image(IMAGE_BYTES)
    with rig.depot() as depot, rig.staging(image, FIRST, "--remove-partial") as one:
        assert rig.until(lambda: all(rig.begun(name, image) for name in FIRST))
        os.killpg(depot.pid, signal.SIGKILL)
        depot.communicate()
        done = ended(one)
    assert done.code == 3, done.err
    devices = done.json["run"]["devices"]
    assert {device["failure"]["kind"] for device in devices} == {"ServerGone"}
    assert {device["restored"] for device in devices} <= {"restored", "untouched"}
    assert rig.everywhere() == before
    again = rig.run("stage", "--resume", done.json["run"]["run_id"], "--remove-partial", "--json")
    assert again.code == 0, again.err
    assert all(rig.has(name, image) for name in FIRST)
    assert rig.everywhere() == before


def test_a_depot_that_is_insisted_on_has_to_be_there(rig):
    """One sentence, before any device hears of us; by itself a run brings its own server then, and says why."""
    before, image = rig.everywhere(), rig.image(300_000)
    nowhere = rig.folder / "nowhere.sock"
    done = rig.run("stage", "--inventory", rig.inventory, "--image", image, "--depot", nowhere)
    assert done.code == 2
    assert f"depot {nowhere}" in done.err
    assert "give --depot never" in done.err
    with rig.depot() as depot:
        os.killpg(depot.pid, signal.SIGKILL)
        depot.communicate()
    events = rig.folder / "events.jsonl"
    given = ("--inventory", rig.inventory, "--image", image, "--host", "a1", "--json", "--events", events)
    done = rig.run("stage", *given)
    assert done.code == 0, done.err
    assert "this run brings its own file server" in events.read_text()
    assert rig.everywhere() == before
