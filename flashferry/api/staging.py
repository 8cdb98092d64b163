"""Staging: devices copy an image, are restored and verified; also as a rehearsal that changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import journal_in
from flashferry.api.fleet_options import state_folder
from flashferry.api.jobs import StageJob, job_for_image, job_for_plan, pace_notices
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import rough_duration
from flashferry.devices.errors import Interrupted
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.fleet_plan import MOST_WAIT_S, FleetPlan, PlanWindow, WindowState, next_countdown_s
from flashferry.model.plan_file import load_plan
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.monitor.events import Emit, Event, silent
from flashferry.run.dry_run import DryRecord, dry_run_fleet, excluded_dry_record
from flashferry.run.run import run_waves

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.model.record import RunReport
    from flashferry.run.control import Approve
    from flashferry.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunResult:
    """Result of a rehearsal.

    Attributes:
        devices: What a run would send to each device, or why it would not.
        exit_code: The exit code of these results.
    """

    devices: tuple[DryRecord, ...]
    exit_code: ExitCode


_POLL_EVERY_S = 1.0


def now_utc() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


def wait_for_window(
    window: PlanWindow,
    *,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    now: Callable[[], datetime] = now_utc,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until a job's window opens, with a countdown. The run does not exist yet, and nothing is sent.

    Args:
        window: The window, `StageJob.window`.
        emit: Receives an event at once, every hour, and 30, 10 and 1 min before the opening.
        interrupted: Whether to stop, polled once a second.
        now: Returns the present time, with a time zone.
        sleep: Sleeps for the given seconds, at most one.

    Raises:
        ConfigInvalid: The window is over, or opens more than 24 h from now.
        Interrupted: The operator stopped the wait.
    """
    if window.opens_in_s(now()) > MOST_WAIT_S and window.state(now()) is WindowState.BEFORE:
        raise ConfigInvalid(
            f"expected a window that opens within {rough_duration(MOST_WAIT_S)}: {window.why_closed(now())}",
            hint="Start it later, or have a schedule of the service start it; no run was made, nothing was sent",
        )
    due_s, started_s = float("inf"), time.monotonic()
    while window.state(now()) is WindowState.BEFORE:
        why, left_s = window.why_closed(now()), window.opens_in_s(now())
        if interrupted():
            raise Interrupted(
                f"stopped before the run started: {why}; no run was made, no device was touched", step="window"
            )
        if left_s <= due_s:
            due_s = next_countdown_s(left_s)
            text = f"the run waits: {why}; Ctrl-C ends it, and nothing is changed"
            at_s = time.monotonic() - started_s
            emit(Event(host=None, step="run", status="waiting", text=text, at_s=at_s))
        sleep(min(left_s, _POLL_EVERY_S))
    if why := window.why_closed(now()):
        raise ConfigInvalid(f"the run cannot start: {why}", hint="Give a later end, or make a new plan")


def carry_out(
    job: StageJob,
    *,
    state: Journal | Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    approve: Approve | None = None,
) -> RunReport:
    """Run a job: stage its devices, and restore and verify each, whatever happens.

    Waits for the window of plan or sites first if it is not open yet (`wait_for_window`).

    Args:
        job: The result of `job_for_image`, `job_for_plan` or `job_for_resume`.
        state: An open journal or its folder; None: the default folder.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop, polled once a second; then everything is ended and restored.
        approve: Returns whether a wave may start, if waves need approval: yes, no, or None for no answer yet. Without
            it,
            only `flashferry run approve` approves.

    Returns:
        A record per device, with its error if it failed; `run_exit_code` maps the report to an exit code.

    Raises:
        ConfigInvalid: Inventory or image is invalid, the server cannot start, or the plan's window is over or more than
            24 h away; no device was contacted.
        Interrupted: It was stopped before the window opened; there is no run.
        JournalUnusable: The journal cannot be opened; no device was contacted.
    """
    wait_for_window(job.window, emit=emit, interrupted=interrupted)
    with journal_in(state) as journal:
        return run_waves(
            job.nornir,
            job.request,
            job.options,
            journal=journal,
            emit=emit,
            interrupted=interrupted,
            approve=approve,
        )


