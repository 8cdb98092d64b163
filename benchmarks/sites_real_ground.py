"""Real agents in front of many stand-in routers: their hosts' folders, the centre's, a Redis, all as processes.

Each agent is `flashferry sites agent` on a depot host of the lab: in a network namespace of its own, on a LAN with its
routers, and behind a WAN link to the core, where the centre, its depot and the broker are. It has a state folder, keys,
a catalogue and an inventory of its own. One agent serves several sites of the inventory, of twenty routers or so, whose
lines by the inventory are slow: their copies wait rather than keep the machine busy.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.procfs import descendants
from benchmarks.sites_broker import RedisServer
from flashferry.core.jobs import read_mark
from flashferry.core.values import replace
from flashferry.lab.authority import Authority
from flashferry.lab.link import load_profile
from flashferry.lab.world import DepotSpec, DeviceSpec, Site, SiteSpec, World, WorldSpec, in_core, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.model.plan_file import read_plan
from flashferry.sites.keys import PrivateKey

IMAGE = "csr1000v-universalk9.17.03.08a.SPA.bin"
PLATFORM = "csr1000v-16.11"
DEVICE_BPS = 20_000
"""Of a site's line, per router: its copies have 80 % of that, less headers, about 1.9 kB/s each where all copy at once.

Two cores that have the stand-ins too log in to some three routers a second: with faster lines hardly any would wait."""
WAN_DELAY_S = 0.005
"""Each way, of the line between an agent and the centre: 50 Mbit/s and 0.01 % loss, as the published one has them.
`plan` looks at each router over it, twenty commands each, before there is anything to measure."""
REDIS_PORT, SOURCE_PORT = 6379, 8443
BEAT_S, PROGRESS_S = 15, 10
"""As an agent's settings have them by default."""
_READY_S = 180.0
_PLANNED_S = 1200.0
_ENDS_S = 600.0
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large it is.

    Attributes:
        routers: Stand-ins in all.
        sites: Sites of the inventory; at most as many as routers.
        agents: Agents; each has its share of the sites.
        image_bytes: Of the image.
        logins: Logins at once at each agent.
    """

    routers: int = 1000
    sites: int = 50
    agents: int = 5
    image_bytes: int = 1_000_000
    logins: int = 10


def shared(count: int, among: int) -> list[range]:
    """Return the numbers below a count in as many runs as there are takers, none more than one longer than another."""
    return [range(count * i // among, count * (i + 1) // among) for i in range(among)]


def placed(size: Size) -> dict[str, dict[str, list[str]]]:
    """Return which routers stand at which sites of the inventory, and which sites each agent has."""
    routers = [
        (f"branch{site:02}", [f"b{site:02}-r{number:04}" for number in numbers])
        for site, numbers in enumerate(shared(size.routers, size.sites), 1)
    ]
    return {
        f"region{agent}": {routers[number][0]: routers[number][1] for number in numbers}
        for agent, numbers in enumerate(shared(size.sites, size.agents), 1)
    }


def world_of(size: Size) -> WorldSpec:
    """Return a lab with a site for each agent, whose depot host is the agent's."""
    wan = load_profile("published").with_changes({"delay_s": WAN_DELAY_S})
    sites = [
        SiteSpec(
            name=agent,
            profile=wan,
            depot=DepotSpec(name=f"{agent}-host"),
            devices=tuple(DeviceSpec(name=name, platform=PLATFORM) for names in own.values() for name in names),
        )
        for agent, own in placed(size).items()
    ]
    return WorldSpec(sites=tuple(sites))


def inventory_sites(site: Site, own: dict[str, list[str]]) -> tuple[Site, ...]:
    """Return a site of the lab as the inventory has it: several, each behind a slow line of its own."""
    devices = {device.name: device for device in site.devices}
    return tuple(
        replace(
            site,
            name=name,
            profile=replace(site.profile, to_site=replace(site.profile.to_site, rate_bps=DEVICE_BPS * len(names))),
            devices=tuple(replace(devices[one], site=name) for one in names),
            depot=None,
        )
        for name, names in own.items()
    )


def host_left_of(pid: int) -> list[int]:
    """Return a process and what stems from it, as long as it lives."""
    return [pid, *descendants(pid)] if Path(f"/proc/{pid}").exists() else []


