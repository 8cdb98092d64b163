"""Recovery after a run was killed or stopped: restore its devices, verify that, and resume the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nornir.core import Nornir
from nornir.core.inventory import Host, Hosts, Inventory

from flashferry.api.fleet import journal_in, whole_fleet, with_credentials
from flashferry.api.fleet_options import FleetOptions
from flashferry.api.jobs import INVENTORY, StageJob, pace_notices
from flashferry.api.staging import carry_out
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.units import counted
from flashferry.core.values import replace
from flashferry.devices.errors import Interrupted, RestoreIncomplete
from flashferry.model.exit_codes import ExitCode
from flashferry.model.policy import Chosen, ServerPlace, StagePolicy, check_resumable
from flashferry.model.states import Restored
from flashferry.monitor.events import Emit, silent
from flashferry.run import recover as recovery
from flashferry.run.neighbours.board import may_serve
from flashferry.run.recover import RecoveryRecord, pending
from flashferry.run.request import RunOptions
from flashferry.run.resume import is_done, kept_request, resumed
from flashferry.store.reader import find_run
from flashferry.store.stored_run import read_run
from inventory.selection import Selection, narrowed

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.api.fleet import Notify
    from flashferry.devices.credentials import Source
    from flashferry.model.lease import LeasedDevice
    from flashferry.model.record import RunReport
    from flashferry.run.control import Approve
    from flashferry.run.request import FleetRequest
    from flashferry.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """Result of a recovery.

    Attributes:
        devices: What was done for each device leased by a dead run.
        exit_code: OK if each is proven restored, accepted or released; otherwise RESTORE_INCOMPLETE.
    """

    devices: tuple[RecoveryRecord, ...]
    exit_code: ExitCode


def recover(
    fleet: FleetOptions | Nornir,
    *,
    run: str | None = None,
    confirmed: Iterable[str] = (),
    accepted: Iterable[str] = (),
    state: Journal | Path | str | None = None,
    ask: Source | None = None,
    notify: Notify | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> RecoveryResult:
    """Restore every device that dead runs left tuned, and verify it.

    Args:
        fleet: Source of credentials: an inventory, of which only the devices to recover are used, or a Nornir object. A
            device that is no longer in it is reached at the address in the journal.
        run: Only devices of this dead run, by a unique beginning or end of its id, or `latest`; None: all dead runs.
        confirmed: Devices that the caller confirms to be the right ones at their addresses, and whose run is not alive
            elsewhere.
        accepted: Devices to accept as they are, once our own lines are removed.
        state: An open journal or its folder; None: the default folder.
        ask: Last source of credentials; None: none.
        notify: Receives a notice when a transcript can no longer be written; None: no notice.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: devices in progress are finished, others are left for the next recovery.

    Raises:
        ConfigInvalid: The inventory is invalid, another recovery is running, no dead run holds a confirmed or accepted
            device, or the run is unknown or alive.
        JournalUnusable: The journal cannot be opened.
    """
    taken = frozenset(accepted)
    with journal_in(state) as journal:
        only = None if run is None else _dead_run(journal, run)
        everything = fleet if isinstance(fleet, Nornir) else whole_fleet(fleet, notify=notify)
        nornir = only_pending(everything, pending(journal, only))
        unusable: dict[str, FlashferryError] = {}
        if isinstance(fleet, FleetOptions) and nornir.inventory.hosts:
            # Ask for passwords only if there is something to recover.
            with_credentials(nornir, fleet, ask=ask, failed=unusable.setdefault)
        records = recovery.recover(
            nornir,
            journal,
            emit=emit,
            interrupted=interrupted,
            unusable=unusable,
            only=only,
            confirmed=frozenset(confirmed),
            accepted=taken,
        )
    # UNTOUCHED: an activation that ended with the new image running.
    is_whole = all(
        record.restored in {Restored.RESTORED, Restored.UNTOUCHED} or (record.host in taken and record.failure is None)
        for record in records
    )
    return RecoveryResult(devices=records, exit_code=ExitCode.OK if is_whole else ExitCode.RESTORE_INCOMPLETE)


def _dead_run(journal: Journal, run: str) -> str:
    """Return the id of a dead run. A run that the journal lost must be given by its whole id.

    Raises:
        ConfigInvalid: No run, or more than one, matches, or it is alive.
    """
    lost = {entry.run_id for entry in journal.damaged_entries()}
    found = run if run in lost else find_run(journal.directory, run)
    if journal.is_alive(found):
        raise ConfigInvalid(
            f"--run {run}: run {found} is alive and restores its devices itself",
            hint=f"Let it end, or stop it with 'flashferry run stop {found}'",
        )
    return found


def forget(names: Iterable[str], *, state: Journal | Path | str | None = None) -> RecoveryResult:
    """Release devices left by dead runs that were replaced or repaired by hand. Nothing is sent to them.

    Args:
        names: Their names in the inventory at that time, or `RUN/NAME` if several runs left one.
        state: As for `recover`.

    Raises:
        ConfigInvalid: No dead run holds such a device, or several do; nothing was released.
        JournalUnusable: The journal cannot be opened.
    """
    with journal_in(state) as journal:
        return RecoveryResult(devices=recovery.forget(journal, names), exit_code=ExitCode.OK)


def only_pending(nornir: Nornir, devices: Iterable[LeasedDevice]) -> Nornir:
    """Return a Nornir with only the journal's devices, including those that the inventory no longer has.

    A credential source's failure for any other device does not matter to a recovery.
    """
    known, defaults = nornir.inventory.hosts, nornir.inventory.defaults
    hosts = Hosts()
    for device in devices:
        stranger = Host(name=device.host, hostname=device.address, platform=device.platform, defaults=defaults)
        hosts[device.host] = known.get(device.host, stranger)
    inventory = Inventory(hosts=hosts, groups=nornir.inventory.groups, defaults=defaults)
    return Nornir(inventory=inventory, runner=nornir.runner, config=nornir.config)


def resume(
    fleet: FleetOptions,
    run: str = "latest",
    chosen: Chosen | None = None,
    *,
    server: ServerPlace | None = None,
    state: Journal | Path | str | None = None,
    ask: Source | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    approve: Approve | None = None,
) -> RunReport:
    """Resume a run that was killed or stopped: restore its devices, then stage those that were not finished.

    Args:
        fleet: The devices; unfinished ones that its selection leaves out take no part. Without an inventory, the run's
            own is opened.
        run: The run, by a unique beginning or end of its id, or `latest`.
        chosen: Changed settings by name, such as limits, the end, or further permissions; all others stay.
        server: Where our server listens now; unset values stay as they were.
        state: As for `recover`.
        ask: As for `recover`.
        emit: Receives events of recovery and run; called from several threads.
        interrupted: Whether to stop, polled once a second; then everything is ended and restored.
        approve: As for `carry_out`.

    Returns:
        A record per device of the whole run; `run_exit_code` maps it to an exit code.

    Raises:
        ConfigInvalid: The run is unknown, alive, or cannot be resumed; no device was contacted.
        Interrupted: It was stopped during the recovery; the run can be resumed.
        RestoreIncomplete: None of its devices could be restored, and no selection names those to continue with.
        JournalUnusable: The journal cannot be opened.
    """
    with journal_in(state) as journal:
        job = job_for_resume(
            fleet, run, chosen or {}, journal, server=server, ask=ask, emit=emit, interrupted=interrupted
        )
        pace_notices(job, journal.directory)
        return carry_out(job, state=journal, emit=emit, interrupted=interrupted, approve=approve)


def job_for_resume(
    fleet: FleetOptions,
    run: str,
    chosen: Chosen,
    journal: Journal,
    *,
    server: ServerPlace | None = None,
    ask: Source | None = None,
    notify: Notify = lambda text: None,  # noqa: ARG005 -- the signature
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> StageJob:
    """Restore a run's devices, and return the job that resumes it.

    Args:
        fleet: The devices, and how to log in to them.
        run: The run.
        chosen: Changed settings by name.
        journal: The journal.
        server: Where our server listens now; unset values stay as they were.
        ask: Last source of credentials; None: none.
        notify: Receives notices: what is restored first, and a transcript that can no longer be written.
        emit: Receives the recovery's events.
        interrupted: Whether to stop.

    Raises:
        ConfigInvalid: The run is unknown, alive, or cannot be resumed, or a changed setting is fixed once a run has
            started (`check_resumable`); no device was contacted.
        Interrupted: It was stopped during the recovery; the run can be resumed.
        RestoreIncomplete: No device could be restored, and no selection names those to continue with.
    """
    check_resumable(chosen)
    run_id = find_run(journal.directory, run, verb="stage")
    kept = kept_request(journal, run_id, emit)
    if not fleet.inventory:
        fleet = replace(fleet, inventory=str(kept.more.get(INVENTORY) or ""))
    everything = whole_fleet(fleet, notify=notify)
    left = _left_to_do(journal, run_id, kept.request)
    _check_known(run_id, left, everything)
    selection = fleet.selection
    if selection == Selection():
        # With devices named, no others take part.
        left = (*left, *_may_serve(kept.request, left, everything))
    nornir = with_credentials(narrowed(everything, replace(selection, hosts=selection.hosts or left)), fleet, ask=ask)
    recovered = _restored_first(run_id, everything, fleet, journal, ask, notify, emit, interrupted)
    if interrupted():
        raise Interrupted(
            f"stopped while the devices of run {run_id} were being restored; it was not resumed yet",
            hint=f"'flashferry stage --resume {run_id}' starts there again",
        )
    if selection == Selection():
        check_any_restored(run_id, recovered)
    kept = resumed(journal, run_id, kept, recovered)
    hosts = set(nornir.inventory.hosts)
    request = replace(
        kept.request,
        images={host: path for host, path in kept.request.images.items() if host in hosts},
    )
    options = RunOptions(policy=_still(kept.policy).changed(chosen), server=kept.server.moved(server or ServerPlace()))
    return StageJob(nornir=nornir, request=request, options=options)


def resume_failure_code(error: FlashferryError, journal: Journal) -> ExitCode:
    """Return the exit code of a failed resume: it depends on whether a dead run still holds a device.

    Args:
        error: RestoreIncomplete or Interrupted, as raised by `job_for_resume`.
        journal: The journal.
    """
    is_held = isinstance(error, RestoreIncomplete) or bool(pending(journal))
    return ExitCode.RESTORE_INCOMPLETE if is_held else ExitCode.INTERRUPTED


def check_any_restored(run_id: str, records: Sequence[RecoveryRecord]) -> None:
    """Check that at least one device was restored before a run is resumed.

    Raises:
        RestoreIncomplete: None was: most likely this is the wrong host or inventory for the other devices too.
    """
    failures = [(record.host, record.failure) for record in records if record.failure is not None]
    if not failures or len(failures) < len(records):
        return
    host, first = failures[0]
    none = f"none of the {counted(len(records), 'device')} that it still holds could be restored"
    one = f"{host}, which it still holds, could not be restored"
    raise RestoreIncomplete(
        f"run {run_id} was not resumed: {one if len(records) == 1 else none} ({first.reason})",
        hint="Check --state-dir and --inventory; if they are right, name the devices to continue with by "
        "--host, --group or --filter",
    )


def _restored_first(
    run_id: str,
    everything: Nornir,
    fleet: FleetOptions,
    journal: Journal,
    ask: Source | None,
    notify: Notify,
    emit: Emit,
    interrupted: Callable[[], bool],
) -> tuple[RecoveryRecord, ...]:
    """Restore all devices that the run left, whichever of them are selected."""
    held = pending(journal, run_id)
    if not held:
        return ()
    they = "it is" if len(held) == 1 else "they are"
    notify(f"run {run_id} left {counted(len(held), 'device')} being staged; {they} restored first")
    unusable: dict[str, FlashferryError] = {}
    tuned = with_credentials(only_pending(everything, held), fleet, ask=ask, failed=unusable.setdefault)
    return recovery.recover(tuned, journal, emit=emit, interrupted=interrupted, unusable=unusable, only=run_id)


def _still(policy: StagePolicy) -> StagePolicy:
    """Return the policy without an end that is past."""
    is_past = policy.until is not None and policy.until <= datetime.now(UTC)
    return replace(policy, until=None) if is_past else policy


def _left_to_do(journal: Journal, run_id: str, request: FleetRequest) -> tuple[str, ...]:
    """Return the devices that are not proven done, or all if none is left; finished ones may leave the inventory."""
    run = read_run(journal.directory, run_id, with_transfers=False)
    done = {device.host for device in run.devices if is_done(device)}
    return tuple(host for host in request.images if host not in done) or tuple(request.images)


def _may_serve(request: FleetRequest, left: tuple[str, ...], everything: Nornir) -> tuple[str, ...]:
    """Return the run's other devices that may serve the image to the remaining ones, as they have it by now."""
    return may_serve((host for host in request.images if host not in left), left, everything.inventory.hosts)


def _check_known(run_id: str, hosts: tuple[str, ...], nornir: Nornir) -> None:
    missing = [host for host in hosts if host not in nornir.inventory.hosts]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ConfigInvalid(
            f"run {run_id} has {', '.join(missing[:5])}{more}, not in the inventory",
            hint="Give the inventory that the run was started with, or run 'flashferry recover' and start a new run",
        )
