"""One tool in one situation: a world of its own, the tool's script, and what is left on the device."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.lab.enter import inside
from flashferry.lab.experiment.peers.tools import Tool
from flashferry.lab.experiment.servers import running_vsftpd
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.lab.world_inventory import write_inventory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DRIVERS = Path(__file__).parent
_IMAGE = "image.bin"
_UNUSED_ADDRESS = "198.18.0.77"
"""An address of the core network that no host has: packets to it go nowhere, as with a server that is down."""
_KILL_AFTER_BYTES = 400_000
_POLL_S = 0.2
_AFTERWARDS_S = 3.0
"""Before a device is looked at: what a session that died still does there."""
_FAULTS: dict[str, dict[str, Any]] = {
    "full flash": {"flash_full": True},
    # The first piece is never written: the device takes a window's worth and then nothing.
    "stall": {"slow_flash_bytes_per_s": 1.0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a tool did in a situation.

    Attributes:
        tool: Its name.
        situation: One of `flashferry.lab.experiment.peers.tools.SITUATIONS`.
        seconds: Until it ended, or the ceiling.
        outcome: `ok`, `failed`, `killed`, or `still waiting` at the ceiling.
        said: What it said last, see `last_line`.
        lines_left: Configuration lines that differ from before: added and removed.
        recovered_lines: Those that differ after `flashferry recover`; None where it does not apply.
        link_bytes: What went over the link towards the site.
        is_there: Whether the image is on the flash, whole.
        part_bytes: Size of the broken image on the flash, 0 for none.
        processes_left: How many processes of a tool that was killed live on.
    """

    tool: str
    situation: str
    seconds: float
    outcome: str
    said: str
    lines_left: tuple[str, ...]
    recovered_lines: tuple[str, ...] | None = None
    link_bytes: int
    is_there: bool
    part_bytes: int = 0
    processes_left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Where a tool is played."""

    tool: Tool
    world: World
    image: Path
    python: Path | None
    ceiling_s: float

    @property
    def folder(self) -> Path:
        return self.image.parent.parent

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"FLASHFERRY_STATE_DIR": str(self.folder / "state"), "HOME": str(self.folder)}

    @property
    def carried_bytes(self) -> int:
        return int(self.world.link_counters()["to_site"]["delivered_bytes"])


def play(
    tool: Tool, situations: Sequence[str], *, python: Path | None, size_bytes: int, ceiling_s: float
) -> Iterator[Found]:
    """Run a tool in situations, one behind the other on the same device.

    Raises LabError: the lab cannot be built here.
    """
    lines = ("ip scp server enable",) if tool.needs_scp else ()
    spec = WorldSpec(devices=(DeviceSpec(name="xe", config_lines=lines),))
    with tempfile.TemporaryDirectory(prefix="flashferry-peers-") as name, start_world(spec) as world:
        folder = Path(name)
        folder.chmod(0o755)
        image = folder / "images" / _IMAGE
        image.parent.mkdir(mode=0o755)
        image.write_bytes(random.Random(1).randbytes(size_bytes))  # noqa: S311 - the same bytes every time
        stage = _Stage(tool=tool, world=world, image=image, python=python, ceiling_s=ceiling_s)
        with in_core(world), running_vsftpd(image.parent, world.server_address):
            for situation in situations:
                yield _observed(stage, situation)


def _observed(stage: _Stage, situation: str) -> Found:
    world = stage.world
    if situation in _FAULTS:
        world.fault("xe", **_FAULTS[situation])
    command = _command(stage, situation)
    before, carried = world.running_config("xe"), stage.carried_bytes
    started_s = time.monotonic()
    with tempfile.TemporaryFile("w+") as shown, tempfile.TemporaryFile("w+") as asked:
        json.dump(_asked(stage, situation), asked)
        asked.seek(0)
        process = subprocess.Popen(
            command, stdin=asked, stdout=shown, stderr=subprocess.STDOUT, env=stage.environment, start_new_session=True
        )
        outcome = _watched(process, situation, stage, carried + _KILL_AFTER_BYTES)
        seconds = time.monotonic() - started_s
        time.sleep(_AFTERWARDS_S)
        left_over = _end_group(process.pid)
        shown.seek(0)
        said = last_line(shown.read())
    sizes = [file.size_bytes for file in world.files("xe") if file.name == _IMAGE]
    is_there = _has_image(stage)
    lines = _changed(before, world.running_config("xe"))
    return Found(
        tool=stage.tool.name, situation=situation, seconds=seconds, outcome=outcome,
        said=said,
        lines_left=lines, recovered_lines=_recovered(stage, before) if outcome == "killed" else None,
        link_bytes=stage.carried_bytes - carried,
        is_there=is_there, part_bytes=0 if is_there else sum(sizes), processes_left=left_over,
    )  # fmt: skip


def last_line(printed: str) -> str:
    """Return the device's last error in what a tool printed, else its last line; without credentials.

    Where to find our report is no last word.
    """
    errors = re.findall(r"%Error [^\\'\"\n]*", printed)
    lines = errors or [line.strip() for line in printed.splitlines() if line.strip() and not line.startswith("report:")]
    return re.sub(r"://[^@\s]*@", "://*:*@", lines[-1].strip())[:200] if lines else ""


def _watched(process: subprocess.Popen[Any], situation: str, stage: _Stage, kill_at_bytes: int) -> str:
    """Do to a running tool what the situation says; return how it ended."""
    deadline_s = time.monotonic() + stage.ceiling_s
    while process.poll() is None:
        is_late = time.monotonic() > deadline_s
        if is_late or (situation == "kill -9" and stage.carried_bytes > kill_at_bytes):
            process.kill()
            process.wait()
            return "still waiting" if is_late else "killed"
        time.sleep(_POLL_S)
    return "failed" if process.returncode else "ok"


def _end_group(group: int) -> int:
    """End what a tool left running; return how many processes that was."""
    count = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
            count += int(its_group) == group and state != "Z"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return count


def _has_image(stage: _Stage) -> bool:
    requested = stage.image.read_bytes()
    return any(file.name == _IMAGE and file.path.read_bytes() == requested for file in stage.world.files("xe"))


def _recovered(stage: _Stage, before: str) -> tuple[str, ...] | None:
    """Run our `recover` after a kill; return the lines that differ then. Other tools have none."""
    if stage.tool.driver:
        return None
    subprocess.run(
        [*_flashferry(stage), "recover", "--inventory", str(stage.folder / "inventory")],
        capture_output=True, timeout=stage.ceiling_s, check=False, env=stage.environment,
    )  # fmt: skip
    return _changed(before, stage.world.running_config("xe"))


def _command(stage: _Stage, situation: str) -> list[str]:
    if stage.tool.driver:
        return [*inside(stage.world.core_pid), str(stage.python), str(_DRIVERS / stage.tool.driver)]
    inventory = stage.folder / "inventory"
    if not inventory.exists():
        write_inventory(stage.world, inventory)
    address = ("--address", _UNUSED_ADDRESS) if situation == "unreachable" else ()
    return [*_flashferry(stage), "stage", "--inventory", str(inventory), "--image", str(stage.image), *address]


def _asked(stage: _Stage, situation: str) -> dict[str, Any]:
    """Return the input of a script, see this package; ours takes no notice."""
    world = stage.world
    server = _UNUSED_ADDRESS if situation == "unreachable" else world.server_address
    device = world.devices[0]
    return {
        "device": device.name,
        "host": device.address,
        "port": device.port,
        "username": device.username,
        "password": device.password,
        "secret": device.enable_secret,
        "server": world.server_address,
        "server_for_device": server,
        "url": f"ftp://anonymous:peers@{server}/{_IMAGE}",
        "path": str(stage.image),
        "name": _IMAGE,
        "file_system": "bootflash:",
    }


def _flashferry(stage: _Stage) -> list[str]:
    return [*inside(stage.world.core_pid), sys.executable, "-P", "-m", "flashferry"]


def _changed(before: str, after: str) -> tuple[str, ...]:
    """Return the lines that differ, with + or - before them; the stamp of the last change is no line."""
    old, new = ([row for row in text.splitlines() if not row.startswith("!")] for text in (before, after))
    return tuple(
        row
        for row in difflib.unified_diff(old, new, lineterm="", n=0)
        if not row.startswith(("+++", "---", "@@", "+Current configuration", "-Current configuration"))
    )
