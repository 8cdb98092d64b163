"""Who has a device in hand: asked before anything else is said of it, by every verb that logs in to devices.

A device that a dead run left tuned looks like any other, and may even have the image: "already there" would be true,
and hide that it is not what it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.identity import Identity, is_same
from flashferry.devices.session import Facts
from flashferry.model.lease import DamagedEntry, LeasedDevice
from flashferry.store.lease_files import LeaseFiles
from flashferry.store.reader import is_run_alive, reading
from flashferry.store.tables import DeviceRow, held_devices
from inventory.host_view import HostView


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A device in a run's hands, or left by one.

    Attributes:
        run_id: The run.
        host: Inventory name at that time.
        address: Its address at that time.
        port: Its SSH port at that time.
        identity: What it called itself, or None where unknown.
        is_alive: Whether the run lives.
    """

    run_id: str
    host: str
    address: str
    port: int
    identity: Identity | None
    is_alive: bool

    def refusal(self, host: str) -> DeviceRefused:
        """Return why nothing may be done with the device by anybody else."""
        name = "" if host == self.host else f", as {self.host}"
        if self.is_alive:
            return DeviceRefused(
                f"run {self.run_id} has this device in its hands{name}",
                host=host,
                step="check",
                hint=f"Wait for that run, or stop it with 'flashferry run stop {self.run_id}'",
            )
        return DeviceRefused(
            f"run {self.run_id} died with this device in its hands{name}, which may not be what it was",
            host=host,
            step="check",
            hint="Run 'flashferry recover' first",
        )


def leases(directory: Path, *, besides: str | None = None) -> tuple[Lease, ...]:
    """Return the devices that runs have in hand, or left, by the journal and by the files beside it.

    Args:
        directory: State directory; need not exist.
        besides: The run that asks, whose own devices are left out; None: all runs.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    with reading(directory) as database:
        rows = held_devices(database, besides=besides) if database is not None else []
    held: list[tuple[DeviceRow | LeasedDevice | DamagedEntry, frozenset[str]]] = [
        (row, stored_members(row.members)) for row in rows
    ]
    known = {(row.run_id, row.host) for row in rows}
    held += [
        (one, one.members if isinstance(one, LeasedDevice) else frozenset())
        for one in (file.entry for file in LeaseFiles(directory).read(besides=besides))
        if (one.run_id, one.host) not in known and one.run_id != besides
    ]
    is_alive = {run_id: is_run_alive(directory, run_id) for run_id in {one.run_id for one, _ in held}}
    return tuple(_lease(one, members, is_alive=is_alive[one.run_id]) for one, members in held)


def lease_by_name(found: Iterable[Lease], device: HostView) -> Lease | None:
    """Return a lease on a device of this name, or at this address; which device answers there is not known yet."""
    return next(
        (one for one in found if one.host == device.name or (one.address, one.port) == (device.address, device.port)),
        None,
    )


def lease_on(found: Iterable[Lease], facts: Facts, members: frozenset[str]) -> Lease | None:
    """Return a lease on the very device that answered, whatever it was called then."""
    return next(
        (
            one
            for one in found
            if one.identity is not None
            and is_same(one.identity.name, facts, members=one.identity.members, found_members=members)
        ),
        None,
    )


def stored_members(stored: str | None) -> frozenset[str]:
    """Return the serial numbers of a stack's members as a journal has them; none where it cannot be read."""
    try:
        return frozenset(json.loads(stored or "[]"))
    except ValueError:
        return frozenset()


def _lease(one: DeviceRow | LeasedDevice | DamagedEntry, members: frozenset[str], *, is_alive: bool) -> Lease:
    name, port = (None, 0) if isinstance(one, DamagedEntry) else (one.identity, one.port)
    return Lease(
        run_id=one.run_id,
        host=one.host,
        address=one.address,
        port=port,
        identity=Identity(name=name, members=members) if name else None,
        is_alive=is_alive,
    )
