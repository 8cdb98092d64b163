"""Make the report of a stored run and its devices. All is pure but `read_report`, which reads the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from flashferry.core.json_access import Node
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Phase, Restored, RunState, State, label_of, phase_of
from flashferry.reports.headline import epoch_s, site_reports, summary_of
from flashferry.reports.model import (
    IN_PROGRESS,
    LEFT,
    NOT_STARTED,
    AttemptReport,
    DeviceReport,
    ImageReport,
    LineReport,
    Proof,
    Report,
    RestoreReport,
    Severity,
    Speed,
    StepTime,
    TransferReport,
    TransportComparedReport,
    TransportTriedReport,
    VerdictReport,
    read_facts,
)
from flashferry.reports.transfers import Speeds, compared_of, speeds_before, speeds_of, transfers_of
from flashferry.reports.words import lost_copy_sentence, refused_window_sentence, transport_tried_sentence
from flashferry.store.history import History
from flashferry.store.stored_run import read_run
from flashferry.store.summaries import restore_source
from tasks.read_config import Difference
from tasks.restore_plan import ForeignChange
from tasks.tcp_config import TcpLines

if TYPE_CHECKING:
    from flashferry.store.stored_run import StoredDevice, StoredRun

_NOTHING_DONE = frozenset({State.PLANNED.value, State.CHECKED.value})

_PROOFS = {
    Restored.UNTOUCHED.value: Proof.UNTOUCHED,
    Restored.RESTORED.value: Proof.PROVEN,
    Restored.FOREIGN_CHANGE.value: Proof.FOREIGN,
    Restored.INCOMPLETE.value: Proof.NOT_PROVEN,
}


def restore_of(device: StoredDevice, run: RunState) -> RestoreReport:
    """Return the proof of a device's configuration; a later `flashferry recover` takes precedence.

    An attempt that changed nothing does not override an earlier one that tuned the device.
    """
    decided = restore_source(device.record, device.attempts)
    source, record, by_recovery = Node(decided.account), Node(decided.record), decided.by_recovery
    found = source.at("restore")
    failed = source.at("failure") if by_recovery else record.at("restore_failure")
    difference = _difference(found) if found else None
    startup_changed = found.flag("startup_changed")
    return RestoreReport(
        proof=_proof(device, source.text("restored"), run),
        lines=_lines(record, found),
        commands=found.texts("commands"),
        running_is_equal=None if difference is None else not difference,
        running_difference=str(difference) if difference else "",
        startup_is_equal=None if startup_changed is None else not startup_changed,
        foreign=tuple(str(one.values(ForeignChange)) for one in found.list("foreign")),
        failure=failed.text("reason") or "",
        by_recovery=by_recovery,
        is_accepted=decided.is_accepted,
    )


def _proof(device: StoredDevice, restored: str | None, run: RunState) -> Proof:
    if device.is_held:
        return Proof.IN_PROGRESS if run is RunState.ALIVE else Proof.NOT_PROVEN
    if restored in _PROOFS:
        return _PROOFS[restored]
    return Proof.UNTOUCHED if device.state in _NOTHING_DONE else Proof.UNKNOWN


def _difference(found: Node) -> Difference:
    seen = found.at("running_difference")
    return Difference(added=seen.texts("added"), gone=seen.whole("gone") or 0, reordered=bool(seen.flag("reordered")))


def _lines(record: Node, restored: Node) -> tuple[LineReport, ...]:
    """Return the lines that were set; their present values are unknown unless the device was checked afterwards."""
    if not record.at("tune"):
        return ()
    now = TcpLines(lines=restored.at("running").texts("lines")) if restored else None
    return tuple(_line(change, now) for change in record.list("changes"))


def _line(change: Node, now: TcpLines | None) -> LineReport:
    before = change.text("before")
    after = None if now is None else now.of(change.text("keyword") or "")
    return LineReport(
        ours=change.text("ours") or "",
        before=before,
        after=after,
        is_as_before=None if now is None else after == before,
    )


_STAMP_CHARS = len("2026-11-23T00:00:00.000Z")

_STANDINGS: dict[str, Severity] = {
    **dict.fromkeys(GOOD_OUTCOMES, Severity.GOOD),
    Outcome.REFUSED.value: Severity.REFUSED,
    Outcome.FAILED.value: Severity.FAILED,
    Outcome.ERROR.value: Severity.UNKNOWN,
    LEFT: Severity.UNKNOWN,
}


def device_report(
    device: StoredDevice, run: RunState, before: Speed | None = None, *, stages: bool = True
) -> DeviceReport:
    """Return a device's report.

    Args:
        device: The device in the journal.
        run: State of its run.
        stages: Whether the run copies images, and not files of a speed test.
        before: Speed with its own TCP settings, measured before the run; None if unknown.
    """
    record = Node(device.record)
    check, failure = record.at("check"), _failure(record)
    outcome, restore = _outcome(device, record, run), restore_of(device, run)
    phase = _phase(outcome, device, run)
    transfers = transfers_of(device)
    found = speeds_of(record, transfers, before)
    compared = compared_of(record.at("probe"))
    steps = _steps(record)
    link = record.at("link_rate")
    return DeviceReport(
        host=device.host,
        address=device.address,
        site=device.site,
        wave=device.wave if device.wave >= 0 else None,
        standing=_severity(outcome, restore),
        needs_attention=_needs_attention(outcome, restore),
        outcome=outcome,
        label=phase.label if phase is Phase.QUEUED else label_of(outcome),
        phase=phase,
        state=device.state,
        step=failure.text("step"),
        reason=failure.text("reason"),
        hint=failure.text("hint"),
        transcript=_transcript(record),
        model=check.at("facts").text("model"),
        serial_number=check.at("facts").text("serial_number"),
        release=check.at("version").text("release"),
        file_system=check.text("file_system"),
        image=device.image if stages else None,
        rtt_s=next((one.rtt_s for one in reversed(transfers) if one.rtt_s), check.number("rtt_s")),
        link_bytes_per_s=payload_cap_bytes_per_s(link.number("rate_bps")),
        link_source=link.text("source"),
        as_is=found.as_is,
        tuned=found.tuned,
        untuned=found.untuned,
        gain=found.gain,
        saved_s=found.saved_s if _severity(outcome, restore) is Severity.GOOD else None,
        verdict=_verdict(transfers, compared),
        hash_proof=_hash_proof(record),
        restore=restore,
        steps=steps,
        total_s=sum(one.seconds for one in steps) if steps else None,
        attempt=max(1, device.attempt),
        attempts=tuple(_attempt(Node(one)) for one in device.attempts),
        transfers=transfers,
        partial_file=record.text("partial_file"),
        partial_advice=record.text("partial_advice"),
        notes=_device_notes(record, found, restore),
        transport=device.transport,
        compared=compared,
        transports_tried=tuple(one.values(TransportTriedReport) for one in record.list("transports_tried")),
        **read_facts(record),
    )


def _verdict(
    transfers: tuple[TransferReport, ...], compared: tuple[TransportComparedReport, ...]
) -> VerdictReport | None:
    """Return what limited the last copy, or the fastest if transports were compared."""
    if compared:
        return next((row.verdict for row in compared if row.is_best), None)
    return transfers[-1].verdict if transfers else None


def _failure(record: Node) -> Node:
    """Return the failure of the run's work, else of the restore."""
    return record.at("failure") or record.at("restore_failure") or record.at("recovery", "failure")


