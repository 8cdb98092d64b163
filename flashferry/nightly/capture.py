"""A packet capture of one tuned copy, where the night's description asks for one.

The copy is one of its own, behind those that are judged: a capture costs the controller time, which must not show in
any series. What prevents a capture is reported and is no failure of the night.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.core.units import size
from flashferry.nightly.backend import LabBackend, PlannedLink, RunningLab, Topology
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.night import NightFault
from flashferry.nightly.product import Product
from flashferry.nightly.settings import NightSettings

NAME = "capture"


@dataclass(slots=True, kw_only=True)
class Capture:
    """Captures one tuned copy.

    Attributes:
        backend: Takes the capture, if it can.
        lab: The lab.
        topology: Its plan.
        settings: Which router, and by what it copies.
        product: Copies.
        content: The capture; empty before there is one.
    """

    backend: LabBackend
    lab: RunningLab
    topology: Topology
    settings: NightSettings
    product: Product
    content: bytes = b""

    def take(self, deadline: Deadline) -> str:
        """Take the capture that is asked for, and return what came of it in words; empty where none is."""
        node = self.settings.capture_node
        if node is None:
            return ""
        link = next((one for one in self.topology.links if node in one.nodes), None)
        if link is None:
            return f"no capture: {node} is behind no link of the night"
        try:
            self.content = self._taken(link, node, deadline)
        except NightFault as error:
            return f"no capture: {error.message}"
        return f"{size(len(self.content))} captured at {link.label}"

    def _taken(self, link: PlannedLink, node: str, deadline: Deadline) -> bytes:
        transport = ("--transport", self.settings.transport) if self.settings.transport else ()
        image = ("--image", str(self.settings.image), "--seconds", f"{self.settings.probe_seconds:g}")
        self.backend.capture_begin(self.lab, link)
        self.product.run(
            NAME, "probe", ("--tuned", "--host", node, *image, *transport, *self.settings.options), deadline=deadline
        )
        return self.backend.capture_end(self.lab, link)
