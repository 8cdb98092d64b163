"""A site whose devices serve each other: one takes the image over the WAN, the others from a neighbour."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry.core.values import replace
from flashferry.lab.link import load_profile
from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from tests.e2e.conftest import Done, Rig, unstamped
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

MB = 1_000_000
NAMES = ("r1", "r2", "r3", "r4", "r5")


class SiteRig(Rig):
    """A site of routers, with the inventory's key for neighbours."""

    def write_inventory(self, **changes: Any) -> None:
        super().write_inventory(**changes)
        yaml = YAML()
        hosts = yaml.load((self.inventory / "hosts.yaml").read_text())
        for host in hosts.values():
            host["data"] |= {"site": "branch", "neighbours": True, "link_rate_bps": 10_000_000}
        yaml.dump(hosts, self.inventory / "hosts.yaml")

    def stage(self, image: Path, *arguments: str) -> Done:
        return self.verb("stage", "--image", image, *arguments)

    def all_configurations(self) -> dict[str, tuple[str, str]]:
        names = [one.name for one in self.world.devices]
        return {
            name: (unstamped(self.world.running_config(name)), unstamped(self.world.startup_config(name)))
            for name in names
        }

    def md5s(self, name: str) -> dict[str, str]:
        found = {}
        for device in self.world.devices:
            for file in self.world.files(device.name):
                if file.name == name:
                    found[device.name] = hashlib.md5(file.path.read_bytes(), usedforsecurity=False).hexdigest()
        return found

    def over_wan_bytes(self) -> int:
        return int(self.world.link_counters()["to_site"]["delivered_bytes"])


@contextmanager
def site(folder: Path, *, routers: int = 5, rate_bps: float = 10e6, delay_s: float = 0.02) -> Iterator[SiteRig]:
    profile = load_profile("lan")
    profile = replace(
        profile,
        name="branch",
        to_site=replace(profile.to_site, rate_bps=rate_bps, delay_s=delay_s),
        to_core=replace(profile.to_core, rate_bps=rate_bps, delay_s=delay_s),
    )
    devices = tuple(DeviceSpec(name=f"r{number}") for number in range(1, routers + 1))
    with start_world(WorldSpec(devices=devices, profile=profile)) as world:
        yield SiteRig(world, folder)


def by_host(done: Done) -> dict[str, dict[str, Any]]:
    return {one["host"]: one for one in done.json["run"]["devices"]}


def test_a_site_takes_the_image_once(tmp_path):
    """Five routers, one copy over the WAN; every configuration is what it was, and the records say who served whom."""
    with site(tmp_path) as rig:
        before, image = rig.all_configurations(), rig.image(8 * MB)
        done = rig.stage(image)
        assert done.code == 0, done.err
        records = by_host(done)
        assert {one["outcome"] for one in records.values()} == {"done"}
        assert rig.over_wan_bytes() <= 1.1 * 8 * MB
        assert rig.all_configurations() == before
        assert set(rig.md5s(image.name)) == set(NAMES)
        assert len(set(rig.md5s(image.name).values())) == 1
        sources = {name: one["source"] for name, one in records.items()}
        assert sources["r1"] is None
        assert all(one.startswith("neighbour r") for name, one in sources.items() if name != "r1"), sources
        assert {one["restored"] for one in records.values()} == {"restored"}
        assert records["r2"]["transfer"] is None


def test_a_neighbour_that_restarts_is_given_up(tmp_path):
    """A parent that reloads in mid-serve costs its children nothing: they go on over the WAN, all is as it was."""
    with site(tmp_path, routers=4) as rig:
        before, image = rig.all_configurations(), rig.image(6 * MB)
        rig.world.fault("r1", tftp_reboots_after_bytes=2 * MB, boot_s=20)
        done = rig.stage(image, "--no-canary")
        records = by_host(done)
        assert done.code == 0, done.err
        assert {one["outcome"] for one in records.values()} == {"done"}
        assert any("boot" in one for one in rig.world.happened("r1"))
        assert rig.all_configurations() == before
        fallen = [
            one for one in records.values() if any(two["transport"] == "neighbour" for two in one["transports_tried"])
        ]
        assert fallen
        assert all(one["source"] is None and one["transfer"] is not None for one in fallen)
        assert set(rig.md5s(image.name)) == set(NAMES[:4])
        assert len(set(rig.md5s(image.name).values())) == 1


