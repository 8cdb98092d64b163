"""The link process: joins a site with the core and carries each packet through the link model.

Run as ``python -m flashferry.lab.relay`` by `flashferry.lab.world`; settings come by standard input. The process itself
stays in the core namespace and so keeps it alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flashferry.lab import helper
from flashferry.lab.errors import LabError
from flashferry.lab.link import DESTINATION, Direction, LinkProfile, NodePolicer, profile_from_json
from flashferry.lab.namespaces import Ends, set_up_link
from flashferry.lab.syn import as_ios_sends, concerns

_PACKETS_AT_ONCE = 256
_LONGEST_PACKET_BYTES = 2048
_LONGEST_WAIT_S = 60.0
_LONGEST_REQUEST_BYTES = 65536
_LEAST_TURN_S, _MOST_TURN_S = 0.0004, 0.0008
_SHARE_OF_ROUND_TRIP = 0.02
_BETWEEN_CALLS_S = 0.01
"""While packets flow the control socket is looked at so often."""
_WAKE_S = 0.0001
"""How late a process wakes up, about."""
_SHORT_WAIT_S = 0.002
_LONG_WAIT_S = 0.005
_SHARE_OF_LONG_WAIT = 0.98
_PR_SET_TIMERSLACK = 29  # linux/prctl.h
_TIMER_SLACK_NS = 1000


class Relay:
    """Moves packets between the TUN descriptors of two ends through the link model.

    A depot is at the site's end with a descriptor of its own: it shares the site's rate, queue and counters.
    """

    def __init__(
        self, ends: Ends, *, profile: LinkProfile, seed: int | str, nodes: Mapping[str, int] | None = None
    ) -> None:
        self._ends = ends
        self._packets_per_s = nodes or {}
        self._depot_end = {} if ends.depot is None else {socket.inet_aton(ends.depot_address): ends.depot}
        self.is_cut = False
        self._renew(profile, seed)
        self._looked_s = time.monotonic()
        self._readable = select.poll()
        for end in self.ends:
            self._readable.register(end, select.POLLIN)

    @property
    def ends(self) -> list[int]:
        """The descriptors from which packets come."""
        return [end for end, _ in self._sources]

    def turn(self) -> bool:
        """Take what waits, hand over what has arrived, and take again; return whether anything moved.

        The kernel answers a packet within the write that hands it over, and the second look takes those answers at
        their very time: most packets of a TCP connection are such answers. What the first look finds came at some
        time since the turn before; the middle is right on average.
        """
        now_s, near_s = time.monotonic(), self.turn_s / 2
        moved = self._take(now_s - min(near_s, (now_s - self._looked_s) / 2))
        if self._hand_over(now_s + near_s):
            self._take(time.monotonic())
            moved = True
        self._looked_s = time.monotonic()
        return moved

    def wait_s(self) -> float:
        """Return the seconds until the next packet arrives."""
        next_s = min(self.to_site.next_due_s(), self.to_core.next_due_s())
        return min(_LONGEST_WAIT_S, max(0.0, next_s - time.monotonic()))

    def _take(self, arrived_s: float) -> bool:
        """Take the packets that wait on both sides, as arrived at a time."""
        waiting = [end for end, _ in self._readable.poll(0)]
        for source, direction in self._sources:
            # Looked up first, for a read that finds nothing costs an exception.
            if source in waiting:
                with contextlib.suppress(BlockingIOError):
                    for _ in range(_PACKETS_AT_ONCE):
                        packet = os.read(source, _LONGEST_PACKET_BYTES)
                        if source == self._ends.site and concerns(packet):
                            packet = as_ios_sends(packet)
                        direction.offer(packet, arrived_s)
        return bool(waiting)

    def _hand_over(self, until_s: float) -> bool:
        """Hand over the packets whose time has come."""
        moved = False
        end_of = self._depot_end.get
        for direction, sink in ((self.to_site, self._ends.site), (self.to_core, self._ends.core)):
            for packet in direction.due(until_s):
                moved = True
                try:
                    os.write(end_of(packet[DESTINATION], sink), packet)
                except OSError:
                    self.refused_packets += 1
        return moved

    def _renew(self, profile: LinkProfile, seed: int | str) -> None:
        """Begin as a link that has carried nothing yet; packets under way are lost."""
        self.nodes = {address: NodePolicer(rate) for address, rate in self._packets_per_s.items()}
        nodes = {socket.inet_aton(address): policer for address, policer in self.nodes.items()}
        self.to_site = Direction(profile.to_site, seed=f"{seed}/to_site", nodes=nodes)
        self.to_core = Direction(profile.to_core, seed=f"{seed}/to_core")
        self.refused_packets = 0
        self._set(profile)
        self._cut(is_cut=self.is_cut)
        ends = self._ends
        self._sources = [(ends.core, self.to_site), (ends.site, self.to_core)]
        if ends.depot is not None:
            self._sources.append((ends.depot, self.to_core))

    def _set(self, profile: LinkProfile) -> None:
        self.profile = profile
        self.to_site.profile, self.to_core.profile = profile.to_site, profile.to_core
        self.turn_s = turn_s(profile.rtt_s)

    def _cut(self, *, is_cut: bool) -> None:
        """Cut the wire, or mend it: nothing arrives while it is cut, without notice."""
        self.is_cut = self.to_site.is_cut = self.to_core.is_cut = is_cut

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the control socket.

        ``counters``; ``set`` with changes; ``renew`` with a seed too; ``cut`` and ``mend``.
        """
        try:
            if request["do"] == "set":
                self._set(self.profile.with_changes(request["changes"]))
            elif request["do"] == "renew":
                self._renew(self.profile.with_changes(request["changes"]), request["seed"])
            elif request["do"] in ("cut", "mend"):
                self._cut(is_cut=request["do"] == "cut")
            elif request["do"] != "counters":
                allowed = "counters, set, renew, cut, mend"
                raise LabError(f"link: unknown request {request['do']!r}; allowed are {allowed}.")
        except LabError as error:
            return {"error": str(error)}
        return {
            "profile": self.profile.as_json(),
            "to_site": asdict(self.to_site.counters),
            "to_core": asdict(self.to_core.counters),
            "refused_packets": self.refused_packets,
            "is_cut": self.is_cut,
            "nodes": {address: asdict(policer.counters) for address, policer in self.nodes.items()},
        }


