"""What the kernel says of a copy, read ten times a second from outside: the same for every server."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field

from flashferry.lab.experiment.diag import ESTABLISHED, Connection, Monitor
from flashferry.tcp.info import TcpInfo, parse_tcp_info
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import KnownLink, Verdict, classify_transfer

STEP_S = 0.1
"""The article's graphs have steps of 100 ms."""

_JUDGED_STEP_S = 1.0
"""Verdicts are made for readings a second apart: between closer ones BBR's own rounds show."""
_LEAST_JUDGED_READINGS = 5


@dataclass(slots=True, kw_only=True)
class Flow:
    """The readings of one connection.

    Attributes:
        local_port: Of the server's side.
        control: Congestion control at the last reading.
        samples: The readings, times counted from the first that found data under way.
        last: The latest reading.
    """

    local_port: int
    control: str = ""
    samples: list[Sample] = field(default_factory=list)
    last: TcpInfo | None = None
    _origin_s: float = 0.0

    def take(self, now_s: float, connection: Connection) -> None:
        """Take a reading in."""
        info = parse_tcp_info(connection.raw_info)
        if not self.samples:
            self._origin_s = now_s
        self.last, self.control = info, connection.control
        at_s = now_s - self._origin_s
        self.samples.append(Sample.from_info(at_s, info, all_written=connection.state != ESTABLISHED))

    def judged(self, link: KnownLink | None = None) -> Verdict:
        """Say what limited it, by readings about a second apart, and what its link carries if that is to be known."""
        step_s = min(_JUDGED_STEP_S, self.samples[-1].at_s / _LEAST_JUDGED_READINGS) if self.samples else _JUDGED_STEP_S
        return classify_transfer(thinned(self.samples, step_s), congestion_control=self.control or None, link=link)


def thinned(samples: list[Sample], step_s: float) -> list[Sample]:
    """Return the readings that are at least so far apart, and the last."""
    kept: list[Sample] = []
    for sample in samples:
        if not kept or sample.at_s - kept[-1].at_s >= step_s - STEP_S / 2:
            kept.append(sample)
    if samples and kept[-1] is not samples[-1]:
        kept.append(samples[-1])
    return kept


class Witness:
    """Watches the connections with some addresses, but for the control connections, for a with block.

    Args:
        peers: Whose connections count.
        control_ports: Ports on which servers take commands.
    """

    def __init__(self, peers: frozenset[str], control_ports: frozenset[int]) -> None:
        self._peers, self._control_ports = peers, control_ports
        self._flows: dict[tuple[str, int], Flow] = {}
        self._earlier: frozenset[tuple[str, int, int]] = frozenset()
        self._stop = threading.Event()
        # Made here, in the caller's namespace; the thread that reads inherits it as well.
        self._monitor = Monitor()
        self._thread = threading.Thread(target=self._watch, name="witness")

    def __enter__(self) -> Witness:
        # What is left of an earlier copy must not count for this one.
        self._earlier = frozenset((one.peer_address, one.local_port, one.peer_port) for one in self._theirs())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._monitor.close()

    def flows(self) -> list[Flow]:
        """Return the connections that carried something, the one that carried most first."""
        with_data = [flow for flow in self._flows.values() if flow.last is not None and flow.last.bytes_acked]
        return sorted(with_data, key=lambda flow: -((flow.last.bytes_acked or 0) if flow.last else 0))

    def _watch(self) -> None:
        next_s = time.monotonic()
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + STEP_S, time.monotonic())
            with contextlib.suppress(OSError):
                self._read()

    def _read(self) -> None:
        now_s = time.monotonic()
        for each in self._theirs():
            if (each.peer_address, each.local_port, each.peer_port) in self._earlier:
                continue
            key = (each.peer_address, each.local_port)
            flow = self._flows.get(key)
            if flow is None:
                # Until data flows there is nothing to say of a connection.
                if not (parse_tcp_info(each.raw_info).bytes_sent or 0):
                    continue
                flow = self._flows[key] = Flow(local_port=each.local_port)
            flow.take(now_s, each)

    def _theirs(self) -> list[Connection]:
        """Return the data connections that are open with those we watch."""
        return [
            each
            for each in self._monitor.connections()
            if each.peer_address in self._peers and each.local_port not in self._control_ports and each.raw_info
        ]
