"""Which devices are held by runs: every command that logs in to devices checks this first.

A device that a dead run left tuned looks like any other, and may even have the image; "already there" would hide that
its configuration is not restored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from flashferry.devices.errors import DeviceRefused
from flashferry.devices.identity import Identity, is_same
from flashferry.devices.session import Facts
from flashferry.model.lease import DamagedEntry, LeasedDevice
from flashferry.store.lease_files import LeaseFiles
from flashferry.store.reader import is_run_alive, reading
from flashferry.store.tables import DeviceRow, held_devices
from inventory.host_view import HostView


class Lease(Struct, frozen=True, kw_only=True):
    """A device that a run holds, or left unrestored.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        port: SSH port at that time.
        identity: Serial number and host name; None if unknown.
        is_alive: Whether the run is alive.
    """

    run_id: str
    host: str
    address: str
    port: int
    identity: Identity | None
    is_alive: bool

    def refusal(self, host: str) -> DeviceRefused:
        """Return the error for other runs that need the device."""
        name = "" if host == self.host else f", as {self.host}"
        if self.is_alive:
            return DeviceRefused(
                f"run {self.run_id} holds this device{name}",
                host=host,
                step="check",
                hint=f"Wait for that run, or stop it with 'flashferry run stop {self.run_id}'",
            )
        return DeviceRefused(
            f"run {self.run_id} died while it held this device{name}, which may not be what it was",
            host=host,
            step="check",
            hint="Run 'flashferry recover' first",
        )


def leases(directory: Path, *, besides: str | None = None) -> tuple[Lease, ...]:
    """Return the held devices, by the journal and by the lease files.

    Args:
        directory: State directory; may not exist.
        besides: A run whose devices are left out; None for none.

    Raises:
        ConfigInvalid: The journal cannot be read.
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
    """Return a lease on a device of this name or address; the device itself is not checked."""
    return next(
        (one for one in found if one.host == device.name or (one.address, one.port) == (device.address, device.port)),
        None,
    )


def lease_on(found: Iterable[Lease], facts: Facts, members: frozenset[str]) -> Lease | None:
    """Return a lease on the device with these facts, under whatever name it was leased."""
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
    """Return the serial numbers of a stack's members from the journal's text; none if it is unreadable."""
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
