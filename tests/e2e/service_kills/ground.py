"""A lab with two routers, a service in front of it, and one approved plan; a cell is played and looked at."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashferry.core.jobs import JobFolder, read_mark
from flashferry.lab.world import DeviceSpec, SiteSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.service.audit import verify
from flashferry.service.images.lifecycle import approve_unpublished, reconcile_folder
from flashferry.service.plans.deciding import approve
from flashferry.service.plans.eligibility import offer
from flashferry.service.plans.planning import begin
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.reader import reading
from flashferry.store.service.audit import entries
from flashferry.store.service.database import FILE, ServiceDatabase, moment
from flashferry.store.service.jobs import Job, latest_jobs
from flashferry.store.stored_run import read_run
from flashferry.store.tables import runs_by_age
from tests.e2e.service_kills.cells import RUN, SERVICE, Cell
from tests.patience import until

IMAGE_BYTES = 400_000
WITHIN_S = 120.0
_STAMPS = ("! Last configuration change at", "! NVRAM config last updated")


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of a cell.

    Attributes:
        cell: The cell.
        seconds: From the kill to the end of the last job.
        jobs: Kind, state and exit code of each job, the oldest first.
        complaints: What is not as it must be, in sentences.
    """

    cell: Cell
    seconds: float
    jobs: tuple[tuple[str, str, int | None], ...]
    complaints: tuple[str, ...]


@dataclass
class Ground:
    """A state folder of its own for a cell, in a lab that all share."""

    world: World
    folder: Path
    inventory: Path
    name: str
    services: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = self.folder / self.name
        self.images = self.folder / "images"
        self.images.mkdir(exist_ok=True)
        self.image = self.images / f"{self.name}.bin"
        self.image.write_bytes(os.urandom(IMAGE_BYTES))
        # One that was just written may be in the midst of a copy, and is not taken in yet.
        os.utime(self.image, (time.time() - 3600, time.time() - 3600))
        runs = RunSettings(inventory=str(self.inventory), images=self.images)
        self.service = Service(
            state=self.state, settings=ServiceSettings(runs=runs), database=ServiceDatabase(self.state)
        )
        (self.state / "service.toml").write_text(
            f'[listen]\nport = 0\n[runs]\ninventory = "{self.inventory}"\nimages = "{self.images}"\n'
            'options = ["--retries", "0", "--remove-partial", "--site-copies", "1"]\nrecover_options = []\n'
        )

    def command(self, *arguments: str | Path) -> list[str]:
        """Return a command line of ours in the namespace from which the routers can be reached."""
        inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(self.world.core_pid), "--"]
        return [*inside, sys.executable, "-P", "-m", "flashferry", *map(str, arguments)]

    def serve(self) -> subprocess.Popen[bytes]:
        """Start a service."""
        with (self.folder / f"{self.name}.log").open("ab") as log:
            made = subprocess.Popen(
                self.command("service", "--state-dir", self.state), stdout=log, stderr=log, start_new_session=True
            )
        self.services.append(made)
        return made

    def approved_plan(self) -> str:
        """Return the digest of a plan over all routers, made by one and approved by another."""
        at = moment(datetime.now(UTC))
        actors = {}
        with self.service.database.writing() as database:
            for name, role in (("maker", Role.OPERATOR), ("other", Role.APPROVER)):
                database.execute("INSERT INTO people (name, source, created_at) VALUES (?, 'local', ?)", (name, at))
                database.execute("INSERT INTO grants VALUES (?, ?, '*', 'system', ?)", (name, role.value, at))
                actors[name] = Actor(name=name, via=Via.SESSION, grants=frozenset({Grant(role=role)}))
        reconcile_folder(self.service)
        approve_unpublished(self.service, actors["other"], self.image.name, "random bytes of this test")
        plan = self.folder / f"{self.name}.plan.json"
        options = ("--no-canary", "--wave-by", "all", "--tune", "always", "--output", plan, "--state-dir", self.state)
        words = ("plan", "--inventory", self.inventory, "--image", self.image, *options)
        subprocess.run(self.command(*words), check=True, capture_output=True, timeout=WITHIN_S)
        self.maker = actors["maker"]
        digest = offer(self.service, self.maker, plan.read_bytes(), self.name)[0].digest
        approve(self.service, actors["other"], digest)
        return digest

    def jobs(self) -> list[Job]:
        """Return all jobs, the oldest first."""
        with self.service.database.reading() as database:
            return latest_jobs(database, 99)[::-1]

    def job(self) -> Job:
        """Return the job that was asked for."""
        return self.jobs()[0]

    def has_begun(self) -> bool:
        """Return whether the job's process has taken it."""
        return JobFolder.of(self.state, self.job().job_id).mark_file.exists()

    def hold(self, cell: Cell) -> None:
        """Have the routers stand still at the cell's moment."""
        self._held_before = self._holds()
        for device in self.world.devices:
            self.world.fault(device.name, **cell.held)

    def is_held(self) -> bool:
        """Return whether a router stands still."""
        return self._holds() > self._held_before

    def release(self, cell: Cell) -> None:
        """Have the routers go on."""
        for device in self.world.devices:
            self.world.fault(device.name, **dict.fromkeys(cell.held))

    def _holds(self) -> int:
        happened = (one for device in self.world.devices for one in self.world.happened(device.name))
        return sum(one.startswith("held: ") for one in happened)

    def kill(self, cell: Cell) -> None:
        """Kill who is to be killed."""
        if SERVICE in cell.killed:
            self.services[-1].kill()
            self.services[-1].wait()
        if RUN in cell.killed:
            mark = read_mark(JobFolder.of(self.state, self.job().job_id).mark_file)
            assert mark is not None
            os.kill(mark.pid, signal.SIGKILL)

    def end(self) -> None:
        """End whatever a cell left."""
        for one in self.services:
            one.kill()
            one.wait()
        for job in self.jobs():
            mark = read_mark(JobFolder.of(self.state, job.job_id).mark_file)
            if mark is not None and mark.is_alive():
                os.kill(mark.pid, signal.SIGINT)


