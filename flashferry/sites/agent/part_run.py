"""Find the run of a part in the site's journal, and report its devices."""

from __future__ import annotations

import hashlib
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.sites.agent.tries import tries_of
from flashferry.sites.agent.word_sender import add_word
from flashferry.sites.wire import Order, OrderJob, WordKind, canonical
from flashferry.store.control_requests import SteerKind
from flashferry.store.reader import is_run_alive, reading
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase
from flashferry.store.stored_run import StoredRun, read_run
from flashferry.store.tables import held_devices, run_of_job


class PartRun:
    """The run by which a part is carried out; none exists until its command enters one in the journal."""

    def __init__(self, database: AgentDatabase, state: Path, order: Order) -> None:
        self._database, self._state, self._order = database, state, order

    def run_id(self) -> str | None:
        """Return the run ID of the part in our journal; None: not entered yet."""
        with self._database.reading() as database:
            entry = ledger.entry_of(database, self._order.id)
        if entry is not None and entry.run_id is not None:
            return entry.run_id
        jobs = [one.job_id for one in tries_of(self._state, self._order.id)]
        with reading(self._state) as journal:
            found = [run_of_job(journal, job) for job in jobs] if journal is not None else []
        run_id = next((one for one in found if one is not None), None)
        if run_id is not None:
            with self._database.writing() as database:
                ledger.set_run(database, self._order.id, run_id)
        return run_id

    def stored(self) -> StoredRun | None:
        """Return the run from the journal."""
        run_id = self.run_id()
        return None if run_id is None else read_run(self._state, run_id, with_transfers=False)

    def state(self) -> dict[str, bool]:
        """Return the arguments `has_run`, `holds` and `is_stopped` of `next_kind`."""
        run = self.stored()
        return {
            "has_run": run is not None,
            "holds": run is not None and any(device.is_held for device in run.devices),
            "is_stopped": self.is_stopped_early()
            or (run is not None and any(one.what == SteerKind.STOP for one in run.steer_requests)),
        }

    def is_stopped_early(self) -> bool:
        """Return whether the centre stopped the part, even before its order arrived."""
        with self._database.reading() as database:
            return bool(ledger.orders_of_run(database, self._order.run, OrderJob.STOP.value))

    def spool_records(self) -> int:
        """Spool the device records that changed since the last report; return how many."""
        run_id = self.run_id()
        if run_id is None:
            return 0
        order = self._order
        return spool_records(self._database, self._state, order_id=order.id, run=order.run, run_id=run_id)


def has_left_devices(state: Path) -> bool:
    """Return whether a dead run holds devices."""
    with reading(state) as journal:
        runs = {device.run_id for device in held_devices(journal)} if journal is not None else set()
    return any(not is_run_alive(state, run_id) for run_id in runs)


def spool_records(database: AgentDatabase, state: Path, *, order_id: str, run: str, run_id: str) -> int:
    """Spool the device records that changed since the last report; return how many."""
    try:
        devices = read_run(state, run_id, with_transfers=False).devices
    except ConfigInvalid:
        return 0
    count = 0
    with database.writing() as writing:
        for device in devices:
            data = device.status() | {"record": device.record}
            digest = hashlib.sha256(canonical(data).encode()).hexdigest()
            if device.record and spool.is_news(writing, order_id, device.host, digest):
                add_word(writing, run, WordKind.RECORD, {"order": order_id, "run_id": run_id} | data)
                count += 1
    return count


def left_held(state: Path, run_id: str) -> list[str]:
    """Return the devices of a run that are not proven restored; empty if the journal cannot be read."""
    try:
        return [one.host for one in read_run(state, run_id, with_transfers=False).devices if one.is_held]
    except ConfigInvalid:
        return []
