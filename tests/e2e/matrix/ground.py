"""Where cells are played: one world of many routers, and a nursery of processes in its core namespace."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flashferry.lab.authority import Authority, ServerCertificate
from flashferry.lab.world import DeviceAccess, DeviceSpec, Rung, World, WorldSpec, start_world
from tests.e2e.matrix import forks
from tests.e2e.matrix.cells import ALL_STARTS, IMAGE_NAME, RELEASE, RELEASE_NAME, Cell, Job, Start
from tests.e2e.matrix.faults import IMAGE_BYTES
from tests.e2e.matrix.finding import Box, Configurations, Ending

_STAMPS = ("! Last configuration change at", "! NVRAM config last updated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A router that no cell has used yet."""

    access: DeviceAccess
    flash_file: Path
    member_files: tuple[Path, ...]


class Ground:
    """A world with routers of each kind; every cell takes one for itself."""

    def __init__(
        self, world: World, folder: Path, routers: dict[Start, list[str]], certificate: ServerCertificate
    ) -> None:
        self.world = world
        self.folder = folder
        self.certificate = certificate
        content = os.urandom(IMAGE_BYTES)
        for name in (IMAGE_NAME, RELEASE_NAME):
            (folder / name).write_bytes(content)
        self.md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        self.control = next(world.directory.glob("devices-0.sock"))
        self._routers = routers
        self._accesses = {access.name: access for access in world.devices}
        self._lock = threading.Lock()
        self.nursery = folder / "nursery.sock"

    def router_for(self, cell: Cell) -> Router:
        """Return a fresh router of the kind that a cell wants."""
        with self._lock:
            name = self._routers[cell.start].pop()
        flashes = self.world.flashes(name)
        own, *others = ((prefix, root / cell.image_name) for prefix, root in flashes.items())
        members = (file for prefix, file in others if prefix.startswith("flash-") or prefix == f"stby-{own[0]}")
        return Router(access=self._accesses[name], flash_file=own[1], member_files=tuple(members))

    def box(self, router: Router) -> Box:
        """Return where in the box the image is, by the lab's own eyes."""
        packages = self.world.packages(router.access.name)
        return Box(
            image_is_right=self._is_right(router.flash_file),
            members_are_right=tuple(self._is_right(file) for file in router.member_files),
            is_added=any(version.startswith(f"{RELEASE}.") and state == "I" for version, state in packages.items()),
        )

    def _is_right(self, file: Path) -> bool | None:
        try:
            return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest() == self.md5
        except FileNotFoundError:
            return None

    def configurations(self, router: Router) -> Configurations:
        """Return a router's configurations, by the lab's own eyes."""
        name = router.access.name
        return Configurations(
            running=unstamped(self.world.running_config(name)), startup=unstamped(self.world.startup_config(name))
        )

    def strays(self) -> list[str]:
        """Return what still runs of the processes that killed runs had started."""
        namespace = Path(f"/proc/{self.world.core_pid}/ns/net").readlink()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if "ftpserver" in line and (process / "ns/net").readlink() == namespace:
                    found.append(line)
        return found

    def play(self, job: Job) -> Ending:
        """Have a process do a job, and return how it ended."""
        return forks.play(self.nursery, job)


@contextlib.contextmanager
def open_ground(cells: tuple[Cell, ...], folder: Path) -> Iterator[Ground]:
    """Start a world with a router for each cell, and the nursery."""
    password, enable_secret = (f"{word}{secrets.token_hex(6)}" for word in ("Login", "Enable"))
    routers: dict[Start, list[str]] = defaultdict(list)
    specs = []
    authority = Authority()
    for number, cell in enumerate(cells):
        kind = ALL_STARTS.index(cell.start)
        name = f"m{kind}-{number}"
        routers[cell.start].append(name)
        specs.append(
            DeviceSpec(
                name=name, platform=cell.start.platform, config_lines=cell.start.config_lines,
                password=password, enable_secret=enable_secret,
                trustpoints=(("LAB-CA", authority.pem),) if cell.start.trusts_us else (),
            )
        )  # fmt: skip
    spec = WorldSpec(profile="lan", devices=tuple(specs))
    with start_world(spec, rung=Rung.FULL) as world:
        certificate = authority.issue(folder, (world.server_address,))
        ground = Ground(world, folder, routers, certificate)
        with forks.nursery(world, ground.nursery, "tests.e2e.matrix.acts"):
            yield ground


def unstamped(configuration: str) -> tuple[str, ...]:
    """Return a configuration's lines without the stamps."""
    return tuple(line.rstrip() for line in configuration.splitlines() if not line.startswith(_STAMPS))
