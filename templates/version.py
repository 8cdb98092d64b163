"""Parser of `show version`: ntc-templates, and our own rows for what it does not parse well."""

from __future__ import annotations

from collections import deque
from functools import cache
from importlib.resources import files

from msgspec import Struct
from textfsm import TextFSM, TextFSMError

from templates.rows import (
    MOST_IDLE,
    ImageLine,
    OperatingMode,
    Processor,
    Release,
    StackMember,
    first,
    parser_of,
    rows,
)


def ntc_rows(command: str, output: str) -> tuple[dict[str, str | list[str]], ...]:
    """Parse output with the `cisco_ios` template of ntc-templates for a command; empty if it does not match."""
    idle = _idle_parsers(command)
    try:
        machine = idle.pop()
    except IndexError:
        machine = _compiled(command)
    machine.Reset()
    names = [name.lower() for name in machine.header]
    try:
        found = machine.ParseText(output)
    except TextFSMError:
        return ()
    idle.append(machine)
    return tuple(dict(zip(names, row, strict=True)) for row in found)


@cache
def _idle_parsers(command: str) -> deque[TextFSM]:
    """Return the parsers of a command's output that no thread uses: compiling one costs more than parsing."""
    return deque((_compiled(command),), MOST_IDLE)


def _compiled(command: str) -> TextFSM:
    return parser_of(_source(command))


@cache
def _source(command: str) -> str:
    name = f"cisco_ios_{command.replace(' ', '_')}.textfsm"
    return (files("ntc_templates") / "templates" / name).read_text(encoding="utf-8")


class SoftwareVersion(Struct, frozen=True, kw_only=True):
    """Parsed `show version`.

    Attributes:
        release: As printed, for example `16.11.1b`, or empty. If the first line is `IOS XE Software, Version
            16.09.03`, the second line counts, because development builds have a label in the first.
        hardware: Model names, the active member first.
        image_file_system: File system of the running image without colon (`bootflash`), or None.
        image_path: Path of the running image on it, or None.
        install_mode: Whether the device runs from `packages.conf`.
        controller_managed: Whether an SD-WAN controller configures it.
        members: Switches of a stack; empty for a router, or if the release prints no table.
    """

    release: str
    hardware: tuple[str, ...]
    image_file_system: str | None
    image_path: str | None
    install_mode: bool
    controller_managed: bool
    members: tuple[StackMember, ...] = ()


_NAMES_HARDWARE = ("Cisco", "cisco", "Model", "model", "Switch")


def parse_version(output: str) -> SoftwareVersion:
    """Parse `show version` of an IOS or IOS-XE device; missing values are empty or None."""
    image = first(ImageLine, output)
    mode = first(OperatingMode, output)
    # Only hardware is taken from that template, and only these lines name it or start the table that does.
    naming = (line for line in output.splitlines() if line.startswith(_NAMES_HARDWARE))
    parsed = ntc_rows("show version", "\n".join(naming))
    facts = parsed[0] if parsed else {}
    members = rows(StackMember, output)
    return SoftwareVersion(
        release=_release(output),
        # ntc-templates only recognises Cisco's own hardware.
        hardware=tuple(str(name) for name in facts.get("hardware", ())) or _models(output),
        image_file_system=image.file_system if image else None,
        image_path=image.path.lstrip("/") if image else None,
        # Switches print the mode in their table; for others the name of the provisioning file shows it.
        install_mode=any(member.mode == "INSTALL" for member in members)
        or (image is not None and image.path.endswith("packages.conf")),
        controller_managed=mode is not None and mode.mode == "Controller-Managed",
        members=members,
    )


def _models(output: str) -> tuple[str, ...]:
    return tuple(row.model for row in rows(Processor, output))


def _release(output: str) -> str:
    found = [row for row in rows(Release, output) if row.family != "IOS XE"] or rows(Release, output)
    return found[0].version if found else ""
