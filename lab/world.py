"""A world: devices at a site, behind a WAN link, reached from the core namespace.

Two helper processes carry it: the stand-ins, in the site's namespace, and the link, in the core's. Both end
with the process that started the world, however it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.control import ask
from lab.errors import LabError
from lab.namespaces import in_namespace, probe
from lab.standin.device import check_lines
from lab.standin.platform import load_platform
from lab.state import LabState, started_ticks
from lab.world_spec import SERVER_ADDRESS, SITE_NETWORK, DeviceAccess, DeviceSpec, WorldSpec, addressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.link import LinkProfile

__all__ = ["DeviceAccess", "DeviceSpec", "FlashFile", "World", "WorldSpec", "in_core", "start_world"]

FULL_RUNG = "namespaces with an emulated WAN"
_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 3.0
_DIRECTORY_PREFIX = "flashferry-lab-"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashFile:
    """A file on a device's flash; ``path`` is where the host keeps it."""

    name: str
    size_bytes: int
    path: Path


class _Helper:
    """A helper process: settings in, JSON lines out."""

    def __init__(self, module: str, settings: dict[str, Any], log: Path) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        self.tell(settings)

    def tell(self, values: dict[str, Any]) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(values).encode() + b"\n")
            self.process.stdin.flush()

    def hear(self) -> None:
        """Wait for the next report.

        Raises:
            LabError: It reports an error, ended, or took too long.
        """
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], (), (), _START_TIMEOUT_S)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line:
            tail = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
            last = tail.strip().rpartition("\n")[2] or "it gave no reason"
            raise LabError(f"A lab process did not start: {last}.")
        report = json.loads(line)
        if "error" in report:
            raise LabError(report["error"])

    def stop(self) -> None:
        """End the process: politely by closing its pipe, then by signal."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A running world.

    Attributes:
        rung: What is emulated, in words; figures from a lower rung must be labelled with it.
        profile: The link's profile at the start.
        server_address: The core's address, where a server for the devices listens.
        devices: How to reach the devices.
        core_pid: A live process in the core namespace.
    """

    rung: str
    profile: LinkProfile
    server_address: str
    devices: tuple[DeviceAccess, ...]
    core_pid: int
    directory: Path

    def running_config(self, name: str) -> str:
        """Return a device's running configuration, from the stamp to ``end``, behind SSH's back."""
        return str(self._device("running", name)["text"])

    def startup_config(self, name: str) -> str:
        """Return a device's startup configuration."""
        return str(self._device("startup", name)["text"])

    def files(self, name: str) -> tuple[FlashFile, ...]:
        """Return the files on a device's flash."""
        rows = self._device("files", name)["files"]
        return tuple(FlashFile(name=row[0], size_bytes=row[1], path=Path(row[2])) for row in rows)

    def fault(self, name: str, **switches: Any) -> None:
        """Switch faults of a device; see `lab.standin.faults.Faults`.

        Raises:
            LabError: There is no such device or fault.
        """
        self._device("fault", name, switches=switches)

    def link_counters(self) -> dict[str, Any]:
        """Return the link's counters in each direction, and its present profile."""
        return ask(self.directory / "link.sock", {"do": "counters"})

    def set_link(self, **changes: Any) -> None:
        """Change the link while it runs, for example ``loss_ratio=0.001`` or ``to_site={"delay_s": 0.1}``.

        Raises:
            LabError: There is no such setting.
        """
        ask(self.directory / "link.sock", {"do": "set", "changes": changes})

    def state(self) -> LabState:
        """Return what `lab.state.write_state` records of this world."""
        return LabState(
            pid=os.getpid(),
            started_ticks=started_ticks(os.getpid()) or 0,
            core_pid=self.core_pid,
            server_address=self.server_address,
            profile=self.profile.name,
            rung=self.rung,
            devices=self.devices,
        )

    def _device(self, do: str, name: str, **more: Any) -> dict[str, Any]:
        return ask(self.directory / "devices.sock", {"do": do, "name": name, **more})


@contextlib.contextmanager
def start_world(spec: WorldSpec | None = None) -> Iterator[World]:
    """Start a world, and end it with the with block.

    Raises:
        LabError: It cannot be built here; the sentence says why.
    """
    spec = spec or WorldSpec()
    devices = addressed(spec.devices)
    profile = spec.link_profile()
    check_devices(spec.devices)
    able = probe()
    if not able.may_run:
        raise LabError(able.reason)
    sweep_leftovers()
    directory = Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY_PREFIX}{os.getpid()}-{started_ticks(os.getpid())}-"))
    helpers: list[_Helper] = []
    try:
        core_pid = _start(helpers, spec, devices, profile, directory)
        yield World(
            rung=FULL_RUNG, profile=profile, server_address=SERVER_ADDRESS, devices=devices,
            core_pid=core_pid, directory=directory,
        )  # fmt: skip
    finally:
        for helper in reversed(helpers):
            helper.stop()
        shutil.rmtree(directory, ignore_errors=True)


def check_devices(devices: Iterable[DeviceSpec]) -> None:
    """Refuse what a device could not start with, before any process is started.

    Raises:
        LabError: A platform or a configuration line is not known; it is named.
    """
    for spec in devices:
        load_platform(spec.platform)
        check_lines(spec.name, spec.config_lines)


@contextlib.contextmanager
def in_core(world: World) -> Iterator[None]:
    """Put the calling thread, and threads it starts, into the world's core namespace for a with block."""
    with in_namespace(world.core_pid):
        yield


def sweep_leftovers() -> None:
    """Remove directories of worlds whose owner is gone and whose helpers could not tidy up."""
    for path in Path(tempfile.gettempdir()).glob(f"{_DIRECTORY_PREFIX}*"):
        words = path.name.removeprefix(_DIRECTORY_PREFIX).split("-")
        if len(words) >= 2 and words[0].isdecimal() and str(started_ticks(int(words[0]))) != words[1]:
            shutil.rmtree(path, ignore_errors=True)


def _start(
    helpers: list[_Helper], spec: WorldSpec, devices: tuple[DeviceAccess, ...],
    profile: LinkProfile, directory: Path,
) -> int:  # fmt: skip
    """Start both helpers and return the pid of the one in the core."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    life = {"owner_pid": os.getpid(), "tie_to_thread": in_main_thread}
    standins = _Helper("lab.standin", life | {
        "directory": str(directory),
        "control": str(directory / "devices.sock"),
        "devices": [_settings(own, access) for own, access in zip(spec.devices, devices, strict=True)],
    }, directory / "devices.log")  # fmt: skip
    helpers.append(standins)
    standins.hear()
    link = _Helper("lab.relay", life | {
        "control": str(directory / "link.sock"),
        "site_pid": standins.process.pid,
        "site_addresses": [f"{access.address}/32" for access in devices],
        "core_address": f"{SERVER_ADDRESS}/32",
        "site_network": str(SITE_NETWORK),
        "profile": profile.as_json(),
        "seed": spec.seed,
    }, directory / "link.log")  # fmt: skip
    helpers.append(link)
    link.hear()
    standins.tell({"link_is_up": True})
    standins.hear()
    return link.process.pid


def _settings(spec: DeviceSpec, access: DeviceAccess) -> dict[str, Any]:
    """Return the settings of `lab.standin.device.DeviceSettings`, with the platform's name."""
    return asdict(spec) | {"address": access.address}
