"""What a device boots: the files that its saved `boot system` lines name, and what leaves it at ROMMON's prompt.

Facts
-----
IOS tries the files of the boot variable in their order and takes the first that is there. The variable follows the
lines that were saved, not those that run. The last digit of the configuration register says what is booted: 0 ROMMON,
1 what ROMMON finds, 2 to F what the variable names; its bit 6 passes the startup configuration over. Catalyst switches
wait at the console where `boot manual` is on. (Cisco IOS Configuration Fundamentals, "Rebooting"; facts 3 and 6.)

Where no file of the variable is there, this device stays at ROMMON's prompt; a real router would still try the first
file of its flash. That is our own choice: do not count on it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashferry.lab.standin.config_text import parse_lines
from flashferry.lab.standin.hardware import running_release

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashferry.lab.standin.device import Device

_PASSES_CONFIGURATION_OVER = 0x40
_PACKAGES = "packages.conf"


def named_files(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the files that `boot system` lines name, in their order, each with its file system.

    The five spellings are those of pyntc's table: `flash bootflash:x`, `bootflash:x`, `flash0:/x`,
    `switch all flash:x`, `flash x`.
    """
    found = [line.split()[2:] for line in lines if line.startswith("boot system ")]
    return tuple(name for words in found if words for name in _of_words(words))


def _of_words(words: list[str]) -> tuple[str, ...]:
    file = words[-1]
    if ":" in file:
        return tuple(name for name in file.split(";") if name)
    return (f"{words[-2]}:{file}",) if len(words) > 1 else ()


def saved_files(device: Device) -> tuple[str, ...]:
    """Return the files of the boot variable: those of the lines that were saved."""
    return named_files(line.text for line in parse_lines(device.startup_text))


def next_image(device: Device) -> str | None:
    """Return what the device boots when it restarts now; None where it stays at ROMMON's prompt."""
    register = _register(device)
    if register & _PASSES_CONFIGURATION_OVER or not register & 0xF:
        return None
    if device.faults.manual_boot and boots_manually(device):
        return None
    files = saved_files(device) or (device.platform.image,)
    return next((name for name in files if _is_bootable(device, name)), None)


def boots_manually(device: Device) -> bool:
    """Return whether the device knows `boot manual`."""
    return "Manual Boot" in device.platform.texts["boot"]


def as_it_stands(device: Device, text: str) -> str:
    """Return a text of the platform with the release, reload reason, register and manual boot of this device."""
    text = running_release(device, text)
    if device.reload_reason:
        first = "reload" if device.platform.family == "IOS" else device.reload_reason
        text = re.sub(r"^(System returned to ROM by ).*", rf"\g<1>{first}", text, flags=re.MULTILINE)
        text = re.sub(r"^(Last reload reason: ).*", rf"\g<1>{device.reload_reason}", text, flags=re.MULTILINE)
    if device.faults.config_register is not None:
        # Documentation of `config-register`; no capture has the words in brackets.
        coming = rf"\g<1> (will be {device.faults.config_register} at next reload)"
        text = re.sub(r"^((?:Standby )?Configuration register is \S+)", coming, text, flags=re.MULTILINE)
    if device.faults.manual_boot:
        text = re.sub(r"^(Manual Boot = |(?:Standby )?MANUAL_BOOT variable = )no$", r"\1yes", text, flags=re.MULTILINE)
    return text


def _register(device: Device) -> int:
    """Return the register of the next restart; that of virtual routers, 0x0, says nothing of what they boot."""
    if device.faults.config_register is not None:
        return int(device.faults.config_register, 16)
    found = re.search(r"^Configuration register is (\S+)", device.platform.texts["version"], re.MULTILINE)
    return int(found[1], 16) or 0x2 if found else 0x2


def _is_bootable(device: Device, path: str) -> bool:
    """Return whether a file is there, and for install mode whether the package is that its list names."""
    prefix, _, name = path.partition(":")
    flash = device.file_system(prefix)
    if flash is None:
        return path == device.platform.image  # IOL's own file, which is on no file system
    if flash.find(name.lstrip("/")) is None or device.faults.image_not_executable:
        return False
    if device.install is None or not name.endswith(_PACKAGES):
        return True
    return flash.find(device.install.running.file) is not None
