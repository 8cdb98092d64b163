"""Resume a run that died or was stopped: which devices are proven done, and which are left to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from flashferry.core.codec import decode, to_json
from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.images.image import PlannedImage
from flashferry.model.record import DeviceRecord, Failure
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Restored, State
from flashferry.monitor.events import Emit, silent
from flashferry.planning.local_images import hashed_image
from flashferry.run.recover import RecoveryRecord
from flashferry.run.request import KeptRequest, Resumed, from_stored
from flashferry.store.journal import Journal
from flashferry.store.stored_run import StoredDevice, read_run
from flashferry.store.summaries import restore_source

DONE_BEFORE = "done before the run was resumed; 'flashferry report' has all of it"
_AS_BEFORE = frozenset({Restored.UNTOUCHED.value, Restored.RESTORED.value, Restored.FOREIGN_CHANGE.value})


def kept_request(journal: Journal, run_id: str, emit: Emit = silent) -> KeptRequest:
    """Return the request of a run, after checking that its images are unchanged.

    Raises:
        ConfigInvalid: The run is unknown, alive or stored no request, or an image changed; nothing was touched.
    """
    stored = journal.request_of(run_id)
    if journal.is_alive(run_id):
        raise ConfigInvalid(
            f"run {run_id} is alive: expected one that died or ended",
            hint=f"Wait for it, or end it with 'flashferry run stop {run_id}'",
        )
    kept = from_stored(run_id, stored)
    for image in kept.images:
        _check_unchanged(run_id, image, emit)
    return kept


def _check_unchanged(run_id: str, image: PlannedImage, emit: Emit) -> None:
    path = Path(image.path)
    try:
        found = hashed_image(path, emit)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"run {run_id}: {error.message}", hint="Put the file back") from None
    if found.sha512 != image.sha512:
        raise ConfigInvalid(
            f"run {run_id}: image {image.path} has changed since the run began: expected MD5 {image.md5} and "
            f"{image.size_bytes:,} bytes, found {found.md5} and {found.size_bytes:,} bytes",
            hint="Put the former file back, or start a new run with this one",
        )


def resumed(
    journal: Journal, run_id: str, kept: KeptRequest, recovered: tuple[RecoveryRecord, ...] = ()
) -> KeptRequest:
    """Reopen a run and return what is left to do; devices that are not proven done start anew.

    Devices that the recovery just made (`recovered`) could not restore take no part.

    Raises:
        ConfigInvalid: The run is unknown or alive.
    """
    journal.reopen_run(run_id)
    run = read_run(journal.directory, run_id, with_transfers=False)
    held = {one.host: one.failure for one in recovered if one.failure is not None}
    done = {device.host: device.record for device in run.devices if is_done(device)}
    stuck = {device.host: _stuck(device.host, held.get(device.host)) for device in run.devices if device.is_held}
    left = {host: path for host, path in kept.request.images.items() if host not in done and host not in stuck}
    for device in run.devices:
        if device.host in left and device.state != State.PLANNED.value:
            journal.again(run_id, device.host)
    going_on = Resumed(
        run_id=run_id,
        before={host: done_before(host, record) for host, record in done.items()} | stuck,
        attempts={device.host: device.attempt for device in run.devices if device.state == State.PLANNED.value}
        | {device.host: device.attempt + 1 for device in run.devices if device.state != State.PLANNED.value},
        leftovers={device.host: text for device in run.devices if (text := _leftover(device)) is not None},
        done=done,
        excluded={
            device.host: decode(DeviceRecord, device.record)
            for device in run.devices
            if _is_excluded(device) and device.host not in done
        },
    )
    chosen = {device.host: one for device in run.devices if (one := _transport(device)) is not None}
    transports = dict(kept.request.transports) | chosen
    return replace(kept, request=replace(kept.request, images=left, resumed=going_on, transports=transports))


def _is_excluded(device: StoredDevice) -> bool:
    """Return whether the run's plan does not stage a device."""
    failure = device.record.get("failure")
    return isinstance(failure, dict) and failure.get("kind") == Kind.EXCLUDED_BY_PLAN


