"""An agent as a process behind a real Redis, with no device: what it refuses, tells, and does not do twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.images.manifest import manifest_of
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import plan_document, plan_text
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.sites.keys import PrivateKey
from flashferry.sites.wire import Order, OrderJob, Word, WordKind, moment_text
from flashferry.store.status import read_status
from tests.patience import PATIENCE_S, until
from tests.sites_ground import Agents, Centre, Line, redis_in

_BEGAN = datetime.now(UTC).replace(microsecond=0)
IMAGE = "image.bin"


class Ground:
    """A broker, a centre and an agent whose site has two routers that nobody answers for."""

    def __init__(self, folder: Path, stack: ExitStack, broker: Any = None) -> None:
        self.folder = folder
        self.redis = broker or stack.enter_context(redis_in(folder / "redis"))
        inventory = folder / "inventory"
        inventory.mkdir()
        router = {"hostname": "127.0.0.1", "platform": "ios", "username": "u", "password": "p"}
        hosts = {name: router | {"port": port} for name, port in (("r1", 1), ("r2", 2))}
        (inventory / "hosts.yaml").write_text(json.dumps(hosts))
        self.inventory = inventory
        self.centre = Centre(self.redis.settings)
        self.agents = Agents(folder / "agent", self.redis, self.centre, inventory)
        (self.agents.catalogue / IMAGE).write_bytes(b"an image")
        stack.enter_context(self.centre.listening())

    def plan(self, *hosts: str, sha512: str = "", image: str = IMAGE) -> FleetPlan:
        """Return a plan for some devices."""
        found = manifest_of(self.agents.catalogue / IMAGE)
        planned = PlannedImage(
            name=image, path=f"/centre/{image}", size_bytes=8, md5=found.md5, sha512=sha512 or found.sha512
        )
        devices = tuple(PlannedDevice(host=one, address=one, image=image, action=Action.STAGE) for one in hosts)
        moment = datetime.now(UTC).isoformat()
        return FleetPlan(
            created_at=moment,
            starts_at=moment,
            ends_at=None,
            images=(planned,),
            image_folders=("/centre",),
            limits=Limits(),
            policy=WavePolicy(canary=False),
            tune=TuneMode.NEVER,
            uncapped=True,
            duration_s=1.0,
            fit=Fit(fits=None, sentence=""),
            waves=(Wave(number=0, name="all", hosts=hosts),),
            devices=devices,
        )

    def offered(self, plan: FleetPlan, digest: str = "") -> str:
        """Put a plan where the agent gets it from, under its digest or another; return that."""
        digest = digest or str(plan_document(plan)["digest"])
        (self.agents.catalogue / f"plan-{digest}.json").write_text(plan_text(plan))
        return digest

    def asked(self, order: Order) -> Word:
        """Send an order and return how it ended."""
        self.centre.send(order)
        return self.centre.answer(order.id)

    def prove_image(self) -> Word:
        """Have the depot prove the image of a plan, and return how that ended."""
        return self.asked(self.centre.order(OrderJob.SYNC, "sync-1", plan=self.offered(self.plan("r1"))))


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ExitStack() as stack:
        made = Ground(tmp_path_factory.mktemp("sites"), stack)
        stack.enter_context(made.agents.started())
        until(lambda: made.centre.beats, "the agent beats")
        yield made


def stage(ground: Ground, run: str, **values: object) -> Order:
    digest = ground.offered(ground.plan("r1", "r2"))
    return ground.centre.order(OrderJob.STAGE, run, **({"plan": digest, "devices": ("r1",)} | values))


def refused(ground: Ground, order: Order) -> str:
    """Return why an order was refused; it was, and no run was begun for it."""
    before = len(read_status(ground.agents.state, 99).runs)
    answer = ground.asked(order)
    assert answer.kind is WordKind.REFUSED, answer.data
    assert answer.data["hint"]
    assert len(read_status(ground.agents.state, 99).runs) == before
    return str(answer.data["sentence"])


def test_orders_that_are_not_for_this_agent_now_are_refused_in_a_sentence(ground: Ground) -> None:
    """Another site, another release, expired, and a clock that differs."""
    now = datetime.now(UTC)
    early = {"valid_from": moment_text(now + timedelta(minutes=5))}
    late = {"valid_from": moment_text(now - timedelta(2)), "valid_until": moment_text(now - timedelta(1))}
    assert "expected one for site ams, found one for rtm" in refused(ground, stage(ground, "p1", site="rtm"))
    assert "expected a centre of release" in refused(ground, stage(ground, "p2", release="99.0.0"))
    assert "the clocks differ" in refused(ground, stage(ground, "p3", **early))
    assert "still valid" in refused(ground, stage(ground, "p4", **late))


def test_plans_devices_and_images_that_are_others_are_refused_in_a_sentence(ground: Ground) -> None:
    """Before any device is touched; each says what was expected and what was found."""
    assert "expected it in" in refused(ground, stage(ground, "q1", plan="0" * 64))
    swapped = ground.offered(ground.plan("r2"), "1" * 64)
    assert "expected the plan with SHA-256 1111" in refused(ground, stage(ground, "q2", plan=swapped))
    stranger = ground.offered(ground.plan("r1", "r9"))
    assert "found r9, not in its inventory" in refused(ground, stage(ground, "q3", plan=stranger, devices=("r9",)))
    assert "of the plan" in refused(ground, stage(ground, "q4", devices=("r1", "r8")))
    other = ground.offered(ground.plan("r1", sha512="9" * 128))
    assert "found another one" in refused(ground, stage(ground, "q5", plan=other))
    missing = ground.offered(ground.plan("r1", image="none.bin"))
    assert "found none" in refused(ground, stage(ground, "q6", plan=missing))
    altered = json.loads(plan_text(ground.plan("r1")))
    altered["devices"][0]["address"] = "elsewhere"
    (ground.agents.catalogue / f"plan-{altered['digest']}.json").write_text(json.dumps(altered))
    assert "has changed since it was made" in refused(ground, stage(ground, "q7", plan=altered["digest"]))


def test_an_order_of_somebody_else_is_neither_carried_out_nor_answered(ground: Ground) -> None:
    """Whoever has the broker learns nothing by it."""
    forged = stage(ground, "forged")
    ground.centre.send(forged, PrivateKey.make())
    look = ground.asked(ground.centre.order(OrderJob.CHECK, ""))
    assert look.kind is WordKind.ENDED
    assert ground.centre.offsets("forged") == []
    assert "not answered" in (ground.agents.folder / "agent.log").read_text()


def test_a_part_goes_through_a_run_of_its_own_once(ground: Ground) -> None:
    """Its devices do not answer: that is the run's finding, told as such; the same under another name is answered."""
    order = stage(ground, "part-1", devices=("r1", "r2"))
    for one in (order, replace(order, id="twin"), order):
        ground.centre.send(one)
    answer = ground.centre.answer(order.id)
    assert (answer.kind, answer.data["exit_code"], answer.data["outcomes"]) == (WordKind.ENDED, 3, {"failed": 2})
    twin = ground.centre.send(replace(order, id="triplet"))
    told = ground.centre.answer(twin)
    assert (told.data["repeats"], told.data["exit_code"]) == (order.id, 3)
    runs = [run for run in read_status(ground.agents.state, 99).runs if run.run_id == answer.data["run_id"]]
    assert len(runs) == 1
    assert {one.data["host"] for one in ground.centre.about(order.id, WordKind.RECORD)} == {"r1", "r2"}
    offsets = ground.centre.offsets("part-1")
    assert offsets == list(range(1, len(offsets) + 1))