@contextmanager
def open_lab() -> Iterator[World]:
    """Start two routers at one site."""
    devices = tuple(DeviceSpec(name=f"r{number}") for number in (1, 2))
    with start_world(WorldSpec(sites=(SiteSpec(name="north", profile="lan", devices=devices),))) as world:
        yield world


def play(world: World, folder: Path, cell: Cell) -> Played:
    """Play a cell, and say what is not as it must be."""
    inventory = folder / "inventory"
    if not inventory.exists():
        write_inventory(world, inventory)
    ground = Ground(world, folder, inventory, cell.name)
    before = configurations(world)
    try:
        digest = ground.approved_plan()
        first = ground.serve()
        _until((ground.state / "service.lock").exists, "no service came up")
        if cell.is_asleep:
            _put_to_sleep(first, ground.state)
        ground.hold(cell)
        begin(ground.service, ground.maker, digest, reason=cell.name)
        _until(lambda: cell.is_now(ground), f"{cell.moment}: it never was so", pause_s=0.002)
        ground.kill(cell)
        ground.release(cell)
        killed_s = time.monotonic()
        if SERVICE in cell.killed:
            ground.serve()
        _until(lambda: _is_over(ground), "the jobs do not end")
        seconds = time.monotonic() - killed_s
        jobs = tuple((job.kind.value, job.state.value, job.exit_code) for job in ground.jobs())
        return Played(cell=cell, seconds=seconds, jobs=jobs, complaints=tuple(_complaints(ground, cell, before)))
    finally:
        ground.release(cell)
        ground.end()


