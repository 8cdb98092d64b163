"""A topology of two routers and a client of a controller process, which its tests and held figures share."""

from __future__ import annotations

import json
import socket
import statistics
import time
from typing import Any

from ruamel.yaml import YAML

from flashferry.lab.cml.routers.host_process import ControllerProcess
from flashferry.lab.cml.runtime import BootTimes
from flashferry.lab.namespaces import in_namespace
from tests.component.lab.cml.conftest import Plain
from tests.patience import PATIENCE_S
from tests.unit.lab.cml.topologies import TWO_ROUTERS

QUICK = BootTimes(queued_s=0.2, started_s=0.5, stagger_s=0.1)
STATIC, LEASE = "198.18.1.51", "198.18.1.101"
LATENCY_MS = 40
"""Of the link to the router with an address of its own, as the topology is imported."""

_DAY0 = """hostname {name}
ip domain name lab
username ferry privilege 15 secret Word1
foo bar
interface GigabitEthernet1
 ip address {address}
 no shutdown
line vty 0 4
 login local
 transport input ssh"""
_HANDSHAKES = 7


def topology() -> bytes:
    """Return two routers that let SSH in: one with an address of its own, one that asks for one."""
    lab = YAML(typ="safe").load(TWO_ROUTERS)
    *_, one, two = lab["nodes"]
    for node, address in ((one, f"{STATIC} 255.255.255.0"), (two, "dhcp")):
        day0 = _DAY0.format(name=node["label"], address=address)
        node["image_definition"] = None
        node["configuration"] = [{"name": "iosxe_config.txt", "content": day0}]
    lab["links"][1]["conditioning"] = {"bandwidth": 20000, "latency": LATENCY_MS}
    return json.dumps(lab).encode()


class Client:
    """Asks a controller process, from within its core."""

    def __init__(self, process: ControllerProcess) -> None:
        self._process = process
        self._plain = Plain(process)  # type: ignore[arg-type]
        with in_namespace(process.pid):
            self._plain.log_in()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        with in_namespace(self._process.pid):
            said = self._plain.ask(method, path, body)
        assert said.status < 300, said
        return said.json if said.body and said.content_type.startswith("application/json") else said.body

    def states(self, lab: str) -> list[str]:
        return [self.ask("GET", f"labs/{lab}/nodes/{node}/state")["state"] for node in self.nodes(lab)]

    def nodes(self, lab: str) -> list[str]:
        """Return the ids of the two routers."""
        return list(self.ask("GET", f"labs/{lab}/nodes"))[2:]

    def links(self, lab: str) -> list[str]:
        return list(self.ask("GET", f"labs/{lab}/links"))

    def handshakes_s(self, address: str) -> list[float]:
        """Shake hands with a router's SSH port some times; return how long each took."""
        took = []
        with in_namespace(self._process.pid):
            for _ in range(_HANDSHAKES):
                began_s = time.monotonic()
                socket.create_connection((address, 22), PATIENCE_S).close()
                took.append(time.monotonic() - began_s)
        return took

    def rtt_s(self, address: str) -> float:
        """Return the median round trip of handshakes with a router's SSH port."""
        return statistics.median(self.handshakes_s(address))
