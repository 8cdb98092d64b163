"""Upgrades of stand-ins that pyATS and pyntc drive from begin to end."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netmiko
import paramiko

from flashferry.lab.world import DeviceSpec, WorldSpec, in_core, start_world
from tests.e2e.outsiders.everyday import UNICON
from tests.patience import until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashferry.lab.world import DeviceAccess, World

PYNTC_VARIABLE = "FLASHFERRY_PYNTC_PYTHON"
PACKAGES = {"pyATS": ("pyats", "unicon", "genie", "genie.libs.sdk"), "pyntc": ("pyntc", "netmiko")}
_ASK = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)
_LONGEST_S = 300
_BACK_AFTER_S = 60
"""How long a device may take until it runs what it should: pyntc does not wait for the reload of a young device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """An upgrade.

    Attributes:
        tool: Who drives it.
        way: How, as the table tells it.
        platform: Whom.
        file: The image, with its file system.
        release: What runs in the end.
        line: A `boot system` line that the device has beforehand.
        why: Why the tool does not get there, as the table tells it; empty where it does.
        answer: What its words begin with then.
    """

    tool: str
    way: str
    platform: str
    file: str
    release: str
    line: str = ""
    why: str = ""
    answer: str = ""

    @property
    def driver(self) -> Path:
        """The script that does it."""
        return Path(__file__).with_name(f"driver_{self.tool.lower()}.py")


