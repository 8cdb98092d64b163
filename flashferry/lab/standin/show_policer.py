"""`show platform hardware fed ... qos queue stats internal cpu policer`: what the control plane let in and dropped.

Facts
-----
The layout, and 4000 packets a second for what is meant for the switch itself, are those of a capture (genieparser); a
C9300 of 17.18.3 had 1000 (cisco-open/intelligent-release-image-staging). Policing itself is done by the lab's link: the
counters are the link's. A device for which the world asks for no policer shows the capture's rate and drops nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.control import ask
from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

_CAPTURED_RATE = 4000
_PATIENCE_S = 2.0


def cpu_policer(vty: Vty, _: tuple[str, ...]) -> str:
    """Print the queues and policers of the processor."""
    device = vty.device
    rate = device.settings.control_plane_packets_per_s or _CAPTURED_RATE
    seen = _counted(device)
    dropped = seen.get("dropped_bytes", 0), seen.get("dropped_packets", 0)
    accepted = seen.get("accepted_bytes", 0), seen.get("accepted_packets", 0)
    return device.platform.texts["cpu_policer"].format(
        forus=_queue(2, "Forus traffic", rate, *dropped),
        resolution=_queue(5, "Forus Address resolution", rate, 0, 0),
        policer=f"{14:<11}{accepted[0]:<17}{accepted[1]:<16}{dropped[0]:<14}{dropped[1]}",
    )


def _queue(number: int, name: str, rate: int, dropped_bytes: int, dropped_packets: int) -> str:
    return f"{number:<5}{14:<7}{name:<28}{'Yes':<8}{rate:<10}{rate:<9}{dropped_bytes:<13}{dropped_packets}"


def _counted(device: Device) -> dict[str, int]:
    """Ask the link for the counters of this device's policer; empty where there is no link or no policer."""
    if device.link_control is None:
        return {}
    try:
        nodes = ask(device.link_control, {"do": "counters"}, timeout_s=_PATIENCE_S)["nodes"]
    except LabError:
        return {}
    return dict(nodes.get(device.settings.address, {}))
