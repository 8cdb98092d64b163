"""`show version`, read by ntc-templates where it reads well and by our own rows where it does not."""

from __future__ import annotations

from dataclasses import dataclass

from ntc_templates.parse import parse_output
from textfsm import TextFSMError

from templates.rows import ImageLine, OperatingMode, first


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareVersion:
    """What `show version` tells.

    Attributes:
        release: Release as printed, for example `16.11.1b`; empty where ntc-templates finds none.
        hardware: Model names, the active member first.
        image_file_system: Prefix of the running image without colon (`bootflash`), or None.
        image_path: Path of the running image on it, or None.
        install_mode: Whether the device runs from `packages.conf`.
        controller_managed: Whether an SD-WAN controller configures it.
    """

    release: str
    hardware: tuple[str, ...]
    image_file_system: str | None
    image_path: str | None
    install_mode: bool
    controller_managed: bool


def parse_version(output: str) -> SoftwareVersion:
    """Return what `show version` of an IOS or IOS-XE device tells; what is missing stays empty."""
    image = first(ImageLine, output)
    mode = first(OperatingMode, output)
    try:
        parsed = parse_output(platform="cisco_ios", command="show version", data=output)
    except (TextFSMError, ValueError):
        parsed = []
    facts = parsed[0] if parsed else {}
    return SoftwareVersion(
        release=str(facts.get("version", "")),
        hardware=tuple(str(name) for name in facts.get("hardware", ())),
        image_file_system=image.file_system if image else None,
        image_path=image.path.lstrip("/") if image else None,
        install_mode=image is not None and image.path.endswith("packages.conf"),
        controller_managed=mode is not None and mode.mode == "Controller-Managed",
    )
