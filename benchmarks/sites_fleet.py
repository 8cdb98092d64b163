"""What a centre costs: 1,000 routers at 50 sites under 5 agents, by a real Redis. `python -m benchmarks.sites_fleet`.

The agents are SIMULATED: processes of their own that speak the wire with real signed words at the rates of a run (each
site's events together once a second, a copy's progress every ten seconds, a record per device) and stage nothing. The
centre is the product as it is typed: `flashferry stage --plan PLAN --sites FILE`. Its processor time is that of its
process, from the moment at which all sites have their parts.

With `--hardships` the broker is killed and started again in mid-run, then the centre is killed -9 and `sites follow`
takes its place: records must be complete at the end, and none twice.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.procfs import cpu_s, rss_bytes
from benchmarks.sites_broker import RedisServer, redis_is_here, redis_server
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, Fit, FleetPlan, PlannedDevice
from flashferry.model.limits import Limits
from flashferry.model.plan_file import save_plan
from flashferry.model.policy import TuneMode
from flashferry.model.waves import Wave, WavePolicy
from flashferry.sites.keys import PrivateKey
from flashferry.store.sites.database import FILE

BOUND = 0.10
"""Of a core: the centre takes no more while 1,000 routers copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was seen.

    Attributes:
        agents_are: What the agents were.
        sites: Sites.
        agents: Agent processes.
        devices: Devices.
        copy_s: How long a copy took.
        run_s: From the parts given to the end of the centre's command.
        centre_core_share: Processor time of the centre's process over `run_s`.
        centre_rss_bytes: Its memory near the end.
        redis_core_share: The same of the broker.
        words: Words that the ledger took, repeats left out.
        records: Devices with a record at the end.
        given_twice: Devices that more than one part was given, which the tables refuse: 0.
        hardships: What was done to it.
        exit_code: Of the centre's command.
    """

    agents_are: str
    sites: int
    agents: int
    devices: int
    copy_s: float
    run_s: float
    centre_core_share: float
    centre_rss_bytes: int
    redis_core_share: float
    words: int
    records: int
    given_twice: int
    hardships: tuple[str, ...]
    exit_code: int


def made_plan(sites: list[str], each: int) -> FleetPlan:
    """Return a plan of so many devices at each site, all in one wave."""
    image = PlannedImage(name="image.bin", path="/images/image.bin", size_bytes=10**9, md5="0" * 32, sha512="0" * 128)
    devices = tuple(
        PlannedDevice(
            host=f"{site}-r{number:03}",
            address="192.0.2.1",
            site=site,
            action=Action.STAGE,
            image=image.name,
            model="C8300-1N1S-4T2X",
            version="17.9.4a",
            wave=0,
        )
        for site in sites
        for number in range(each)
    )
    return FleetPlan(
        created_at="2026-11-26T12:00:00+00:00",
        starts_at="2026-11-26T12:00:00+00:00",
        ends_at=None,
        images=(image,),
        image_folders=("/images",),
        limits=Limits(),
        policy=WavePolicy(canary=False, by=None),
        tune=TuneMode.NEVER,
        duration_s=600.0,
        fit=Fit(fits=None, sentence=""),
        waves=(Wave(number=0, name="all", hosts=tuple(one.host for one in devices)),),
        devices=devices,
    )


class Ground:
    """A folder with plan, keys and settings; agents and centre as processes.

    Args:
        folder: The folder.
        redis: The broker.
        sites: How many sites.
        agents: How many agent processes share them.
        each: Devices of a site.
    """

    def __init__(self, folder: Path, redis: RedisServer, sites: int, agents: int, each: int) -> None:
        self.folder, self.redis = folder, redis
        self.names = [f"site{number:02}" for number in range(sites)]
        self.devices, self.agents = sites * each, agents
        self._agents: list[subprocess.Popen[bytes]] = []
        (folder / "plans").mkdir()
        self._centre_key = PrivateKey.make()
        self._centre_key.save(folder / "centre.key")
        save_plan(made_plan(self.names, each), folder / "plan.json")
        self._shares = [self.names[number::agents] for number in range(agents)]
        self._write_settings()

    def _write_settings(self) -> None:
        lines = ['[centre]\nkey = "centre.key"\nplans_folder = "plans"', f'[broker]\nurl = "{self.redis.url}"']
        for number, names in enumerate(self._shares):
            key = PrivateKey.make()
            key.save(self.folder / f"agent{number}.key")
            lines += [f'[sites.{name}]\nagent_key = "{key.public.line}"' for name in names]
        (self.folder / "sites.toml").write_text("\n".join(lines))

    def start_agents(self, copy_s: float, word_every_s: float) -> None:
        """Start all agents."""
        for number, names in enumerate(self._shares):
            words = [f"agent{number}", self.redis.url, str(self.folder / f"agent{number}.key")]
            words += [self._centre_key.public.line, str(copy_s), str(word_every_s), *names]
            self._agents.append(subprocess.Popen([sys.executable, "-m", "benchmarks.sites_agents", *words]))

    def stop_agents(self) -> None:
        """End all agents."""
        for agent in self._agents:
            agent.terminate()
        for agent in self._agents:
            agent.wait()

    def centre(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command of the centre."""
        state = ["--sites", str(self.folder / "sites.toml"), "--state-dir", str(self.folder / "state")]
        command = [sys.executable, "-m", "flashferry", *words, *state, "--json"]
        with (self.folder / "out.json").open("wb") as out, (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(command, stdout=out, stderr=log)

    def count(self, question: str) -> int:
        """Return a number that the ledger tells; 0 where it is not there yet."""
        path = self.folder / "state" / FILE
        if not path.is_file():
            return 0
        with closing(sqlite3.connect(path, timeout=30)) as database:
            try:
                return int(database.execute(question).fetchone()[0] or 0)
            except sqlite3.OperationalError:
                return 0

    def wait_for(self, question: str, least: int, within_s: float) -> None:
        """Wait until the ledger tells a number."""
        until_s = time.monotonic() + within_s
        while self.count(question) < least:
            if time.monotonic() > until_s:
                raise TimeoutError(f"expected {least} of {question}, found {self.count(question)}")
            time.sleep(0.5)


_RECORDS = "SELECT COUNT(*) FROM devices WHERE record IS NOT NULL"


def played(ground: Ground, copy_s: float, *, hardships: bool) -> Figures:
    """Play a run, and return what was seen."""
    centre = ground.centre("stage", "--plan", str(ground.folder / "plan.json"))
    sites = len(ground.names)
    ground.wait_for("SELECT COUNT(*) FROM parts WHERE state <> 'given'", sites, 120)
    began_s, cpu_began_s, redis_began_s = time.monotonic(), cpu_s(centre.pid), cpu_s(ground.redis.pid)
    done: list[str] = []
    spent_s = 0.0
    if hardships:
        ground.wait_for(_RECORDS, ground.devices // 5, 600)
        ground.redis.kill()
        time.sleep(15)
        ground.redis.start()
        done.append("broker killed -9, started again after 15 s")
        redis_began_s = cpu_s(ground.redis.pid)
        ground.wait_for(_RECORDS, ground.devices * 2 // 5, 600)
        spent_s, cpu_began_s = cpu_s(centre.pid) - cpu_began_s, 0.0
        os.kill(centre.pid, signal.SIGKILL)
        centre.wait()
        time.sleep(15)
        centre = ground.centre("sites", "follow", "latest")
        done.append("centre killed -9, 'sites follow' 15 s later")
    last_s, rss = 0.0, 0
    while centre.poll() is None:
        last_s, rss = cpu_s(centre.pid), rss_bytes(centre.pid) or rss
        time.sleep(0.5)
    run_s = time.monotonic() - began_s
    return Figures(
        agents_are="simulated: real signed words by a real broker, no device",
        sites=sites,
        agents=ground.agents,
        devices=ground.devices,
        copy_s=copy_s,
        run_s=round(run_s, 1),
        centre_core_share=round((spent_s + last_s - cpu_began_s) / run_s, 4),
        centre_rss_bytes=rss,
        redis_core_share=round((cpu_s(ground.redis.pid) - redis_began_s) / run_s, 4),
        words=ground.count("SELECT SUM(whole) FROM parts"),
        records=ground.count(_RECORDS),
        given_twice=ground.count("SELECT COUNT(*) - COUNT(DISTINCT host) FROM devices"),
        hardships=tuple(done),
        exit_code=centre.returncode,
    )


def main() -> int:
    """Play, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--copy-s", type=float, default=60.0)
    parser.add_argument("--word-every-s", type=float, default=1.0)
    parser.add_argument("--hardships", action="store_true")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if not redis_is_here():
        print("expected redis-server, found none: it is in the distribution's package of that name")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "redis").mkdir()
        with redis_server(folder / "redis") as redis:
            ground = Ground(folder, redis, given.sites, given.agents, given.each)
            ground.start_agents(given.copy_s, given.word_every_s)
            try:
                figures = played(ground, given.copy_s, hardships=given.hardships)
            finally:
                ground.stop_agents()
            if figures.exit_code:
                print((folder / "log.txt").read_text()[-2000:])
    text = json.dumps(asdict(figures), indent=1)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n")
    is_good = figures.records == figures.devices and not figures.given_twice and not figures.exit_code
    print(f"records complete, none twice: {'yes' if is_good else 'NO'}")
    print(f"centre: {figures.centre_core_share:.1%} of a core, bound {BOUND:.0%}")
    return 0 if is_good and figures.centre_core_share <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