def is_done(device: StoredDevice) -> bool:
    """Return whether a device needs nothing more: image there, hash proven, configuration restored.

    A change by others, which the restore left alone, counts as done: staging again would not undo it. It stays in the
    run's record and exit code.
    """
    record = device.record
    return not device.is_held and record.get("outcome") in GOOD_OUTCOMES and record.get("restored") in _AS_BEFORE


def done_before(host: str, kept: Mapping[str, Any]) -> DeviceRecord:
    """Return the record of a device that was done before the run was resumed, as far as a report needs it."""
    return DeviceRecord(
        host=host,
        state=State.DONE,
        outcome=Outcome(kept["outcome"]),
        restored=Restored(kept["restored"]),
        image=kept.get("image"),
        attempt=kept.get("attempt", 1),
        notes=(DONE_BEFORE,),
        seconds_by_step=dict(kept.get("seconds_by_step") or {}),
    )


def after_serving(kept: Mapping[str, Any], record: DeviceRecord) -> dict[str, Any]:
    """Return the stored record of a device that was done before and has served others of its site since.

    Its new restore counts if its configuration was changed for that.
    """
    fresh = [note for note in record.notes if note != DONE_BEFORE]
    found = dict(kept) | {"attempt": record.attempt, "notes": [*(kept.get("notes") or ()), *fresh]}
    if record.restore is None and record.restore_failure is None:
        return found
    names = ("changes", "restore", "restored", "restore_failure")
    return found | {name: to_json(getattr(record, name)) for name in names}


def with_earlier(journal: Journal, run_id: str, records: Mapping[str, DeviceRecord]) -> dict[str, DeviceRecord]:
    """Return the records, with notes on earlier attempts for devices whose last attempt changed nothing."""
    asked = {host for host, one in records.items() if one.attempt > 1 and one.restored is Restored.UNTOUCHED}
    if not asked:
        return dict(records)
    kept = read_run(journal.directory, run_id, with_transfers=False).devices
    return dict(records) | {
        device.host: _changed_before(records[device.host], device) for device in kept if device.host in asked
    }


def _changed_before(record: DeviceRecord, device: StoredDevice) -> DeviceRecord:
    found = restore_source(device.record, device.attempts)
    if not found.ago or found.restored not in set(Restored):
        return record
    who = "recovery" if found.by_recovery else "that attempt"
    proof = "restored it, proven" if found.restored == Restored.RESTORED else f"left it {found.restored}"
    note = f"an earlier attempt of this run changed the configuration; {who} {proof}"
    return replace(record, restored=Restored(found.restored), notes=(*record.notes, note))


def _transport(device: StoredDevice) -> str | None:
    """Return the transport of a device's last copy, which `auto` starts with, or None."""
    for record in (device.record, *reversed(device.attempts)):
        transport = record.get("transport")
        if isinstance(transport, str) and (record.get("transfer") is not None or record.get("transports_tried")):
            return transport
    return None


def _leftover(device: StoredDevice) -> str | None:
    """Return the partial file that the run left on a device, as recovery or the attempt named it.

    The last attempt that copied or was recovered decides. One that was killed before its check, or refused because of
    that very file, says nothing about it.
    """
    for record in (device.record, *reversed(device.attempts)):
        recovery = record.get("recovery")
        found = (recovery if isinstance(recovery, dict) else record).get("partial_file")
        if isinstance(found, str):
            return None if record.get("partial_removed") else found
        if isinstance(recovery, dict) or record.get("transfer") is not None:
            return None
    return None


def _stuck(host: str, why: Failure | None) -> DeviceRecord:
    """Return the record of a device that could not be restored; it takes no part until it is."""
    failure = why or Failure(
        step="recover",
        reason="it is still in the run's hands",
        hint="Run 'flashferry recover'",
        kind=Kind.RESTORE_INCOMPLETE,
    )
    return DeviceRecord(
        host=host, outcome=Outcome.FAILED, restored=Restored.INCOMPLETE, restore_failure=failure, seconds_by_step={}
    )
