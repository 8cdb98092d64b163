"""The way from a router's interface to the outside, and what the links on it do to packets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import prod

from flashferry.lab.cml.routers.kinds import CONNECTOR, SWITCH
from flashferry.lab.cml.runtime import Condition, LabPlan, NodePlan
from flashferry.lab.link import LinkProfile
from flashferry.lab.link_model import DirectionProfile

_BRIDGE = "bridge0"
_UNLIMITED_BPS = 1e9
"""Of a link without a bandwidth: more than a stand-in's TCP makes use of."""
_QUEUE_PACKETS = 1000
"""The default limit of netem (tc-netem(8)), which the controller is taken to use."""


class LatencyCounts(StrEnum):
    """How a link's latency counts; no document of the controller says which it is.

    ONCE: it is the round trip's. EACH_DIRECTION: a packet has it in each direction.
    """

    ONCE = "once"
    EACH_DIRECTION = "each-way"


def path_out(lab: LabPlan, node: NodePlan, interface: str) -> tuple[str, ...] | None:
    """Return the ids of the links from a node's interface to an external connector that is bridged to the outside.

    It leads over links and unmanaged switches: a router does not forward for another here. None: there is no way; NAT
    refuses every login.
    """
    owners = {each.interface_id: one for one in lab.nodes for each in one.interfaces}
    ends = {end: link for link in lab.links for end in link.interface_ids}
    begin = next((each.interface_id for each in node.interfaces if each.label == interface), "")
    paths: list[tuple[str, tuple[str, ...]]] = [(begin, ())]
    seen = {node.node_id}
    while paths:
        end, path = paths.pop(0)
        if (link := ends.get(end)) is None:
            continue
        other = next(each for each in link.interface_ids if each != end)
        there, path = owners[other], (*path, link.link_id)
        if there.node_definition == CONNECTOR and there.bridge == _BRIDGE:
            return path
        if there.node_definition == SWITCH and there.node_id not in seen:
            seen.add(there.node_id)
            paths += [(each.interface_id, path) for each in there.interfaces if each.interface_id != other]
    return None


def profile_of(conditions: Iterable[Condition | None], counts: LatencyCounts) -> LinkProfile:
    """Return what links one behind the other do to packets.

    Bandwidth, jitter and loss are those of each direction. What else a condition may hold (duplicates, reordering,
    ...) is not emulated, but for ``limit``, the packets of a queue.
    """
    held = [each for each in conditions if each is not None and each.is_enabled]
    share = 1e-3 if counts is LatencyCounts.EACH_DIRECTION else 0.5e-3
    delay_s = sum(each.latency_ms for each in held) * share
    queues = [int(each.others["limit"]) for each in held if each.others.get("limit")]
    path = DirectionProfile(
        rate_bps=min((each.bandwidth_kbps * 1e3 for each in held if each.bandwidth_kbps), default=_UNLIMITED_BPS),
        delay_s=delay_s,
        # No packet arrives before it was sent.
        jitter_s=min(delay_s, sum(each.jitter_ms for each in held) * share),
        loss_ratio=round(1 - prod(1 - each.loss_percent / 100 for each in held), 12),
        queue_packets=min(queues, default=_QUEUE_PACKETS),
    )
    return LinkProfile(name="condition", source="a link of a lab on the controller", to_site=path, to_core=path)