def configurations(world: World) -> dict[str, tuple[str, ...]]:
    """Return running and startup configuration of all routers, without the stamps."""
    return {
        device.name: tuple(
            line
            for text in (world.running_config(device.name), world.startup_config(device.name))
            for line in text.splitlines()
            if not line.startswith(_STAMPS)
        )
        for device in world.devices
    }


def _put_to_sleep(service: subprocess.Popen[bytes], state: Path) -> None:
    """Stop the service at a moment at which it is not writing: nobody else could ask for a job then."""

    def is_stopped() -> bool:
        service.send_signal(signal.SIGSTOP)
        with closing(sqlite3.connect(state / FILE, timeout=0, isolation_level=None)) as probe:
            try:
                probe.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                service.send_signal(signal.SIGCONT)
                return False
            probe.execute("ROLLBACK")
            return True

    until(is_stopped, "a moment at which the service does not write", poll_s=0.05)


def _is_over(ground: Ground) -> bool:
    jobs = ground.jobs()
    return jobs[-1].state == "ended" and (jobs[-1].kind in ("stage", "resume") or jobs[-1].exit_code != 0)


def _complaints(ground: Ground, cell: Cell, before: dict[str, tuple[str, ...]]) -> Iterator[str]:
    jobs = [(job.kind.value, job.state.value, job.exit_code) for job in ground.jobs()]
    expected = [("stage", "ended", 0)]
    if RUN in cell.killed and cell.is_in_journal:
        expected = [("stage", "dead", None), ("recover", "ended", 0), ("resume", "ended", 0)]
    if jobs != expected:
        yield f"expected the jobs {expected}, found {jobs}: {[job.sentence for job in ground.jobs()]}"
    with reading(ground.state) as journal:
        runs = [] if journal is None else runs_by_age(journal)
    if len(runs) != 1:
        yield f"expected one run in the journal, found {runs}"
        return
    run = read_run(ground.state, runs[0][0])
    if {one.record.get("outcome") for one in run.devices} - {"done", "already there"} or len(run.devices) != 2:
        yield f"expected all routers done, found {[(one.host, one.record.get('outcome')) for one in run.devices]}"
    if any(one.is_held for one in run.devices):
        yield "a router is left in the run's hands"
    if configurations(ground.world) != before:
        yield "a router's configuration is not what it was"
    wanted = hashlib.sha512(ground.image.read_bytes()).hexdigest()
    for device in ground.world.devices:
        found = [file.path.read_bytes() for file in ground.world.files(device.name) if file.name == ground.image.name]
        if [hashlib.sha512(one).hexdigest() for one in found] != [wanted]:
            yield f"{device.name}: its image is not the image"
    yield from _told(ground, cell, expected)


def _told(ground: Ground, cell: Cell, expected: list[tuple[str, str, int | None]]) -> Iterator[str]:
    """Yield what is wrong with the audit, and with the events."""
    with ground.service.database.reading() as database:
        faults = verify(database).faults
        told = [one.entry.action for one in entries(database) if one.entry.action.startswith(("run.", "job."))]
    if faults:
        yield f"the audit is not whole: {faults}"
    asked = {"stage": "run.start", "recover": "run.recover", "resume": "run.resume"}
    ends = {"ended": "job.ended", "dead": "job.died"}
    wanted = [word for kind, state, _ in expected for word in (asked[kind], ends[state])]
    if not cell.is_in_journal:
        wanted.insert(1, "job.requeued")
    if told != wanted:
        yield f"expected {wanted} in the audit, found {told}"
    for job in ground.jobs():
        events = JobFolder.of(ground.state, job.job_id).events
        if events.exists() and job.state == "ended":
            numbers = [json.loads(line)["seq"] for line in events.read_text().splitlines()]
            if numbers != list(range(1, len(numbers) + 1)):
                yield f"{job.kind}: its events have holes or repeats"


def _until(is_so, sentence: str, *, pause_s: float = 0.05) -> None:
    until(is_so, sentence, poll_s=pause_s)
