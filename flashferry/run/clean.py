"""Delete old images: read all devices, ask for confirmation for each, delete file by file.

No lease is taken, since no configuration line is set. A run that starts meanwhile is detected by its lease and by its
mark on the device; both are read again right before each file is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task
from nornir.plugins.runners import ThreadedRunner

from flashferry.core.errors import FlashferryError
from flashferry.devices.connection import recent_of, session_of
from flashferry.devices.errors import DeviceRefused, Interrupted, Stopped
from flashferry.devices.identity import member_serials
from flashferry.devices.session import DeviceSession
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.store.leases import Lease, lease_by_name, lease_on
from inventory.host_view import HostView, view
from tasks.clean import STEP, OldFile, RemovableImages, delete_old, find_old_images


class CleanRecord(Struct, frozen=True, kw_only=True):
    """The result for one device.

    Attributes:
        outcome: DONE: all confirmed files were deleted, there were none, or they were only listed. NOT_STARTED: not
            confirmed. REFUSED: the removable files are unknown, or the device may not be touched. FAILED, ERROR or
            INTERRUPTED: incomplete, see `deleted`.
        look: The removable files found, or None if the device could not be read.
        deleted: The files deleted, each proven gone.
        free_bytes_after: Free space after the last deletion, or None.
        seconds: Duration without the wait for confirmation.
    """

    host: str
    site: str | None = None
    outcome: Outcome
    look: RemovableImages | None = None
    deleted: tuple[OldFile, ...] = ()
    free_bytes_after: int | None = None
    failure: Failure | None = None
    seconds: float = 0.0


Confirm = Callable[[str, RemovableImages], bool]
"""Returns whether all files found on a device may be deleted. Called for one device after the other."""


class Cleaning(Struct, frozen=True, kw_only=True):
    """The settings that all devices share.

    Attributes:
        held: Returns the leases of runs that stage devices now, or were killed.
        kept: Names of images that runs staged, by device; they are never deleted.
        only: Names of the files to consider; empty: all.
        only_shown: Whether files are listed and not deleted.
        at_a_time: Devices at the same time, >= 1.
    """

    held: Callable[[], tuple[Lease, ...]]
    kept: Mapping[str, frozenset[str]]
    only: frozenset[str] = frozenset()
    only_shown: bool = False
    at_a_time: int = 20


def clean_fleet(
    nornir: Nornir,
    cleaning: Cleaning,
    confirm: Confirm,
    *,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[CleanRecord, ...]:
    """Delete old images on the devices of an inventory; return a CleanRecord per device, in inventory order.

    Args:
        nornir: The devices, with credentials.
        cleaning: What to delete.
        confirm: Called in this thread, after all devices are read, for each device with removable files.
        emit: Receives events, from several threads.
        interrupted: Whether the operator stops. The current file is completed, no other is started.

    Raises:
        ConfigInvalid: The inventory is wrong.
    """
    views = {name: view(host) for name, host in nornir.inventory.hosts.items()}
    work = _Cleaning(cleaning, views, never_failing(emit), interrupted)
    runner = nornir.with_runner(ThreadedRunner(num_workers=cleaning.at_a_time))
    looked = runner.run(task=work.find, name=STEP)
    records: dict[str, CleanRecord] = {name: looked[name][0].result for name in views}
    if not cleaning.only_shown:
        open_ones = {name: one for name, one in records.items() if one.look is not None and one.look.files}
        agreed = {name for name, one in open_ones.items() if not interrupted() and _agrees(confirm, name, one)}
        records |= {name: replace(open_ones[name], outcome=Outcome.NOT_STARTED) for name in open_ones.keys() - agreed}
        if agreed:
            deleting = runner.filter(filter_func=lambda host: host.name in agreed)
            done = deleting.run(task=work.delete, name=STEP, looked=records)
            records |= {name: done[name][0].result for name in agreed}
    return tuple(records[name] for name in views)


def _agrees(confirm: Confirm, host: str, record: CleanRecord) -> bool:
    return record.look is not None and confirm(host, record.look)


class _Cleaning:
    """The two Nornir tasks: read a device, delete its files."""

    def __init__(
        self, cleaning: Cleaning, views: Mapping[str, HostView], emit: Emit, interrupted: Callable[[], bool]
    ) -> None:
        self._cleaning, self._views, self._emit, self._interrupted = cleaning, views, emit, interrupted
        self._started_s = time.monotonic()

    def find(self, task: Task) -> Result:
        """Nornir task: return a CleanRecord with the removable files."""
        began_s = time.monotonic()
        device = self._views[task.host.name]
        record = CleanRecord(host=device.name, site=device.site, outcome=Outcome.DONE)
        try:
            session = self._session(task, device)
            found = find_old_images(session, kept=self._kept(device), only=self._cleaning.only)
            record = replace(record, look=found, outcome=Outcome.REFUSED if found.reason else Outcome.DONE)
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others'
            record = _failed(record, error, task)
        return self._ended(task, record, began_s)

    def delete(self, task: Task, looked: Mapping[str, CleanRecord]) -> Result:
        """Nornir task: delete the confirmed files of a device and return its CleanRecord."""
        began_s = time.monotonic()
        device, record = self._views[task.host.name], looked[task.host.name]
        assert record.look is not None
        try:
            for file in record.look.files:
                # Leases are read again for each file: a run may have taken the device meanwhile.
                session = self._session(task, device)
                free = delete_old(session, file, seen=record.look, kept=self._kept(device))
                record = replace(record, deleted=(*record.deleted, file), free_bytes_after=free)
                self._event(device.name, "note", f"{file.path} is deleted and gone")
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others'
            record = _failed(record, error, task)
        return self._ended(task, record, began_s)

    def _session(self, task: Task, device: HostView) -> DeviceSession:
        """Return a session with a device that no run holds. Raises if the operator stops or a run holds the device."""
        if self._interrupted():
            raise Interrupted("stopped by the operator; no further file is deleted", host=device.name, step=STEP)
        held = self._cleaning.held()
        lease = lease_by_name(held, device)
        if lease is None:
            session = session_of(task)
            lease = lease_on(held, session.facts(), member_serials(session.show_version())) if held else None
            if lease is None:
                return session
        raise lease.refusal(device.name)

    def _kept(self, device: HostView) -> frozenset[str]:
        return self._cleaning.kept.get(device.name, frozenset())

    def _ended(self, task: Task, record: CleanRecord, began_s: float) -> Result:
        task.host.close_connections()
        text = record.failure.reason if record.failure else ""
        self._event(record.host, "failed" if record.failure else "done", text)
        seconds = record.seconds + time.monotonic() - began_s
        return Result(host=task.host, result=replace(record, seconds=seconds), changed=bool(record.deleted))

    def _event(self, host: str, status: str, text: str) -> None:
        at_s = time.monotonic() - self._started_s
        self._emit(Event(host=host, step=STEP, status=status, text=text, at_s=at_s))


def _failed(record: CleanRecord, error: Exception, task: Task) -> CleanRecord:
    outcome = Outcome.FAILED if isinstance(error, FlashferryError) else Outcome.ERROR
    if isinstance(error, DeviceRefused):
        outcome = Outcome.REFUSED
    if isinstance(error, Stopped):
        outcome = Outcome.INTERRUPTED
    return replace(record, outcome=outcome, failure=failure_of(STEP, error, recent_of(task).lines()))
