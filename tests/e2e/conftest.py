"""The whole tool on the lab, driven as a person does: by its command line, in front of the emulated WAN."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from netmiko import ConnectHandler
from ruamel.yaml import YAML

from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from tests.patience import until

DEVICE = "xe1"
HELD_BYTES = 100_000
IMAGE_BYTES = 300_000
"""Of an image whose copy is held: all of it fits into the device's window, so the product waits two minutes."""
LARGE_IMAGE_BYTES = 4_000_000
"""Of an image that does not fit into it: the server still has some to send while the copy is held."""


@dataclass(frozen=True)
class Done:
    """A command that ended: exit code and all that it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Return the JSON document on standard output."""
        return json.loads(self.out)


class Rig:
    """A world, an inventory for it, and a place for journals and images."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.state = folder / "state"
        self.inventory = folder / "inventory"
        self.inventory.mkdir()
        self.secrets: set[str] = set()
        self.environment: dict[str, str] = {}
        self.write_inventory()

    def write_inventory(self, **changes: Any) -> None:
        """Write an inventory of the world's devices; `changes` override keys of the first host."""
        hosts = {}
        for one in self.world.devices:
            hosts[one.name] = {
                "hostname": one.address,
                "platform": "ios",
                "username": one.username,
                "password": one.password,
                "data": {"enable_secret": one.enable_secret, "link_rate_bps": 50_000_000, "cap_share": 0.98},
            }
            self.secrets |= {one.password, one.enable_secret}
        hosts[self.world.devices[0].name] |= changes
        YAML().dump(hosts, self.inventory / "hosts.yaml")

    def image(self, size_bytes: int, name: str = "image.bin") -> Path:
        """Return a new file of random bytes."""
        path = self.folder / name
        path.write_bytes(os.urandom(size_bytes))
        return path

    @contextmanager
    def started(self, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
        """Start flashferry in the core namespace, in a process group that ends with the block."""
        inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(self.world.core_pid), "--"]
        command = [sys.executable, "-P", "-m", "flashferry", *map(str, arguments)]
        process = subprocess.Popen(
            inside + command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
            env=os.environ | {"FLASHFERRY_STATE_DIR": str(self.state)} | self.environment,
        )
        try:
            with process:
                try:
                    yield process
                finally:
                    # Also where the block failed: most verbs would not end by themselves, and it is waited for.
                    process.kill()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def run(self, *arguments: str | Path) -> Done:
        """Run flashferry to its end."""
        with self.started(*arguments) as process:
            out, err = process.communicate(timeout=180)
        return Done(code=process.returncode, out=out, err=err)

    def verb(self, verb: str, *arguments: str | Path) -> Done:
        """Run a verb over the rig's inventory, with `--json`; what fails is not tried again unless that is asked."""
        once = ("--retries", "0") if verb == "stage" else ()
        return self.run(verb, "--inventory", self.inventory, "--json", *once, *arguments)

    @staticmethod
    def until(condition: Callable[[], bool]) -> bool:
        """Wait until a condition is true; return that it is."""
        return until(condition, "what the test waits for")

    def hold_copies(self, *names: str, at_bytes: int = HELD_BYTES) -> None:
        """Hold every copy to devices, the first one's unless named, once it has brought so many bytes."""
        for name in names or (self.world.devices[0].name,):
            self.world.fault(name, hold_copy_at_bytes=at_bytes)

    def until_held(self, *names: str, times: int = 1) -> None:
        """Wait until a copy to each device, the first one unless named, is held for the n-th time in the test."""
        for name in names or (self.world.devices[0].name,):
            until(lambda name=name: len(self.held(name)) >= times, lambda name=name: f"hold {times} of {name}")

    def held(self, name: str) -> list[str]:
        """Return what has been held on a device since the world began."""
        return [one for one in self.world.happened(name) if one.startswith("held: ")]

    def release(self, *names: str) -> None:
        """Release what is held on devices, the first one unless named, and hold nothing more."""
        for name in names or (self.world.devices[0].name,):
            self.world.fault(name, hold_copy_at_bytes=None, hold_command_pattern=None, hold_boot=False)

    def configure_by_hand(self, *lines: str) -> None:
        """Change the first device's configuration in an SSH session of its own, as a colleague would."""
        one = self.world.devices[0]
        with in_core(self.world):
            session = ConnectHandler(
                device_type="cisco_ios", host=one.address, username=one.username, password=one.password
            )
            session.send_config_set(lines)
            session.disconnect()

    def shown_by_hand(self, command: str) -> str:
        """Return what the first device prints to a command in an SSH session of its own, as a colleague sees it."""
        one = self.world.devices[0]
        with in_core(self.world):
            session = ConnectHandler(
                device_type="cisco_ios", host=one.address, username=one.username, password=one.password
            )
            shown = session.send_command(command)
            session.disconnect()
        return str(shown)

    def configurations(self) -> tuple[str, str]:
        """Return running and startup configuration as the lab sees them, without the stamps."""
        name = self.world.devices[0].name
        return unstamped(self.world.running_config(name)), unstamped(self.world.startup_config(name))

    def flash_md5(self, name: str) -> str | None:
        """Return the MD5 of a file on the device's flash, or None."""
        for file in self.world.files(self.world.devices[0].name):
            if file.name == name:
                return hashlib.md5(file.path.read_bytes(), usedforsecurity=False).hexdigest()
        return None

    def flash_bytes(self, name: str) -> int:
        """Return the size of a file on the device's flash; 0 where there is none."""
        return next((file.size_bytes for file in self.world.files(DEVICE) if file.name == name), 0)


def unstamped(text: str) -> str:
    stamps = ("! Last configuration change at", "! NVRAM config last updated", "Current configuration :", "Using ")
    return "\n".join(line.rstrip() for line in text.splitlines() if not line.startswith(stamps))


@contextmanager
def open_rig(folder: Path, profile: str = "lan", **spec: Any) -> Iterator[Rig]:
    """Start a world of one router behind a link and yield a rig for it."""
    device = DeviceSpec(name=DEVICE, **spec)
    with start_world(WorldSpec(devices=(device,), profile=profile)) as world:
        yield Rig(world, folder)


@pytest.fixture
def new_rig(tmp_path: Path) -> Callable[..., AbstractContextManager[Rig]]:
    """Start a router with settings of the test's own: keys of a DeviceSpec."""
    return partial(open_rig, tmp_path)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A fresh router with default TCP settings on a LAN; its dialogue costs no round trips."""
    with open_rig(tmp_path) as opened:
        yield opened


@pytest.fixture
def wan_rig(tmp_path: Path) -> Iterator[Rig]:
    """A fresh router with default TCP settings behind the published WAN."""
    with open_rig(tmp_path, profile="published") as opened:
        yield opened


@pytest.fixture
def held_rig(rig: Rig) -> Rig:
    """A router that holds each copy at `HELD_BYTES` until `Rig.release`."""
    rig.hold_copies()
    return rig
