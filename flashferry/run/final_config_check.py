"""At the end of a run: devices whose lines are back as they were, but could be changed again by what is under way.

A colleague's rollback timer that was armed in mid-copy puts our lines back when it fires. Such a device stays in the
journal; before the run says how it ended, that is waited for, and what is in force then counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nornir.core import Nornir

from flashferry.core.errors import ConfigInvalid
from flashferry.model.record import DeviceRecord
from flashferry.model.states import Restored, State
from flashferry.monitor.events import Emit
from flashferry.run.recover import RecoveryRecord, recover
from flashferry.store.journal import Journal


def check_configs_again(
    nornir: Nornir,
    journal: Journal,
    run_id: str,
    records: Mapping[str, DeviceRecord],
    *,
    emit: Emit,
    interrupted: Callable[[], bool],
) -> dict[str, DeviceRecord]:
    """Return the records of a run that has ended, with what became of devices that had to be looked at again.

    Args:
        nornir: The devices, with credentials.
        journal: The run's journal; the run is marked as ended there.
        run_id: The run.
        records: What became of each device so far.
        emit: Takes events.
        interrupted: Whether the operator wants to stop: then the devices stay in the journal.
    """
    waiting = {host for host, record in records.items() if _is_to_be_seen_again(record)}
    if not waiting or interrupted():
        return dict(records)
    try:
        found = recover(nornir, journal, emit=emit, interrupted=interrupted, only=run_id)
    except ConfigInvalid:
        # Another recovery is running; it finds these devices, too.
        return dict(records)
    recovered = {one.host: one for one in found if one.host in waiting}
    return {host: _with(record, recovered.get(host)) for host, record in records.items()}


def _is_to_be_seen_again(record: DeviceRecord) -> bool:
    report = record.restore
    return (
        record.restored is Restored.INCOMPLETE and report is not None and report.held_by is not None and report.passes
    )


def _with(record: DeviceRecord, found: RecoveryRecord | None) -> DeviceRecord:
    if found is None:
        return record
    if found.failure is not None:
        return replace(record, restore=found.restore or record.restore, restore_failure=found.failure)
    state = State.DONE if record.failure is None else State.FAILED
    return replace(record, state=state, restored=found.restored, restore=found.restore, restore_failure=None)
