"""What a switch in install mode prints, as C9300s print it (genieparser), for tests that look at its software."""

from __future__ import annotations

_RULE = "-" * 80 + "\n"

BOOT_BLOCK = """---------------------------
Switch {}
---------------------------
Current Boot Variables:
BOOT variable = flash:packages.conf;

Boot Variables on next reload:
BOOT variable = flash:packages.conf;
Manual Boot = no
Enable Break = yes
Boot Mode = DEVICE
iPXE Timeout = 0
"""
"""What `show boot` prints of one member."""


def summary(*rows: str, members: str = "1") -> str:
    """Return what `show install summary` prints of some packages, with the timer at rest."""
    return (
        f"[ Switch {members} ] Installed Package(s) Information:\n"
        "State (St): I - Inactive, U - Activated & Uncommitted,\n"
        "            C - Activated & Committed, D - Deactivated & Uncommitted\n"
        f"{_RULE}Type  St   Filename/Version\n{_RULE}"
        + "".join(f"{row}\n" for row in rows)
        + f"\n{_RULE}Auto abort timer: inactive\n{_RULE}"
    )
