"""Summarise sites and their runs, for tables, programs and the service's pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.metadata import version

from msgspec import Struct

from flashferry.sites.centre.collecting import CANARIES, now
from flashferry.sites.centre.gate import wave_that_waits
from flashferry.sites.centre.plans import plan_in
from flashferry.sites.centre.settings import CentreSettings
from flashferry.sites.centre.sharing import ago, refusals
from flashferry.store.control_requests import SteerKind, SteerRequest
from flashferry.store.database import moment_of
from flashferry.store.sites.agents import AgentState, Fetching, agents_by_site
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import (
    OPEN,
    Part,
    PartState,
    SiteRun,
    open_parts_at,
    open_runs,
    parts_of,
    run_of,
    runs_by_age,
    steer_requests_of,
)
from flashferry.store.sites.words import DeviceOutcome, left_in_hand, outcomes_of


class SiteOverview(Struct, frozen=True, kw_only=True):
    """The state of a site.

    Attributes:
        agent: Its agent's own name; None: no word was received.
        key: ID of the agent's key.
        release: The agent's release; empty if unknown.
        heard_at: Time of its last word, ISO 8601, UTC; None: never.
        heard: The same in words: `4 min ago`.
        clock_ahead_s: How far its clock is ahead of ours, negative if late; None: unknown.
        clock_within_s: Largest error of that figure; None: unknown.
        images: Proven images of its depot.
        fetching: The image its depot was fetching at the last word, or None.
        runs: Runs with a part under way here.
        trouble: Why the site cannot get a run now; empty: it can.
    """

    site: str
    agent: str | None
    key: str
    release: str
    heard_at: str | None
    heard: str
    clock_ahead_s: float | None
    clock_within_s: float | None
    images: tuple[str, ...]
    fetching: Fetching | None
    runs: tuple[str, ...]
    trouble: str


def overview(
    ledger: SitesDatabase | None, settings: CentreSettings, at: datetime | None = None
) -> tuple[SiteOverview, ...]:
    """Return the state of each site of the settings, by name.

    Args:
        ledger: The ledger; None: none exists yet.
        settings: The centre's settings.
        at: The current time; None: now.
    """
    moment_now = at or now()
    known: dict[str, AgentState] = {}
    runs: dict[str, tuple[str, ...]] = dict.fromkeys(settings.sites, ())
    if ledger is not None:
        with ledger.reading() as database:
            known = agents_by_site(database)
            runs = {site: tuple(part.run for part in open_parts_at(database, site)) for site in settings.sites}
    found = []
    for name, site in sorted(settings.sites.items()):
        agent = known.get(name)
        why = refusals((name,), known, settings, release=version("flashferry"), now=moment_now)
        found.append(
            SiteOverview(
                site=name,
                agent=agent.agent if agent else None,
                key=site.agent_key.key_id,
                release=agent.release if agent else "",
                heard_at=agent.last_message_at if agent else None,
                heard=ago(moment_of(agent.last_message_at), moment_now) if agent else "never",
                clock_ahead_s=agent.clock_ahead_s if agent else None,
                clock_within_s=agent.clock_within_s if agent else None,
                images=agent.images if agent else (),
                fetching=agent.fetching if agent else None,
                runs=runs[name],
                trouble=why[0].removeprefix(f"site {name}: ") if why else "",
            )
        )
    return tuple(found)


class PartOverview(Struct, frozen=True, kw_only=True):
    """The state of a run at a site.

    Attributes:
        is_canaries: Whether these are the fleet's first devices, for which all others wait.
        state: A value of `flashferry.store.sites.runs.PartState`.
        sentence: The reason of a refusal, or the result; else empty.
        heard_at: Time of the last word about it; None: none; `heard` is the same in words.
        is_whole: Whether all its words were received.
        fetching: The image that the site's depot is fetching, while the part is under way; None: it fetches none.
        devices: Number of devices by outcome; `open`: without a record.
        left_in_hand: Devices it still held when it ended, which are not proven restored.
    """

    site: str
    is_canaries: bool
    state: str
    sentence: str
    agent: str
    heard_at: str | None
    heard: str
    is_whole: bool
    fetching: Fetching | None
    devices: dict[str, int]
    left_in_hand: tuple[str, ...] = ()


class SiteRequest(Struct, frozen=True, kw_only=True):
    """A request about a run; site None: all sites."""

    site: str | None
    wish: SteerRequest


class RunOverview(Struct, frozen=True, kw_only=True):
    """The state of a run of sites.

    Attributes:
        begun_at: When it was given to the sites.
        begun_by: By whom.
        ended_at: When all parts had ended; None: not yet.
        stopped: Why it starts nothing new, or None.
        approved_wave: The last approved wave; None: all.
        waiting_wave: The wave that waits for an approval; None: none.
        paused: Sites that are paused and have not ended.
        left_out: Devices of the plan that were left out.
        wishes: Requests of people, the oldest first.
    """

    run_id: str
    plan_digest: str
    begun_at: str
    begun_by: str
    ended_at: str | None
    stopped: str | None
    approved_wave: int | None
    waiting_wave: int | None
    paused: tuple[str, ...]
    left_out: tuple[str, ...]
    parts: tuple[PartOverview, ...]
    wishes: tuple[SiteRequest, ...]


def run_overview(ledger: SitesDatabase, run: SiteRun, at: datetime | None = None) -> RunOverview:
    """Return the state of a run at each of its sites; arguments as of `overview`."""
    moment_now = at or now()
    with ledger.reading() as database:
        parts, requests = parts_of(database, run.run), steer_requests_of(database, run.run)
        devices, agents = outcomes_of(database, run.run), agents_by_site(database)
        held = frozenset(left_in_hand(database, run.run))
    tallies: dict[tuple[str, int], Counter[str]] = {(part.site, part.round): Counter() for part in parts}
    for one in devices:
        tallies[one.site, one.round][one.outcome or "open"] += 1
    return RunOverview(
        run_id=run.run,
        plan_digest=run.digest,
        begun_at=run.started_at,
        begun_by=run.started_by,
        ended_at=run.ended_at,
        stopped=run.stopped,
        approved_wave=run.approved_wave,
        waiting_wave=_waiting(run, devices),
        paused=paused_sites([part.site for part in parts if not part.is_over], requests),
        left_out=run.left_out,
        parts=tuple(
            PartOverview(
                site=part.site,
                is_canaries=part.round == CANARIES,
                state=part.state.value,
                sentence=part.sentence,
                agent=part.agent,
                heard_at=part.last_message_at,
                heard=ago(moment_of(part.last_message_at), moment_now) if part.last_message_at else "never",
                is_whole=part.is_over,
                fetching=fetching_for(part, agents),
                devices=dict(tallies[part.site, part.round].most_common()),
                left_in_hand=tuple(
                    one.host
                    for one in devices
                    if (one.site, one.round) == (part.site, part.round) and (one.site, one.host) in held
                ),
            )
            for part in parts
        ),
        wishes=tuple(SiteRequest(site=site, wish=one) for site, one in requests),
    )


def run_overviews(ledger: SitesDatabase, *, most: int, also_open: bool = False) -> tuple[RunOverview, ...]:
    """Return the state of runs, the newest first.

    Args:
        ledger: The centre's ledger.
        most: Number of runs at most, from 1.
        also_open: Whether to include all runs that have not ended.
    """
    with ledger.reading() as database:
        known = runs_by_age(database)
        kept = frozenset(known[-most:]) | frozenset(open_runs(database) if also_open else ())
        found = [run_of(database, run) for run in reversed(known) if run in kept]
    return tuple(run_overview(ledger, run) for run in found if run is not None)


def _waiting(run: SiteRun, devices: Sequence[DeviceOutcome]) -> int | None:
    if run.approved_wave is None or run.ended_at is not None:
        return None
    return wave_that_waits(plan_in(run).policy, run.approved_wave, devices, is_stopped=run.stopped is not None)


def paused_sites(sites: Sequence[str], requests: Sequence[tuple[str | None, SteerRequest]]) -> tuple[str, ...]:
    """Return the sites whose last request was to pause."""
    paused: dict[str, bool] = {}
    for site, one in requests:
        if one.what in (SteerKind.PAUSE, SteerKind.CONTINUE):
            paused |= dict.fromkeys(sites if site is None else [site], one.what == SteerKind.PAUSE)
    return tuple(dict.fromkeys(site for site in sites if paused.get(site)))


def fetching_for(part: Part, agents: Mapping[str, AgentState]) -> Fetching | None:
    """Return the image that a site's depot is fetching, while the part is under way."""
    if part.state not in OPEN or part.state is PartState.HELD or part.site not in agents:
        return None
    return agents[part.site].fetching