@dataclass(slots=True, kw_only=True)
class AgentHost:
    """An agent's host.

    Attributes:
        name: Its site, as orders have it.
        folder: All that is its own.
        pid: A process in its namespace.
        devices: The routers that are its own.
        process: Its agent, if one was started.
    """

    name: str
    folder: Path
    pid: int
    devices: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def state(self) -> Path:
        """Its state folder."""
        return self.folder / "state"

    def start(self) -> None:
        """Start its agent, as it is typed."""
        words = ("sites", "agent", "--config", str(self.folder / "agent.toml"))
        self.process = typed(self.folder, *words, "--log-file", str(self.folder / "agent.log"), inside_pid=self.pid)

    def kill(self, *, with_runs: bool) -> int:
        """Kill its agent -9, and its runs with their servers; return how many processes that were."""
        assert self.process is not None
        doomed = [self.process.pid]
        if with_runs:
            doomed += [pid for run in self.runs() for pid in host_left_of(run)]
        for pid in doomed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        return len(doomed)

    def runs(self) -> list[int]:
        """Return the processes of its runs that live."""
        marks = [read_mark(path) for path in (self.state / "jobs").glob("*/begun.json")]
        return [mark.pid for mark in marks if mark is not None and mark.is_alive()]

    def end(self) -> None:
        """Tell its agent to end, which restores devices."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_ENDS_S)
        if self.process is not None and self.process.poll() is None:
            self.kill(with_runs=True)

    def recover(self) -> int:
        """Type `flashferry recover` at the host with the agent's state folder and inventory; return its exit code."""
        words = ("recover", "--inventory", str(self.folder / "inventory"), "--state-dir", str(self.state), "--json")
        return typed(self.folder, *words, inside_pid=self.pid, name="recover").wait(_ENDS_S)


