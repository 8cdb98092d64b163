"""Centre, source and agent as they are typed: what one writes, the next offers, and the third fetches and proves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.images.image import PlannedImage
from flashferry.images.manifest import Manifest, manifest_of
from flashferry.model.exit_codes import ExitCode
from flashferry.model.plan_file import plan_document, save_plan
from flashferry.store.status import read_status
from tests.component.httpserver.conftest import make_certificate
from tests.patience import until
from tests.sites_ground import Agents, Centre, redis_in
from tests.unit.sites.centre.plans import IMAGE, device, plan

pytestmark = pytest.mark.soak

SIZE, CHUNK = 40_000_000, 16 << 20
WORD = "branch-word-2026"


class Ground:
    """A centre with a source, and a site of two routers that nobody answers for, with an agent that has nothing yet."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.state, self._stack = folder, folder / "centre", stack
        self.images = folder / "images"
        (self.images / "plans").mkdir(parents=True)
        self.redis = stack.enter_context(redis_in(folder / "redis"))
        inventory = folder / "inventory"
        inventory.mkdir()
        router = {"hostname": "127.0.0.1", "platform": "ios", "username": "u", "password": "p"}
        (inventory / "hosts.yaml").write_text(json.dumps({"r1": router | {"port": 1}, "r2": router | {"port": 2}}))
        # Only its key is used: the product's centre takes its place.
        self.key = Centre(self.redis.settings)
        self.agents = Agents(folder / "agent", self.redis, self.key, inventory)
        self.catalogue = CatalogueFolder(self.agents.catalogue)
        self.certificate, self.certificate_key = make_certificate(folder)
        self.log = folder / "source.log"
        self._write_secrets()

    def _write_secrets(self) -> None:
        for name, text in (
            ("mirrors.toml", f'[sites.ams]\nuser = "branch"\npassword = "{WORD}"\nlink_mbps = 160\n'),
            ("agent/source.password", WORD + "\n"),
        ):
            (self.folder / name).touch(mode=0o600)
            (self.folder / name).write_text(text)
        self.key.key.save(self.folder / "centre.key")
        (self.folder / "sites.toml").write_text(
            f'[centre]\nkey = "centre.key"\nplans_folder = "images/plans"\n'
            f'[broker]\nurl = "{self.redis.settings.url}"\n[sites.ams]\nagent_key = "{self.key.known[0].line}"\n'
        )

    def put(self, size_bytes: int) -> Manifest:
        """Put an image where the source offers it from, as somebody does who copies it beside first."""
        fresh = self.images / ".fresh"
        fresh.write_bytes(os.urandom(size_bytes))
        os.utime(fresh, (1e9, 1e9))
        fresh.replace(self.images / IMAGE.name)
        return manifest_of(self.images / IMAGE.name)

    def plan(self, manifest: Manifest) -> str:
        """Write a plan for the image; return its digest."""
        image = PlannedImage(
            name=IMAGE.name,
            path=IMAGE.path,
            size_bytes=manifest.size_bytes,
            md5=manifest.md5,
            sha512=manifest.sha512,
        )
        devices = [replace(device(name, "ams"), address="127.0.0.1") for name in ("r1", "r2")]
        made = replace(plan(devices), images=(image,))
        save_plan(made, self.folder / "plan.json")
        return str(plan_document(made)["digest"])

    @contextmanager
    def source(self) -> Iterator[subprocess.Popen[str]]:
        """Run the centre's depot; the agent knows where it is."""
        words = ["depot", "--transports", "https", "--listen", "127.0.0.1", "--https-port", "0", "--json"]
        words += ["--certificate", str(self.certificate), "--key", str(self.certificate_key)]
        words += ["--catalogue", str(self.images), "--mirrors", str(self.folder / "mirrors.toml")]
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry", *words, "--log-file", str(self.log)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"FLASHFERRY_STATE_DIR": str(self.folder / "source-state")},
        ) as process:
            try:
                assert process.stdout is not None
                port = json.loads(process.stdout.readline())["ports"]["https"]
                with self.agents.config.open("a") as config:
                    config.write(
                        f'[source]\nurl = "https://127.0.0.1:{port}"\nuser = "branch"\n'
                        f'password_file = "source.password"\nca = "{self.certificate}"\n'
                    )
                yield process
            finally:
                process.kill()

    def stage(self) -> subprocess.Popen[str]:
        """Type `stage` at the centre."""
        return self.typed("stage", "--plan", str(self.folder / "plan.json"), "--sites", self.sites)

    @property
    def sites(self) -> str:
        """Return the centre's settings of sites."""
        return str(self.folder / "sites.toml")

    def typed(self, *words: str) -> subprocess.Popen[str]:
        """Type a command of the centre; it is ended with the test."""
        command = [sys.executable, "-P", "-m", "flashferry", *words, "--state-dir", str(self.state), "--json"]
        process = self._stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        self._stack.callback(process.kill)
        return process

    def fetched(self, name: str) -> list[int]:
        """Return how much of a file left the source, for each time, by its log."""
        return [
            int(one) for one in re.findall(rf"fetched {re.escape(name)} from byte \d+: (\d+) ", self.log.read_text())
        ]

    def written(self) -> int:
        """Return how much of the image is written at the site, verified or not."""
        state, place = (self.agents.catalogue / f".{IMAGE.name}{ending}" for ending in (".part.json", ".part.at"))
        try:
            verified: int = json.loads(state.read_text())["verified_bytes"]
            return verified + int.from_bytes(place.read_bytes()[8:], "big") % CHUNK
        except (OSError, ValueError):
            return 0

    def runs(self) -> int:
        """Return how many runs the agent has begun."""
        return len(read_status(self.agents.state, 9).runs)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as stack:
        yield Ground(tmp_path, stack)


