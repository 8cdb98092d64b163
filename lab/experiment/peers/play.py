"""One tool in one situation: a world of its own, the tool's script, and what is left on the device."""

from __future__ import annotations

import difflib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.experiment.servers import running_vsftpd
from lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from lab.world_inventory import write_inventory

if TYPE_CHECKING:
    from collections.abc import Sequence

_DRIVERS = Path(__file__).parent
_IMAGE = "image.bin"
_NOBODY = "198.18.0.77"
"""An address of the core network that nobody has: packets to it go nowhere, as with a server that is down."""
_UNDER_WAY_BYTES = 400_000
_LOOK_S = 0.2
SITUATIONS = ("success", "already there", "kill -9", "unreachable", "full flash", "stall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool.

    Attributes:
        name: As the table calls it.
        driver: Its script beside this file; empty for ours, which is driven by its command line.
        module: What must be importable in its environment.
        needs_scp: Whether the device must accept SCP, which its operator has then configured before.
        pulls: Whether the device fetches from a server, which can be unreachable.
    """

    name: str
    driver: str = ""
    module: str = ""
    needs_scp: bool = False
    pulls: bool = True


TOOLS = (
    Tool(name="flashferry"),
    Tool(name="Nornir + netmiko, copy ftp:", driver="driver_netmiko_pull.py", module="nornir_netmiko"),
    Tool(name="netmiko SCP push", driver="driver_netmiko_scp.py", module="netmiko", needs_scp=True, pulls=False),
    Tool(name="pyntc", driver="driver_pyntc.py", module="pyntc"),
    Tool(name="pyATS file server", driver="driver_pyats.py", module="genie.libs.filetransferutils", pulls=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a tool did in a situation.

    Attributes:
        tool: Its name.
        situation: One of `SITUATIONS`.
        seconds: Until it ended, or the ceiling.
        outcome: `ok`, `failed`, `killed`, or `still waiting` at the ceiling.
        said: The last line it printed.
        lines_left: Configuration lines that differ from before: added and removed.
        link_bytes: What went over the link towards the site.
        is_there: Whether the image is on the flash, whole.
    """

    tool: str
    situation: str
    seconds: float
    outcome: str
    said: str
    lines_left: tuple[str, ...]
    link_bytes: int
    is_there: bool


def available(tool: Tool, python: Path | None) -> bool:
    """Tell whether a tool is installed in the peers' environment; ours is here."""
    if not tool.driver:
        return True
    if python is None or not python.exists():
        return False
    return (
        subprocess.run([str(python), "-c", f"import {tool.module}"], capture_output=True, check=False).returncode == 0
    )


def play(tool: Tool, situation: str, *, python: Path | None, size_bytes: int, ceiling_s: float) -> Found:
    """Run a tool in a situation.

    Raises:
        LabError: The lab cannot be built here.
    """
    lines = ("ip scp server enable",) if tool.needs_scp else ()
    spec = WorldSpec(devices=(DeviceSpec(name="xe", config_lines=lines),))
    with tempfile.TemporaryDirectory(prefix="flashferry-peers-") as name, start_world(spec) as world:
        folder = Path(name)
        folder.chmod(0o755)
        image = folder / "images" / _IMAGE
        image.parent.mkdir(mode=0o755)
        image.write_bytes(random.Random(1).randbytes(size_bytes))  # noqa: S311 - the same bytes every time
        with in_core(world), running_vsftpd(image.parent, world.server_address):
            command = _command(tool, situation, world, image, python)
            if situation == "already there" and _run(command, folder, ceiling_s) is not None:
                raise LabError(f"{tool.name}: the first copy did not succeed, so there is nothing to repeat.")
            return _observed(tool, situation, world, command, image, ceiling_s)


def _observed(tool: Tool, situation: str, world: World, command: Sequence[str], image: Path, ceiling_s: float) -> Found:
    if situation == "full flash":
        world.fault("xe", flash_full=True)
    if situation == "stall":
        # The first piece is never written: the device takes a window's worth and then nothing.
        world.fault("xe", slow_flash_bytes_per_s=1.0)
    before, carried = world.running_config("xe"), _carried(world)
    started_s = time.monotonic()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(
            command, stdout=told, stderr=subprocess.STDOUT, env=_environment(image.parent.parent)
        )
        outcome = _watched(process, situation, world, carried, started_s + ceiling_s)
        seconds = time.monotonic() - started_s
        told.seek(0)
        last = [line.strip() for line in told.read().splitlines() if line.strip()]
    time.sleep(1)  # what a dying session still does on the device
    return Found(
        tool=tool.name,
        situation=situation,
        seconds=seconds,
        outcome=outcome,
        said=last[-1][:200] if last else "",
        lines_left=_changed(before, world.running_config("xe")),
        link_bytes=_carried(world) - carried,
        is_there=any(
            file.name == _IMAGE and file.path.read_bytes() == image.read_bytes() for file in world.files("xe")
        ),
    )


def _watched(process: subprocess.Popen[Any], situation: str, world: World, carried: int, deadline_s: float) -> str:
    """Do to a running tool what the situation says; return how it ended."""
    while process.poll() is None:
        if time.monotonic() > deadline_s:
            process.kill()
            process.wait()
            return "still waiting"
        if situation == "kill -9" and _carried(world) - carried > _UNDER_WAY_BYTES:
            process.kill()
            process.wait()
            return "killed"
        time.sleep(_LOOK_S)
    return "failed" if process.returncode else "ok"


def _command(tool: Tool, situation: str, world: World, image: Path, python: Path | None) -> list[str]:
    inside = [sys.executable, "-P", "-m", "lab.enter", str(world.core_pid), "--"]
    if not tool.driver:
        inventory = write_inventory(world, image.parent.parent / "inventory")
        address = ("--server-address", _NOBODY) if situation == "unreachable" else ()
        verb = ["stage", "--inventory", str(inventory), "--image", str(image), *address]
        return [*inside, sys.executable, "-P", "-m", "flashferry", *verb]
    device = world.devices[0]
    server = _NOBODY if situation == "unreachable" else world.server_address
    asked = {
        "device": device.name,
        "host": device.address,
        "port": device.port,
        "username": device.username,
        "password": device.password,
        "secret": device.enable_secret,
        "server": server,
        "url": f"ftp://anonymous:peers@{server}/{_IMAGE}",
        "path": str(image),
        "name": _IMAGE,
        "file_system": "bootflash:",
    }
    return [*inside, str(python), str(_DRIVERS / tool.driver), json.dumps(asked)]


def _run(command: Sequence[str], folder: Path, ceiling_s: float) -> str | None:
    """Run a tool to its end; return what it said where it failed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=ceiling_s, check=False, env=_environment(folder)
    )  # fmt: skip
    return None if done.returncode == 0 else (done.stdout + done.stderr)[-300:]


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"FLASHFERRY_STATE_DIR": str(folder / "state"), "HOME": str(folder)}


def _carried(world: World) -> int:
    return int(world.link_counters()["to_site"]["delivered_bytes"])


def _changed(before: str, after: str) -> tuple[str, ...]:
    """Return the lines that differ, with + or - before them; the stamp of the last change is no line."""
    old, new = ([row for row in text.splitlines() if not row.startswith("!")] for text in (before, after))
    return tuple(
        row
        for row in difflib.unified_diff(old, new, lineterm="", n=0)
        if not row.startswith(("+++", "---", "@@", "+Current configuration", "-Current configuration"))
    )
