"""Records what goes over a router's emulated link, at its end in the core namespace."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from flashferry.lab.cml.routers.node import DHCP, HostResources, LatencyCounts, Node, path_out, profile_of
from flashferry.lab.cml.runtime import BootTimes, Condition, LabPlan, NodePlan, NodeState, NodeView, pcap_of
from flashferry.lab.errors import LabError
from flashferry.lab.link import LinkProfile
from flashferry.lab.world_spec import CORE_NETWORK, SITE_NETWORK

_EVERY_KIND = 0x0003
"""ETH_P_ALL (linux/if_ether.h): outgoing packets, too."""

_POLL_S = 0.2
_MOST_BYTES = 256 * 2**20
_HEADER = bytes.fromhex("525400000002" + "525400000001" + "0800")
"""Of Ethernet, towards the router; the links of the lab carry bare IP packets."""

_HEADER_BACK = bytes.fromhex("525400000001" + "525400000002" + "0800")


class LinkCapture:
    """Records from its making on, in a thread, until it is ended or holds 256 MiB.

    The caller is in the core namespace. Raises OSError: there is no such interface, or the right is missing.
    """

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERY_KIND))
        try:
            self._socket.bind((interface, _EVERY_KIND))
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(_POLL_S)
        self._frames: list[tuple[float, bytes]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._record, name=f"capture-{interface}")
        self._thread.start()

    def frames(self) -> list[tuple[float, bytes]]:
        """Return what was recorded so far, each frame with its time."""
        return list(self._frames)

    def end(self) -> None:
        """Stop recording; what there is stays."""
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _record(self) -> None:
        held_bytes = 0
        while not self._over.is_set() and held_bytes < _MOST_BYTES:
            with suppress(OSError):  # nothing came, or the interface is gone with its router
                packet, (_, _, direction, *_) = self._socket.recvfrom(65535)
                header = _HEADER if direction == socket.PACKET_OUTGOING else _HEADER_BACK
                self._frames.append((time.time(), header + packet))
                held_bytes += len(packet)
                continue
            self._over.wait(_POLL_S / 10)


def as_pcap(captures: list[LinkCapture]) -> bytes:
    """Return what several captures of one link recorded, in the order of time."""
    return pcap_of(sorted(frame for each in captures for frame in each.frames()))


BOOT = BootTimes(queued_s=0.5, started_s=3.0, stagger_s=0.3)
"""Boot times by default: quick, and every state is to be seen."""

_FIRST_LEASE = 101
"""Of the network, so that addresses below it are left to those that are written down."""


class RouterRuntime:
    """Runs nodes in the core namespace that the calling process is in.

    `directory`: An existing folder of its own. `core_pid`: A process in the core namespace; the calling process, as a
    rule. `times`: How long booting takes; a stand-in takes about a second by itself.
    """

    def __init__(
        self,
        directory: Path,
        core_pid: int,
        *,
        times: BootTimes = BOOT,
        counts: LatencyCounts = LatencyCounts.ONCE,
        seed: int = 1,
    ) -> None:
        self._counts = counts
        self._lock = threading.Lock()
        self._taken: set[str] = set()
        self._resources = HostResources(
            directory=directory,
            core_pid=core_pid,
            times=times,
            take_address=self._take_address,
            free_address=self._free_address,
            seed=seed,
        )
        self._labs: dict[str, LabPlan] = {}
        self._nodes: dict[str, dict[str, Node]] = {}
        self._conditions: dict[str, dict[str, Condition | None]] = {}
        self._captures: dict[tuple[str, str], list[LinkCapture]] = {}
        self._numbers = count()

    def start(self, lab: LabPlan) -> None:
        """Start all nodes that do not run."""
        self._labs[lab.lab_id] = lab
        conditions = self._conditions.setdefault(lab.lab_id, {})
        conditions |= {link.link_id: link.condition for link in lab.links}
        nodes = self._nodes.setdefault(lab.lab_id, {})
        for place, plan in enumerate(lab.nodes):
            if (node := nodes.get(plan.node_id)) is None or (not node.is_running and node.plan != plan):
                node = nodes[plan.node_id] = self._made(lab.lab_id, plan, place)
            node.start()

    def state(self, lab_id: str, node_id: str) -> NodeView:
        """Return what is to be seen of a node."""
        node = self._nodes.get(lab_id, {}).get(node_id)
        return NodeView(state=NodeState.DEFINED_ON_CORE) if node is None else node.view()

    def set_condition(self, lab_id: str, link_id: str, condition: Condition | None) -> Condition | None:
        """Put a condition on a link while packets flow; what is not emulated is not in force."""
        self._conditions.setdefault(lab_id, {})[link_id] = condition
        for node in self._nodes.get(lab_id, {}).values():
            node.follow_link()
        if condition is None or not condition.is_enabled:
            return None
        return replace(condition, others={key: value for key, value in condition.others.items() if key == "limit"})

    def stop(self, lab_id: str, node_id: str | None = None) -> None:
        """Order one node, or all, to end."""
        for own_id, node in self._nodes.get(lab_id, {}).items():
            if node_id in {None, own_id}:
                node.stop()

    def wipe(self, lab_id: str) -> None:
        """Forget of all nodes that they ran; their flash went when they were stopped."""
        for node in self._nodes.get(lab_id, {}).values():
            node.wipe()

    def forget(self, lab_id: str) -> None:
        """Let go of a lab."""
        nodes = self._nodes.pop(lab_id, {})
        for node in nodes.values():
            node.stop()
            node.join()  # it was stopped and wiped before: there is nothing left to wait for
        for key in [key for key in self._captures if key[0] == lab_id]:
            self._end_captures(*key)
        self._labs.pop(lab_id, None)
        self._conditions.pop(lab_id, None)

    def start_capture(self, lab_id: str, link_id: str) -> None:
        """Begin to record what goes to and from the routers behind a link."""
        self._end_captures(lab_id, link_id)
        ends = [
            node.core_interface
            for node in self._nodes.get(lab_id, {}).values()
            if link_id in self._path(lab_id, node.plan)
        ]
        self._captures[lab_id, link_id] = [LinkCapture(end) for end in ends if end is not None]

    def capture(self, lab_id: str, link_id: str) -> bytes | None:
        """Return what was recorded so far."""
        held = self._captures.get((lab_id, link_id))
        return None if held is None else as_pcap(held)

    def stop_capture(self, lab_id: str, link_id: str) -> None:
        """End a recording."""
        self._end_captures(lab_id, link_id)

    def close(self) -> None:
        """End everything, and wait for its end."""
        nodes = [node for each in self._nodes.values() for node in each.values()]
        for key in list(self._captures):
            self._end_captures(*key)
        for node in nodes:
            node.stop()
        for node in nodes:
            node.join()

    def _made(self, lab_id: str, plan: NodePlan, place: int) -> Node:
        def profile(interface: str) -> LinkProfile | None:
            lab, conditions = self._labs.get(lab_id), self._conditions.get(lab_id, {})
            path = None if lab is None else path_out(lab, plan, interface)
            return None if path is None else profile_of((conditions.get(link) for link in path), self._counts)

        return Node(plan, self._resources, place=place, number=next(self._numbers), profile_by=profile)

    def _path(self, lab_id: str, plan: NodePlan) -> set[str]:
        lab = self._labs[lab_id]
        paths = (path_out(lab, plan, each.label) for each in plan.interfaces)
        return {link for path in paths if path is not None for link in path}

    def _end_captures(self, lab_id: str, link_id: str) -> None:
        for each in self._captures.pop((lab_id, link_id), ()):
            each.end()

    def _take_address(self, requested: str) -> str:
        """Claim an address. Raises LabError: it is taken, or all are."""
        with self._lock:
            if requested == DHCP:
                leases = list(map(str, SITE_NETWORK))[_FIRST_LEASE:-1]
                requested = next((each for each in leases if each not in self._taken), "")
                if not requested:
                    raise LabError(f"DHCP has no address left in {SITE_NETWORK}.")
            elif requested in self._taken or requested in map(str, CORE_NETWORK):
                raise LabError(f"Address {requested} is taken.")
            self._taken.add(requested)
        return requested

    def _free_address(self, address: str) -> None:
        with self._lock:
            self._taken.discard(address)