def turn_s(rtt_s: float) -> float:
    """Return the seconds between two turns while packets flow over a link with this round trip.

    To wake up costs as much as to carry ten packets, so each turn carries several. A packet is handed over in the turn
    nearest to its time: half a turn early or late, and right on average. A turn is a hundredth of the round trip, but
    never so long that a round trip is wrong by a millisecond.
    """
    return min(_MOST_TURN_S, max(_LEAST_TURN_S, _SHARE_OF_ROUND_TRIP * rtt_s))


def nap_s(wait_s: float) -> float:
    """Return how long to sleep when a packet arrives in ``wait_s``: not quite until then; 0 when it is near.

    A long wait ends early and goes on as a short one, because a virtual machine wakes up the later the longer it
    has been idle, and because select(2) may round up by a thousandth of its time-out.
    """
    if wait_s > _LONG_WAIT_S:
        return min(wait_s * _SHARE_OF_LONG_WAIT, wait_s - _SHORT_WAIT_S)
    return max(0.0, wait_s - _WAKE_S)


def _serve_request(listener: socket.socket, relay: Relay) -> None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.5)
            line = connection.recv(_LONGEST_REQUEST_BYTES)
            connection.sendall(json.dumps(relay.answer(json.loads(line))).encode() + b"\n")


def _be_punctual() -> None:
    """Do what can be done against late packets, which would look like jitter."""
    with contextlib.suppress(OSError):
        # Before everything else that runs here, for a fraction of a core; the kernel keeps 5 % from such a process
        # whatever it does (sched(7)).
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))
    # Sleeps are rounded up by the slack, 50 microseconds by default (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)
    # Packets make no reference cycles; a collection in between would hold them up.
    gc.freeze()
    gc.disable()


def carry(relay: Relay, control: str, owner: int) -> None:
    """Report readiness, and carry packets until the owner ends.

    `control`: Path of the socket where it can be asked and changed. `owner`: Turns readable when the owner ends, as
    does standard input.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(control)
        listener.listen()
        _be_punctual()
        helper.report(ready=True)
        _carry(relay, listener, owner)


def _carry(relay: Relay, listener: socket.socket, owner: int) -> None:
    """Carry packets until the owner ends.

    Waits in select(2), whose time-out counts microseconds; that of epoll counts milliseconds, which would show in the
    round-trip time.
    """
    calls = [listener.fileno(), owner, 0]
    everything = [*relay.ends, *calls]
    called_s = 0.0
    while True:
        start_s = time.monotonic()
        if not relay.turn():
            ready = select.select(everything, (), (), nap_s(relay.wait_s()))[0]
        else:
            # Not when something is due already: on a link without delay a packet leaves as it comes, and
            # a link that is behind has no time to sleep.
            if relay.wait_s():
                time.sleep(max(0.0, start_s + relay.turn_s - _WAKE_S / 2 - time.monotonic()))
            if start_s < called_s + _BETWEEN_CALLS_S:
                continue
            ready, called_s = select.select(calls, (), (), 0)[0], start_s
        if owner in ready or 0 in ready:
            return
        if calls[0] in ready:
            _serve_request(listener, relay)


def main() -> None:
    """Serve one link until the owner ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    settings = helper.read_settings()
    owner = helper.tie_to_owner(settings)
    ends = set_up_link(settings)
    if ends is None:
        helper.report(ready=True)
        select.select([owner, 0], (), ())
        return
    relay = Relay(ends, profile=profile_from_json(settings["profile"]), seed=settings["seed"], nodes=settings["nodes"])
    carry(relay, settings["control"], owner)


if __name__ == "__main__":
    main()
