"""Capture the packets of one tuned copy, if the description asks for it.

It is an extra copy after the measured ones, because a capture slows the controller. A capture that fails is reported
and does not fail the night.
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
    """Capture one tuned copy; `content` is the pcap file, empty before."""

    backend: LabBackend
    lab: RunningLab
    topology: Topology
    settings: NightSettings
    product: Product
    content: bytes = b""

    def take(self, deadline: Deadline) -> str:
        """Take the capture and return the result in words; empty if none was asked for."""
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
