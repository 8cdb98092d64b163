"""Check every device of an inventory without changing anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, session_of
from flashferry.devices.errors import Interrupted, Stopped
from flashferry.devices.identity import identity_of, member_serials
from flashferry.devices.session import DeviceSession
from flashferry.model.doubts import COPY_HINT, Doubted, Doubts, doubts_about
from flashferry.model.probe_result import Connectivity
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.store.leases import Lease, lease_by_name, lease_on, leases
from flashferry.store.staged import doubts
from inventory.host_key_rules import state_directory
from inventory.host_view import view
from tasks.check import CheckReport, Fetching, ReturnPath, TargetImage, check_device
from tasks.distribute import listed_file_systems
from tasks.file_system import count_others
from tasks.software_state import Mode, mode_of


class CheckRecord(Struct, frozen=True, kw_only=True):
    """Result of a device's check.

    Attributes:
        outcome: DONE: can be staged; ALREADY_THERE; REFUSED; FAILED or ERROR.
        check: Facts of the device; None if unreachable.
        failure: Why it is unreachable, refused, or cannot copy from us; None if it can be staged.
        reach: Whether it can copy a file from us by the transport that a run would use; None if not tried.
        reaches: The same by each tried transport, in the order of a run.
        not_tried: Allowed transports that were not tried, one sentence each with the reason.
    """

    host: str
    outcome: Outcome
    check: CheckReport | None
    failure: Failure | None
    reach: Connectivity | None = None
    reaches: tuple[Connectivity, ...] = ()
    not_tried: tuple[str, ...] = ()


def check_fleet(
    nornir: Nornir,
    target: TargetImage | None,
    *,
    state: Path | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[CheckRecord, ...]:
    """Return a CheckRecord per device, in the order of the inventory; a device's error is in its record.

    Args:
        nornir: The devices, with credentials.
        target: Their image; None checks without one.
        state: State folder for leases and doubts, only read; None for the default.
        emit: Receives events, from several threads.
        interrupted: Returns whether the operator stops the command.

    Raises:
        ConfigInvalid: The inventory is invalid, or the journal cannot be read.
    """
    folder = state_directory(state)
    held, doubted = leases(folder), doubts(folder)
    started = time.monotonic()
    emit = never_failing(emit)
    for host in nornir.inventory.hosts.values():
        view(host)

    def one(task: Task) -> Result:
        record = inspect_device(task, target, interrupted, held=held, doubted=doubted)
        task.host.close_connections()
        text = record.failure.reason if record.failure else ""
        status = "failed" if record.failure else "done"
        at_s, outcome = time.monotonic() - started, record.outcome.value
        emit(Event(host=task.host.name, step="check", status=status, text=text, at_s=at_s, outcome=outcome))
        return Result(host=task.host, result=record)

    results = nornir.run(task=one, name="check")
    return tuple(results[name][0].result for name in nornir.inventory.hosts)


def inspect_device(
    task: Task,
    target: TargetImage | None,
    interrupted: Callable[[], bool] = lambda: False,
    *,
    held: Sequence[Lease] = (),
    doubted: Doubted = MappingProxyType({}),
) -> CheckRecord:
    """Check one device; its session stays open. A device's error is in the record.

    Args:
        task: The Nornir task of the device.
        target: Its image, or None.
        interrupted: Returns whether the operator stops the command.
        held: Devices held by runs, which are refused.
        doubted: Doubts about devices' own statements.
    """
    name = task.host.name
    host = view(task.host)
    return_path = ReturnPath(vrf=host.vrf, source_interface=host.source_interface)
    try:
        if interrupted():
            raise Interrupted("stopped by the operator before this device", host=name, step="check")
        if (lease := lease_by_name(held, host) or _lease_on(task, held)) is not None:
            return _held(name, lease)
        report = check_device(
            session_of(task), target, return_path=return_path, fetching=Fetching.of(host), interrupted=interrupted
        )
    except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' check
        outcome = Outcome.FAILED if isinstance(error, FlashferryError) else Outcome.ERROR
        if isinstance(error, Stopped):
            outcome = Outcome.INTERRUPTED
        failure = failure_of("check", error, recent_of(task).lines())
        return CheckRecord(host=name, outcome=outcome, check=None, failure=failure)
    if target is not None:
        known = doubts_about(doubted, name, identity_of(report.facts), target.image.name)
        report = with_doubts(report, known, target.image.name)
    if report.refusal:
        failure = Failure(step="check", reason=report.refusal, hint=report.refusal_hint, kind=Kind.POLICY_VIOLATION)
        return CheckRecord(host=name, outcome=Outcome.REFUSED, check=report, failure=failure)
    outcome = Outcome.ALREADY_THERE if report.already_there else Outcome.DONE
    return CheckRecord(host=name, outcome=outcome, check=report, failure=None)


def with_doubts(report: CheckReport, known: Doubts, image: str) -> CheckReport:
    """Apply the doubts about a device's statements to the result of its check.

    Args:
        report: The check.
        known: The doubts.
        image: Name of the image.
    """
    if report.already_there and (refusal := known.of_file(f"{report.file_system}{image}")):
        return replace(report, already_there=False, refusal=refusal, refusal_hint=COPY_HINT)
    found = (known.of_name,) if report.already_there else (known.of_copy, known.of_add)
    notes = tuple(note for note in found if note is not None)
    return replace(report, notes=(*report.notes, *notes)) if notes else report


def others_of(session: DeviceSession, check: CheckReport) -> int:
    """Return the number of other switches or supervisors; sends a command if the check did not read it.

    Returns 0 in install mode, in which `install add` distributes the image.

    Raises:
        DeviceRefused: The user is not authorised to list file systems.
        OutputNotUnderstood: No prompt came in time.
        DeviceUnreachable: The session was lost.
    """
    if mode_of(check.version) is Mode.INSTALL:
        return max(len(check.version.members) - 1, 0)
    return count_others(check.version, lambda: listed_file_systems(session), check.file_system)


def _lease_on(task: Task, held: Sequence[Lease]) -> Lease | None:
    session = session_of(task)
    return lease_on(held, session.facts(), member_serials(session.show_version())) if held else None


def _held(name: str, lease: Lease) -> CheckRecord:
    refusal = lease.refusal(name)
    failure = Failure(step="check", reason=refusal.message, hint=refusal.hint, kind=Kind.POLICY_VIOLATION)
    return CheckRecord(host=name, outcome=Outcome.REFUSED, check=None, failure=failure)