def test_a_check_reports_what_a_site_has(ground: Ground) -> None:
    """Its depot and its inventory; no device is touched. Its words are numbered under the order's own name."""
    ground.prove_image()
    order = ground.centre.order(OrderJob.CHECK, "", devices=("r1", "r7"))
    ground.asked(order)
    (depot,) = ground.centre.about(order.id, WordKind.DEPOT)
    assert (depot.run, depot.data["inventory"]) == (order.id, {"devices": 2, "missing": ["r7"], "error": ""})
    assert [(one["name"], one["size_bytes"], one["proven"]) for one in depot.data["images"]] == [(IMAGE, 8, True)]


def test_images_of_a_plan_are_proven_by_a_sync(ground: Ground) -> None:
    """It touches no device."""
    assert ground.prove_image().data["images"] == [IMAGE]


def test_a_run_that_is_none_of_ours_cannot_be_steered(ground: Ground) -> None:
    """It is said which run is not known."""
    assert "was never given it" in refused(ground, ground.centre.order(OrderJob.STOP, "unknown"))
    assert "was never given it" in refused(ground, ground.centre.order(OrderJob.APPROVE, "unknown", wave=1))


def test_a_heartbeat_reports_the_clock_and_the_depot(ground: Ground) -> None:
    """What a page of sites shows."""
    ground.prove_image()
    until(lambda: ground.centre.beats[-1].data["depot"], "the image is reported")
    beat = ground.centre.beats[-1]
    assert beat.site == "ams"
    assert _BEGAN <= datetime.fromisoformat(beat.data["clock"]) <= datetime.now(UTC)
    assert [one["name"] for one in beat.data["depot"]] == [IMAGE]