def test_other_bytes_are_found_and_their_server_is_not_used_any_more(tmp_path):
    """The hash decides: who got other bytes failed as ever, nothing was removed, and nobody else gets any of them."""
    with site(tmp_path, routers=7) as rig:
        before, image = rig.all_configurations(), rig.image(2 * MB)
        rig.world.fault("r1", tftp_serves_wrong_bytes=True)
        done = rig.stage(image, "--no-canary", "--max-failures", "5")
        records = by_host(done)
        failed = {name for name, one in records.items() if one["outcome"] == "failed"}
        assert failed == {"r2", "r3", "r4"}
        assert {records[name]["failure"]["kind"] for name in failed} == {"ImageCorrupt"}
        assert all("image.bin" in records[name]["partial_file"] for name in failed)
        assert (records["r5"]["outcome"], records["r5"]["source"]) == ("done", None)
        assert {records[name]["source"] for name in ("r6", "r7")} == {"neighbour r5"}
        assert rig.all_configurations() == before
        assert failed <= set(rig.md5s(image.name))


def test_a_neighbour_that_is_slower_than_the_wan_is_given_up(tmp_path):
    """It is measured against the copy that went over the WAN; the partial file is gone before that one begins."""
    with site(tmp_path, routers=2) as rig:
        before, image = rig.all_configurations(), rig.image(4 * MB)
        rig.world.fault("r1", tftp_serves_bytes_per_s=20_000)
        done = rig.stage(image, "--no-canary")
        (tried,) = by_host(done)["r2"]["transports_tried"]
        assert done.code == 0, done.err
        assert "slower than the WAN" in tried["reason"]
        assert len(set(rig.md5s(image.name).values())) == 1
        assert rig.all_configurations() == before


def test_somebody_elses_lines_for_the_same_file_stay(tmp_path):
    """A device that serves that file already is left alone, and another one of the site serves."""
    with site(tmp_path, routers=3) as rig:
        rig.world.fault("r1", other_user_configures=["tftp-server bootflash:image.bin"])
        before, image = rig.all_configurations(), rig.image(2 * MB)
        done = rig.stage(image, "--no-canary")
        records = by_host(done)
        assert done.code == 0, done.err
        assert any("it serves that file already" in note for note in records["r1"]["notes"])
        assert rig.all_configurations() == before
        assert "tftp-server bootflash:image.bin" in before["r1"][0]


def serving_lines(rig: SiteRig, name: str) -> list[str]:
    running = rig.world.running_config(name)
    return [line for line in running.splitlines() if line.startswith(("tftp-server", "access-list 99"))]


@contextmanager
def killed_while_serving(rig: SiteRig, *arguments: str) -> Iterator[dict[str, tuple[str, str]]]:
    """Kill a run by -9 while a slow neighbour serves; yield the configurations from before it."""
    before, image = rig.all_configurations(), rig.image(4 * MB)
    rig.world.fault("r1", tftp_serves_bytes_per_s=100_000)
    with rig.started("stage", "--inventory", rig.inventory, "--image", image, "--no-canary", *arguments) as stage:
        assert rig.until(lambda: any("served" in one or "serves" in one for one in rig.world.happened("r1")))
        os.kill(stage.pid, signal.SIGKILL)
        stage.wait()
    yield before


def test_a_run_that_dies_while_devices_serve_is_recovered(tmp_path):
    """Kill -9 leaves a device that serves; the lines are in the journal, and recover proves them gone."""
    with site(tmp_path, routers=3) as rig, killed_while_serving(rig) as before:
        left = serving_lines(rig, "r1")
        assert left[-1] == "tftp-server bootflash:image.bin 99" or "tftp-server bootflash:image.bin 99" in left
        assert "access-list 99 permit 198.18.1.12" in left
        done = rig.verb("recover")
        assert done.code == 0, done.err
        assert {one["restored"] for one in done.json["devices"]} == {"restored"}
        assert rig.all_configurations() == before


def test_a_colleagues_host_in_the_list_stays_with_it(tmp_path):
    """The journal knows whom we let in: another one is told with what takes the list back, and then nothing is left."""
    with site(tmp_path, routers=3) as rig, killed_while_serving(rig) as before:
        (lease,) = (rig.state / "leases").glob("*r1.json")
        typed = {one["ours"] for one in json.loads(json.loads(lease.read_text())["changes"])}
        assert {f"access-list 99 permit host 198.18.1.{last}" for last in (12, 13)} <= typed
        rig.configure_by_hand("access-list 99 permit host 192.0.2.77")
        done = rig.verb("recover")
        records = {one["host"]: one for one in done.json["devices"]}
        assert records["r1"]["restored"] == "incomplete"
        assert "192.0.2.77" in records["r1"]["failure"]["reason"]
        assert "'no access-list 99'" in records["r1"]["failure"]["hint"]
        assert "access-list 99 permit 192.0.2.77" in rig.world.running_config("r1").replace(" host ", " ")
        assert "tftp-server" not in rig.world.running_config("r1")
        rig.configure_by_hand("no access-list 99")
        assert rig.verb("recover").code == 0
        assert rig.all_configurations() == before


