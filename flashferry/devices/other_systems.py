"""What a device runs that is not IOS: known by its `show version`, or by the prompt at which a login ends. Pure.

Facts
-----
* `show version` of each system names it: `Cisco Nexus Operating System (NX-OS) Software`, `Cisco IOS XR Software`,
  `Cisco Adaptive Security Appliance Software`, `Junos: 21.4R3`, `Arista DCS-7050`, `Huawei Versatile Routing Platform
  Software` (vendors' command references).
* A shell has no `show`, VRP has `display` in its place: both refuse the command in words of their own.
* Prompts differ, too: `RP/0/RP0/CPU0:r1#` is IOS-XR's, `<r1>` VRP's, `user@r1>` Junos's, `user@r1:~$` a shell's.
"""

from __future__ import annotations

import re

_IOS = re.compile(r"(?im)^(?:cisco )?(?:ios(?!.?xr\b)|internetwork operating system)\b.*\bversion\b")
_BY_OUTPUT = (
    ("IOS-XR", re.compile(r"\bIOS[ -]XR\b", re.IGNORECASE)),
    ("NX-OS", re.compile(r"\bNX-?OS\b|Nexus Operating System", re.IGNORECASE)),
    ("ASA", re.compile(r"Adaptive Security Appliance|Firepower Threat Defense|Cisco PIX", re.IGNORECASE)),
    ("Junos", re.compile(r"\bJUNOS\b", re.IGNORECASE)),
    ("EOS", re.compile(r"^\s*Arista\b|\bArista Networks\b", re.IGNORECASE | re.MULTILINE)),
    ("VRP", re.compile(r"Versatile Routing Platform|\bVRP \(R\)|Error: ?Unrecognized command", re.IGNORECASE)),
    ("Linux", re.compile(r"command not found|\bshow: not found|^Linux \S+ \d", re.IGNORECASE | re.MULTILINE)),
)
_BY_PROMPT = (
    ("IOS-XR", re.compile(r"RP/\d+/\S+:\S+[#>]")),
    ("VRP", re.compile(r"<[\w.-]+>|\[[~*][\w.-]+\]")),
    ("Linux", re.compile(r"\[?\w[\w.-]*@[\w.-]+[: ]\S*\]?\s?[$#%]|[\w.-]*[$%]")),
    ("Junos", re.compile(r"\w[\w.-]*@[\w.-]+[>#%]")),
)


def other_system(output: str) -> str | None:
    """Return the system that `show version`, its refusal or a banner names; None for IOS or an unknown name."""
    if _IOS.search(output):
        return None
    return next((name for name, pattern in _BY_OUTPUT if pattern.search(output)), None)


def other_system_at(line: str) -> str | None:
    """Return the system whose prompt a line is, or None."""
    return next((name for name, pattern in _BY_PROMPT if pattern.fullmatch(line.strip())), None)


def not_ios(system: str) -> tuple[str, str]:
    """Return why a device of another system is refused, and what to do."""
    return (
        f"this is not IOS: it seems to be {system}",
        "Take it out of the inventory, or leave it out with --host or --filter: flashferry stages Cisco IOS and IOS-XE",
    )
