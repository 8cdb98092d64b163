"""Read access to the centre of sites in the state folder, limited to the caller's sites. Contacts no agent.

Settings are in `sites.toml`; `flashferry sites listen` and `stage --sites` write the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flashferry.service.principal import Actor
from flashferry.service.run_visibility import Sites, sites_of
from flashferry.service.service import Service
from flashferry.sites.centre.overview import RunOverview, SiteOverview, overview, run_overview
from flashferry.sites.centre.settings import USUAL_NAME, CentreSettings, load_centre
from flashferry.store.sites.database import FILE, SitesDatabase
from flashferry.store.sites.runs import SiteRun, last_ended, open_runs, run_of

STOPPED = "it was stopped for a reason that concerns other sites, too"
"""Shown to callers of some sites: the real reason may name a device of another."""


class SeenSiteRun(Struct, frozen=True, kw_only=True):
    """A run across sites, limited to the caller's, and its devices that ended without proof of a restore."""

    run: RunOverview
    unrestored: tuple[str, ...]


class CentreSeen(Struct, frozen=True, kw_only=True):
    """The centre, limited to the caller's sites.

    Attributes:
        settings: None: the state folder has no `sites.toml`.
        runs: Running ones, newest first, then the one that ended last.
    """

    settings: CentreSettings | None
    has_ledger: bool
    sites: tuple[SiteOverview, ...]
    runs: tuple[SeenSiteRun, ...]


def has_centre(state: Path) -> bool:
    """Return whether a state folder has settings or a ledger of a centre."""
    return (state / USUAL_NAME).is_file() or (state / FILE).is_file()


def centre_seen(service: Service, actor: Actor) -> CentreSeen:
    """Return the centre; creates nothing.

    Raises:
        ConfigInvalid: Its settings are not valid, or its ledger cannot be used.
    """
    path, at = service.state / USUAL_NAME, service.now()
    settings = load_centre(path) if path.is_file() else None
    ledger = SitesDatabase(service.state) if (service.state / FILE).is_file() else None
    is_mine = _site_filter(settings, sites_of(actor))
    sites = () if settings is None else overview(ledger, settings, at)
    return CentreSeen(
        settings=settings,
        has_ledger=ledger is not None,
        sites=tuple(one for one in sites if is_mine(one.site)),
        runs=() if ledger is None else _runs(ledger, is_mine, at),
    )


def _site_filter(settings: CentreSettings | None, mine: Sites) -> Callable[[str], bool]:
    """Return a function that says whether the caller may see a site, by its name in inventories."""

    def is_mine(name: str) -> bool:
        known = settings.sites.get(name) if settings is not None else None
        names = {name} if known is None else known.inventory_sites | {name}
        return mine is None or bool(names & mine)

    return is_mine


def _runs(ledger: SitesDatabase, is_mine: Callable[[str], bool], at: datetime) -> tuple[SeenSiteRun, ...]:
    with ledger.reading() as database:
        names = [*reversed(open_runs(database)), last_ended(database)]
        runs = [run for name in names if name is not None and (run := run_of(database, name)) is not None]
    seen = (_seen(ledger, run, is_mine, at) for run in runs)
    return tuple(one for one in seen if one.run.parts)


def _seen(ledger: SitesDatabase, run: SiteRun, is_mine: Callable[[str], bool], at: datetime) -> SeenSiteRun:
    found = run_overview(ledger, run, at)
    parts = tuple(part for part in found.parts if is_mine(part.site))
    if len(parts) != len(found.parts):
        stopped = None if found.stopped is None else STOPPED
        paused = tuple(site for site in found.paused if is_mine(site))
        found = replace(found, parts=parts, wishes=(), stopped=stopped, left_out=(), paused=paused)
    return SeenSiteRun(run=found, unrestored=tuple(host for part in parts for host in part.left_in_hand))