def test_an_applet_takes_the_serving_lines_back(tmp_path):
    """Controller and line are gone for good: the device stops serving by itself, the list last."""
    with site(tmp_path, routers=3) as rig, killed_while_serving(rig, "--dead-man") as before:
        assert serving_lines(rig, "r1")
        for name in NAMES[:3]:
            rig.world.fault(name, applets_fire=True)
        assert rig.until(lambda: rig.all_configurations() == before)
        done = rig.verb("recover")
        assert done.code == 0, done.err


def test_a_run_that_is_stopped_restores_who_serves(tmp_path):
    """Ctrl-C ends children and parents alike."""
    with site(tmp_path, routers=3) as rig:
        before, image = rig.all_configurations(), rig.image(4 * MB)
        rig.world.fault("r1", tftp_serves_bytes_per_s=100_000)
        with rig.started("stage", "--inventory", rig.inventory, "--json", "--image", image, "--no-canary") as stage:
            assert rig.until(lambda: serving_lines(rig, "r1") != [])
            os.kill(stage.pid, signal.SIGINT)
            out, err = stage.communicate(timeout=PATIENCE_S)
        records = {one["host"]: one for one in json.loads(out)["run"]["devices"]}
        assert records["r1"]["outcome"] == "done", err
        assert rig.all_configurations() == before


def test_a_canary_that_comes_back_to_serve_is_recovered_and_the_run_goes_on(tmp_path):
    """Kill -9 while the device of the first wave serves the second one: it is restored, and keeps what it has."""
    with site(tmp_path, routers=3) as rig:
        before, image = rig.all_configurations(), rig.image(4 * MB)
        rig.world.fault("r1", tftp_serves_bytes_per_s=100_000)
        with rig.started("stage", "--inventory", rig.inventory, "--image", image) as stage:
            assert rig.until(lambda: any("serves" in one for one in rig.world.happened("r1")))
            os.kill(stage.pid, signal.SIGKILL)
            stage.wait()
        assert serving_lines(rig, "r1")
        (run_id,) = (path.stem for path in (rig.state / "runs").glob("*.lock"))
        assert rig.verb("recover").code == 0
        assert rig.all_configurations() == before
        rig.world.fault("r1", tftp_serves_bytes_per_s=None)
        done = rig.run("stage", "--resume", run_id, "--inventory", rig.inventory, "--json", "--remove-partial")
        assert done.code == 0, done.err
        assert {one["outcome"] for one in by_host(done).values()} <= {"done", "already there"}
        assert len(set(rig.md5s(image.name).values())) == 1
        assert rig.all_configurations() == before


def test_who_was_done_before_a_run_is_taken_up_again_serves_those_that_are_left(tmp_path):
    """The link has carried the image already: the canary is taken in hand again, hashed, and serves the others."""
    with site(tmp_path, routers=3) as rig:
        before, image = rig.all_configurations(), rig.image(4 * MB)
        for name in ("r2", "r3"):
            rig.world.fault(name, flash_full=True)
        failed = rig.stage(image)
        assert failed.code != 0
        assert [one["outcome"] for one in failed.json["run"]["devices"]][:1] == ["done"]
        for name in ("r2", "r3"):
            rig.world.fault(name, flash_full=False)
        crossed = rig.over_wan_bytes()
        run_id = failed.json["run"]["run_id"]
        done = rig.run("stage", "--resume", run_id, "--inventory", rig.inventory, "--json")
        records = by_host(done)
        assert done.code == 0, done.err
        assert [records[name]["source"] for name in ("r2", "r3")] == ["neighbour r1"] * 2
        assert rig.over_wan_bytes() - crossed < MB
        assert (records["r1"]["outcome"], records["r1"]["restored"]) == ("done", "restored")
        assert any("served r2, r3" in note for note in records["r1"]["notes"])
        assert rig.all_configurations() == before
        report = rig.run("report", run_id, "--json").json["devices"]
        (kept,) = (one for one in report if one["host"] == "r1")
        # It was the canary, then it was to serve the second wave, and now this one.
        assert (kept["attempt"], kept["outcome"]) == (3, "done")
        assert kept["hash_proof"], kept
        assert len(kept["transfers"]) == 1


def test_a_device_that_takes_no_part_says_so(tmp_path):
    """Clear text is forbidden for one of them: it takes the WAN by what encrypts, and serves nobody."""
    with site(tmp_path, routers=3) as rig:
        yaml = YAML()
        hosts = yaml.load((rig.inventory / "hosts.yaml").read_text())
        hosts["r2"]["data"] |= {"clear_text": False, "transports": ["scp"]}
        yaml.dump(hosts, rig.inventory / "hosts.yaml")
        before, image = rig.all_configurations(), rig.image(1 * MB)
        done = rig.stage(image, "--no-canary")
        records = by_host(done)
        assert done.code == 0, done.err
        assert [records[name]["source"] for name in NAMES[:3]] == [None, None, "neighbour r1"]
        assert any("not from a neighbour: the inventory forbids clear text" in note for note in records["r2"]["notes"])
        assert rig.all_configurations() == before