def _transcript(record: Node) -> tuple[str, ...]:
    """Return the last lines of the sessions that failed: of the run's work, then of the restore."""
    found: tuple[str, ...] = ()
    for failure in (record.at("failure"), record.at("restore_failure"), record.at("recovery", "failure")):
        last = found[-1][:_STAMP_CHARS] if found else ""
        # Entries start with their time and sort as text.
        found += tuple(one for one in failure.texts("transcript") if one[:_STAMP_CHARS] > last)
    return found


def _outcome(device: StoredDevice, record: Node, run: RunState) -> str:
    """Return the outcome; for a device in a live run only that of its last step."""
    recorded, ended = record.text("outcome"), device.state in {State.DONE.value, State.FAILED.value}
    if run is RunState.ALIVE and not ended:
        return NOT_STARTED if device.state == State.PLANNED.value and not recorded else IN_PROGRESS
    if recorded is not None and (run is RunState.FINISHED or ended):
        return recorded
    if device.state == State.PLANNED.value:
        return recorded or NOT_STARTED
    return LEFT


def _phase(outcome: str, device: StoredDevice, run: RunState) -> Phase:
    """Return the phase of a device; a planned one in a live run is queued."""
    is_alive = run is RunState.ALIVE
    if is_alive and outcome == IN_PROGRESS:
        return Phase.IN_PROGRESS
    recorded = Node(device.record).text("outcome")
    return phase_of(None if outcome == LEFT else recorded, device.state, is_alive=is_alive)


def _severity(outcome: str, restore: RestoreReport) -> Severity:
    if restore.proof is Proof.NOT_PROVEN and not restore.is_accepted:
        return Severity.UNRESTORED
    return _STANDINGS.get(outcome, Severity.OPEN)


def _needs_attention(outcome: str, restore: RestoreReport) -> bool:
    """Return whether it needs attention; a device that has not started does not."""
    if restore.proof in {Proof.NOT_PROVEN, Proof.FOREIGN} and not restore.is_accepted:
        return True
    is_good = _STANDINGS.get(outcome) is Severity.GOOD
    return not is_good and outcome not in {IN_PROGRESS, NOT_STARTED}


def _steps(record: Node) -> tuple[StepTime, ...]:
    return tuple(
        StepTime(step=step, seconds=seconds)
        for step, found in record.at("seconds_by_step").items()
        if (seconds := found.number()) is not None
    )


