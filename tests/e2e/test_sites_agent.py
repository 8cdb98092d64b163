"""An agent at its site, ordered to stage by a centre: by a real Redis, with a stand-in router on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flashferry.lab.world import DeviceSpec, Rung, World, WorldSpec, start_world
from flashferry.model.plan_file import read_plan
from flashferry.sites.wire import OrderJob, WordKind
from flashferry.store.status import read_status
from flashferry.store.stored_run import read_run
from tests.e2e.conftest import HELD_BYTES, IMAGE_BYTES
from tests.patience import PATIENCE_S, until
from tests.sites_ground import Agents, Centre, redis_in

pytestmark = pytest.mark.soak

DEVICE = "xe1"
IMAGE = "image.bin"
_STAMPS = ("! Last configuration change at", "! NVRAM config last updated", "Current configuration :")


class Ground:
    """A router, its site's inventory, a plan for it in the depot, a centre and an agent's folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.redis = stack.enter_context(redis_in(folder / "redis"))
        self.world: World = stack.enter_context(
            start_world(WorldSpec(devices=(DeviceSpec(name=DEVICE),)), rung=Rung.LOOPBACK)
        )
        self.inventory = folder / "inventory"
        self.inventory.mkdir()
        self.centre = Centre(self.redis.settings)
        self.agents = Agents(folder / "agent", self.redis, self.centre, self.inventory)
        self._write_inventory()
        stack.enter_context(self.centre.listening())

    def plan(self, size_bytes: int) -> str:
        """Put an image and a plan for it into the depot's folder; return the plan's digest."""
        image = self.folder / IMAGE
        image.write_bytes(os.urandom(size_bytes))
        made = self.folder / "plan.json"
        words = ("plan", "-i", str(self.inventory), "--image", str(image), "--output", str(made), "--uncapped")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "flashferry", *words, "--state-dir", str(self.folder / "centre")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        digest = read_plan(made).digest
        (self.agents.catalogue / f"plan-{digest}.json").write_bytes(made.read_bytes())
        (self.agents.catalogue / IMAGE).write_bytes(image.read_bytes())
        return digest

    def hold(self) -> None:
        """Have the router's copies stand still once they have brought so many bytes."""
        self._held_before = self._holds()
        self.world.fault(DEVICE, hold_copy_at_bytes=HELD_BYTES)

    def until_held(self) -> None:
        """Wait until a copy stands still."""
        until(lambda: self._holds() > self._held_before, "it copies")

    def release(self) -> None:
        """Have the router go on."""
        self.world.fault(DEVICE, hold_copy_at_bytes=None)

    def _holds(self) -> int:
        return sum(one.startswith("held: ") for one in self.world.happened(DEVICE))

    @property
    def is_tuned(self) -> bool:
        """Tell whether a line of ours stands in the router's configuration."""
        return self.configuration != self.before

    @property
    def configuration(self) -> str:
        """Return the router's running configuration without its stamps."""
        lines = self.world.running_config(DEVICE).splitlines()
        return "\n".join(line for line in lines if not line.startswith(_STAMPS))

    def flash(self) -> int:
        """Return the size of the image on the router's flash; 0 where it is not there."""
        return next((one.size_bytes for one in self.world.files(DEVICE) if one.name == IMAGE), 0)

    def _write_inventory(self) -> None:
        one = self.world.devices[0]
        host = {
            "hostname": one.address,
            "port": one.port,
            "platform": "ios",
            "username": one.username,
            "password": one.password,
            "data": {"enable_secret": one.enable_secret, "site": "ams", "server_address": self.world.server_address},
        }
        YAML().dump({DEVICE: host}, self.inventory / "hosts.yaml")
        self.before = self.configuration


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(tmp_path, stack)


def check_complete(ground: Ground, run: str, endings: tuple[tuple[str, str], ...] = (("done", "restored"),)) -> None:
    """Check that a part was staged once and restored, with events that lack none; `endings`: outcome and restore."""
    offsets = ground.centre.offsets(run)
    assert offsets == list(range(1, len(offsets) + 1))
    (stored,) = read_run(ground.agents.state, "latest").devices
    assert (stored.record["outcome"], stored.record["restored"]) in endings
    assert not stored.is_held
    assert ground.configuration == ground.before
    assert ground.flash() == (ground.folder / IMAGE).stat().st_size


def test_an_agent_stages_a_device_by_an_order_once_however_often_it_comes(ground: Ground) -> None:
    """Delivered three times, under two names, it is one run; its events and its record reach the centre."""
    digest = ground.plan(300_000)
    with ground.agents.started() as agent:
        order = ground.centre.order(OrderJob.STAGE, "part-1", plan=digest, devices=(DEVICE,))
        again = ground.centre.order(OrderJob.STAGE, "part-1", plan=digest, devices=(DEVICE,))
        for one in (order, order, again):
            ground.centre.send(one)
        answer = ground.centre.answer(order.id)
        assert (answer.kind, answer.data["exit_code"], answer.data["outcomes"]) == (WordKind.ENDED, 0, {"done": 1})
        until(lambda: ground.centre.about(again.id), "the second name is answered")
        assert all(one.data.get("repeats") == order.id for one in ground.centre.about(again.id))
        (record,) = {one.data["host"] for one in ground.centre.about(order.id, WordKind.RECORD)}
        assert record == DEVICE
        events = [line for one in ground.centre.about(order.id, WordKind.EVENT) for line in one.data["events"]]
        assert [line["outcome"] for line in events if line["step"] == "device" and line["status"] == "done"] == ["done"]
        late = ground.centre.send(order)
        until(lambda: len(ground.centre.about(late, WordKind.ENDED)) > 1, "an order that is over is answered again")
        os.killpg(agent.pid, signal.SIGTERM)
        assert agent.wait(PATIENCE_S) == 0
    assert len(read_status(ground.agents.state, 9).runs) == 1
    check_complete(ground, "part-1")


