"""The link process: joins a site with the core and carries each packet through the link model.

Run as ``python -m lab.relay`` by `lab.world`; settings come by standard input. The process itself
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
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lab import helper
from lab.errors import LabError
from lab.link import LinkProfile, profile_from_json
from lab.link_model import Direction
from lab.link_setup import set_up_link

if TYPE_CHECKING:
    from lab.link_setup import Ends

_PACKETS_PER_TURN = 128
_LONGEST_PACKET_BYTES = 2048
_LONGEST_WAIT_S = 60.0
_LONGEST_REQUEST_BYTES = 65536
_PAUSE_S = 0.00015
"""Between two turns while packets flow: one turn then carries several, at the price of so much lateness each way."""
_AHEAD_S = 0.0003
"""How long before a packet arrives the process stays awake for it: waking up takes a tenth of a millisecond or more."""
_SHORT_WAIT_S = 0.002
_LONG_WAIT_S = 0.005
_SHARE_OF_LONG_WAIT = 0.98
_PR_SET_TIMERSLACK = 29  # linux/prctl.h
_TIMER_SLACK_NS = 1000


class Relay:
    """Moves packets between two TUN descriptors through the link model."""

    def __init__(self, ends: Ends, *, profile: LinkProfile, seed: int | str) -> None:
        self.profile = profile
        self.to_site = Direction(profile.to_site, seed=f"{seed}/to_site")
        self.to_core = Direction(profile.to_core, seed=f"{seed}/to_core")
        self.refused_packets = 0
        self._paths = ((ends.core, self.to_site, ends.site), (ends.site, self.to_core, ends.core))

    def turn(self) -> bool:
        """Hand over what has arrived, then take what waits; tell whether anything moved.

        In this order, for the kernel answers a packet within the write that hands it over: the answer starts on
        its way back in the same turn.
        """
        moved = False
        for _, direction, sink in self._paths:
            for packet in direction.due(time.monotonic()):
                moved = True
                try:
                    os.write(sink, packet)
                except OSError:
                    self.refused_packets += 1
        for source, direction, _ in self._paths:
            moved |= self._take(source, direction)
        return moved

    def wait_s(self) -> float:
        """Return the seconds until the next packet arrives."""
        times = [each for _, direction, _ in self._paths if (each := direction.next_due_s()) is not None]
        return min(_LONGEST_WAIT_S, max(0.0, min(times) - time.monotonic())) if times else _LONGEST_WAIT_S

    def _take(self, source: int, direction: Direction) -> bool:
        """Take waiting packets from one side."""
        taken = 0
        with contextlib.suppress(BlockingIOError):
            while taken < _PACKETS_PER_TURN:
                direction.offer(os.read(source, _LONGEST_PACKET_BYTES), time.monotonic())
                taken += 1
        return taken > 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the control socket: ``counters``, or ``set`` with changes of the profile."""
        try:
            if request["do"] == "set":
                self.profile = self.profile.with_changes(request["changes"])
                self.to_site.profile, self.to_core.profile = self.profile.to_site, self.profile.to_core
            elif request["do"] != "counters":
                raise LabError(f"link: unknown request {request['do']!r}; allowed are counters, set.")
        except LabError as error:
            return {"error": str(error)}
        return {
            "profile": self.profile.as_json(),
            "to_site": asdict(self.to_site.counters),
            "to_core": asdict(self.to_core.counters),
            "refused_packets": self.refused_packets,
        }


def nap_s(wait_s: float) -> float:
    """Return how long to sleep when a packet arrives in ``wait_s``, more than 0.6 ms: not quite until then.

    A long wait ends early and goes on as a short one, because a virtual machine wakes up the later the longer it
    has been idle, and because select(2) may round up by a thousandth of its time-out.
    """
    if wait_s > _LONG_WAIT_S:
        wait_s = min(wait_s * _SHARE_OF_LONG_WAIT, wait_s - _SHORT_WAIT_S)
    return wait_s - _AHEAD_S


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
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    # Sleeps are rounded up by the slack, 50 microseconds unless told otherwise (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)
    # Packets make no reference cycles; a collection in between would hold them up.
    gc.freeze()
    gc.disable()


def _carry(relay: Relay, ends: Ends, listener: socket.socket, owner: int) -> None:
    """Carry packets until the owner ends.

    Waits in select(2), whose time-out counts microseconds; that of epoll counts milliseconds, which would show in the
    round-trip time. The last stretch before a packet arrives is waited for awake.
    """
    calls = [listener.fileno(), owner, 0]
    everything = [ends.core, ends.site, *calls]
    while True:
        if relay.turn():
            # Not when something is due at once: on a link without delay a packet leaves as it comes.
            if relay.wait_s():
                time.sleep(_PAUSE_S)
            ready = select.select(calls, (), (), 0)[0]
        elif (wait_s := relay.wait_s()) > 2 * _AHEAD_S:
            ready = select.select(everything, (), (), nap_s(wait_s))[0]
        else:
            continue
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
    relay = Relay(ends, profile=profile_from_json(settings["profile"]), seed=settings["seed"])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(settings["control"])
        listener.listen()
        _be_punctual()
        helper.report(ready=True)
        _carry(relay, ends, listener, owner)


if __name__ == "__main__":
    main()
