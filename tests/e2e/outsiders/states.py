"""Stand-ins in all states of an upgrade, what they print there, and what is true of them.

The devices are in this process, so that what Genie reads can be held against the state itself.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.core.values import replace
from flashferry.lab.standin.hardware import saved_files
from tests.e2e.outsiders.everyday import UNICON
from tests.unit.lab.standin.console import Console, new_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flashferry.lab.standin.device import Device

IMAGES = {
    "c8000v-17.15": "c8000v-universalk9.17.15.03a.SPA.bin", "c9300-17.6": "cat9k_iosxe.17.09.05.SPA.bin",
    "c8000v-sdwan-17.15": "c8000v-universalk9.17.15.03a.SPA.bin",
    "csr1000v-16.11": "csr1000v-universalk9.16.12.05.SPA.bin",
}  # fmt: skip
"""What is installed on whom."""
IN_BUNDLES = ("asr1006-16.3", "asr1006-dual-16.3", "c9300-bundle-17.6", "isr4321-16.6")
NAMED = {**UNICON, "asr1006-dual-16.3": ("iosxe", "asr1k"), "c9300-bundle-17.6": ("iosxe", "cat9k")}
DUAL = ("asr1006-dual-16.3",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An output, with what is true of the device where Genie's rows of it say the same.

    Attributes:
        platform: Who printed it.
        state: In which state of an upgrade.
        command: What was typed.
        output: What was printed.
        facts: What a reader should find.
    """

    platform: str
    state: str
    command: str
    output: str
    facts: Any


def in_all_states(folder: Path) -> list[Shown]:
    """Return what every stand-in prints in every state that it can be in."""
    found = [each for platform in IMAGES for each in _while_installing(folder / platform, platform)]
    for platform in IN_BUNDLES:
        console = new_console(folder / platform, platform)
        found += _shown(console, "from stock")
        console.device.faults = replace(console.device.faults, issu_in_progress=True)
        found += [each for each in _shown(console, "upgrade in service") if "issu" in each.command]
    return found


def _while_installing(root: Path, platform: str) -> Iterator[Shown]:
    console = new_console(root, platform)
    device, image = console.device, IMAGES[platform]
    device.platform = replace(device.platform, boot_s=0)
    device.flash.write(image, b"x" * 40_000)
    steps = {
        "from stock": (), "added": (f"install add file flash:{image}",),
        "activated": ("install activate prompt-level none",), "aborted": ("install abort prompt-level none",),
        "activated again": ("install activate auto-abort-timer 60 prompt-level none",),
        "committed": ("install commit",), "cleaned": ("install remove inactive", "y"),
    }  # fmt: skip
    for state, typed in steps.items():
        console.type(*typed)
        if state.startswith(("activated", "aborted")):
            assert device.boot()
        yield from _shown(console, state)


def _shown(console: Console, state: str) -> Iterator[Shown]:
    for command, (_, true) in FACTS.items():
        output = console.show(command)
        if "% Invalid input" not in output:
            facts = true(console.device)
            yield Shown(platform=console.device.platform.name, state=state, command=command, output=output, facts=facts)


