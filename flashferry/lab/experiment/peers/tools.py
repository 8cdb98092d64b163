"""The tools that are compared, and whether they are installed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SITUATIONS = ("success", "already there", "kill -9", "unreachable", "full flash", "stall")
"""What a tool is put into; the first two are played on one device, one behind the other."""
_ASK = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool.

    Attributes:
        name: As the table calls it.
        driver: Its script beside this file; empty for ours, which is driven by its command line.
        packages: What must be installed in its environment.
        needs_scp: Whether the device must accept SCP, which its operator has then configured before.
        patience: How long it waits for a copy, in words, and whose choice that is.
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