def ended(command: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, said = command.communicate(timeout=120)
    return command.returncode, json.loads(out) if out.strip() else {}, said


def check_carried_out(ground: Ground, command: subprocess.Popen[str], manifest: Manifest) -> None:
    """Hold a part against what must have come of it: begun with the image proven; its routers do not answer."""
    code, result, said = ended(command)
    assert code == ExitCode.DEVICES_FAILED, said
    assert [(one["host"], one["outcome"]) for one in result["run"]["devices"]] == [("r1", "failed"), ("r2", "failed")]
    proven = ground.catalogue.proven(IMAGE.name)
    assert proven is not None
    assert proven.sha512 == manifest.sha512
    assert ground.runs() == 1
    told = (ground.agents.folder / "agent.log").read_text() + ground.agents.said + said + ground.log.read_text()
    assert WORD not in told


def test_what_the_centre_writes_is_offered_fetched_and_proven(ground: Ground) -> None:
    """Plan and image under the names that all three mean; a second part of the same plan fetches no image.

    The plan is offered until its run has ended.
    """
    manifest = ground.put(300_000)
    digest = ground.plan(manifest)
    with ground.source(), ground.agents.started():
        check_carried_out(ground, ground.stage(), manifest)
        assert list((ground.images / "plans").iterdir()) == []
        until(lambda: ground.fetched(f"plan-{digest}.json"), "the source tells of the plan")
        until(lambda: ground.fetched(IMAGE.name) == [300_000], "the image left the source once")
        ended(ground.stage())
        assert len(ground.fetched(IMAGE.name)) == 1


def test_an_image_that_the_source_is_still_reading_is_waited_for(ground: Ground) -> None:
    """Ordered before it was laid there: not refused for good, as what the source never has is."""
    manifest = ground.put(300_000)
    ground.plan(manifest)
    (ground.images / IMAGE.name).rename(ground.images / ".later")
    with ground.source(), ground.agents.started():
        command = ground.stage()
        log = ground.agents.folder / "agent.log"
        until(lambda: log.exists() and "the source has no such file (404)" in log.read_text(), "it is not there yet")
        (ground.images / ".later").rename(ground.images / IMAGE.name)
        check_carried_out(ground, command, manifest)


def test_an_agent_killed_while_it_fetches_goes_on_behind_what_is_there(ground: Ground) -> None:
    """One chunk at most is sent again, and the beats tell how far it is."""
    manifest = ground.put(SIZE)
    ground.plan(manifest)
    with ground.source():
        with ground.agents.started() as agent:
            command = ground.stage()
            until(lambda: ground.written() > CHUNK + 2_000_000, "it fetches")
            os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()
        assert not (ground.agents.catalogue / IMAGE.name).exists()
        with ground.agents.started():
            check_carried_out(ground, command, manifest)
        # What the kernel had acknowledged and nobody had read is sent again, and counted twice at most.
        until(lambda: sum(ground.fetched(IMAGE.name)) >= SIZE - 1_000_000, "all of it left the source")
    assert sum(ground.fetched(IMAGE.name)) <= SIZE + CHUNK


def test_a_part_stopped_while_its_image_is_fetched_begins_nothing(ground: Ground) -> None:
    """At once, not behind the image; what came of it is kept."""
    ground.plan(ground.put(SIZE))
    mirrors = ground.folder / "mirrors.toml"
    # So slow that the stop comes long before the end, however busy the host is.
    mirrors.write_text(mirrors.read_text().replace("link_mbps = 160", "link_mbps = 8"))
    with ground.source(), ground.agents.started():
        command = ground.stage()
        until(lambda: ground.written() > 2_000_000, "it fetches")
        ended(ground.typed("sites", "stop", "latest", "--sites", ground.sites))
        code, _, said = ended(command)
        assert code != ExitCode.OK
        assert "before it had started" in said + json.dumps(ended(ground.typed("sites", "show", "latest"))[1])
    assert ground.runs() == 0
    assert not (ground.agents.catalogue / IMAGE.name).exists()
    assert ground.written() > 0
