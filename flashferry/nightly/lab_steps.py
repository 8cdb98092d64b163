"""Run the lab's steps of a night (start, reach, condition), with all waiting for the lab.

Requests may fail for a while: a single answer 502 must not end a night.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from flashferry.core.errors import FlashferryError
from flashferry.core.units import counted, link_rate
from flashferry.nightly.backend import (
    Deadline,
    LabNode,
    LinkCondition,
    NodeState,
    PlannedLink,
    PlannedNode,
    RunningLab,
    Topology,
)
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.night import Fault, MeasuredLink, NightFault, StepName
from flashferry.nightly.routers import Pings, RouterState, SshRouters, judge_link
from templates.version import parse_version

T = TypeVar("T")
R = TypeVar("R")
PATIENCE_S = 120.0
"""A backend may answer with nothing but errors for this long while it is polled."""
DOWN_POLLS = 3
"""A node fails after this many polls in a row as DISCONNECTED, or STOPPED after it was started."""
MOST_AT_ONCE = 16
_DAY_0, _DAY_0_DONE = "%CVAC-", "CONFIG_DONE"
"""Marks of IOS-XE console messages about the day-0 configuration. Only the message of success is known; any other is
quoted.
"""


def in_parallel(action: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return an action's result for each item, run in threads; raises the first error."""
    if not items:
        return []
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(items))) as pool:
        return list(pool.map(action, items))


def await_booted(
    backend: CmlBackend, lab: RunningLab, topology: Topology, *, poll_s: float, deadline: Deadline
) -> tuple[LabNode, ...]:
    """Wait until all routers are BOOTED and return the lab's nodes.

    Raises:
        NightFault: A node did not boot in time or went down, or the backend kept failing.
    """
    poll = _Poll(backend, lab, deadline)
    down: Counter[str] = Counter()
    was_up: set[str] = set()
    while True:
        states = poll.states()
        waiting = [one for one in topology.nodes if states.get(one.label) is not NodeState.BOOTED]
        if states and not waiting:
            return poll.nodes
        for node in waiting:
            state = states.get(node.label)
            was_up |= {node.label} if state is NodeState.STARTED else set()
            is_down = state is NodeState.DISCONNECTED or (state is NodeState.STOPPED and node.label in was_up)
            down[node.label] = down[node.label] + 1 if is_down else 0
            if down[node.label] >= DOWN_POLLS:
                raise _not_booted(node, f"is {state}")
        if not deadline.pause(poll_s):
            state = states.get(waiting[0].label) if waiting else None
            raise _not_booted(waiting[0] if waiting else topology.nodes[0], f"is {state or 'not known'}, not BOOTED")


class _Poll:
    """Poll a backend for its nodes, and tolerate errors for `PATIENCE_S`."""

    def __init__(self, backend: CmlBackend, lab: RunningLab, deadline: Deadline) -> None:
        self._backend, self._lab, self._clock = backend, lab, deadline.clock
        self._answered_s = self._clock.monotonic_s()
        self.nodes: tuple[LabNode, ...] = ()

    def states(self) -> Mapping[str, NodeState]:
        """Return the nodes' states by label; empty if the backend did not answer."""
        try:
            self.nodes = self._backend.nodes(self._lab)
        except NightFault:
            if self._clock.monotonic_s() - self._answered_s > PATIENCE_S:
                raise
            return {}
        self._answered_s = self._clock.monotonic_s()
        return {node.label: node.state for node in self.nodes}


def _not_booted(node: PlannedNode, how: str) -> NightFault:
    return NightFault(
        f"expected BOOTED, the node {how}",
        fault=Fault.LAB,
        step=StepName.START,
        hint="Look at its console log in the night's folder, and at the controller's load",
        host=node.label,
    )


def addresses_of(topology: Topology, nodes: Sequence[LabNode]) -> Mapping[str, str]:
    """Return the SSH address of each router: the planned one, or else the first that the backend reports."""
    addresses_of = {node.label: node.addresses for node in nodes}
    found = {node.label: node.address or next(iter(addresses_of.get(node.label, ())), None) for node in topology.nodes}
    return {label: address for label, address in found.items() if address is not None}


class Reach:
    """Wait until all routers accept SSH, which takes longer than BOOTED."""

    def __init__(self, backend: CmlBackend, lab: RunningLab, topology: Topology, routers: SshRouters) -> None:
        self._backend, self._lab, self._topology, self._routers = backend, lab, topology, routers
        self.nodes: tuple[LabNode, ...] = ()
        self.addresses: dict[str, str] = {}
        self.states: dict[str, RouterState] = {}
        self._errors: dict[str, FlashferryError] = {}

    def wait(self, *, poll_s: float, deadline: Deadline) -> str:
        """Wait for all routers and return a sentence about them.

        Raises:
            NightFault: `LAB`: a router has no address or is not BOOTED. `DEVICE`: it does not accept SSH.
        """
        poll = _Poll(self._backend, self._lab, deadline)
        while True:
            poll.states()
            self.nodes = poll.nodes or self.nodes
            self.addresses = dict(addresses_of(self._topology, self.nodes))
            self._read_states()
            missing = [node for node in self._topology.nodes if node.label not in self.states]
            if not missing:
                return self._sentence()
            if not deadline.pause(poll_s):
                raise self._unreached(missing[0])

    def _read_states(self) -> None:
        todo = [one for one in self._topology.nodes if one.label in self.addresses and one.label not in self.states]

        def read(node: PlannedNode) -> RouterState | FlashferryError:
            try:
                return self._routers.read_state(node, self.addresses[node.label])
            except FlashferryError as error:
                return error

        for node, found in zip(todo, in_parallel(read, todo), strict=True):
            if isinstance(found, RouterState):
                self.states[node.label] = found
            else:
                self._errors[node.label] = found

    def _sentence(self) -> str:
        kinds = Counter(
            f"{node.node_definition} {parse_version(self.states[node.label].version).release}"
            for node in self._topology.nodes
        )
        return "; ".join(f"{count} x {kind}" for kind, count in kinds.items())

    def _unreached(self, node: PlannedNode) -> NightFault:
        now = next((one for one in self.nodes if one.label == node.label), None)
        if now is None or now.state is not NodeState.BOOTED:
            how = f"expected BOOTED, the node is {now.state if now else 'not in the lab any more'}"
            return _unreachable(node, Fault.LAB, how, "Look at its console log in the night's folder")
        if node.label not in self.addresses:
            return _unreachable(
                node,
                Fault.LAB,
                "the controller sees no address of it",
                "Give it one in the description (static), or use a bridge whose addresses the controller sees",
            )
        console = self._console(now)
        return _unreachable(
            node,
            Fault.DEVICE,
            f"BOOTED, but {self._errors[node.label].message}{console}",
            "Look at its console log: day-0 configuration, SSH keys, the address that it got",
        )

    def _console(self, node: LabNode) -> str:
        try:
            log = self._backend.console_log(self._lab, node)
        except NightFault:
            return ""
        words = (line.strip() for line in log.splitlines() if _DAY_0 in line and _DAY_0_DONE not in line)
        line = next(words, "")
        return f"; its console says: {line[:200]}" if line else ""


