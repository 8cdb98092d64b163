"""When each device and the run end, the load on the links, and whether that fits. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.units import counted, link_rate, rough_duration
from flashferry.model.fleet_plan import DepotAdvice, Fit, Remedy, Savings, SiteForecast, Supply
from flashferry.model.link_rates import STATED
from flashferry.model.waves import Wave
from flashferry.planning.deadline import MARGIN_S
from flashferry.planning.neighbour_tree import LEAST_DEGREE, MOST_DEGREE
from flashferry.planning.remedies import depot_advice, listed, remedies, savings, site_savings
from flashferry.planning.scenario import (
    ASSUMED_LAN_RATE_BPS,
    LAN_ASSUMED,
    PROOF_BYTES_PER_S,
    Estimate,
    LinkFacts,
    Scenario,
    ScenarioOutcome,
    lan_of,
    play,
)
from flashferry.planning.simulation import Timeline


class Forecast(Struct, frozen=True, kw_only=True):
    """Forecast of a run.

    Attributes:
        devices: Timeline by host.
        sites: Load on each link.
        duration_s: Duration of the run.
        fit: Whether that fits.
        assumptions: One sentence each.
        pulls: Source of each device's copy.
        savings: Of depots and neighbours; None if there are none.
        depot_advice: Sites that should have a depot.
    """

    waves: tuple[Wave, ...]
    devices: dict[str, Timeline]
    sites: tuple[SiteForecast, ...]
    duration_s: float
    fit: Fit
    assumptions: tuple[str, ...]
    pulls: Mapping[str, Supply]
    savings: Savings | None
    depot_advice: tuple[DepotAdvice, ...]


def forecast(scenario: Scenario, starts_at: datetime) -> Forecast:
    """Return the forecast of a scenario; `starts_at` is in the time zone for messages."""
    outcome = play(scenario)
    advice = depot_advice(scenario, outcome)
    return Forecast(
        waves=outcome.waves,
        devices=dict(outcome.run.devices),
        sites=tuple(_sites(scenario, outcome, starts_at)),
        duration_s=outcome.run.ends_s,
        fit=_fit(scenario, outcome, starts_at, advice),
        assumptions=assumptions(scenario, outcome.pulls),
        pulls=outcome.pulls,
        savings=savings(scenario, outcome),
        depot_advice=advice,
    )


def assumptions(scenario: Scenario, pulls: Mapping[str, Supply]) -> tuple[str, ...]:
    """Return what was assumed, one sentence each, the most frequent rate first.

    Args:
        scenario: The run.
        pulls: Source of each device's copy.
    """
    estimates = scenario.estimates
    found: dict[str, list[str]] = {}
    for one in estimates:
        for rate in (one.rate_from(pulls.get(one.host, Supply.CENTRE)), *one.finish.rates):
            if rate.is_assumed:
                # Measured values differ by device and are listed before.
                _, mark, what = rate.source.partition("assumed: ")
                found.setdefault(mark + what or rate.source, []).append(one.host)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    texts = [f"{len(hosts)} of {counted(len(estimates), 'device')}: {source}" for source, hosts in ordered]
    return (*texts, *_assumed_of_hashes(estimates), *_assumed_of_sites(scenario.links))


def _assumed_of_hashes(estimates: Sequence[Estimate]) -> Iterator[str]:
    if guessed := [one for one in estimates if one.is_hash_assumed]:
        speeds = " or ".join(sorted({f"{one.hash_bytes_per_s / 1e6:.2g} MB/s" for one in guessed}))
        share = f"{len(guessed)} of {counted(len(estimates), 'device')}"
        yield f"{share}: assumed: they hash {speeds}, as was reported of their platforms"


_LAN = f"assumed: the LAN there carries {link_rate(ASSUMED_LAN_RATE_BPS)}; 'lan_rate_bps' in the inventory states it"
_DEPOT = (
    "assumed: the depot there has none of the images yet, takes each once, one after the other from the beginning of "
    f"the run on, and proves it at {PROOF_BYTES_PER_S / 1e6:.0f} MB/s"
)
_NEIGHBOURS = (
    "assumed: the first device there for each image pulls over the WAN; each that has proven it serves "
    f"{LEAST_DEGREE} to {MOST_DEGREE} others at a time"
)


def _assumed_of_sites(links: Mapping[str, LinkFacts]) -> Iterator[str]:
    """Yield what is assumed about depots and neighbours."""
    for text, names in (
        (_LAN, [link for link, one in links.items() if one.supply is not Supply.CENTRE and one.lan_rate_bps is None]),
        (_DEPOT, [link for link, one in links.items() if one.supply is Supply.DEPOT]),
        (_NEIGHBOURS, [link for link, one in links.items() if one.supply is Supply.NEIGHBOUR]),
    ):
        if names:
            yield f"{listed(tuple(names))}: {text}"


def _sites(scenario: Scenario, outcome: ScenarioOutcome, starts_at: datetime) -> Iterator[SiteForecast]:
    for link in scenario.links:
        if outcome.uses_of(link):
            yield _with_lan(_site(scenario, outcome, link, starts_at), scenario, outcome)


def _site(scenario: Scenario, outcome: ScenarioOutcome, link: str, starts_at: datetime) -> SiteForecast:
    facts: LinkFacts = scenario.links[link]
    uses, cap = outcome.uses_of(link), facts.cap_bytes_per_s
    busy_s, crossed = outcome.busy_s(link), outcome.carried_bytes(link)
    closes = None if facts.closes_s is None else starts_at + timedelta(seconds=facts.closes_s)
    return SiteForecast(
        site=link,
        devices=len(scenario.at_link.get(link, ())),
        link_rate_bps=facts.rate_bps,
        link_source=facts.source,
        cap_share=facts.cap_share,
        cap_bytes_per_s=cap,
        copies=scenario.copies_at(link),
        peak_copies=max(use.peak_copies for use in uses),
        load_share=round(crossed / busy_s / cap, 4) if cap and busy_s else None,
        busy_s=round(busy_s, 1),
        bytes=crossed,
        starts_s=round(min(use.begins_s for use in uses), 1),
        ends_s=round(max(use.ends_s for use in uses), 1),
        closes_at=None if closes is None else closes.isoformat(timespec="seconds"),
    )


def _with_lan(site: SiteForecast, scenario: Scenario, outcome: ScenarioOutcome) -> SiteForecast:
    """Add to a site's forecast what its depot or neighbours save."""
    facts, lan = scenario.links[site.site], outcome.run.links.get(lan_of(site.site))
    if facts.supply is Supply.CENTRE:
        return site
    saved_bytes, saved_s = site_savings(scenario, site.site)
    return replace(
        site,
        depot=facts.depot,
        neighbours=facts.supply is Supply.NEIGHBOUR,
        at_depot_s=max((round(sync.proven_s, 1) for sync in outcome.syncs_of(site.site)), default=None),
        lan_rate_bps=facts.lan_rate_bps or ASSUMED_LAN_RATE_BPS,
        lan_source=LAN_ASSUMED if facts.lan_rate_bps is None else STATED,
        lan_bytes=lan.carried_bytes if lan else 0,
        lan_busy_s=round(lan.busy_s, 1) if lan else 0.0,
        saved_bytes=saved_bytes,
        saved_s=round(saved_s, 1),
    )


