"""The link process: joins a TUN interface in the core with one in the site, packet by packet.

Run as ``python -m lab.relay`` by `lab.world`; settings come by standard input. The process itself
stays in the core namespace and so keeps it alive.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from dataclasses import asdict
from typing import Any

from lab import helper
from lab.errors import LabError
from lab.link import LinkProfile, profile_from_json
from lab.link_model import Direction
from lab.namespaces import (
    Interface,
    in_namespace,
    open_tun,
    set_sysctl,
    set_up_interfaces,
    unshare_network,
)

_PACKETS_PER_TURN = 64
_LONGEST_WAIT_S = 60.0
_LONGEST_REQUEST_BYTES = 65536


class Relay:
    """Moves packets between two TUN descriptors through the link model.

    Waits in select(2), whose time-out counts microseconds; that of epoll counts milliseconds, which would
    show in the round-trip time.
    """

    def __init__(self, *, core_tun: int, site_tun: int, profile: LinkProfile, seed: int) -> None:
        self.profile = profile
        self.to_site = Direction(profile.to_site, seed=f"{seed}/to_site")
        self.to_core = Direction(profile.to_core, seed=f"{seed}/to_core")
        self.refused_packets = 0
        self._paths = ((core_tun, self.to_site, site_tun), (site_tun, self.to_core, core_tun))
        self.sources = (core_tun, site_tun)

    def deliver(self) -> float:
        """Hand over what has arrived; return the seconds until something else will."""
        wait_s = _LONGEST_WAIT_S
        for _, direction, sink in self._paths:
            for packet in direction.due(time.monotonic()):
                try:
                    os.write(sink, packet)
                except OSError:
                    self.refused_packets += 1
            next_s = direction.next_due_s()
            if next_s is not None:
                wait_s = min(wait_s, max(0.0, next_s - time.monotonic()))
        return wait_s

    def take(self, source: int) -> None:
        """Take waiting packets from one side."""
        direction = self.to_site if source == self.sources[0] else self.to_core
        with contextlib.suppress(BlockingIOError):
            for _ in range(_PACKETS_PER_TURN):
                direction.offer(os.read(source, 65536), time.monotonic())

    def change(self, changes: dict[str, Any]) -> None:
        """Change the profile; packets under way keep their time."""
        self.profile = self.profile.with_changes(changes)
        self.to_site.profile, self.to_core.profile = self.profile.to_site, self.profile.to_core

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request of the control socket."""
        try:
            if request["do"] == "set":
                self.change(request["changes"])
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


def set_up_core(settings: dict[str, Any]) -> tuple[int, int]:
    """Make the core namespace and both ends of the link; return the TUN descriptors (core, site)."""
    with in_namespace(settings["site_pid"]):
        site_tun = open_tun("wan0")
        _common_sysctls()
        set_up_interfaces((
            Interface(name="lo"),
            Interface(name="wan0", addresses=tuple(settings["site_addresses"]), routes=("0.0.0.0/0",),
                      txqueuelen=10000),
        ))  # fmt: skip
    unshare_network()
    core_tun = open_tun("wan0")
    _common_sysctls()
    # The sender's buffer must never be the limit: 16 MB hold twice the largest window of the experiments.
    set_sysctl("net/ipv4/tcp_wmem", "4096 65536 16777216")
    set_up_interfaces((
        Interface(name="lo"),
        Interface(name="wan0", addresses=(settings["core_address"],), routes=(settings["site_network"],),
                  txqueuelen=10000),
    ))  # fmt: skip
    return core_tun, site_tun


def _common_sysctls() -> None:
    # Metrics of an earlier copy (ssthresh, RTT) must not colour the next one.
    set_sysctl("net/ipv4/tcp_no_metrics_save", 1)
    # A new namespace inherits the host's forwarding; neither side is a router.
    set_sysctl("net/ipv4/ip_forward", 0)
    with contextlib.suppress(OSError):
        set_sysctl("net/ipv6/conf/default/disable_ipv6", 1)
        set_sysctl("net/ipv6/conf/all/disable_ipv6", 1)


def _serve_request(listener: socket.socket, relay: Relay) -> None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0.5)
            line = connection.recv(_LONGEST_REQUEST_BYTES)
            connection.sendall(json.dumps(relay.answer(json.loads(line))).encode() + b"\n")


def main() -> None:
    """Serve one link until the owner ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    settings = helper.read_settings()
    owner = helper.tie_to_owner(settings)
    core_tun, site_tun = set_up_core(settings)
    profile = profile_from_json(settings["profile"])
    relay = Relay(core_tun=core_tun, site_tun=site_tun, profile=profile, seed=settings["seed"])
    with contextlib.suppress(OSError):
        os.nice(-10)  # late packets would look like jitter
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(settings["control"])
        listener.listen()
        helper.report(ready=True)
        waiting = [*relay.sources, listener.fileno(), owner, 0]
        while True:
            ready = select.select(waiting, (), (), relay.deliver())[0]
            if owner in ready or 0 in ready:
                return
            for descriptor in ready:
                if descriptor in relay.sources:
                    relay.take(descriptor)
                else:
                    _serve_request(listener, relay)


if __name__ == "__main__":
    main()
