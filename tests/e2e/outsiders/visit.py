"""A world of every platform, and the visitor that is sent into it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.lab.world import DeviceAccess, DeviceSpec, WorldSpec, in_core, start_world
from tests.e2e.outsiders.everyday import COMMANDS, CONFIG_LINES, PLATFORMS, UNICON

PYTHON_VARIABLE = "FLASHFERRY_PYATS_PYTHON"
_PACKAGES = ("pyats", "unicon", "genie", "ntc_templates")
_ASK = (
    f"import json; from importlib.metadata import version; print(json.dumps({{n: version(n) for n in {_PACKAGES!r}}}))"
)
_LONGEST_VISIT_S = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """What the visitor found: its packages' versions, and for each platform what `visitor.visit` returns."""

    versions: dict[str, str]
    platforms: dict[str, dict[str, Any]]
    server: str


def versions(python: Path) -> dict[str, str] | None:
    """Return the versions of the visitor's packages; None where one is missing."""
    asked = subprocess.run([str(python), "-c", _ASK], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        return None
    found: dict[str, str] = json.loads(asked.stdout)
    return found


def visit_all(
    python: Path, *, platforms: tuple[str, ...] = PLATFORMS, commands: bool = True, named: bool = True
) -> Visits:
    """Start a world and have the visitor see each of its devices.

    Args:
        python: An interpreter with pyATS.
        platforms: Which stand-ins there are.
        commands: Also type the everyday commands.
        named: The testbed says which platform each is, as far as unicon knows it; else only which system it runs.

    Raises:
        RuntimeError: The visitor cannot begin, or broke.
    """
    found = versions(python)
    if found is None:
        raise RuntimeError(f"{python} has not all of {', '.join(_PACKAGES)}; name one that has by --python.")
    devices = tuple(
        DeviceSpec(name=f"d{number}", platform=platform, config_lines=CONFIG_LINES)
        for number, platform in enumerate(platforms)
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as world, tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "found.json")
        asked = [_asked(device, world.server_address, commands, named) for device in world.devices]
        with in_core(world):
            visitor = subprocess.run(
                [str(python), str(Path(__file__).with_name("visitor.py"))], capture_output=True, text=True, check=False,
                input=json.dumps({"result": str(result), "devices": asked}), timeout=_LONGEST_VISIT_S,
            )  # fmt: skip
        if visitor.returncode != 0:
            raise RuntimeError(f"the visitor broke: {visitor.stderr[-2000:]}")
        by_name = json.loads(result.read_text(encoding="utf-8"))
        seen = {device.platform: by_name[device.name] for device in world.devices}
        return Visits(versions=found, platforms=seen, server=world.server_address)


def _asked(device: DeviceAccess, server: str, commands: bool, named: bool) -> dict[str, Any]:
    system, platform = UNICON[device.platform]
    typed = [each.on(device.platform, server=server) for each in COMMANDS if device.platform in each.platforms]
    return {
        "name": device.name, "os": system, "platform": platform if named else "", "host": device.address,
        "port": device.port, "username": device.username, "password": device.password, "secret": device.enable_secret,
        "commands": typed if commands else [],
    }  # fmt: skip