def _hash_proof(record: Node) -> str | None:
    """Return the digest that the device computed, as proof of the image; None without one."""
    found = record.at("verify") or record.at("check", "proof")
    digest = found.text("digest") or found.text("md5")
    if digest is None:
        return None
    return f"{(found.text('algorithm') or 'md5').upper()} {digest}"


def _attempt(found: Node) -> AttemptReport:
    failure = _failure(found)
    return AttemptReport(
        outcome=found.text("outcome") or "no record",
        step=failure.text("step") or "",
        reason=failure.text("reason") or "",
    )


def _device_notes(record: Node, found: Speeds, restore: RestoreReport) -> tuple[str, ...]:
    notes = [*record.at("check").texts("notes"), *record.texts("notes")]
    notes += [said for key in ("note", "tuning") if (said := record.text(key))]
    notes += [f"window: {said}" for said in (record.at("window").text("reason"),) if said and record.at("tune")]
    notes += [refused_window_sentence(line) for line in record.at("tune").texts("refused")]
    notes += [
        transport_tried_sentence(one.text("transport") or "?", one.text("reason") or "no reason kept", one.text("hint"))
        for one in record.list("transports_tried")
    ]
    notes += [
        lost_copy_sentence(one.text("reason") or "no reason kept", one.text("decision"))
        for one in record.list("reconciled")
    ]
    notes += [said for said in (record.at("clocks").text("disagreement"),) if said]
    notes += [f"is tuning worth it: {said}" for said in (record.at("probe", "worth").text("reason"),) if said]
    if found.note:
        notes.append(found.note)
    if restore.startup_is_equal is False:
        notes.append(restore.startup)
    return tuple(dict.fromkeys(notes))


_NO_SPEEDS: Mapping[str, Speed] = MappingProxyType({})


def build_report(
    run: StoredRun,
    *,
    written_at: str,
    written_by: str,
    before: Mapping[str, Speed] = _NO_SPEEDS,
) -> Report:
    """Return the report of a run.

    Args:
        run: The run in the journal: alive, finished or dead.
        written_at: Current time, ISO 8601, UTC.
        written_by: Name and version of the program.
        before: Speed with the device's own TCP settings, measured before the run, by host.
    """
    stages = run.verb == "stage"
    devices = tuple(device_report(one, run.state, before.get(one.host), stages=stages) for one in run.devices)
    return Report(
        run_id=run.run_id,
        verb=run.verb,
        standing=run.state,
        started_at=run.started_at,
        finished_at=run.finished_at,
        written_at=written_at,
        written_by=written_by,
        images=_images(run, devices),
        summary=summary_of(devices, _wall_s(run, written_at)),
        sites=site_reports(devices),
        devices=devices,
        notes=_notes(run),
    )


def _notes(run: StoredRun) -> tuple[str, ...]:
    times = "once" if run.resumed == 1 else f"{run.resumed} times"
    return ((f"the run was resumed {times}",) if run.resumed else ()) + run.damaged


def _wall_s(run: StoredRun, now: str) -> float | None:
    end = now if run.is_alive else run.finished_at
    began_s, ended_s = epoch_s(run.started_at), epoch_s(end)
    return None if began_s is None or ended_s is None else max(0.0, ended_s - began_s)


def _images(run: StoredRun, devices: Sequence[DeviceReport]) -> tuple[ImageReport, ...]:
    """Return the images of the run, with size and digest from transfers and proofs."""
    names = dict.fromkeys(device.image for device in devices if device.image is not None)
    records = {device.host: Node(device.record) for device in run.devices}
    return tuple(_image(name, [device for device in devices if device.image == name], records) for name in names)


def _image(name: str, devices: Sequence[DeviceReport], records: Mapping[str, Node]) -> ImageReport:
    sizes = [one.size_bytes for device in devices for one in device.transfers if one.image == name]
    proofs = [
        proof.text("md5")
        for device in devices
        for proof in (records[device.host].at("verify"), records[device.host].at("check", "proof"))
    ]
    return ImageReport(
        name=name,
        size_bytes=next((size for size in sizes if size), None),
        md5=next((md5 for md5 in proofs if md5), None),
        devices=len(devices),
    )


def read_report(directory: Path, run_id: str) -> Report:
    """Return the report of a run, from the journal.

    Args:
        directory: State directory.
        run_id: The run, abbreviated if unique, or `latest`.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    return report_of(read_run(directory, run_id), directory)


def report_of(run: StoredRun, directory: Path) -> Report:
    """Return the report of a run that was read with its transfers; reads the history.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    history = History.read(directory)
    return build_report(
        run,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        written_by=report_author(),
        before=speeds_before(history, {one.host: one.transport for one in run.devices}, run.started_at),
    )


def report_author() -> str:
    """Return name and version of the program."""
    try:
        return f"flashferry {version('flashferry')}"
    except PackageNotFoundError:
        return "flashferry of unknown version"
