"""After a run died or was stopped: restore what it left, prove it, and go on with what it had not done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nornir.core import Nornir
from nornir.core.inventory import Host, Hosts, Inventory

from flashferry.api.fleet import FleetOptions, journal_in, whole_fleet, with_credentials
from flashferry.api.jobs import INVENTORY, StageJob, pace_notices
from flashferry.api.staging import carry_out
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.value_description import counted
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

    from flashferry.api.fleet import Tell
    from flashferry.devices.credentials import Source
    from flashferry.model.lease import LeasedDevice
    from flashferry.model.record import RunReport
    from flashferry.run.control import Approve
    from flashferry.run.request import FleetRequest
    from flashferry.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """What a recovery came to.

    Attributes:
        devices: What was done for each device that dead runs had in their hands.
        exit_code: OK where each is proven to be what it was, was accepted or let go of; else RESTORE_INCOMPLETE.
    """

    devices: tuple[RecoveryRecord, ...]
    exit_code: ExitCode


def recover(
    fleet: FleetOptions | Nornir,
    *,
    run: str | None = None,
    vouched: Iterable[str] = (),
    accepted: Iterable[str] = (),
    state: Journal | Path | str | None = None,
    ask: Source | None = None,
    tell: Tell | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> RecoveryResult:
    """Find every device that dead runs left tuned, restore it and prove it.

    Args:
        fleet: Where credentials come from: an inventory, of which only the devices to recover are asked about, or a
            Nornir object that has them. A device that has left it is reached at the address in the journal.
        run: Only what this dead run left, its beginning or end where that is unique, or `latest`; None: all of them.
        vouched: Names of devices of which the caller says that what answers there is the one that is meant, and that
            its run is not alive elsewhere.
        accepted: Names of devices that the caller takes as they are, once what is ours was taken back.
        state: An open journal, the folder that it is in, or None: where the command line has it.
        ask: Asked last for credentials that no other source knows; None: no one is asked.
        tell: Takes a notice where a transcript cannot be written any more; None: there is no notice.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: devices in hand are finished, others left for the next time.

    Raises:
        ConfigInvalid: The inventory is wrong, another recovery is running, no dead run left a device that was confirmed
            for or accepted, or the run is unknown or alive.
        JournalUnusable: The journal cannot be opened.
    """
    taken = frozenset(accepted)
    with journal_in(state) as journal:
        only = None if run is None else _dead_run(journal, run)
        everything = fleet if isinstance(fleet, Nornir) else whole_fleet(fleet, tell=tell)
        nornir = only_pending(everything, pending(journal, only))
        unusable: dict[str, FlashferryError] = {}
        if isinstance(fleet, FleetOptions) and nornir.inventory.hosts:
            # No password is asked for before there is something to recover.
            with_credentials(nornir, fleet, ask=ask, failed=unusable.setdefault)
        records = recovery.recover(
            nornir,
            journal,
            emit=emit,
            interrupted=interrupted,
            unusable=unusable,
            only=only,
            vouched=frozenset(vouched),
            accepted=taken,
        )
    # Untouched: the configuration of a device whose activation came to its end with the new image.
    is_whole = all(
        record.restored in {Restored.RESTORED, Restored.UNTOUCHED} or (record.host in taken and record.failure is None)
        for record in records
    )
    return RecoveryResult(devices=records, exit_code=ExitCode.OK if is_whole else ExitCode.RESTORE_INCOMPLETE)


def _dead_run(journal: Journal, run: str) -> str:
    """Return the dead run that is meant; one that the journal lost is known by its whole name.

    Raises:
        ConfigInvalid: No run, or more than one, is meant, or it is alive.
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
    """Let go of devices that dead runs left: they were exchanged, or set right by hand. Nothing is sent to them.

    Args:
        names: Their names in the inventory at that time, or `RUN/NAME` where several runs left one.
        state: As for `recover`.

    Raises:
        ConfigInvalid: No dead run holds a device of that name, or several do; nothing was let go of.
        JournalUnusable: The journal cannot be opened.
    """
    with journal_in(state) as journal:
        return RecoveryResult(devices=recovery.forget(journal, names), exit_code=ExitCode.OK)