def typed(folder: Path, *words: str, inside_pid: int | None = None, name: str = "out") -> subprocess.Popen[bytes]:
    """Type `flashferry` with some words, perhaps at another host; what it prints goes into the folder."""
    enter = [] if inside_pid is None else [sys.executable, "-P", "-m", "flashferry.lab.enter", str(inside_pid), "--"]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FLASHFERRY_")}
    with (folder / f"{name}.json").open("ab") as out, (folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [*enter, sys.executable, "-P", "-m", "flashferry", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            start_new_session=True,
            env=kept,
        )


def until(condition: Callable[[], object], what: str, within_s: float = _READY_S) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: It did not come.
    """
    ends_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > ends_s:
            raise TimeoutError(f"expected within {within_s:.0f} s: {what}")
        time.sleep(_LOOK_S)


class Ground:
    """A lab with the hosts of agents, a centre and a broker, all told what they are to know; nothing runs yet.

    Args:
        world: The routers; the calling thread is in the lab's core.
        folder: A new folder for all hosts.
        size: How large it is.
    """

    def __init__(self, world: World, folder: Path, size: Size) -> None:
        self.world, self.folder, self.size = world, folder, size
        self.centre = folder / "centre"
        self.address = world.server_address
        for path in (self.centre / "catalogue" / "plans", folder / "redis"):
            path.mkdir(parents=True)
        self.redis = RedisServer(folder / "redis", REDIS_PORT, address=self.address)
        self.image = self.centre / "catalogue" / IMAGE
        self.image.write_bytes(os.urandom(size.image_bytes))
        self._authority = Authority("Benchmark CA")
        self._key = PrivateKey.make()
        self._own = placed(size)
        self.hosts = [self._host(site) for site in world.sites]
        self._write_centre()

    @property
    def state(self) -> Path:
        """The centre's state folder."""
        return self.centre / "state"

    def _host(self, site: Site) -> AgentHost:
        folder, depot = self.folder / site.name, self.world.depots[site.name]
        (folder / "catalogue").mkdir(parents=True)
        key = PrivateKey.make()
        key.save(folder / "agent.key")
        (folder / "agent.pub").write_text(key.public.line)
        (folder / "ca.pem").write_text(self._authority.pem)
        secret(folder / "source.password", secrets.token_urlsafe(18))
        own = inventory_sites(site, self._own[site.name])
        write_inventory(replace(self.world, sites=own), folder / "inventory")
        (folder / "agent.toml").write_text(
            f'site = "{site.name}"\nstate = "state"\nkey = "agent.key"\n'
            f'[centre]\nkeys = ["{self._key.public.line}"]\n[broker]\nurl = "{self.redis.url}"\nplain = true\n'
            '[runs]\ninventory = "inventory"\nrecover_options = []\n'
            'options = ["--remove-partial", "--depot", "never"]\n'
            f'[depot]\ncatalogue = "catalogue"\n[source]\nurl = "https://{self.address}:{SOURCE_PORT}"\n'
            f'user = "{site.name}"\npassword_file = "source.password"\nca = "ca.pem"\n'
            f"[words]\nbeat_seconds = {BEAT_S}\nprogress_seconds = {PROGRESS_S}\n"
        )
        devices = tuple(device.name for device in site.devices)
        return AgentHost(name=site.name, folder=folder, pid=depot.pid, devices=devices)

    def _write_centre(self) -> None:
        self._key.save(self.centre / "centre.key")
        self._authority.issue(self.centre, (self.address,))
        lines = [
            '[centre]\nkey = "centre.key"\nplans_folder = "catalogue/plans"\nanswer_s = 60',
            f'[broker]\nurl = "{self.redis.url}"\nplain = true',
        ]
        mirrors = []
        for host in self.hosts:
            sites = json.dumps(list(self._own[host.name]))
            key = (host.folder / "agent.pub").read_text()
            lines.append(f'[sites.{host.name}]\nagent_key = "{key}"\ninventory_sites = {sites}')
            word = host.folder / "source.password"
            mirrors.append(f'[sites.{host.name}]\nuser = "{host.name}"\npassword_file = "{word}"\nlink_mbps = 50\n')
        (self.centre / "sites.toml").write_text("\n".join(lines) + "\n")
        secret(self.centre / "mirrors.toml", "\n".join(mirrors))
        parts = [inventory_sites(site, self._own[site.name]) for site in self.world.sites]
        whole = replace(self.world, sites=tuple(one for part in parts for one in part))
        write_inventory(whole, self.centre / "inventory")

    def typed(self, *words: str, name: str = "out") -> subprocess.Popen[bytes]:
        """Type a command of the centre."""
        return typed(self.centre, *words, "--state-dir", str(self.state), name=name)

    def start_source(self) -> subprocess.Popen[bytes]:
        """Start the centre's depot, from which agents fetch plans and image."""
        files = ("--certificate", str(self.centre / "server.pem"), "--key", str(self.centre / "server.key"))
        offered = ("--catalogue", str(self.image.parent), "--mirrors", str(self.centre / "mirrors.toml"))
        # The centre's own state folder has a ledger; the depot's socket stands elsewhere.
        state = ("--state-dir", str(self.folder / "source"))
        where = ("--listen", self.address, "--transports", "ftp,https", "--https-port", str(SOURCE_PORT))
        daemon = typed(self.centre, "depot", *where, *offered, *files, *state, name="source")
        log, out = self.centre / "source.log", self.centre / "source.json"
        until(lambda: "offers 1 image" in log.read_text() + out.read_text(), "the centre's depot offers the image")
        return daemon

    def plan(self) -> Path:
        """Type `plan`, for all routers behind one canary; return the plan's file."""
        path, per_site = self.centre / "plan.json", max(map(len, shared(self.size.routers, self.size.sites)))
        limits = ("--max-logins", str(self.size.logins), "--site-copies", str(per_site), "--wave-by", "all")
        limits += ("--max-copies", str(self.size.routers), "--max-hashes", str(self.size.routers))
        words = ("--inventory", str(self.centre / "inventory"), "--image", str(self.image), "--tune", "always")
        with ended(self.typed("plan", *words, *limits, "--depot", "never", "--output", str(path), name="plan")) as plan:
            code = plan.wait(_PLANNED_S)
        if code:
            raise RuntimeError(f"flashferry plan: {(self.centre / 'plan.log').read_text()[-2000:]}")
        read_plan(path)
        return path

    def stage(self, plan: Path) -> subprocess.Popen[bytes]:
        """Type `stage --plan PLAN --sites FILE`."""
        return self.typed("stage", "--plan", str(plan), "--sites", str(self.centre / "sites.toml"), "--json")


def secret(path: Path, text: str) -> None:
    """Write a file for its owner's eyes only."""
    path.touch(mode=0o600)
    path.write_text(text)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that does not outlive the block."""
    try:
        yield process
    finally:
        end([process])


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes that are there still."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def lab(size: Size) -> Iterator[World]:
    """Yield the routers, with the calling thread in the lab's core."""
    with start_world(world_of(size)) as world, in_core(world):
        yield world


@contextmanager
def opened(world: World, folder: Path, size: Size) -> Iterator[Ground]:
    """Yield a ground whose broker, source and agents run; at the end agents end in order, which restores devices."""
    with ExitStack() as stack:
        ground = Ground(world, folder, size)
        ground.redis.start()
        stack.callback(ground.redis.kill)
        source = ground.start_source()
        stack.callback(end, [source])
        for host in ground.hosts:
            host.start()
            stack.callback(host.end)
        yield ground
