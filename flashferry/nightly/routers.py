"""The lab's routers as a night sees them behind the product's back: whether they answer, and how they are configured.

SSH goes by the product's own session: what it cannot log in to, it could not stage either. Nothing is changed.

Facts
-----

- BOOTED is not reachable: the first line that counts as booted, `Would you like to enter the initial configuration
  dialog?`, comes before any configuration (facts of the controller, 2026-11). So a refused login is asked again, too.
- Keys may be made anew while a router boots, so that each look may see another one: no look remembers any.
- `show version` of CSR1000v and C8000V shows their licence's throughput in a line of its own (captures of 16.9 to
  17.9): `The current throughput level is 20000 kbps`, or `unthrottled`. `show platform hardware throughput level` is
  asked where it does not; of that one's words only such a line is relied upon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from flashferry.devices.errors import DeviceRefused
from flashferry.nightly.backend import LinkCondition, PlannedNode
from flashferry.nightly.faults import Fault, NightFault
from flashferry.nightly.link_measure import Pings, ping
from flashferry.nightly.night import StepName
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.day0 import host_name

if TYPE_CHECKING:
    from flashferry.devices.session import DeviceSession

LICENSED = ("csr1000v", "cat8000v")
"""Node definitions that begin with one of these forward as fast as their licence lets them."""

_THROUGHPUT = re.compile(r"current throughput level is\s+(?:(\d+)\s*kb(?:ps|/s)|(unthrottled))", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a router said of itself.

    Attributes:
        version: The output of `show version`.
        throughput_bps: What its licence lets it forward, bit/s; None: it does not say, or there is no limit.
    """

    version: str
    throughput_bps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """A router's running and startup configuration, whole; never stored, for they hold secrets."""

    running: str
    startup: str

    def __repr__(self) -> str:
        """Return nothing of them."""
        return "Configurations(...)"


class Routers(Protocol):
    """The lab's routers; every method may raise `FlashferryError`."""

    def look(self, node: PlannedNode, address: str) -> Look:
        """Log in and ask `show version`."""
        ...

    def configurations(self, node: PlannedNode, address: str) -> Configurations:
        """Log in and read both configurations."""
        ...

    def ping(self, node: PlannedNode, address: str, planned: LinkCondition) -> Pings:
        """Ping twenty times through the link."""
        ...


class SshRouters:
    """The lab's routers by SSH.

    Args:
        login: Who logs in.
    """

    def __init__(self, login: NodeLogin) -> None:
        self._login = login

    def look(self, node: PlannedNode, address: str) -> Look:
        """Log in and ask `show version`, and what the licence lets through.

        Raises:
            FlashferryError: No session came about, or it was lost.
        """
        with self._session(node, address) as session:
            version = session.show_version()
            output = version
            if node.node_definition.startswith(LICENSED) and not _THROUGHPUT.search(version):
                try:
                    output = session.ask("show platform hardware throughput level")
                except DeviceRefused:
                    output = ""
        return Look(version=version, throughput_bps=throughput_bps(output))

    def configurations(self, node: PlannedNode, address: str) -> Configurations:
        """Log in and read both configurations.

        Raises:
            FlashferryError: No session came about, it was lost, or what came is no whole configuration.
        """
        with self._session(node, address) as session:
            return Configurations(running=session.running_config(), startup=session.startup_config())

    def ping(self, node: PlannedNode, address: str, planned: LinkCondition) -> Pings:
        """Ping twenty times through the link."""
        return ping(address, port=node.ssh_port, planned=planned)

    @contextmanager
    def _session(self, node: PlannedNode, address: str) -> Iterator[DeviceSession]:
        from flashferry.devices.host_keys import HostKeys
        from flashferry.devices.login import Login
        from flashferry.devices.session import DeviceSession
        from inventory.access import HostKeyPolicy

        with TemporaryDirectory(prefix="flashferry-night-") as folder:
            keys = HostKeys(path=Path(folder) / "known_hosts", policy=HostKeyPolicy.ACCEPT_NEW, device=node.label)
            session = DeviceSession(
                Login(
                    name=node.label,
                    address=address,
                    port=node.ssh_port,
                    username=self._login.username,
                    password=self._login.password,
                    enable_secret=self._login.secret,
                    host_keys=keys,
                )
            )
            try:
                yield session
            finally:
                session.close()


def check_is_the_labs(node: PlannedNode, address: str, found: Configurations) -> None:
    """Check that what answers at an address is the router that it is taken for, before anything is changed there.

    Addresses are what a controller saw, or what people wrote: they may be another lab's by now, or a router's at work.

    Raises:
        NightFault: `LAB`: its host name is another one, or the mark of the lab's first configuration is not in it.
    """
    named = host_name(found.running)
    if node.host_name is not None and named != node.host_name:
        calls = "does not give its name" if named is None else f"calls itself {named}"
        wrong = f"expected the lab's own router at {address}, found one that {calls}"
    elif node.mark and node.mark not in found.running:
        wrong = f"expected {node.mark} in the configuration of what answers at {address}, found a router without it"
    else:
        return
    raise NightFault(
        f"{wrong}; it is left alone",
        fault=Fault.LAB,
        step=StepName.CHECK,
        hint="Look whose address that is: two may have it, or the controller has one that is out of date",
        host=node.label,
    )


def throughput_bps(output: str) -> float | None:
    """Return what a router's words say its licence lets through; None: nothing, or that there is no limit."""
    found = _THROUGHPUT.search(output)
    return None if found is None or found[2] else float(found[1]) * 1e3
