"""The tools that are compared, and whether they are installed."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from flashferry.lab.enter import inside
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.harness import markdown
from flashferry.lab.experiment.servers import running_vsftpd
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.lab.world_spec import write_inventory

SITUATIONS = ("success", "already there", "kill -9", "unreachable", "full flash", "stall")
"""What a tool is put into; the first two are played on one device, one behind the other."""

_ASK = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool.

    `driver`: Its script beside this file; empty for ours. `needs_scp`: Whether the device must accept SCP beforehand.
    `patience`: How long it waits for a copy, in words, and who chose that.
    """

    name: str
    driver: str = ""
    packages: tuple[str, ...] = ()
    needs_scp: bool = False
    patience: str = ""

    @property
    def situations(self) -> tuple[str, ...]:
        """What it can be put into: a push has no server that could be unreachable."""
        return tuple(each for each in SITUATIONS if not (self.needs_scp and each == "unreachable"))


TOOLS = (
    Tool(name="flashferry", patience="60 s without progress, of each try"),
    Tool(
        name="Nornir + netmiko, copy ftp:", driver="driver_netmiko_pull.py",
        packages=("nornir", "nornir-netmiko", "netmiko"), patience="900 s, the script's own choice",
    ),
    Tool(
        name="Nornir + netmiko, SCP push", driver="driver_netmiko_scp.py",
        packages=("nornir", "nornir-netmiko", "netmiko"), needs_scp=True, patience="10 s without progress",
    ),
    Tool(name="pyntc", driver="driver_pyntc.py", packages=("pyntc", "netmiko"), patience="900 s, its default"),
    Tool(
        name="pyATS file server", driver="driver_pyats.py", packages=("pyats", "genie", "unicon"),
        patience="300 s, its default",
    ),
)  # fmt: skip


