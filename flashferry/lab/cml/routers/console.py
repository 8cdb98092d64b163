"""What a node's console says while it boots.

Facts
-----
- A cat8000v counts as BOOTED by one of ``Would you like to enter the initial configuration dialog?``, ``Press RETURN to
  get started!`` and ``%CVAC-4-CONFIG_DONE:``; the first comes before any configuration (its node definition, public).
- What CVAC could not apply it tells line by line, and their number at the end: ``%CVAC-4-CLI_FAILURE: Configuration
  command failure: '...' was rejected`` and ``%CVAC-3-CONFIG_ERROR: N error(s) while applying configs generated from
  file ...`` (public boot logs of a C8000V). With the line goes whatever secret stands in it.
- A startup configuration's line that the parser does not know is printed with ``% Invalid input detected at '^'
  marker.`` below it.
- All else that a real console says while it boots is left out: nobody may hang a decision on it. Lines of the
  stand-in's own begin with ``stand-in:``.
"""

from __future__ import annotations

from flashferry.lab.cml.routers.day0 import Day0
from flashferry.lab.cml.routers.kinds import Kind, is_release_of
from flashferry.lab.standin.hardware import software_lines
from flashferry.lab.standin.platform import load_platform


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
    refused = [f"stand-in: SSH lets nobody in: {day0.why_no_ssh}"]
    return ["", "Press RETURN to get started!", "", *(refused if day0.why_no_ssh else enabled)]
