"""Ends leases by hand: of devices that no recovery will set right any more, since they are gone or were set right."""

from __future__ import annotations

from collections.abc import Iterable

from flashferry.core.errors import ConfigInvalid
from flashferry.model.lease import DamagedEntry, TouchedDevice
from flashferry.model.record import Failure
from flashferry.store.journal import Journal
from staging.recover import RecoveryRecord, not_restored


def forget(journal: Journal, names: Iterable[str]) -> tuple[RecoveryRecord, ...]:
    """End the lease of devices that dead runs left; nothing is sent to them, and nothing is called restored.

    What was to be taken back stays in the journal, and stands in the records.

    Args:
        journal: The journal of the dead runs.
        names: Inventory names at the time of those runs, or `RUN/NAME` where several runs left one.

    Raises:
        ConfigInvalid: No run holds a device of that name, several do, the one that does is alive, or a recovery is
            running. Nothing was ended then.
    """
    with journal.recovery_lock():
        held: tuple[TouchedDevice | DamagedEntry, ...] = (*journal.touched_devices(), *journal.damaged_entries())
        meant = [_entry(journal, held, name) for name in dict.fromkeys(names)]
        records = tuple(_record(entry) for entry in meant)
        for record in records:
            journal.forgotten(record.run_id, record.host, record)
        return records


def _entry(journal: Journal, held: Iterable[TouchedDevice | DamagedEntry], name: str) -> TouchedDevice | DamagedEntry:
    found = [entry for entry in held if name in (entry.host, f"{entry.run_id}/{entry.host}")]
    if not found:
        raise ConfigInvalid(
            f"--forget {name}: expected a device that a dead run left in its hands, found no such device",
            hint="'flashferry status' names them",
        )
    if len(found) > 1:
        # A router that was exchanged has its name still: one entry may be of the old one, another of the new.
        each = " or ".join(f"{entry.run_id}/{entry.host}" for entry in found)
        raise ConfigInvalid(f"--forget {name}: {len(found)} runs left a device of that name", hint=f"Say which: {each}")
    (entry,) = found
    if journal.is_alive(entry.run_id):
        raise ConfigInvalid(
            f"--forget {name}: run {entry.run_id} is alive and has it in its hands",
            hint=f"Let it end, or stop it with 'flashferry run stop {entry.run_id}'",
        )
    return entry


def _record(entry: TouchedDevice | DamagedEntry) -> RecoveryRecord:
    failure = Failure(
        step="recover",
        reason=f"ended by hand, nothing was sent or looked at; {_left_to_do(entry)}",
        hint=None,
        kind="Forgotten",
    )
    return not_restored(entry, failure)


def _left_to_do(entry: TouchedDevice | DamagedEntry) -> str:
    """Return in words what recovery would have taken back."""
    if isinstance(entry, DamagedEntry):
        return "the journal's entry is damaged, so what was changed is not known"
    if not entry.changes:
        return "the run meant to change no line of it"
    swaps = [(change.ours, f"'{change.before}'" if change.before else "no line") for change in entry.changes]
    return "the run may have set " + ", ".join(f"'{ours}' where there was {before}" for ours, before in swaps)
