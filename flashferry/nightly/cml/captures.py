"""Capture packets on a link.

Facts
-----
* Cisco's client asks for `/api/v0//api/v0/pcap/<id>`, which no controller has (measured), so its methods are not used.
* Up to CML 2.9 a capture is kept under a key, `GET links/{id}/capture/key`; from 2.10 on under the link's ID. The other
  one is tried if the first is missing.
* `capture/start` needs `maxpackets` (1 to 1,000,000) or `maxtime` (1 to 86,400 s).
"""

from __future__ import annotations

from functools import partial

from flashferry.core.json_access import Node
from flashferry.core.redaction import sanitize
from flashferry.nightly.cml.controller import Call, Controller, below
from flashferry.nightly.night import Fault, NightFault

STEP = "artefacts"
MOST_PACKETS = 1_000_000
_ABSENT = (400, 404)
_DOWNLOAD_S = 300.0


def start_capture(
    controller: Controller, lab_id: str, link_id: str, *, most_packets: int = 100_000, most_s: int = 900
) -> None:
    """Start to capture a link's packets.

    Args:
        controller: The controller.
        lab_id: The lab.
        link_id: The link.
        most_packets: Packets after which it ends, 1 to 1,000,000.
        most_s: Seconds after which it ends, 1 to 86,400.

    Raises:
        NightFault: The controller refuses.
    """
    body = {"encap": "ethernet", "maxpackets": min(most_packets, MOST_PACKETS), "maxtime": most_s}
    path = below("labs", lab_id, "links", link_id, "capture", "start")
    what = "start a packet capture"
    call = Call(method="PUT", path=path, what=what, step=STEP, expects="nothing", json=body, is_repeatable=False)
    controller.ask(call, done=partial(_is_capturing, controller, lab_id, link_id))


def stop_capture(controller: Controller, lab_id: str, link_id: str) -> bytes:
    """Stop a capture and return its pcap file.

    Raises:
        NightFault: The controller has none.
    """
    path = below("labs", lab_id, "links", link_id, "capture", "stop")
    call = Call(method="PUT", path=path, what="end a packet capture", step=STEP, expects="nothing", allows=_ABSENT)
    key = _key(controller, lab_id, link_id)
    controller.ask(call)
    for name in dict.fromkeys((key, link_id)):
        path, what = below("pcap", name), "download a packet capture"
        answer = controller.get(path, what, step=STEP, expects="bytes", allows=(404,), timeout_s=_DOWNLOAD_S)
        if not answer.is_gone:
            return bytes(answer.value)
    raise NightFault(
        f"the packet capture of link {sanitize(link_id)} is not to be found",
        fault=Fault.LAB,
        step=STEP,
        hint="'flashferry nightly record' shows where this controller keeps it",
    )


def _is_capturing(controller: Controller, lab_id: str, link_id: str) -> bool | None:
    """Return True if a capture runs or ran; None if not."""
    path = below("labs", lab_id, "links", link_id, "capture", "status")
    answer = controller.get(path, "read a capture's state", step=STEP, allows=_ABSENT)
    return True if Node(answer.value).at("config") else None


def _key(controller: Controller, lab_id: str, link_id: str) -> str:
    """Return the key under which a link's capture is kept."""
    if controller.version.has_capture_keys:
        path = below("labs", lab_id, "links", link_id, "capture", "key")
        found = controller.get(path, "read a capture's key", step=STEP, allows=_ABSENT).value
        if isinstance(found, str) and found:
            return found
    return link_id
