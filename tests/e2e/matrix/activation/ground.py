"""Where cells of the activation's matrix are played: a world with a router for each, and a nursery of processes."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from flashferry.lab.world import DeviceAccess, DeviceSpec, Rung, World, WorldSpec, start_world
from tests.e2e.matrix import forks
from tests.e2e.matrix.activation.cells import STARTS, Cell, Job
from tests.e2e.matrix.activation.finding import Truth
from tests.e2e.matrix.finding import Configurations, Ending
from tests.e2e.matrix.ground import unstamped

IMAGE_BYTES = 60_000


class Ground:
    """A world in which every cell has a router of its own."""

    def __init__(self, world: World, folder: Path, routers: dict[str, DeviceAccess]) -> None:
        self.world, self.folder = world, folder
        self.control = next(world.directory.glob("devices-0.sock"))
        self.nursery = folder / "nursery.sock"
        self._routers = routers
        content = os.urandom(IMAGE_BYTES)
        for start in STARTS.values():
            (folder / start.image).write_bytes(content)

    def router_of(self, cell: Cell) -> DeviceAccess:
        """Return a cell's router."""
        return self._routers[cell.name]

    def truth(self, name: str) -> Truth:
        """Return what a device is, by the lab's own eyes."""
        world = self.world
        configurations = Configurations(
            running=unstamped(world.running_config(name)), startup=unstamped(world.startup_config(name))
        )
        return Truth(
            configurations=configurations,
            runs=world.runs(name),
            packages=world.packages(name),
            happened=world.happened(name),
        )

    def play(self, job: Job) -> Ending:
        """Have a process do a job, and return how it ended."""
        return forks.play(self.nursery, job)


@contextlib.contextmanager
def open_ground(cells: tuple[Cell, ...], folder: Path) -> Iterator[Ground]:
    """Start a world with a router for each cell, and the nursery."""
    password, enable_secret = (f"{word}{secrets.token_hex(6)}" for word in ("Login", "Enable"))
    names = {cell.name: f"a{number}" for number, cell in enumerate(cells)}
    specs = tuple(
        DeviceSpec(
            name=names[cell.name], platform=cell.start.platform, config_lines=cell.start.config_lines,
            password=password, enable_secret=enable_secret,
        )
        for cell in cells
    )  # fmt: skip
    with start_world(WorldSpec(profile="lan", devices=specs), rung=Rung.FULL) as world:
        accesses = {access.name: access for access in world.devices}
        ground = Ground(world, folder, {cell: accesses[name] for cell, name in names.items()})
        with forks.nursery(world, ground.nursery, "tests.e2e.matrix.activation.acts"):
            yield ground
