"""Read, offer and remove the plans of runs, and find runs in the ledger."""

from __future__ import annotations

import logging
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading, write_whole
from flashferry.images.manifest import MOST_PLAN_BYTES, plan_name
from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.plan_file import plan_from
from flashferry.sites.centre.settings import CentreSettings
from flashferry.store.reader import chosen
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import SiteRun, plans_no_longer_needed, run_of, runs_by_age, set_not_offered

_LOG = logging.getLogger("flashferry.sites.centre")


class ReadPlan(Struct, frozen=True, kw_only=True):
    """A plan with the text of its file, which agents fetch unchanged."""

    plan: FleetPlan
    text: str


def read_plan_file(path: Path) -> ReadPlan:
    """Read a plan; its images need not be on this host, because agents serve their own.

    Raises:
        ConfigInvalid: It cannot be read, is no plan, or is larger than a source offers.
    """
    try:
        with reading(path) as file:
            content = file.read(MOST_PLAN_BYTES + 1)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {path}: cannot be read: {error.strerror}", hint="Check the path and the file's permissions"
        ) from None
    if len(content) > MOST_PLAN_BYTES:
        raise ConfigInvalid(
            f"plan {path}: expected at most {MOST_PLAN_BYTES:,} bytes, for sources offer no more, found more",
            hint="Make a plan for fewer devices at a time",
        )
    return ReadPlan(plan=plan_from(content, path), text=content.decode())


def offer(read: ReadPlan, settings: CentreSettings) -> bool:
    """Write the plan to the folder of offered plans; return whether the file is new, and so ours.

    Raises:
        ConfigInvalid: It cannot be written; nothing was sent.
    """
    path = settings.plans_folder / plan_name(read.plan.digest)
    try:
        if path.is_file() and path.read_bytes() == read.text.encode():
            return False
        # A file of that name may be a damaged one.
        write_whole(path, read.text, is_private=False)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {path}: cannot be offered: {error.strerror}; nothing was sent",
            hint=f"Check 'plans_folder' in {settings.path}: the folder that the source's depot offers",
        ) from None
    return True


def remove_old_plans(ledger: SitesDatabase, settings: CentreSettings) -> tuple[str, ...]:
    """Remove the files of plans that this centre offered and no run needs; return their names.

    A file that cannot be removed is retried later. The ledger keeps the plan's text.

    Raises:
        sqlite3.Error: The ledger cannot be written.
    """
    removed = list[str]()
    with ledger.writing() as database:
        for digest in plans_no_longer_needed(database):
            try:
                (settings.plans_folder / plan_name(digest)).unlink(missing_ok=True)
            except OSError as error:
                _LOG.warning("plan %s stays in %s: %s", digest, settings.plans_folder, error.strerror)
                continue
            set_not_offered(database, digest)
            removed.append(plan_name(digest))
    return tuple(removed)


def run_in(ledger: SitesDatabase, given: str) -> SiteRun:
    """Return a run of a ledger; as `Centre.run_named`."""
    with ledger.reading() as database:
        known = runs_by_age(database)
        try:
            found = run_of(database, chosen(given, known))
        except ConfigInvalid as error:
            raise ConfigInvalid(
                f"{error.message} (of those that were given to sites)",
                hint="'flashferry sites show' shows the newest; check --state-dir",
            ) from None
    assert found is not None
    return found


def wave_to_approve(run: SiteRun, asked: int | None) -> int:
    """Return the wave up to which a run is to be approved: the given one, else the next.

    Raises:
        ConfigInvalid: The plan has no such wave, or all waves are approved.
    """
    last = max((wave.number for wave in plan_in(run).waves), default=0)
    if run.approved_wave is None or run.approved_wave >= last:
        raise ConfigInvalid(
            f"run {run.run}: expected a wave that waits, found that all can start", hint="There is nothing to approve"
        )
    if asked is not None and not run.approved_wave < asked <= last:
        raise ConfigInvalid(
            f"--wave: expected one from {run.approved_wave + 1} to {last}, found {asked}",
            hint="Leave it out for the next one",
        )
    return asked if asked is not None else run.approved_wave + 1


def plan_in(run: SiteRun) -> FleetPlan:
    """Return a run's plan.

    Raises:
        ConfigInvalid: The ledger's copy is damaged.
    """
    return plan_from(run.plan.encode(), f"of run {run.run}")
