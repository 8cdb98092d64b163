"""Merge the sites' reports of a run into one report, as a local run has it.

A device without a record gets one from the state of its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.codec import CodecError, decode, stored_json
from flashferry.core.errors import Kind
from flashferry.images.image import Image
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.model.record import DeviceRecord, Failure, RunReport
from flashferry.model.states import Outcome, Restored, RunState, State
from flashferry.reports.build import build_report, report_author
from flashferry.reports.model import Report
from flashferry.run.make_request import excluded_record
from flashferry.sites.centre.plans import plan_in
from flashferry.store.control_requests import Asker, SteerKind
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import Part, PartState, SiteRun, parts_of, steer_requests_of
from flashferry.store.sites.words import DeviceState, devices_of
from flashferry.store.stored_run import StoredDevice, StoredRun, transfers_in

SYSTEM = Asker(actor="system", via="centre")
"""The requester of the centre's own decisions; no person has this name."""


class Merged(Struct, frozen=True, kw_only=True):
    """A run from the ledger; parts by site and round, devices by name."""

    run: SiteRun
    plan: FleetPlan
    parts: Mapping[tuple[str, int], Part]
    devices: Mapping[str, DeviceState]
    is_interrupted: bool

    @property
    def planned(self) -> tuple[PlannedDevice, ...]:
        """Return the plan's devices without those left out, in order."""
        return tuple(device for device in self.plan.devices if device.host not in self.run.left_out)

    @property
    def is_over(self) -> bool:
        """Return whether all parts have ended."""
        return all(part.is_over for part in self.parts.values())


def merged(ledger: SitesDatabase, run: SiteRun) -> Merged:
    """Read a run from the ledger.

    Raises:
        ConfigInvalid: The copy of its plan is damaged.
    """
    with ledger.reading() as database:
        requests = [one for site, one in steer_requests_of(database, run.run) if site is None]
        return Merged(
            run=run,
            plan=plan_in(run),
            parts={(part.site, part.round): part for part in parts_of(database, run.run)},
            devices={one.host: one for one in devices_of(database, run.run)},
            is_interrupted=any(one.what == SteerKind.STOP and one.actor != SYSTEM.actor for one in requests),
        )


def run_report(found: Merged) -> RunReport:
    """Return a run's result, as `stage` reports it, with a record for each device."""
    images = found.plan.images
    first = images[0] if images else None
    return RunReport(
        run_id=found.run.run,
        verb="stage",
        image=first.name if first else "",
        image_bytes=first.size_bytes if first else 0,
        md5=first.md5 if first else "",
        devices=tuple(device_record(found, planned) for planned in found.planned),
        interrupted=found.is_interrupted,
        images=tuple(Image(name=one.name, size_bytes=one.size_bytes, md5=one.md5, sha512=one.sha512) for one in images),
        stopped=found.run.stopped,
    )


def device_record(found: Merged, planned: PlannedDevice) -> DeviceRecord:
    """Return a device's record from its agent, or else one made from its part or the plan."""
    state = found.devices.get(planned.host)
    if state is None and planned.action is Action.STAGE:
        return _without(planned, Outcome.NOT_STARTED, "it was not among the devices that were asked for", None)
    if state is None:
        return excluded_record(planned, found.plan.created_at)
    part = found.parts[state.site, state.round]
    record = _read(state, planned) if state.record else _silent(part, planned)
    return _held(record, part) if state.is_held and part.is_over else record


def _read(state: DeviceState, planned: PlannedDevice) -> DeviceRecord:
    try:
        return decode(DeviceRecord, state.record)
    except CodecError as error:
        return _without(planned, Outcome.ERROR, f"its record cannot be read: {error.message}", None)


def _held(record: DeviceRecord, part: Part) -> DeviceRecord:
    """Return the record of a device that its part still held at the end, so that it is not proven restored."""
    why = Failure(
        step="restore",
        reason=f"site {part.site} ended while it held the device, which is not proven to be what it was",
        hint="Run 'flashferry recover' at the site, in its agent's state folder",
        kind=Kind.RESTORE_INCOMPLETE,
    )
    return replace(record, restored=Restored.INCOMPLETE, restore_failure=record.restore_failure or why)


def _silent(part: Part, planned: PlannedDevice) -> DeviceRecord:
    if part.state is PartState.REFUSED:
        return _without(planned, Outcome.REFUSED, f"site {part.site} refused its part: {part.sentence}", None)
    if part.is_over:
        if not part.end_offset:
            return _without(planned, Outcome.NOT_STARTED, f"site {part.site}: {part.sentence}", None)
        why = f"site {part.site} ended without a word of it: {part.sentence or 'it did not say why'}"
        return _without(planned, Outcome.FAILED, why, "Look into the journal of the site's agent")
    hint = f"'flashferry sites follow {part.run}' collects it once the site answers"
    return _without(
        planned, Outcome.NOT_STARTED, f"site {part.site} has it in hand, or will: no report of it came yet", hint
    )


def _without(planned: PlannedDevice, outcome: Outcome, reason: str, hint: str | None) -> DeviceRecord:
    is_bad = outcome in {Outcome.REFUSED, Outcome.FAILED, Outcome.ERROR}
    kind = Kind.CODEC_ERROR if outcome is Outcome.ERROR else Kind.STOPPED
    return DeviceRecord(
        host=planned.host,
        state=State.FAILED if is_bad else State.PLANNED,
        outcome=outcome,
        failure=Failure(step="site", reason=reason, hint=hint, kind=kind),
        image=planned.image,
        seconds_by_step={},
    )


def stored_run(found: Merged) -> StoredRun:
    """Return a run as the journal would have it, for all report formats."""
    is_alive = not found.is_over
    run = found.run
    return StoredRun(
        run_id=run.run,
        verb="stage",
        state=RunState.ALIVE if is_alive else RunState.FINISHED,
        started_at=run.started_at,
        finished_at=None if is_alive else run.ended_at or max(part.changed_at for part in found.parts.values()),
        request={"plan": {"digest": run.digest}},
        devices=tuple(_stored_device(found, planned) for planned in found.planned),
        actor=run.started_by or None,
        plan_digest=run.digest,
    )


def _stored_device(found: Merged, planned: PlannedDevice) -> StoredDevice:
    state = found.devices.get(planned.host)
    record = state.record if state is not None else {}
    is_open = state is not None and not found.parts[state.site, state.round].is_over
    if not is_open and (not record or (state is not None and state.is_held)):
        record = stored_json(device_record(found, planned))
    updated = (state.updated_at if state is not None else None) or found.run.started_at
    return StoredDevice(
        host=planned.host,
        address=planned.address,
        site=state.site if state is not None else planned.site,
        wave=planned.wave,
        image=planned.image,
        state=str(record.get("state") or State.PLANNED.value),
        attempt=int(record.get("attempt") or 1),
        is_held=state is not None and state.is_held,
        identity=planned.identity,
        record=record,
        transfers=tuple(transfers_in(record, updated_at=updated)),
        updated_at=updated,
    )


def report_of_sites(found: Merged) -> Report:
    """Return a run's report."""
    return build_report(
        stored_run(found), written_at=datetime.now(UTC).isoformat(timespec="seconds"), written_by=report_author()
    )