_C8000V = {"platform": "c8000v-17.15", "file": "bootflash:c8000v-universalk9.17.15.03a.SPA.bin", "release": "17.15.03a"}
_C9300 = {"platform": "c9300-17.6", "file": "flash:cat9k_iosxe.17.09.05.SPA.bin", "release": "17.09.05"}
_CSR = {"platform": "csr1000v-16.11", "file": "bootflash:csr1000v-universalk9.16.12.05.SPA.bin", "release": "16.12.05"}
_ISR = {"platform": "isr4321-16.6", "file": "bootflash:isr4300-universalk9.16.09.04.SPA.bin", "release": "16.09.04"}
_NO_LINE = "it follows the spelling of a `boot system` line, and there is none"
DRIVES = (
    *(Drive(tool="pyATS", way=way, **own) for way in ("in steps", "at once") for own in (_C8000V, _C9300, _CSR)),
    *(Drive(tool="pyATS", way="and back", **(own | {"release": old}))
      for own, old in ((_C8000V, "17.15.01a"), (_C9300, "17.06.01"), (_CSR, "16.11.01a"))),
    Drive(tool="pyntc", way="install mode", **_C9300),
    Drive(tool="pyntc", way="install mode", line="boot system bootflash:packages.conf", **_C8000V),
    Drive(tool="pyntc", way="install mode", **(_CSR | {"release": "16.11.01a"}), why=_NO_LINE, answer="CommandError"),
    Drive(tool="pyntc", way="bundle", line="boot system flash bootflash:isr4300-universalk9.16.06.05.SPA.bin", **_ISR),
    Drive(tool="pyntc", way="bundle", line="boot system bootflash:isr4300-universalk9.16.06.05.SPA.bin", **_ISR),
    Drive(tool="pyntc", way="bundle", **(_ISR | {"release": "16.06.05"}), why=_NO_LINE, answer="CommandError"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What became of an upgrade: the first step that did not succeed, with its words, and the release that runs."""

    drive: Drive
    failed: str
    release: str

    @property
    def is_as_expected(self) -> bool:
        """Whether it went as the table says: to its end, or not for the known reason."""
        wanted = self.failed.startswith(f"install_os: {self.drive.answer}") if self.drive.why else not self.failed
        return wanted and self.release == self.drive.release


def versions_of(tool: str, python: Path) -> dict[str, str] | None:
    """Return the versions of a tool's packages; None where one is missing."""
    return installed(python, PACKAGES[tool])


def installed(python: Path, packages: tuple[str, ...]) -> dict[str, str] | None:
    """Return the versions of packages that an interpreter has; None where one is missing."""
    asked = subprocess.run([str(python), "-c", _ASK, *packages], capture_output=True, text=True, check=False)
    found: dict[str, str] | None = json.loads(asked.stdout) if asked.returncode == 0 else None
    return found


def drive_all(pythons: Mapping[str, Path], *, at_a_time: int = 3) -> list[Driven]:
    """Have each tool that has an interpreter drive its upgrades, each on a device of its own.

    Args:
        pythons: An interpreter for each tool.
        at_a_time: How many go on at the same time.
    """
    drives = [each for each in DRIVES if each.tool in pythons]
    devices = tuple(
        DeviceSpec(name=f"d{number}", platform=each.platform, config_lines=(each.line,) if each.line else ())
        for number, each in enumerate(drives)
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as world, ThreadPoolExecutor(at_a_time) as pool:
        futures = [
            pool.submit(_driven, world, device, each, pythons[each.tool])
            for device, each in zip(world.devices, drives, strict=True)
        ]
        return [each.result() for each in futures]


def _driven(world: World, device: DeviceAccess, drive: Drive, python: Path) -> Driven:
    with in_core(world), tempfile.TemporaryDirectory() as folder:
        _put(device, drive.file)
        result = Path(folder, "answers.json")
        system, platform = UNICON[device.platform]
        asked = {
            "name": device.name, "os": system, "platform": platform, "host": device.address, "port": device.port,
            "username": device.username, "password": device.password, "secret": device.enable_secret,
            "file": drive.file, "way": drive.way, "result": str(result),
        }  # fmt: skip
        subprocess.run(
            [str(python), str(drive.driver)], input=json.dumps(asked), capture_output=True, text=True, check=True,
            timeout=_LONGEST_S,
        )  # fmt: skip
        answers: list[list[str]] = json.loads(result.read_text(encoding="utf-8"))
        failed = next((f"{step}: {answer}" for step, answer in answers if answer), "")
        return Driven(drive=drive, failed=failed, release=_release_at_last(device, drive.release))


def _session(device: DeviceAccess) -> Any:
    return netmiko.ConnectHandler(
        device_type="cisco_xe", host=device.address, port=device.port, username=device.username,
        password=device.password, secret=device.enable_secret,
    )  # fmt: skip


def _put(device: DeviceAccess, file: str) -> None:
    """Make an image of what is at hand: what is in a file is of no matter to a stand-in, its name is."""
    session = _session(device)
    session.send_command(f"copy running-config {file}", expect_string=r"\]\?")
    session.send_command("", expect_string=r"bytes copied[\s\S]*#")
    session.disconnect()


def _release_at_last(device: DeviceAccess, wanted: str) -> str:
    """Return the release that runs, once it is the wanted one or has had its time."""
    found = ""

    def is_wanted() -> bool:
        nonlocal found
        try:
            session = _session(device)
            told = re.search(r"IOS XE Software, Version (\S+)", session.send_command("show version"))
            session.disconnect()
        except (netmiko.exceptions.NetmikoBaseException, paramiko.SSHException, EOFError, OSError):
            return False
        found = told[1] if told else ""
        return found == wanted

    with suppress(AssertionError):  # another release is a result, too
        until(is_wanted, wanted, poll_s=2.0)
    return found


def installs_table(driven: list[Driven], versions: Mapping[str, str]) -> str:
    """Return what became of the upgrades as Markdown: a row for those that a tool drives alike with one result."""
    packages = ", ".join(f"{name} {number}" for name, number in versions.items())
    rows: dict[tuple[str, str, str], list[str]] = {}
    for each in driven:
        drive = each.drive
        before = f" with `{drive.line}`" if drive.line else ""
        rows.setdefault((drive.tool, drive.way, _result(each)), []).append(f"{drive.platform}{before}")
    lines = [f"Driven with {packages}.", "", "| tool | mode | platform, `boot system` line before | result |",
             "|---|---|---|---|"]  # fmt: skip
    lines += [f"| {tool} | {way} | {', '.join(on)} | {result} |" for (tool, way, result), on in rows.items()]
    return "".join(f"{line}\n" for line in lines)


def _result(driven: Driven) -> str:
    if driven.is_as_expected:
        return f"fails: {driven.drive.why}" if driven.drive.why else "works"
    return f"fails: {driven.failed or f'{driven.release} runs'}"