def dry_run(
    job: StageJob,
    *,
    state: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> DryRunResult:
    """Return what a run would send to each device. Changes nothing, starts no server, writes no journal.

    Args:
        job: The result of `job_for_image` or `job_for_plan`.
        state: Folder of learned link rates, read only; None: the default.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: checks in progress are ended, no further device is started.

    Raises:
        ConfigInvalid: Inventory or image is invalid.
    """
    records = dry_run_fleet(
        job.nornir,
        job.request,
        job.options,
        state_directory=state_folder(state),
        emit=emit,
        interrupted=interrupted,
    )
    excluded = tuple(record for _, record in job.request.excluded)
    outcomes = [record.outcome for record in records]
    outcomes += [record.outcome for record in excluded if not record.is_left_by_plan]
    code = exit_code(outcomes, interrupted=interrupted())
    return DryRunResult(devices=(*records, *map(excluded_dry_record, excluded)), exit_code=code)


def stage(
    nornir: Nornir,
    what: FleetPlan | Path | str,
    policy: StagePolicy | None = None,
    *,
    server: ServerPlace | None = None,
    inventory: Path | str | None = None,
    state: Journal | Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    approve: Approve | None = None,
) -> RunReport:
    """Stage an image or a plan: devices copy their image, then their configuration is restored and verified.

    Args:
        nornir: The devices, with credentials.
        what: An image file for all devices, or a plan (`load_plan` reads one from its file).
        policy: Settings of the run; None: the plan's, or else defaults.
        server: Where our server listens.
        inventory: Where the inventory is: stored for `resume`, and its folder may hold images that devices name.
        state: As for `carry_out`.
        emit: As for `carry_out`.
        interrupted: As for `carry_out`.
        approve: As for `carry_out`.

    Returns:
        A record per device, with its error if it failed; `run_exit_code` maps the report to an exit code.

    Raises:
        ConfigInvalid: An argument is invalid; no device was contacted.
        JournalUnusable: The journal cannot be opened; no device was contacted.
    """
    with journal_in(state) as journal:
        folder = journal.directory
        if isinstance(what, FleetPlan):
            job = job_for_plan(nornir, what, policy, server, inventory=inventory)
        else:
            job = job_for_image(nornir, Path(what), policy, server, inventory=inventory, state=folder)
        pace_notices(job, folder)
        return carry_out(job, state=journal, emit=emit, interrupted=interrupted, approve=approve)


def stage_fleet(
    nornir: Nornir,
    *,
    image: Path | str | None = None,
    plan: FleetPlan | Path | str | None = None,
    server_address: str | None = None,
    ftp_port: int | None = None,
    state_dir: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    **chosen: object,
) -> RunReport:
    """Stage an image or a plan to all devices of a Nornir object; each is restored and verified, whatever happens.

    Args:
        nornir: The devices, with credentials, of any inventory plugin. Select some with `nornir.filter`.
        image: The image file for all devices without one in the inventory.
        plan: Instead, a plan or its file: images and settings come from it unless given here.
        server_address: Our address as devices reach it; None: as seen in their SSH connection.
        ftp_port: Port of our FTP server; None: 21 if permitted and free, else 2121, else any.
        state_dir: Folder of journal and history; None: the default.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop, polled once a second; then everything is ended and restored.
        chosen: Settings of the run by the names in docs/plan.md, such as `add=True` or `tune="always"`.

    Returns:
        A record per device, with its error if it failed.

    Raises:
        ConfigInvalid: An argument is invalid; no device was contacted.
        JournalUnusable: The journal cannot be opened; no device was contacted.
    """
    if (image is None) == (plan is None):
        raise ConfigInvalid("stage_fleet: expected either an image or a plan", hint="Give one of the two")
    made = load_plan(Path(plan)) if isinstance(plan, Path | str) else plan
    policy = made.run_policy.changed(chosen) if made is not None else StagePolicy.without_plan(chosen)
    directory = state_folder(state_dir)
    server = ServerPlace(address=server_address, port=ftp_port)
    if made is not None:
        job = job_for_plan(nornir, made, policy, server)
    else:
        job = job_for_image(nornir, Path(image or ""), policy, server, state=directory)
    pace_notices(job, directory)
    return carry_out(job, state=directory, emit=emit, interrupted=interrupted)
