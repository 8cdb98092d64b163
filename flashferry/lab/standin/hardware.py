"""What a device is made of: its ports, its addresses at layer 2, and the values that fill the texts of its platform."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.configuration import parse_lines
from flashferry.lab.standin.texts_data import printed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.platform import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFigures:
    """A kind of interface of a platform.

    Attributes:
        medium: As `show interfaces status` names it.
    """

    prefix: str
    hardware: str
    bandwidth_kbps: int
    delay_us: int
    media: tuple[str, ...] = ()
    medium: str = ""


_MOST_MEMBERS = 8
"""A stack of Catalyst 9300 has no more switches (Cisco data sheet)."""

VLAN = PortFigures(prefix="Vlan", hardware="Ethernet SVI", bandwidth_kbps=1_000_000, delay_us=10)
LOOPBACK = PortFigures(prefix="Loopback", hardware="Loopback", bandwidth_kbps=8_000_000, delay_us=5000)
TUNNEL = PortFigures(prefix="Tunnel", hardware="Tunnel", bandwidth_kbps=100, delay_us=50_000)
BUNDLE = PortFigures(prefix="", hardware="EtherChannel", bandwidth_kbps=1_000_000, delay_us=10)
"""Of port channels, and of what else is made on demand."""


def port_of(platform: Platform, name: str) -> PortFigures:
    """Return the kind of an interface: the one with the longest fitting prefix."""
    kinds = (*platform.ports, VLAN, LOOPBACK, TUNNEL, BUNDLE)
    return max((kind for kind in kinds if name.startswith(kind.prefix)), key=lambda kind: len(kind.prefix))


def base_mac(device: Device, member: int = 1) -> int:
    """Return the first of a chassis's 256 layer-2 addresses.

    The maker's part is the platform's; what follows is made of the device's name and address, so that two devices of a
    world have different ones, and the same ones each time it starts.
    """
    own = zlib.crc32(f"{device.settings.name} {device.settings.address} {member}".encode()) & 0xFFFF
    return int(device.platform.mac_prefix.replace(".", ""), 16) << 24 | own << 8


def dotted(mac: int) -> str:
    """Write a layer-2 address as interfaces show it: ``001e.bd12.3400``."""
    digits = f"{mac:012x}"
    return ".".join(digits[at : at + 4] for at in (0, 4, 8))


def colons(mac: int) -> str:
    """Write a layer-2 address as `show version` of a switch does: ``00:1e:bd:12:34:00``."""
    digits = f"{mac:012x}"
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def software_lines(version_text: str) -> str:
    """Return the lines about the software from `show version`, from its name to when it was compiled."""
    found = re.search(r"^Cisco IOS Software.*?^Compiled [^\n]*", version_text, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def release(version_text: str) -> str:
    """Return the release, as `show version` names it first."""
    found = re.search(r"Version ([^\s,]+)", version_text)
    return found[1] if found else ""


def running_release(device: Device, text: str) -> str:
    """Return a text of the platform with the release that runs in place of the stock one, in both spellings.

    File names and the first line have `17.06.01`, the line of IOS itself `17.6.1`.
    """
    if not device.image.endswith("packages.conf"):
        text = text.replace(" INSTALL", " BUNDLE")
    stock, own = release(device.platform.texts["version"]), device.release
    if own is None:
        return text
    spellings = ((stock, own), (_without_zeros(stock), _without_zeros(own)))
    for old, new in spellings:
        text = re.sub(rf"(?<![\d.]){re.escape(old)}(?![\d.])", new, text)
    return text


def _without_zeros(text: str) -> str:
    return re.sub(r"\b0+(?=\d)", "", text)


def memory_bytes(version_text: str) -> tuple[int, int]:
    """Return the main memory and that for packets, from the line about the processor in `show version`."""
    found = re.search(r"with (?:with )?(\d+)K(?:/(\d+)K)? bytes of memory", version_text)
    return (int(found[1]) * 1024, int(found[2] or 0) * 1024) if found else (0, 0)


def fields(device: Device) -> dict[str, str]:
    """Return the values that the texts of a platform have places for."""
    platform = device.platform
    text = platform.texts["version"]
    macs = [base_mac(device, member) for member in range(1, _MOST_MEMBERS + 1)]
    return {
        "hostname": device.hostname,
        "clock": device.clock_line(),
        "uptime": clock.duration(device.uptime_s),
        "ago": clock.ago(device.uptime_s),
        "serial": device.settings.serial,
        "image": device.image,
        "mode": "Controller-Managed" if platform.is_controller_managed else "Autonomous",
        "xe_licence": printed("licence of IOS-XE").format(year=platform.year),
        "cryptography": printed("cryptography"),
        "software": software_lines(text),
        "release": release(text),
        "boot": "".join(f"{name};" for name in device.boot_files),
        **{f"mac{member}": dotted(mac) for member, mac in enumerate(macs, start=1)},
        **{f"colons{member}": colons(mac) for member, mac in enumerate(macs, start=1)},
    }


STANDBY = "standby"
"""The other supervisor, by the word that stands for it where switches have numbers."""

_SIMPLEX = (
    (r"^( +peer state = ).*", r"\g<1>1  -DISABLED "),
    (r"^( +Mode = )Duplex", r"\g<1>Simplex"),
    (r"^( Communications = )Up", r"\g<1>Down      Reason: Simplex mode"),
    (r"^R1 .*\n", ""),
    (r"^Standby .*\n", ""),
)


class MemberLeftError(Exception):
    """The member that a copy goes to has left."""


def place_of(flash: Flash) -> str:
    """Return whose file system it is: a switch's number, `standby`, or empty for the device's own."""
    name = flash.figures.name
    if name.startswith("stby-"):
        return STANDBY
    return name.rpartition("-")[2] if name.startswith("flash-") else ""


def is_away(device: Device, flash: Flash) -> bool:
    """Return whether the member is away that a file system is of."""
    return place_of(flash) in device.faults.members_away


def leave(device: Device, place: str) -> None:
    """Have a member leave."""
    away = (*device.faults.members_away, place)
    device.faults = device.faults.with_switches({"members_away": away, "member_leaves_after_bytes": None})
    device.note_guess("members: log line of one that left")
    if place == STANDBY:
        device.syslog("%REDUNDANCY-3-STANDBY_LOST: Standby processor fault (PEER_NOT_PRESENT)")
    else:
        text = f"Switch 1 R0/0: stack_mgr: Switch {place} has been removed from the stack."
        device.syslog(f"%STACKMGR-4-SWITCH_REMOVED: {text}")


def without_away(device: Device, text: str) -> str:
    """Return what a command prints, as it is without the members that are away."""
    for place in device.faults.members_away:
        if place == STANDBY:
            for old, new in _SIMPLEX:
                text = re.sub(old, new, text, flags=re.MULTILINE)
        else:
            text = _without_switch(device, text, place)
    return text


def _without_switch(device: Device, text: str, number: str) -> str:
    row = rf"\g<1>{number}       Member   0000.0000.0000     0      V01     Removed             "
    own_row = rf"^([ *]){number} +\w+ +[0-9a-f.]{{14}} +\d+ +\w+ +\w+ *$"
    text, count = re.subn(own_row, row, text, flags=re.MULTILINE)
    if count:
        device.note_guess("members: row of one that is away")
    text = re.sub(rf"^ +{number} +\d+ +C\d.*\n", "", text, flags=re.MULTILINE)  # `show version`, `show platform`
    own = rf"(-+\n)?Switch 0?{number}\n-+\n(?:(?!-+\nSwitch|Switch \d|Configuration register|\Z).*\n)*"
    return re.sub(own, "", text)


_PASSES_CONFIGURATION_OVER = 0x40
_PACKAGES = "packages.conf"


def named_files(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the files that `boot system` lines name, in their order, each with its file system.

    The five spellings are those of pyntc's table: `flash bootflash:x`, `bootflash:x`, `flash0:/x`,
    `switch all flash:x`, `flash x`.
    """
    found = [line.split()[2:] for line in lines if line.startswith("boot system ")]
    files: list[str] = []
    for words in filter(None, found):
        if ":" in words[-1]:
            files += filter(None, words[-1].split(";"))
        elif len(words) > 1:
            files.append(f"{words[-2]}:{words[-1]}")
    return tuple(files)


