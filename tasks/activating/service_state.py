"""A device's services before and after an activation: release, interfaces, neighbours, routes, members.

Each figure is one that a person would check after an upgrade, from a command that costs the same on a large router as
on a small one: routes are counted from `show ip route summary`, never listed.

Facts
-----

* A protocol that is not configured prints nothing (`show ip ospf neighbor`), a sentence (`% BGP not active`, `% CDP is
  not enabled`), or is refused if the image lacks it: none of these is a neighbour.
* The state of a BGP neighbour is a number, that of its prefixes, once the session is established.
* CDP neighbours return within a minute after the port, those of routing protocols after their timers: compared at once,
  all of them are missing.
* `show ip interface brief` has all interfaces, even those without an address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.core.units import counted
from flashferry.devices.connection import session_of
from flashferry.devices.session import DeviceSession
from tasks.file_system import HOT, READY_STATE
from tasks.software_state import Answer, SoftwareState, asked, read_software
from templates.version import ntc_rows

ROUTES_SHARE = 0.9
"""Share of the earlier routes that must be there again: a routing table always changes a little."""

_SHOWN = 5


class ServiceState(Struct, frozen=True, kw_only=True):
    """A device's services at one moment.

    Attributes:
        release: The running release, as printed.
        running_file: The file that it booted from, or None.
        restarted_at: Start time, as printed, or None if not shown.
        reload_reason: Reason for the last reload, as printed, or None if not shown.
        uptime_s: Uptime, to the minute, or None.
        interfaces_up: Interfaces that are up with their protocol.
        neighbors: Neighbours, each with its protocol in front.
        routes: Routes in the global table, or None if not counted.
        members: Stack members that are ready.
        standby_hot: Whether the other supervisor could take over; None if there is none.
    """

    release: str
    running_file: str | None = None
    restarted_at: str | None = None
    reload_reason: str | None = None
    uptime_s: int | None = None
    interfaces_up: tuple[str, ...] = ()
    neighbors: tuple[str, ...] = ()
    routes: int | None = None
    members: tuple[int, ...] = ()
    standby_hot: bool | None = None

    def lacks(self, before: ServiceState) -> tuple[str, ...]:
        """Return a sentence for each service of `before` that is missing now; release and file are not compared."""
        found = []
        for what, was, now in (
            ("interface", before.interfaces_up, self.interfaces_up),
            ("neighbour", before.neighbors, self.neighbors),
        ):
            if gone := [name for name in was if name not in now]:
                found.append(f"{counted(len(gone), what)} of {len(was)} not up again: {_listed(gone)}")
        if before.routes and (self.routes or 0) < ROUTES_SHARE * before.routes:
            found.append(f"{self.routes or 0} routes, there were {before.routes}")
        if gone_members := [str(number) for number in before.members if number not in self.members]:
            found.append(f"members not ready: {_listed(gone_members)}")
        if before.standby_hot and not self.standby_hot:
            found.append("the other supervisor was hot, and is not")
        return tuple(found)

    def has_restarted_since(self, before: ServiceState) -> bool | None:
        """Return whether the device restarted since `before`; None if nothing shows that."""
        if self.restarted_at is not None and before.restarted_at is not None:
            return self.restarted_at != before.restarted_at
        if self.reload_reason != before.reload_reason:
            return True
        if self.uptime_s is not None and before.uptime_s is not None and self.uptime_s < before.uptime_s:
            return True
        return None


def service_state(task: Task) -> Result:
    """Nornir task: return a ServiceState. See `read_service_state`."""
    return Result(host=task.host, result=read_service_state(session_of(task)))


def read_service_state(session: DeviceSession, software: SoftwareState | None = None) -> ServiceState:
    """Read a device's services; `software` saves reading the software state again."""
    software = software or read_software(session)
    commands = session.platform.commands
    shown = session.show_version()
    neighbors = [name for protocol in session.platform.neighbors for name in _neighbors(session, protocol)]
    version = next(iter(ntc_rows("show version", shown)), {})
    peer = software.redundancy.peer.upper() if software.redundancy is not None and software.has_standby else None
    return ServiceState(
        release=software.version.release,
        running_file=software.running_file,
        restarted_at=str(version.get("restarted") or "") or None,
        reload_reason=reason[1].strip() if (reason := _REASON.search(shown)) is not None else None,
        uptime_s=uptime_s(version),
        interfaces_up=interfaces_up(asked(session, commands.interfaces)),
        neighbors=tuple(sorted(neighbors)),
        routes=routes(asked(session, commands.routes)),
        members=tuple(one.number for one in software.units if one.state.casefold() == READY_STATE),
        standby_hot=None if peer is None else HOT in peer,
    )


def uptime_s(version: Mapping[str, object]) -> int | None:
    """Return the uptime in seconds from a row of `show version`; None if it has none."""
    parts = {name: str(version.get(f"uptime_{name}") or "") for name in _UNITS_S}
    if not version.get("uptime"):
        return None
    return sum(int(parts[name]) * seconds for name, seconds in _UNITS_S.items() if parts[name].isdigit())


def interfaces_up(answer: Answer) -> tuple[str, ...]:
    """Return the interfaces that are up with their protocol."""
    rows = ntc_rows("show ip interface brief", answer.text) if answer.is_read else ()
    return tuple(str(row["interface"]) for row in rows if row["status"] == "up" and row["proto"] == "up")


def routes(answer: Answer) -> int | None:
    """Return the number of routes in `show ip route summary`; None if it was not read."""
    found = _TOTAL.search(answer.text) if answer.is_read else None
    return int(found[1]) + int(found[2]) if found is not None else None


def _neighbors(session: DeviceSession, protocol: str) -> Iterable[str]:
    answer = asked(session, session.platform.neighbors[protocol])
    return (f"{protocol} {name}" for name in neighbors_in(protocol, answer))


def neighbors_in(protocol: str, answer: Answer) -> tuple[str, ...]:
    """Return the neighbours of one protocol, a key of `Platform.neighbors`."""
    if not answer.is_read:
        return ()
    template, name = _TABLES[protocol]
    return tuple(found for row in ntc_rows(template, answer.text) if (found := name(row)))


def _cdp(row: Mapping[str, object]) -> str:
    return f"{row['neighbor_name']} on {' '.join(str(row['local_interface']).split())}"


def _ospf(row: Mapping[str, object]) -> str:
    is_there = str(row["state"]).startswith(("FULL", "2WAY"))
    return f"{row['neighbor_id']} on {row['interface']}" if is_there else ""


def _bgp(row: Mapping[str, object]) -> str:
    return str(row["bgp_neighbor"]) if str(row["state_or_prefixes_received"]).isdigit() else ""


def _eigrp(row: Mapping[str, object]) -> str:
    return f"{row['ip_address']} on {row['interface']}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


_TABLES: Mapping[str, tuple[str, Callable[[Mapping[str, object]], str]]] = {
    "cdp": ("show cdp neighbors", _cdp),
    "ospf": ("show ip ospf neighbor", _ospf),
    "bgp": ("show ip bgp summary", _bgp),
    "eigrp": ("show ip eigrp neighbors", _eigrp),
}
_UNITS_S = {"years": 31_536_000, "weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60}
_REASON = re.compile(r"^Last reload reason: *(.+)$", re.MULTILINE)
_TOTAL = re.compile(r"^Total\s+(\d+)\s+(\d+)\s", re.MULTILINE)
