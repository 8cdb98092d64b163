"""Visibility of runs and jobs: a caller sees those at the caller's sites, limited to devices there.

One rule for pages, API, streams, reports and jobs. A job's output cannot be split by site, so reading it needs all its
sites; so does steering, with the role at each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.json_access import Node
from flashferry.model.states import NOT_DONE, Phase, RunState, State, phase_of
from flashferry.service.errors import Conflict, NotFound, listed
from flashferry.service.principal import ANY_ROLE, EVERYWHERE, Actor
from flashferry.store.service.jobs import Job, job_of, latest_jobs
from flashferry.store.status import RunStatus
from flashferry.store.stored_run import StoredDevice, StoredRun, read_run

Sites = frozenset[str] | None
"""Sites that a caller may see; None: all, and what has none."""


def sites_of(actor: Actor) -> Sites:
    """Return the sites that a caller may see; None: all."""
    sites = frozenset(grant.site for grant in actor.grants if grant.role in ANY_ROLE)
    return None if EVERYWHERE in sites else sites


def is_visible(site: str | None, sites: Sites) -> bool:
    """Return whether an object at a site (None: at none) is visible to a caller of `sites`."""
    return sites is None or (bool(site) and site in sites)


def sites_of_run(run: StoredRun | RunStatus) -> tuple[str, ...]:
    """Return the sites of a run's devices, with an empty name for devices without one."""
    return tuple(sorted({device.site or "" for device in run.devices})) or ("",)


class SeenRun(Struct, frozen=True, kw_only=True):
    """A run limited to the caller's sites, and the whole run, whose sites decide on steering."""

    run: StoredRun
    whole: StoredRun

    @property
    def is_part(self) -> bool:
        """Return whether the run has devices that the caller may not see."""
        return len(self.run.devices) != len(self.whole.devices)


def seen_run(state: Path, run_id: str, actor: Actor, *, with_transfers: bool = False) -> SeenRun:
    """Return a run by its complete identifier, limited to the caller's sites. Raises `NotFound`.

    `with_transfers` reads all copies, as reports need them.
    """
    try:
        run = read_run(state, run_id, with_transfers=with_transfers)
    except ConfigInvalid:
        run = None
    sites = sites_of(actor)
    seen = () if run is None else tuple(device for device in run.devices if is_visible(device.site, sites))
    if run is None or run.run_id != run_id or not (seen or sites is None):
        raise NotFound(f"run: expected one that you may see, found {run_id[:60]!r}", hint=listed("runs"))
    if len(seen) == len(run.devices):
        return SeenRun(run=run, whole=run)
    mine = {device.host for device in seen}
    # A damage report about a device starts with its name.
    damaged = tuple(line for line in run.damaged if ": " not in line or line.partition(": ")[0] in mine)
    return SeenRun(run=replace(run, devices=seen, damaged=damaged), whole=run)


class Unfinished(Struct, frozen=True, kw_only=True):
    """The devices of a run that another plan can complete.

    Attributes:
        hosts: Failed, interrupted or not started.
        sites: Their sites; empty if one has none, which needs the role at all sites.
        refused: Refused devices with the reason: they would be refused again as long as it holds.
        image: Name of the image that all of them were to get; empty: several, or unknown.
    """

    hosts: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    image: str = ""


def unfinished_devices(state: Path, actor: Actor, run_id: str) -> Unfinished:
    """Return the unfinished devices of a run. Raises `NotFound`; `Conflict` if it runs, or if there are none."""
    run = seen_run(state, run_id, actor).run
    rest: list[StoredDevice] = []
    refused: dict[str, str] = {}
    for device in run.devices:
        record = Node(device.record)
        phase = phase_of(record.text("outcome"), device.state, is_alive=False)
        if phase is Phase.REFUSED:
            refused[device.host] = record.text("failure", "reason") or ""
        elif is_open(phase, device.state):
            rest.append(device)
    if run.state is RunState.ALIVE or not rest:
        why = "is running" if run.state is RunState.ALIVE else "has no device that another plan could complete"
        raise Conflict(f"run {run_id} {why}", hint="See its page for the state of its devices")
    sites = {device.site or "" for device in rest}
    images = {device.image or "" for device in rest}
    return Unfinished(
        hosts=tuple(device.host for device in rest),
        sites=() if "" in sites else tuple(sorted(sites)),
        refused=refused,
        image=images.pop() if len(images) == 1 else "",
    )


def is_open(phase: Phase, state: str) -> bool:
    """Return whether a device of a run that is over is left to be done: not done, not refused, nor left by its plan."""
    is_left_by_plan = phase is Phase.NOT_STARTED and state == State.DONE
    return phase in NOT_DONE and phase is not Phase.REFUSED and not is_left_by_plan


def status_seen(run: RunStatus, actor: Actor) -> RunStatus | None:
    """Return a run in a list, limited to the caller's sites; None if it has no device there."""
    sites = sites_of(actor)
    if sites is None:
        return run
    seen = tuple(device for device in run.devices if is_visible(device.site, sites))
    return replace(run, devices=seen) if seen else None


def job_seen(actor: Actor, job: Job) -> Job | None:
    """Return a job limited to the caller's sites; None if it touches none of them and is another user's.

    A limited job has no sentence, which could name a device at another site.
    """
    if sees_all_of(actor, job):
        return job
    sites = sites_of(actor)
    seen = tuple(site for site in job.sites if is_visible(site, sites))
    return replace(job, sites=seen, sentence="") if seen else None


def sees_all_of(actor: Actor, job: Job) -> bool:
    """Return whether a caller may see all of a job: as its requester, or with a role at each of its sites."""
    return actor.may(ANY_ROLE, job.sites) or actor.name == job.requested_by


def seen_job(database: sqlite3.Connection, actor: Actor, job_id: str) -> Job:
    """Return a job that the caller may see, with all its sites. Raises `NotFound`."""
    job = job_of(database, job_id)
    if job is None or job_seen(actor, job) is None:
        raise NotFound(
            f"job: expected one that you may see, found {job_id[:60]!r}",
            hint="The pages of plans and runs show their jobs",
        )
    return job


def latest_seen(database: sqlite3.Connection, actor: Actor, most: int, before: str | None) -> tuple[list[Job], str]:
    """Return the newest `most` jobs that the caller may see, and the time before which there are more."""
    found = latest_jobs(database, most, before=before)
    seen = [one for job in found if (one := job_seen(actor, job)) is not None]
    return seen, found[-1].created_at if len(found) == most else ""
