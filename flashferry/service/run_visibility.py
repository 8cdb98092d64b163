"""Who sees a run: whoever may look at one of its sites, with those of its devices that stand at his.

One rule for pages, API, streams, reports and jobs. What cannot be told in parts, such as what a job's verb printed, is
for those who see all of it; and so is all steering, with the role for it at each site.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flashferry.service.errors import NotFound, listed
from flashferry.core.errors import ConfigInvalid
from flashferry.service.principal import EVERYWHERE, LOOKS, Actor
from flashferry.store.service.jobs import Job
from flashferry.store.status import RunStatus
from flashferry.store.stored_run import StoredRun, read_run

Sites = frozenset[str] | None
"""The sites that somebody may see; None: all, and what has none."""


def sites_of(actor: Actor) -> Sites:
    """Return the sites that somebody may see."""
    sites = frozenset(grant.site for grant in actor.grants if grant.role in LOOKS)
    return None if EVERYWHERE in sites else sites


def is_seen(site: str | None, sites: Sites) -> bool:
    """Return whether what stands at a site, or at none, is for those to see who see some sites."""
    return sites is None or (bool(site) and site in sites)


def sites_of_run(run: StoredRun | RunStatus) -> tuple[str, ...]:
    """Return the sites of all devices of a run, as those of a plan: an empty name for devices without one."""
    return tuple(sorted({device.site or "" for device in run.devices})) or ("",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRun:
    """A run as somebody sees it.

    Attributes:
        run: With the devices that he may see, and what is told of these.
        whole: With all of them: whoever steers it needs the role at each of their sites.
    """

    run: StoredRun
    whole: StoredRun

    @property
    def is_part(self) -> bool:
        """Return whether it has devices that he does not see."""
        return len(self.run.devices) != len(self.whole.devices)


def seen_run(state: Path, run_id: str, actor: Actor, *, with_transfers: bool = False) -> SeenRun:
    """Return a run, named by its whole identifier, as somebody sees it.

    Args:
        state: The state folder.
        run_id: The run's whole identifier.
        actor: Who looks.
        with_transfers: Whether to read all copies of its devices, as a report needs them.

    Raises:
        ServiceError: It is not here, or touches none of his sites: he is not told which.
    """
    try:
        run = read_run(state, run_id, with_transfers=with_transfers)
    except ConfigInvalid:
        run = None
    sites = sites_of(actor)
    seen = () if run is None else tuple(device for device in run.devices if is_seen(device.site, sites))
    if run is None or run.run_id != run_id or not (seen or sites is None):
        raise NotFound(f"run: expected one that you may see, found {run_id[:60]!r}", hint=listed("runs"))
    if len(seen) == len(run.devices):
        return SeenRun(run=run, whole=run)
    mine = {device.host for device in seen}
    # Those that name a device begin with it.
    damaged = tuple(line for line in run.damaged if ": " not in line or line.partition(": ")[0] in mine)
    return SeenRun(run=replace(run, devices=seen, damaged=damaged), whole=run)


def status_seen(run: RunStatus, actor: Actor) -> RunStatus | None:
    """Return a run of a list as somebody sees it; None where it touches none of his sites."""
    sites = sites_of(actor)
    if sites is None:
        return run
    seen = tuple(device for device in run.devices if is_seen(device.site, sites))
    return replace(run, devices=seen) if seen else None


def job_seen(actor: Actor, job: Job) -> Job | None:
    """Return a job as somebody sees it; None where it touches none of his sites, and he did not ask for it.

    Who sees some of its sites is not told what came of it in words: they may be about a device of another.
    """
    if sees_all_of(actor, job):
        return job
    sites = sites_of(actor)
    seen = tuple(site for site in job.sites if is_seen(site, sites))
    return replace(job, sites=seen, sentence="") if seen else None


def sees_all_of(actor: Actor, job: Job) -> bool:
    """Return whether somebody sees all that a job touches: at each of its sites, or as the one who asked for it."""
    return actor.may(LOOKS, job.sites) or actor.name == job.requested_by
