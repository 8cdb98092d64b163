"""What a device is made of: its ports, its addresses at layer 2, and the values that fill the texts of its platform."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.notices import CRYPTOGRAPHY, XE_LICENCE

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.platform import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFigures:
    """A kind of interface of a platform.

    Attributes:
        prefix: What the names of its interfaces begin with.
        hardware: As `show interfaces` names it.
        bandwidth_kbps: The rate that it has without a `bandwidth` line.
        delay_us: Its delay, as routing protocols count it.
        media: The lines about duplex and media, if there are any.
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


def port_of(platform: Platform, name: str) -> PortFigures:
    """Return the kind of an interface: the one with the longest fitting prefix."""
    kinds = (*platform.ports, VLAN, LOOPBACK, TUNNEL)
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


def boot_variable(device: Device) -> str:
    """Return the boot variable that it came up with; empty where none is configured."""
    return "".join(f"{name};" for name in device.boot_files)


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
        "uptime": clock.duration(device.uptime_s),
        "ago": clock.ago(device.uptime_s),
        "serial": device.settings.serial,
        "image": device.image,
        "mode": "Controller-Managed" if platform.is_controller_managed else "Autonomous",
        "xe_licence": XE_LICENCE.format(year=platform.year),
        "cryptography": CRYPTOGRAPHY,
        "software": software_lines(text),
        "release": release(text),
        "boot": boot_variable(device),
        **{f"mac{member}": dotted(mac) for member, mac in enumerate(macs, start=1)},
        **{f"colons{member}": colons(mac) for member, mac in enumerate(macs, start=1)},
    }