def _unreachable(node: PlannedNode, fault: Fault, reason: str, hint: str) -> NightFault:
    return NightFault(reason, fault=fault, step=StepName.REACH, hint=hint, host=node.label)


def check_licences(topology: Topology, states: Mapping[str, RouterState], target_bps: int | None) -> None:
    """Check that no licence limits a router below its target rate: the limit would hide any gain.

    Raises:
        NightFault: `DEVICE`: a licence does.
    """
    links = {label: link.condition.bandwidth_kbps * 1000 for link in topology.links for label in link.nodes}
    for node in topology.nodes:
        limit, target = states[node.label].throughput_bps, target_bps or links.get(node.label, 0)
        if limit is not None and limit < target:
            raise NightFault(
                f"expected a throughput of {link_rate(target)} or more, its licence lets {link_rate(limit)} "
                "through: no copy of it would measure anything",
                fault=Fault.DEVICE,
                step=StepName.REACH,
                hint="Put 'license boot level network-premier addon dna-premier' or what fits into its day-0 "
                "configuration, or say by 'night.needs_kbps' that less will do",
                host=node.label,
            )


def measure_link(
    backend: CmlBackend,
    lab: RunningLab,
    link: PlannedLink,
    ping: Callable[[str, LinkCondition], Pings],
) -> MeasuredLink:
    """Set a link's condition, read it back, and ping all routers through it.

    Args:
        backend: The backend.
        lab: The lab.
        link: The link.
        ping: Pings a router, given its label and the planned condition.

    Raises:
        NightFault: The condition could not be set.
    """
    applied = backend.condition(lab, link)
    if not _is_same(link.condition, applied):
        return _measured(link, applied, sentence=f"set to {_words(link.condition)}, read back as {_words(applied)}")
    found = in_parallel(lambda label: ping(label, link.condition), link.nodes)
    verdicts = [(one, judge_link(link.condition, one)) for one in found]
    if not verdicts:
        return _measured(link, applied, sentence="no router of the night is behind it")
    # The worst of its routers speaks for the link; one that answered nothing is worse than a slow one.
    pings, worst = max(verdicts, key=lambda one: (not one[1].is_as_planned, one[0].lost, one[0].rtt_ms or 0.0))
    return _measured(link, applied, pings=pings, is_as_planned=worst.is_as_planned, sentence=worst.sentence)


def _measured(
    link: PlannedLink, applied: LinkCondition, *, sentence: str, pings: Pings | None = None, is_as_planned: bool = False
) -> MeasuredLink:
    return MeasuredLink(
        name=link.label,
        condition=link.condition_name,
        planned=link.condition,
        applied=applied,
        rtt_ms=pings.rtt_ms if pings else None,
        loss_percent=pings.loss_percent if pings else None,
        is_as_planned=is_as_planned,
        told=f"{sentence}, by TCP handshakes" if pings and pings.is_tcp else sentence,
    )


def _is_same(planned: LinkCondition, applied: LinkCondition) -> bool:
    def whole(one: LinkCondition) -> tuple[int, int, int, int]:
        return (one.bandwidth_kbps, one.latency_ms, one.jitter_ms, round(one.loss_percent * 1000))

    return whole(planned) == whole(applied)


def _words(one: LinkCondition) -> str:
    rate = f"{one.bandwidth_kbps} kbit/s" if one.bandwidth_kbps else "any rate"
    return f"{rate}, {one.latency_ms} ms, jitter {one.jitter_ms} ms, loss {one.loss_percent:g} %"


def check_links(links: Sequence[MeasuredLink]) -> str:
    """Return a sentence about links that are all as planned.

    Raises:
        NightFault: `LAB`: a link is not.
    """
    off = [link for link in links if not link.is_as_planned]
    if off:
        more = f"; so {'is' if len(off) == 2 else 'are'} {counted(len(off) - 1, 'link')} more" if len(off) > 1 else ""
        raise NightFault(
            f"link {off[0].name} is not as planned: {off[0].told}{more}",
            fault=Fault.LAB,
            step=StepName.CONDITION,
            hint="The night goes on, but is not compared with others; look at the link's condition on the controller",
        )
    return "; ".join(f"{link.name}: {link.told}" for link in links) or "no link has a condition"
