"""Where cells are played: one world of many routers, and a nursery of processes in its core namespace."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from flashferry.lab.authority import Authority, ServerCertificate
from flashferry.lab.world import DeviceAccess, DeviceSpec, Rung, World, WorldSpec, start_world
from tests.e2e.matrix.cells import ALL_STARTS, Cell, Job, Start
from tests.e2e.matrix.faults import IMAGE_BYTES
from tests.e2e.matrix.finding import Configurations, Ending

IMAGE_NAME = "image.bin"
_STAMPS = ("! Last configuration change at", "! NVRAM config last updated")
_LONGEST_ACT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A router that no cell has used yet."""

    access: DeviceAccess
    flash_file: Path


class Ground:
    """A world with routers of each kind; every cell takes one for itself."""

    def __init__(
        self, world: World, folder: Path, routers: dict[Start, list[str]], certificate: ServerCertificate
    ) -> None:
        self.world = world
        self.folder = folder
        self.certificate = certificate
        self.image = folder / IMAGE_NAME
        self.image.write_bytes(os.urandom(IMAGE_BYTES))
        self.md5 = hashlib.md5(self.image.read_bytes(), usedforsecurity=False).hexdigest()
        self.control = next(world.directory.glob("devices-0.sock"))
        self._routers = routers
        self._accesses = {access.name: access for access in world.devices}
        self._lock = threading.Lock()
        self._socket = folder / "nursery.sock"

    def router_for(self, cell: Cell) -> Router:
        """Return a fresh router of the kind that a cell wants."""
        with self._lock:
            name = self._routers[cell.start].pop()
        flash = self.world.files(name)[0].path.parent
        return Router(access=self._accesses[name], flash_file=flash / IMAGE_NAME)

    def configurations(self, router: Router) -> Configurations:
        """Return a router's configurations, by the lab's own eyes."""
        name = router.access.name
        return Configurations(
            running=_lines(self.world.running_config(name)), startup=_lines(self.world.startup_config(name))
        )

    @contextlib.contextmanager
    def nursery(self) -> Iterator[None]:
        """Have processes forked for as long as the block runs."""
        command = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(self.world.core_pid), "--"]
        command += [sys.executable, "-P", "-m", "tests.e2e.matrix.nursery", str(self._socket)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == b"ready\n", "the nursery did not start"
                yield
            finally:
                process.stdin.close()

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
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            connection.sendall(json.dumps(asdict(job), default=str).encode() + b"\n")
            stream = connection.makefile("rb")
            pid = int(stream.readline())
            if not select.select([connection], (), (), _LONGEST_ACT_S)[0]:
                os.kill(pid, 9)
                return Ending.CRASHED
            return Ending(stream.readline().decode().strip() or Ending.KILLED)


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
        with ground.nursery():
            yield ground


def _lines(configuration: str) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in configuration.splitlines() if not line.startswith(_STAMPS))
