"""The calls that outsiders do on stand-ins, each tool by its own script in an interpreter that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.lab.world import DeviceSpec, WorldSpec, in_core, start_world
from tests.e2e.outsiders.everyday import UNICON
from tests.e2e.outsiders.installs import PYNTC_VARIABLE, installed
from tests.e2e.outsiders.visit import PYTHON_VARIABLE

if TYPE_CHECKING:
    from flashferry.lab.world import DeviceAccess, World

VARIABLE, ANSIBLE_VARIABLE = "FLASHFERRY_OUTSIDERS_PYTHON", "FLASHFERRY_ANSIBLE_PYTHON"
_LONGEST_S = 1500
KNOWN = {
    ("NAPALM", "get_bgp_neighbors_detail"): "the driver raises where no BGP runs",
}
"""Calls that fail on a real device too, and why."""
XE, IOS = ("csr1000v-16.11", "c9300-17.6", "c8000v-17.15"), "iosv-15.8"
KNOWN_ON_IOS = {
    ("pyATS", "configure that is refused"): "unicon's pattern has the caret of `'^' marker` unescaped: it never fits",
    ("pyATS", "get_interface_names"): "Genie has no such API for IOS",
    ("pyATS", "config_interface_description"): "Genie has no such API for IOS",
}
"""Those of IOS alone."""
_LINES = ("ip scp server enable", "archive", " path {flash}archive", "boot system {flash}packages.conf")
"""What the calls need on the device: pyntc follows the spelling of a `boot system` line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """An outsider: its packages, the variable that names an interpreter with them, and the platforms that it visits."""

    name: str
    packages: tuple[str, ...]
    variable: str = VARIABLE
    platforms: tuple[str, ...] = XE

    @property
    def python(self) -> Path:
        """The interpreter."""
        return Path(os.environ.get(self.variable, sys.executable))

    def versions(self) -> dict[str, str] | None:
        """Return the versions of its packages; None where one is missing."""
        return installed(self.python, self.packages)


TOOLS = (
    Tool(name="netmiko", packages=("netmiko", "paramiko", "ntc-templates"), platforms=(*XE, IOS)),
    Tool(name="NAPALM", packages=("napalm", "netmiko")),
    Tool(name="scrapli", packages=("scrapli", "paramiko", "ntc-templates"), platforms=("c9300-17.6", "c8000v-17.15")),
    Tool(name="scrapli_cfg", packages=("scrapli", "scrapli_cfg")),
    Tool(name="pyntc", packages=("pyntc", "netmiko"), variable=PYNTC_VARIABLE),
    Tool(
        name="Ansible",
        packages=("ansible-core", "ansible", "ansible-pylibssh"),
        variable=ANSIBLE_VARIABLE,
    ),
    Tool(
        name="pyATS",
        packages=("pyats", "unicon", "genie"),
        variable=PYTHON_VARIABLE,
        platforms=(*XE, IOS),
    ),
)
"""libssh has no SHA-1 for IOS 15, nor has paramiko 5: netmiko visits it by paramiko 4; pyATS has OpenSSH's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What became of a tool's calls on a platform: names and answers, an empty one for what did as it should."""

    tool: str
    platform: str
    answers: tuple[tuple[str, str], ...]

    @property
    def failed(self) -> tuple[tuple[str, str], ...]:
        """The calls that did not."""
        return tuple(each for each in self.answers if each[1])

    @property
    def wrong(self) -> tuple[tuple[str, str], ...]:
        """The calls that did not, and for no known reason."""
        return tuple(each for each in self.failed if self.reason(each[0]) is None)

    def reason(self, name: str) -> str | None:
        """Return why a call fails on a real device too; None for one that should not fail."""
        found = KNOWN.get((self.tool, name))
        return KNOWN_ON_IOS.get((self.tool, name)) if found is None and self.platform == IOS else found


def call_all(tool: Tool) -> list[Called]:
    """Have a tool do its calls on its platforms, one after the other."""
    devices = tuple(
        DeviceSpec(name=f"d{number}", platform=platform, config_lines=_lines(platform))
        for number, platform in enumerate(tool.platforms)
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as world:
        return [_called(world, device, tool) for device in world.devices]


def _lines(platform: str) -> tuple[str, ...]:
    return tuple(line.format(flash=_flash(platform)) for line in _LINES if platform != IOS or "boot" not in line)


def _flash(platform: str) -> str:
    return {"c9300-17.6": "flash:", IOS: "flash0:"}.get(platform, "bootflash:")


def _called(world: World, device: DeviceAccess, tool: Tool) -> Called:
    script = "driver_ansible.py" if tool.name == "Ansible" else "driver_calls.py"
    system, platform = UNICON[device.platform]
    with in_core(world), tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "answers.json")
        asked: dict[str, Any] = {
            "tool": tool.name, "name": device.name, "os": system, "platform": platform, "host": device.address,
            "port": device.port, "username": device.username, "password": device.password,
            "secret": device.enable_secret, "server": world.server_address, "flash": _flash(device.platform),
            "result": str(result),
        }  # fmt: skip
        ran = subprocess.run(
            [str(tool.python), str(Path(__file__).with_name(script))], input=json.dumps(asked), capture_output=True,
            text=True, check=False, timeout=_LONGEST_S, cwd=folder,
        )  # fmt: skip
        if not result.exists():
            raise RuntimeError(f"{tool.name} broke on {device.platform}: {ran.stderr[-2000:]}")
        answers = tuple((name, answer) for name, answer in json.loads(result.read_text(encoding="utf-8")))
    return Called(tool=tool.name, platform=device.platform, answers=answers)


def calls_table(called: list[Called], versions: dict[str, str], absent: list[str]) -> str:
    """Return the table as Markdown, a tool's platforms with the same result in a row; absent tools are named."""
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [
        f"Run on {datetime.now(UTC):%Y-%m-%d} with {packages}."
        + (f" Not run: {', '.join(absent)}." if absent else ""), "",
        "| tool | platform | calls that do as they should | others |", "|---|---|---|---|",
    ]  # fmt: skip
    rows: dict[tuple[str, str, str], list[str]] = {}
    for each in called:
        reasons = [(name, each.reason(name) or answer) for name, answer in each.failed]
        others = "; ".join(f"`{name}`: {reason}" for name, reason in reasons).replace("|", "\\|")
        good = f"{len(each.answers) - len(each.failed)} of {len(each.answers)}"
        rows.setdefault((each.tool, good, others or "none"), []).append(each.platform)
    lines += [f"| {tool} | {', '.join(own)} | {good} | {others} |" for (tool, good, others), own in rows.items()]
    return "".join(f"{line}\n" for line in lines)
