"""What a first configuration makes of a router, whether SSH lets anybody in, and what its console says of it all.

The text is typed into a stand-in device of the right platform, in a folder that is gone afterwards: so what it refuses
here is what it refuses everywhere.

Facts
-----
- A cat8000v counts as BOOTED by one of ``Would you like to enter the initial configuration dialog?``, ``Press RETURN to
  get started!`` and ``%CVAC-4-CONFIG_DONE:``; the first comes before any configuration (its node definition, public).
- What CVAC could not apply it prints line by line, and their number at the end: ``%CVAC-4-CLI_FAILURE: Configuration
  command failure: '...' was rejected`` and ``%CVAC-3-CONFIG_ERROR: N error(s) while applying configs generated from
  file ...`` (public boot logs of a C8000V). With the line goes whatever secret stands in it.
- A startup configuration's line that the parser does not know is printed with ``% Invalid input detected at '^'
  marker.`` below it.
- All else that a real console says while it boots is left out: base no decision on it. Lines of the
  stand-in's own begin with ``stand-in:``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from flashferry.lab.cml.routers.kinds import Kind, is_release_of
from flashferry.lab.standin.config_rules import SECTION_TREES
from flashferry.lab.standin.config_session import ConfigSession
from flashferry.lab.standin.device import Device, DeviceSettings
from flashferry.lab.standin.grammar import Matched, match
from flashferry.lab.standin.hardware import software_lines
from flashferry.lab.standin.interfaces import address_of, interface_lines, interface_name, is_shut
from flashferry.lab.standin.platform import load_platform

DHCP = "dhcp"
"""In place of an address."""

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 -- stands where the platform's own configuration wants an address
_NOT_TYPED = ("Building configuration", "Current configuration", "Last configuration change")
_KEY = "crypto key generate rsa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Day0:
    """What a first configuration comes to.

    Attributes:
        hostname: The name that it gives; `Router` without one.
        lines: Those that the device took, sections indented; addresses by DHCP are not among them.
        refused: Those that it did not, as they were written.
        addresses: By interface that is not shut: its address, or `DHCP`.
        unaddressed: An interface that has an address in the platform's own configuration and got none by this one.
        why_no_ssh: What SSH lacks; empty where it lets in.
    """

    hostname: str
    lines: tuple[str, ...]
    refused: tuple[str, ...]
    addresses: dict[str, str]
    unaddressed: str | None
    why_no_ssh: str

    def configuration(self, interface: str, address: str) -> tuple[str, ...]:
        """Return all lines of a device that is reached by an interface with an address."""
        lines = self.lines
        if self.unaddressed is not None and self.unaddressed != interface:
            lines = (f"interface {self.unaddressed}", " no ip address", *lines)
        if self.addresses.get(interface) == DHCP:
            lines = (*lines, f"interface {interface}", f" ip address {address} 255.255.255.0")
        return lines


def read_day0(text: str, kind: Kind) -> Day0:
    """Return what a first configuration comes to on the stand-in that plays a node."""
    with TemporaryDirectory(prefix="cml-standin-day0-") as folder:
        settings = DeviceSettings(name="Router", address=_NO_ADDRESS, username="", password="", enable_secret="")
        device = Device(load_platform(kind.platform), settings, Path(folder, "flash"))
        return _Reader(device, kind).read(text)


class _Reader:
    """Types a text into a fresh device, line by line."""

    def __init__(self, device: Device, kind: Kind) -> None:
        self._device = device
        self._session = ConfigSession(device)
        self._lines: list[str] = []
        self._refused: list[str] = []
        self._by_dhcp: list[str] = []
        self._has_key = kind.makes_key

    def read(self, text: str) -> Day0:
        for row in text.replace("\r", "").split("\n"):
            line = row.strip()
            if line == "end" and not self._session.in_banner:
                break
            if self._session.in_banner or (line and not line.startswith(("!", *_NOT_TYPED))):
                self._take(line)
        sections = interface_lines(self._device.running)
        addresses = {
            interface_name(each): address_of(each) or ""
            for each in sections
            if not is_shut(each) and address_of(each) not in {None, _NO_ADDRESS}
        }
        without = [interface_name(each) for each in sections if address_of(each) == _NO_ADDRESS]
        return Day0(
            hostname=self._device.hostname,
            lines=tuple(self._lines),
            refused=tuple(self._refused),
            addresses=addresses | dict.fromkeys(self._by_dhcp, DHCP),
            unaddressed=without[0] if without else None,
            why_no_ssh=self._why_no_ssh(),
        )

    def _take(self, line: str) -> None:
        session, section, mode = self._session, self._session.section, self._session.mode
        if line == "exit":
            session.leave_section()
        elif line.startswith(_KEY):
            self._has_key = True
        elif mode == "config-if" and line == "ip address dhcp":
            self._by_dhcp.append(section.removeprefix("interface "))
        elif not isinstance(session.take(line), str):
            self._refused.append(line)
        else:
            tree = SECTION_TREES.get(mode)
            is_child = section and session.section == section and tree and isinstance(match(tree, line), Matched)
            self._lines.append(f" {line}" if is_child else line)

    def _why_no_ssh(self) -> str:
        if not any(line.startswith("username ") for line in self._lines):
            return "no line 'username'"
        if not any(line.startswith("ip domain name ") for line in self._lines):
            return "no line 'ip domain name'"
        inputs = [line.split()[2:] for line in self._lines if line.startswith(" transport input ")]
        if inputs and not any({"ssh", "all"} & set(words) for words in inputs):
            return "'transport input' without ssh"
        return "" if self._has_key else f"no line '{_KEY}'"


def first_lines(node_definition: str, image_definition: str | None, kind: Kind) -> list[str]:
    """Return what is said before any configuration is read."""
    lines = [f"stand-in: {node_definition} is played by {kind.platform}"]
    if not is_release_of(kind, image_definition):
        lines.append(f"stand-in: there is no release {image_definition} here")
    lines += software_lines(load_platform(kind.platform).texts["version"]).splitlines()
    if kind.asks_first:
        lines.append("Would you like to enter the initial configuration dialog? [yes/no]: ")
    return lines


def configuration_lines(day0: Day0, kind: Kind) -> list[str]:
    """Return what is said about the first configuration."""
    lines: list[str] = []
    for refused in day0.refused:
        if kind.has_cvac:
            lines.append(f"%CVAC-4-CLI_FAILURE: Configuration command failure: '{refused}' was rejected")
        else:
            lines += [refused, " ^", "% Invalid input detected at '^' marker.", ""]
    if not kind.has_cvac:
        return lines
    if day0.refused:
        count = len(day0.refused)
        why = f"{count} error(s) while applying configs generated from file {kind.day0_file}"
        return [*lines, f"%CVAC-3-CONFIG_ERROR: {why}"]
    applied = "was applied and saved to NVRAM. See bootflash:/cvac.log for more details."
    return [f"%CVAC-4-CONFIG_DONE: Configuration generated from file {kind.day0_file} {applied}"]


def last_lines(day0: Day0) -> list[str]:
    """Return what is said when the router is up."""
    enabled = ["%SSH-5-ENABLED: SSH 2.0 has been enabled"]
    refused = [f"stand-in: SSH refuses every login: {day0.why_no_ssh}"]
    return ["", "Press RETURN to get started!", "", *(refused if day0.why_no_ssh else enabled)]