def saved_files(device: Device) -> tuple[str, ...]:
    """Return the files of the boot variable: those of the lines that were saved."""
    return named_files(line.text for line in parse_lines(device.startup_text))


def next_image(device: Device) -> str | None:
    """Return what the device boots when it restarts now; None where it stays at ROMMON's prompt."""
    register = _register(device)
    if register & _PASSES_CONFIGURATION_OVER or not register & 0xF:
        return None
    if device.faults.manual_boot and "Manual Boot" in device.platform.texts["boot"]:
        return None
    files = saved_files(device) or (device.platform.image,)
    return next((name for name in files if _is_bootable(device, name)), None)


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


def as_restarted(device: Device, text: str) -> str:
    """Return a recorded text: word for word until the device restarts, then with what a restart changes."""
    if not device.reload_reason:
        return text
    uptime = clock.duration(device.uptime_s)
    for line, value in (("(?:.* )?uptime is ", uptime), ("Uptime .* is ", uptime), ("Switch uptime +: ", uptime),
                        ('System image file is "', f'{device.image}"')):  # fmt: skip
        text = re.sub(rf"^({line}).*", rf"\g<1>{value}", text, flags=re.MULTILINE)
    boot = r"^((?:Standby )?BOOT variable = )[^,;\n]*(,12)?;.*"
    for found in re.finditer(boot, text, re.MULTILINE) if device.boot_files else ():
        text = text.replace(found[0], found[1] + "".join(f"{name}{found[2] or ''};" for name in device.boot_files))
    return as_it_stands(device, text)


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