def versions(tool: Tool, python: Path | None) -> dict[str, str] | None:
    """Return the versions of a tool's packages in the peers' environment; None where one is missing.

    Ours is here, so it has none to ask for.
    """
    if not tool.packages:
        return {}
    if python is None or not python.exists():
        return None
    asked = subprocess.run([str(python), "-c", _ASK, *tool.packages], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        return None
    found: dict[str, str] = json.loads(asked.stdout)
    return found


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
    """Result of a tool in a situation.

    Attributes:
        seconds: Until it ended, or the ceiling.
        outcome: `ok`, `failed`, `killed`, or `still waiting` at the ceiling.
        said: Its last words, see `last_line`.
        lines_left: Configuration lines that differ from before.
        recovered_lines: Those that differ after `flashferry recover`; None where it does not apply.
        is_there: Whether the whole image is on the flash; `part_bytes` is the size of a broken one.
        processes_left: Live processes of a tool that was killed.
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


SCHEMA = "flashferry.peers/2"
_ORDER = (("stall",), ("success", "already there"), ("unreachable",), ("kill -9",), ("full flash",))
"""Worlds in the order they start, the long ones first; situations of one are played on the same device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersPlan:
    """How the tools run: interpreter, image size, ceiling in seconds, worlds at a time."""

    python: Path | None
    size_bytes: int
    ceiling_s: float
    parallel: int

    @property
    def settings(self) -> dict[str, Any]:
        """What decides whether a result of an earlier run holds for this one."""
        return {"size_bytes": self.size_bytes, "ceiling_s": self.ceiling_s}


def read_found(path: Path, plan: PeersPlan) -> list[Found]:
    """Return the results of an earlier run with the same settings; none where there was none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise LabError(f"{path}: cannot be read ({error}); name another folder by --output.") from None
    if document.get("schema") != SCHEMA or document.get("settings") != plan.settings:
        raise LabError(f"{path}: holds results of other settings; name another folder by --output.")
    return msgspec.convert(document["found"], list[Found])


def play_missing(
    requested: Sequence[tuple[Tool, str]],
    plan: PeersPlan,
    found: Sequence[Found],
    *,
    keep: Callable[[Found], None],
    log: Callable[[str], None],
    interrupted: Callable[[], bool],
) -> None:
    """Play what is wanted and not found yet; ``keep`` gets each result as it comes, in any thread."""
    known = {(each.tool, each.situation) for each in found}
    missing = {(tool, situation) for tool, situation in requested if (tool.name, situation) not in known}
    tools = dict.fromkeys(tool for tool, _ in requested)

    def work(tool: Tool, situations: Sequence[str]) -> None:
        if interrupted():
            return
        try:
            for one in play(tool, situations, python=plan.python, size_bytes=plan.size_bytes, ceiling_s=plan.ceiling_s):
                log(f"{one.tool}, {one.situation}: {one.outcome} after {one.seconds:.1f} s")
                if (tool, one.situation) in missing:
                    keep(one)
        except (LabError, OSError, subprocess.SubprocessError) as error:
            # One world that breaks on a busy machine is no reason to lose the others; its cells say "not played".
            log(f"{tool.name}, {', '.join(situations)}: {error}")

    started = []
    with ThreadPoolExecutor(plan.parallel) as pool:
        for situations in _ORDER:
            for tool in tools:
                if any((tool, each) in missing for each in situations):
                    # A second copy needs the first one before it, also where only the second is missing.
                    last = max(i for i, each in enumerate(situations) if (tool, each) in missing)
                    started.append(pool.submit(work, tool, situations[: last + 1]))
    for each in started:
        each.result()  # a fault of ours is raised, not lost


_HEADINGS = ("copy", "image already there", "kill -9", "server unreachable", "flash full", "flash stalls")
_FAILURES = ("unreachable", "full flash", "stall")
_NOT_FOR_A_PUSH = "no server to reach"


def side_by_side(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return a row per tool and a column per situation: how it ended, and after how many seconds."""
    at = {(each.tool, each.situation): each for each in found}
    rows = (
        (tool.name, *(_part(at.get((tool.name, each)), tool, each) for each in SITUATIONS), tool.patience)
        for tool in tools
    )
    return markdown(("tool", *_HEADINGS, "waits for a silent copy"), rows)


def _part(found: Found | None, tool: Tool, situation: str) -> str:
    if found is None:
        return "not played" if situation in tool.situations else _NOT_FOR_A_PUSH
    words = [f"{found.outcome}, {found.seconds:.1f} s"]
    if situation == "already there":
        words.append(f"{found.link_bytes / 1e6:.2f} MB sent")
    if found.outcome == "ok" and not found.is_there:
        words.append("no image")
    if found.part_bytes:
        words.append(f"{found.part_bytes / 1e6:.2f} MB of a broken file left")
    if found.processes_left and found.outcome == "killed":
        words.append("its server process lives on")
    return "; ".join(words)


def lines_left(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return how many configuration lines differ from before, a row per tool."""
    return markdown(
        ("tool", "after success", "after failure", "after kill -9", "then, after `flashferry recover`"),
        (_left([each for each in found if each.tool == tool.name], tool) for tool in tools),
    )


def _left(found: Sequence[Found], tool: Tool) -> tuple[str, ...]:
    at = {each.situation: each for each in found}
    # What the ceiling ended was killed: it had no chance to put anything back.
    failures = [len(at[each].lines_left) for each in _FAILURES if each in at and at[each].outcome == "failed"]
    success, killed = at.get("success"), at.get("kill -9")
    recovered = killed.recovered_lines if killed else None
    return (
        tool.name,
        str(len(success.lines_left)) if success else "not played",
        str(max(failures)) if failures else "not played",
        str(len(killed.lines_left)) if killed else "not played",
        str(len(recovered)) if recovered is not None else "",
    )


def notes(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return the configuration lines that were left."""
    names = {tool.name for tool in tools}
    lines = [
        f"- {each.tool}, {each.situation}: left {', '.join(f'`{line}`' for line in each.lines_left)}"
        for each in found if each.tool in names and each.lines_left
    ]  # fmt: skip
    return "\n".join(["Lines left:", "", *(lines or ["- none"])])


def last_messages(found: Sequence[Found], tools: Sequence[Tool]) -> str:
    """Return the last message of each tool where it did not succeed."""
    names = {tool.name for tool in tools}
    failed = (each for each in found if each.tool in names and each.outcome == "failed")
    lines = [f"- {each.tool}, {each.situation}: `{each.said}`" for each in failed]
    return "\n".join(["Last messages of failed runs:", "", *(lines or ["- none"])])


def write_peers(
    found: Sequence[Found], tools: Sequence[Tool], folder: Path, *, settings: Mapping[str, Any], heading: str
) -> str:
    """Write peers.json and peers.md, compared with an earlier run; return the text for people.

    The text lacks the last messages of failed runs, which peers.md has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = {"schema": SCHEMA, "settings": settings, "heading": heading, "found": [asdict(each) for each in found]}
    # Written beside and moved: a kill in between leaves the old one.
    new = folder / "peers.json.new"
    new.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    new.replace(folder / "peers.json")
    text = "\n\n".join((heading, side_by_side(found, tools), lines_left(found, tools), notes(found, tools)))
    (folder / "peers.md").write_text(f"{text}\n\n{last_messages(found, tools)}\n", encoding="utf-8")
    return text