def only_pending(nornir: Nornir, devices: Iterable[LeasedDevice]) -> Nornir:
    """Return a Nornir with the journal's devices alone, those that the inventory does not know any more included.

    What a source of credentials has to say of any other device is nothing to a recovery.
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
    """Go on with a run that died or was stopped: its devices are restored first, then what it had not done is done.

    Args:
        fleet: The devices; of those that are not done, the ones that its selection leaves out take no part. Without
            an inventory the run's own is opened.
        run: The run; its beginning or end where that is unique, or `latest`.
        chosen: Settings that are different now, by name: limits, the end, and more leave. All else is as it was.
        server: Where our server listens now; what it does not say is as it was.
        state: As for `recover`.
        ask: As for `recover`.
        emit: Takes events of recovery and run; called from several threads.
        interrupted: Asked about once a second; once it says True, all is ended and restored.
        approve: As for `carry_out`.

    Returns:
        A record per device of the whole run; `run_exit_code` says what they come to.

    Raises:
        ConfigInvalid: The run is unknown, alive, or cannot be gone on with; nothing was touched.
        Interrupted: It was stopped during the recovery; the run can be gone on with.
        RestoreIncomplete: None of its devices could be restored, and no selection names those to go on with.
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
    tell: Tell = lambda text: None,  # noqa: ARG005 -- the signature
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> StageJob:
    """Return the job to go on with a run, once its devices are restored.

    Args:
        fleet: The devices, and how they are logged in to.
        run: The run.
        chosen: Settings that are different now, by name.
        journal: The journal.
        server: Where our server listens now; what it does not say is as it was.
        ask: Asked last for credentials that no other source knows; None: no one is asked.
        tell: Takes sentences for people: what is restored first, and a transcript that cannot be written any more.
        emit: Takes the events of the recovery.
        interrupted: Whether the caller wants to stop.

    Raises:
        ConfigInvalid: The run is unknown, alive, or cannot be gone on with, or a setting is chosen that it settled when
            it started (`check_resumable`); nothing was touched.
        Interrupted: It was stopped during the recovery; the run can be gone on with.
        RestoreIncomplete: No device could be restored, and no selection names those to go on with.
    """
    check_resumable(chosen)
    run_id = find_run(journal.directory, run, verb="stage")
    kept = kept_request(journal, run_id, emit)
    if not fleet.inventory:
        fleet = replace(fleet, inventory=str(kept.more.get(INVENTORY) or ""))
    everything = whole_fleet(fleet, tell=tell)
    left = _left_to_do(journal, run_id, kept.request)
    _check_known(run_id, left, everything)
    selection = fleet.selection
    if selection == Selection():
        # Where devices are named, others are not meant.
        left = (*left, *_may_serve(kept.request, left, everything))
    nornir = with_credentials(narrowed(everything, replace(selection, hosts=selection.hosts or left)), fleet, ask=ask)
    recovered = _restored_first(run_id, everything, fleet, journal, ask, tell, emit, interrupted)
    if interrupted():
        raise Interrupted(
            f"stopped while the devices of run {run_id} were being restored, before it was gone on with",
            hint=f"'flashferry stage --resume {run_id}' begins there again",
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
    """Return what it comes to that a run was not gone on with: whether a device is still in a dead run's hands.

    Args:
        error: What `job_for_resume` raised: RestoreIncomplete or Interrupted.
        journal: The journal.
    """
    is_held = isinstance(error, RestoreIncomplete) or bool(pending(journal))
    return ExitCode.RESTORE_INCOMPLETE if is_held else ExitCode.INTERRUPTED


def check_any_restored(run_id: str, records: Sequence[RecoveryRecord]) -> None:
    """Check that a run may go on behind its recovery: not from where none of its devices could be restored.

    Raises:
        RestoreIncomplete: None of them could: most likely this is the wrong place or inventory for the others too.
    """
    failures = [(record.host, record.failure) for record in records if record.failure is not None]
    if not failures or len(failures) < len(records):
        return
    host, first = failures[0]
    none = f"none of the {len(records)} devices that it left in its hands could be restored"
    one = f"{host}, which it left in its hands, could not be restored"
    raise RestoreIncomplete(
        f"run {run_id} was not gone on with: {one if len(records) == 1 else none} ({first.reason})",
        hint="Is this the right place, and the right inventory? If so, name those to go on with by --host, --group or "
        "--filter",
    )


def _restored_first(
    run_id: str,
    everything: Nornir,
    fleet: FleetOptions,
    journal: Journal,
    ask: Source | None,
    notify: Tell,
    emit: Emit,
    interrupted: Callable[[], bool],
) -> tuple[RecoveryRecord, ...]:
    """Restore what a run left in its hands, whichever devices are chosen to go on with."""
    held = pending(journal, run_id)
    if not held:
        return ()
    they = "it is" if len(held) == 1 else "they are"
    notify(f"run {run_id} left {counted(len(held), 'device')} being staged; {they} restored first")
    unusable: dict[str, FlashferryError] = {}
    tuned = with_credentials(only_pending(everything, held), fleet, ask=ask, failed=unusable.setdefault)
    return recovery.recover(tuned, journal, emit=emit, interrupted=interrupted, unusable=unusable, only=run_id)


def _still(policy: StagePolicy) -> StagePolicy:
    """Return the policy that a run had, without an end that is past: that was another night's."""
    is_past = policy.until is not None and policy.until <= datetime.now(UTC)
    return replace(policy, until=None) if is_past else policy


def _left_to_do(journal: Journal, run_id: str, request: FleetRequest) -> tuple[str, ...]:
    """Return the devices that are not proven done; all where there is none: what is done may leave the inventory."""
    run = read_run(journal.directory, run_id, with_transfers=False)
    done = {device.host for device in run.devices if is_done(device)}
    return tuple(host for host in request.images if host not in done) or tuple(request.images)


def _may_serve(request: FleetRequest, left: tuple[str, ...], everything: Nornir) -> tuple[str, ...]:
    """Return those of a run's other devices that may serve those left: they have the image by now."""
    return may_serve((host for host in request.images if host not in left), left, everything.inventory.hosts)


def _check_known(run_id: str, hosts: tuple[str, ...], nornir: Nornir) -> None:
    missing = [host for host in hosts if host not in nornir.inventory.hosts]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ConfigInvalid(
            f"run {run_id} has {', '.join(missing[:5])}{more}, which the inventory has not",
            hint="Give the inventory that the run was started with, or run 'flashferry recover' and start a new run",
        )