def read_by_genie(python: Path, shown: list[Shown], folder: Path) -> list[dict[str, Any]]:
    """Have Genie read the outputs; each answer has ``rows`` and ``error``."""
    result = folder / "read.json"
    outputs = [{"platform": each.platform, "command": each.command, "output": each.output} for each in shown]
    platforms = {each.platform: NAMED[each.platform] for each in shown}
    subprocess.run(
        [str(python), str(Path(__file__).with_name("reader.py"))], check=True, capture_output=True, text=True,
        input=json.dumps({"result": str(result), "platforms": platforms, "outputs": outputs}), timeout=300,
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(result.read_text(encoding="utf-8"))
    return found


def differences(shown: list[Shown], answers: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each output that Genie cannot read, or of which it reads what is not so."""
    found = []
    for each, answer in zip(shown, answers, strict=True):
        where = f"{each.platform}, {each.state}: {each.command}"
        try:
            read = FACTS[each.command][0](answer["rows"])
        except (KeyError, IndexError, StopIteration) as error:
            read = f"no {error}"
        if answer["error"]:
            found.append(f"{where}: {answer['error']}")
        elif read != each.facts:
            found.append(f"{where}: expected {each.facts}, Genie reads {read}")
    return found


def _versions(device: Device, letters: str) -> list[str]:
    assert device.install is not None
    return sorted(each.version for each in device.install.packages if each.state in letters)


def _summary(device: Device) -> Any:
    assert device.install is not None
    rows = [[each.state, each.version] for each in device.install.packages]
    return [device.install.figures.location, rows, device.install.is_uncommitted]


def _read_summary(rows: Any) -> Any:
    [(location, found)] = rows["location"].items()
    packages = [[each["state"], each["filename_version"]] for each in found["pkg_state"].values()]
    return [location, packages, found["auto_abort_timer"].startswith("active") and "time_before_rollback" in found]


def _release(device: Device) -> str:
    line = device.platform.texts["version"].partition("\n")[0]
    return device.release or line.rpartition("Version ")[2]


def _short_release(device: Device) -> str:
    """Return the release as the line of IOS itself has it: without leading noughts."""
    return ".".join(part.lstrip("0") for part in _release(device).split("."))


def _is_stack(device: Device) -> bool:
    return device.install is not None and device.install.figures.is_stack


def _version(device: Device) -> Any:
    mode = "INSTALL" if device.image.endswith("packages.conf") else "BUNDLE"
    members = [[_release(device), mode]] * 3 if _is_stack(device) else []
    return [_release(device), device.image, members]


def _read_version(rows: Any) -> Any:
    found = rows["version"]
    members = [[each["sw_ver"], each["mode"]] for each in found.get("switch_num", {}).values()]
    return [found["xe_version"], found["system_image"], members]


def _boot(device: Device) -> Any:
    ended = ";" if _is_stack(device) else ",12;"
    return "".join(f"{name}{ended}" for name in saved_files(device))


def _read_boot(rows: Any) -> Any:
    return rows.get("next_reload_boot_variable") or rows.get("active", {}).get("boot_variable", "")


def _peers(device: Device) -> Any:
    is_double = _is_stack(device) or device.platform.name in DUAL
    return ["13 -ACTIVE", "8  -STANDBY HOT" if is_double else "1  -DISABLED", "Duplex" if is_double else "Simplex"]


def _processors(device: Device) -> Any:
    is_double = _is_stack(device) or device.platform.name in DUAL
    return [[state, _short_release(device)] for state in (["ACTIVE", "STANDBY HOT"] if is_double else ["ACTIVE"])]


def _read_processors(rows: Any) -> Any:
    found = rows["slot"].values()
    return [[each["curr_sw_state"], each["image_ver"].partition("Version ")[2].partition(",")[0]] for each in found]


def _hardware(device: Device) -> Any:
    if _is_stack(device):
        return [_release(device)] * 3
    return ["ok, active", "ok, standby"] if device.platform.name in DUAL else ["ok, active"]


def _read_hardware(rows: Any) -> Any:
    parts = [part for slot in rows["slot"].values() for kind in slot.values() for part in kind.values()]
    if all("sw_ver" in part for part in parts):
        return [part["sw_ver"] for part in parts]
    return [part["state"] for part in parts if part["slot"].startswith("R")]


FACTS: dict[str, tuple[Callable[[Any], Any], Callable[[Device], Any]]] = {
    "show install summary": (_read_summary, _summary),
    "show install active": (
        lambda rows: [row["filename_version"] for at in rows["location"].values() for row in at["pkg_state"].values()],
        lambda device: _versions(device, "CU"),
    ),
    "show install inactive": (
        lambda rows: sorted(rows.get("inactive", {}).get("version", {})), lambda device: _versions(device, "I"),
    ),
    "show install uncommitted": (
        lambda rows: sorted(rows.get("uncommitted", {}).get("version", {})), lambda device: _versions(device, "U"),
    ),
    "show install committed": (lambda rows: sorted(rows.get("committed", {})), lambda device: _versions(device, "C")),
    "show install rollback": (lambda rows: sorted(rows["install_rollback"]), lambda _: ["1"]),
    "show version": (_read_version, _version),
    "show boot": (_read_boot, _boot),
    "show bootvar": (_read_boot, _boot),
    "show switch": (
        lambda rows: [[each["role"], each["state"]] for each in rows["switch"]["stack"].values()],
        lambda _: [["active", "ready"], ["standby", "ready"], ["member", "ready"]],
    ),
    "show redundancy states": (lambda rows: [rows["my_state"], rows["peer_state"], rows["mode"]], _peers),
    "show redundancy": (_read_processors, _processors),
    "show platform": (_read_hardware, _hardware),
    "show issu state detail": (
        lambda rows: [each["issu_in_progress"] for each in rows["slot"].values()],
        lambda device: [device.faults.issu_in_progress],
    ),
}  # fmt: skip
"""For each command what is read of Genie's rows, and the same of the device's state."""
