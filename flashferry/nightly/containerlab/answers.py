"""What containerlab tells as JSON: containers, states, addresses, and what is set on a device. Pure.

Facts
-----
By the source of containerlab 0.79.0:

* `inspect --all --format json` is an object of lists by the lab's name, `{}` where there is no lab. A container has
  `lab_name`, `absLabPath` (its topology file), `name` (`clab-LAB-NODE`), `image`, `kind`, `state` (docker's: `running`,
  `exited`, ...), `status` (`healthy`, `unhealthy`, `health: starting`, else docker's words) and `ipv4_address` with its
  prefix, or `N/A`. Older ones had one list under `containers`, of the same objects.
* A vrnetlab image is `unhealthy` until its router has booted, which takes longer than docker's patience; IOL has no
  check of its health, so that it counts as booted when it runs.
* `tools netem show --format json` (0.65.0 and newer) is an object by the node's name of lists of `interface` (with its
  alias in brackets), `delay` and `jitter` as `50ms` or `1.5s`, empty for none, `packet_loss` in percent with two
  decimals, and `rate` in kbit/s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from flashferry.core.json_access import Node
from flashferry.nightly.backend import LabNode, LinkCondition, NodeState
from flashferry.nightly.containerlab.kinds import KINDS

PREFIX = "clab"
"""Containers' names begin with it: a topology of ours says so."""

_STATES = {
    "created": NodeState.DEFINED_ON_CORE,
    "restarting": NodeState.DISCONNECTED,
    "paused": NodeState.DISCONNECTED,
    "exited": NodeState.STOPPED,
    "dead": NodeState.STOPPED,
    "removing": NodeState.STOPPED,
}
_NOT_YET = ("unhealthy", "health: starting")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A node as it runs.

    Attributes:
        name: Its container's name.
        lab: The lab's name.
        topology: The file that the lab was deployed from.
        kind: Its kind.
        image: Its image.
        state: Where it stands.
        told: The same in docker's words.
        address: Its address on the management network, or None.
    """

    name: str
    lab: str
    topology: str
    kind: str
    image: str
    state: NodeState
    told: str
    address: str | None

    @property
    def label(self) -> str:
        """Its name in the topology."""
        return self.name.removeprefix(container_name(self.lab, ""))

    def node(self) -> LabNode:
        """Return it as a night sees it."""
        kind = KINDS.get(self.kind)
        return LabNode(
            node_id=self.name,
            label=self.label,
            node_definition=kind.node_definition if kind else self.kind,
            image_definition=self.image or None,
            state=self.state,
            addresses=(self.address,) if self.address else (),
        )


def container_name(lab: str, label: str) -> str:
    """Return the name of a node's container."""
    return f"{PREFIX}-{lab}-{label}"


def containers(answer: Any) -> tuple[Container, ...]:
    """Return what `inspect` tells."""
    return tuple(_container(one) for _, lab in Node(answer).items() for one in lab.list())


def _container(one: Node) -> Container:
    address = (one.text("ipv4_address") or "").partition("/")[0]
    state, status = one.text("state") or "", one.text("status") or ""
    return Container(
        name=one.text("name") or "",
        lab=one.text("lab_name") or "",
        topology=one.text("absLabPath") or "",
        kind=one.text("kind") or "",
        image=one.text("image") or "",
        state=_state(state, status),
        told=" ".join(filter(None, (state, status))),
        address=address if address and address != "N/A" else None,
    )


def _state(state: str, status: str) -> NodeState:
    if state == "running":
        return NodeState.STARTED if status in _NOT_YET else NodeState.BOOTED
    return _STATES.get(state, NodeState.QUEUED)


def condition_of(answer: Any, port: str) -> LinkCondition | None:
    """Return what `tools netem show` tells of a device; None where nothing is set on it."""
    for devices in (devices for _, devices in Node(answer).items()):
        for one in devices.list():
            if (one.text("interface") or "").partition(" ")[0] == port:
                return LinkCondition(
                    bandwidth_kbps=one.whole("rate") or 0,
                    latency_ms=round(_ms(one.text("delay"))),
                    jitter_ms=round(_ms(one.text("jitter"))),
                    loss_percent=one.number("packet_loss") or 0.0,
                )
    return None


def netem_words(condition: LinkCondition) -> tuple[str, ...]:
    """Return the options of `tools netem set`: what is not named goes back to nothing."""
    return (
        *(("--delay", f"{condition.latency_ms}ms") if condition.latency_ms else ()),
        *(("--jitter", f"{condition.jitter_ms}ms") if condition.jitter_ms else ()),
        *(("--loss", f"{condition.loss_percent:g}") if condition.loss_percent else ()),
        *(("--rate", str(condition.bandwidth_kbps)) if condition.bandwidth_kbps else ()),
    )


def _ms(text: str | None) -> float:
    """Return a duration as Go writes it, `1m0.5s`, in milliseconds."""
    return sum(float(number) * _MS[unit] for number, unit in _DURATION.findall(text or ""))