@pytest.mark.parametrize("killed", ["agent", "agent and run"])
def test_an_agent_that_is_killed_in_mid_copy_and_started_again_has_it_done_once(ground: Ground, killed: str) -> None:
    """Its run goes on without it, or is restored and gone on with; the words are complete either way."""
    digest = ground.plan(IMAGE_BYTES)
    ground.hold()
    with ground.agents.started() as agent:
        order = ground.centre.order(OrderJob.STAGE, "part-2", plan=digest, devices=(DEVICE,))
        ground.centre.send(order)
        ground.until_held()
        assert ground.is_tuned
        os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
    if killed != "agent":
        (begun,) = (ground.agents.state / "jobs").glob("*/begun.json")
        os.kill(int(begun.read_text().split('"pid": ')[1].split(",")[0]), signal.SIGKILL)
        until(lambda: ground.is_tuned, "a dead run leaves its lines")
    ground.release()
    with ground.agents.started():
        answer = ground.centre.answer(order.id)
        # What a killed run's server had sent may be all of the image: the next run then finds it there, and proves it.
        endings = (("done", "restored"), *((("already there", "untouched"),) if killed != "agent" else ()))
        assert (answer.kind, answer.data["held"]) == (WordKind.ENDED, [])
        assert answer.data["outcomes"] in [{outcome: 1} for outcome, _ in endings]
        assert answer.data["tries"] == (1 if killed == "agent" else 2)
        until(lambda: ground.centre.about(order.id, WordKind.RECORD), "its record is heard")
    check_complete(ground, "part-2", endings)


def test_the_broker_and_the_centre_away_a_run_goes_on_and_all_is_told_behind_it(ground: Ground) -> None:
    """Killed in mid-copy, the broker comes back when the run is over; nothing is lost, the device long restored."""
    digest = ground.plan(IMAGE_BYTES)
    ground.hold()
    with ground.agents.started():
        order = ground.centre.order(OrderJob.STAGE, "part-3", plan=digest, devices=(DEVICE,))
        ground.centre.send(order)
        ground.until_held()
        ground.redis.kill()
        ground.release()
        until(lambda: ground.flash() == IMAGE_BYTES and not ground.is_tuned, "the run goes on and restores")
        ground.redis.start()
        assert ground.centre.answer(order.id).data["outcomes"] == {"done": 1}
    check_complete(ground, "part-3")


def test_an_agent_that_is_told_to_end_restores_first_and_goes_on_with_it_when_it_is_back(ground: Ground) -> None:
    """SIGTERM in mid-copy: the device is restored when the agent is gone; the next one finishes the part."""
    digest = ground.plan(IMAGE_BYTES)
    ground.hold()
    with ground.agents.started() as agent:
        order = ground.centre.order(OrderJob.STAGE, "part-4", plan=digest, devices=(DEVICE,))
        ground.centre.send(order)
        ground.until_held()
        os.kill(agent.pid, signal.SIGTERM)
        assert agent.wait(PATIENCE_S) == 0
        assert not ground.is_tuned
        assert not ground.centre.about(order.id, WordKind.ENDED)
    ground.release()
    with ground.agents.started():
        assert ground.centre.answer(order.id).data["outcomes"] == {"done": 1}
    check_complete(ground, "part-4")


def test_a_run_at_a_site_is_paused_gone_on_with_and_stopped_from_the_centre(ground: Ground) -> None:
    """By its journal; a stop restores the device, and the part is over."""
    digest = ground.plan(IMAGE_BYTES)
    ground.hold()
    with ground.agents.started():
        order = ground.centre.order(OrderJob.STAGE, "part-5", plan=digest, devices=(DEVICE,))
        ground.centre.send(order)
        ground.until_held()
        for job in (OrderJob.PAUSE, OrderJob.CONTINUE, OrderJob.STOP):
            answer = ground.centre.answer(ground.centre.send(ground.centre.order(job, "part-5")))
            assert (answer.kind, answer.data["exit_code"]) == (WordKind.ENDED, 0), answer.data
        answer = ground.centre.answer(order.id)
        assert (answer.data["outcomes"].get("done"), answer.data["held"], answer.data["tries"]) == (None, [], 1)
        assert not ground.is_tuned
        ground.release()
        run = read_run(ground.agents.state, "latest")
        assert [wish.what for wish in run.steer_requests] == ["pause", "continue", "stop"]
        late = ground.centre.answer(ground.centre.send(ground.centre.order(OrderJob.PAUSE, "part-5")))
        assert (late.kind, "it has ended" in late.data["sentence"]) == (WordKind.REFUSED, True)