def test_what_the_centre_heard_goes_from_the_spool(ground: Ground) -> None:
    """And only that: it is empty once all is heard."""
    ground.asked(ground.centre.order(OrderJob.CHECK, ""))
    until(lambda: ground.centre.beats[-1].data["spooled"] == 0, "the spool is empty")


def test_a_second_agent_of_one_state_folder_is_refused(ground: Ground) -> None:
    """By its lock; a copy of folder and key, as a clone of the machine has, by the claim at the broker."""
    with ground.agents.started() as second:
        assert second.wait(PATIENCE_S) == 2
    assert "another agent on this host" in ground.agents.said
    clone = ground.agents.cloned(ground.folder / "clone")
    with clone.started() as third:
        assert third.wait(PATIENCE_S) == 2
    assert "a copy of this agent works for it" in clone.said
    assert "one device belongs to one agent" in clone.said


def test_another_agent_for_the_site_with_a_key_of_its_own_does_nothing(ground: Ground, tmp_path: Path) -> None:
    """It takes orders from the same queue: it says whose they are and leaves them to the one that the centre means."""
    other = Agents(tmp_path / "other", ground.redis, ground.centre, ground.inventory)
    ground.centre.known.pop()
    with other.started():
        until(lambda: "takes orders" in other.said, "it is there")
        until(lambda: _has_left_one(ground, other), "an order comes to it")
    assert not read_status(other.state, 9).runs
    assert "the claim at the broker was overwritten" in (other.folder / "agent.log").read_text()


def _has_left_one(ground: Ground, other: Agents) -> bool:
    """Send an order until the right agent answers it; tell whether the other one had one in its hands by now."""
    order, turns = ground.centre.order(OrderJob.CHECK, ""), count()
    until(
        lambda: (next(turns) % 25 or ground.centre.send(order)) and ground.centre.about(order.id, WordKind.ENDED),
        "it is answered by the right one",
    )
    return "the centre has another agent for the site" in (other.folder / "agent.log").read_text()


@pytest.mark.soak
def test_an_agent_ends_though_its_broker_takes_all_and_answers_nothing(tmp_path: Path) -> None:
    """A line that was cut in the middle: what is left to say is on disk, and nobody waits for a time-out of TCP."""
    with ExitStack() as stack:
        ground = Ground(tmp_path, stack)
        line = stack.enter_context(closing(Line(ground.redis.port)))
        agents = Agents(tmp_path / "far", line, ground.centre, ground.inventory)
        ground.centre.known.reverse()
        agent = stack.enter_context(agents.started())
        until(lambda: ground.centre.beats, "the agent beats")
        line.cut()
        until(line.has_dropped.is_set, "something that is said to nobody")
        agent.send_signal(signal.SIGTERM)
        # 10 s are meant; its connections' own patience, one behind the other, had it take 118 s.
        assert agent.wait(PATIENCE_S) == 0


@pytest.mark.soak
def test_words_wait_for_a_centre_and_come_again_until_they_are_heard(tmp_path: Path) -> None:
    """One that says nothing is told again, with the same offsets; a kill -9 in between loses none."""
    with ExitStack() as stack:
        ground = Ground(tmp_path, stack)
        ground.centre.hears = False
        with ground.agents.started() as agent:
            order = ground.centre.order(OrderJob.CHECK, "")
            ground.asked(order)
            os.killpg(agent.pid, signal.SIGKILL)
        first = ground.centre.offsets(order.id)
        with ground.agents.started():
            until(lambda: ground.centre.repeats >= len(first), "all of it comes again")
            assert ground.centre.offsets(order.id) == first