def _fit(scenario: Scenario, outcome: ScenarioOutcome, starts_at: datetime, advice: Sequence[DepotAdvice]) -> Fit:
    found: tuple[Remedy, ...] = remedies(scenario, outcome, should_have_depots=tuple(one.site for one in advice))
    return Fit(
        fits=not outcome.late if scenario.has_end else None,
        sentence=_sentence(scenario, outcome, starts_at),
        late=outcome.late,
        remedies=found,
    )


def _sentence(scenario: Scenario, outcome: ScenarioOutcome, starts_at: datetime) -> str:
    length = f"the run takes {rough_duration(outcome.run.ends_s)}"
    if not scenario.estimates:
        return "nothing is to be staged"
    if not scenario.has_end:
        return f"{length}; no end is given, neither by --until nor by the sites' windows"
    end = clock(starts_at, outcome.run.ends_s)
    by_host = {one.host: one for one in scenario.estimates}
    if outcome.late:
        who = f"{len(outcome.late)} of {counted(len(scenario.estimates), 'device')}"
        return f"it does not fit: {who} would not be done in time; {_latest(scenario, outcome, starts_at)}"
    spare = min(
        limit - outcome.run.devices[host].ends_s
        for host, one in by_host.items()
        if (limit := scenario.ends_s(one)) is not None
    )
    return f"it fits: {length} and ends at {end}; the tightest device has {rough_duration(spare)} to spare"


def _latest(scenario: Scenario, outcome: ScenarioOutcome, starts_at: datetime) -> str:
    started = [host for host in outcome.late if host not in outcome.shut]
    if not started:
        return f"{outcome.shut[0]}'s site opens too late for the run"
    last = max(started, key=lambda host: outcome.run.devices[host].ends_s)
    estimate = next(one for one in scenario.estimates if one.host == last)
    done = clock(starts_at, outcome.run.devices[last].ends_s)
    kept = f"of which {rough_duration(MARGIN_S)} are kept to restore"
    return f"{last} would be done at {done}, and {_closing(scenario, estimate, starts_at)}, {kept}"


def _closing(scenario: Scenario, estimate: Estimate, starts_at: datetime) -> str:
    closes = scenario.links[estimate.link].closes_s
    if closes is not None and (scenario.until_s is None or closes < scenario.until_s):
        return f"its site closes at {clock(starts_at, closes)}"
    assert scenario.until_s is not None, "a device is late for an end"
    return f"the run must end at {clock(starts_at, scenario.until_s)}"


def clock(starts_at: datetime, seconds: float) -> str:
    """Format a time of a run to the nearest minute: `23:05`, or `Sun 01:10` on another day."""
    moment = starts_at + timedelta(seconds=seconds + 30)
    return f"{moment:%H:%M}" if moment.date() == starts_at.date() else f"{moment:%a %H:%M}"
