"""When each device and the run are done, what that does to the links, and whether it fits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from flashferry.core.described import counted
from flashferry.core.units import rough_duration
from flashferry.model.fleet_plan import Fit, Remedy, SiteForecast
from flashferry.model.waves import Wave
from flashferry.planning.deadline import MARGIN_S
from flashferry.planning.remedies import remedies
from flashferry.planning.scenario import Estimate, LinkFacts, Scenario, ScenarioOutcome, play
from flashferry.planning.simulation import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is to be expected of a run.

    Attributes:
        waves: Who goes when.
        devices: Each device's way, by name.
        sites: What happens to each link that has devices to be staged.
        duration_s: How long the run takes.
        fit: Whether that fits.
        assumptions: What was taken for granted, in sentences.
    """

    waves: tuple[Wave, ...]
    devices: dict[str, Timeline]
    sites: tuple[SiteForecast, ...]
    duration_s: float
    fit: Fit
    assumptions: tuple[str, ...]


def forecast(scenario: Scenario, starts_at: datetime) -> Forecast:
    """Return what is to be expected.

    Args:
        scenario: What the run has before it.
        starts_at: When it begins, in the time zone in which people are told.
    """
    outcome = play(scenario)
    return Forecast(
        waves=outcome.waves,
        devices=dict(outcome.run.devices),
        sites=tuple(_site(scenario, outcome, link, starts_at) for link in scenario.links if link in outcome.run.links),
        duration_s=outcome.run.ends_s,
        fit=_fit(scenario, outcome, starts_at),
        assumptions=assumptions(scenario.estimates),
    )


def assumptions(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Return where something was assumed, in sentences, the most frequent rate first."""
    found: dict[str, list[str]] = {}
    for one in estimates:
        if one.rate.is_assumed:
            # What was measured stands before it, and differs with each device.
            _, mark, what = one.rate.source.partition("assumed: ")
            found.setdefault(mark + what or one.rate.source, []).append(one.host)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    told = [f"{len(hosts)} of {counted(len(estimates), 'device')}: {source}" for source, hosts in ordered]
    if guessed := [one for one in estimates if one.is_hash_assumed]:
        speeds = " or ".join(sorted({f"{one.hash_bytes_per_s / 1e6:.2g} MB/s" for one in guessed}))
        whose = f"{len(guessed)} of {counted(len(estimates), 'device')}"
        told.append(f"{whose}: assumed: they hash {speeds}, as was reported of their platforms")
    return tuple(told)


def _site(scenario: Scenario, outcome: ScenarioOutcome, link: str, starts_at: datetime) -> SiteForecast:
    facts: LinkFacts = scenario.links[link]
    use, cap = outcome.run.links[link], facts.cap_bytes_per_s
    closes = None if facts.closes_s is None else starts_at + timedelta(seconds=facts.closes_s)
    return SiteForecast(
        site=link,
        devices=sum(one.link == link for one in scenario.estimates),
        link_rate_bps=facts.rate_bps,
        link_source=facts.source,
        cap_share=facts.cap_share,
        cap_bytes_per_s=cap,
        copies=scenario.copies_at(link),
        peak_copies=use.peak_copies,
        load_share=round(use.carried_bytes / use.busy_s / cap, 4) if cap and use.busy_s else None,
        busy_s=round(use.busy_s, 1),
        bytes=use.carried_bytes,
        starts_s=round(use.begins_s, 1),
        ends_s=round(use.ends_s, 1),
        closes_at=None if closes is None else closes.isoformat(timespec="seconds"),
    )


def _fit(scenario: Scenario, outcome: ScenarioOutcome, starts_at: datetime) -> Fit:
    found: tuple[Remedy, ...] = remedies(scenario, outcome)
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
    begun = [host for host in outcome.late if host not in outcome.shut]
    if not begun:
        return f"{outcome.shut[0]}'s site opens too long after the run begins"
    last = max(begun, key=lambda host: outcome.run.devices[host].ends_s)
    estimate = next(one for one in scenario.estimates if one.host == last)
    done = clock(starts_at, outcome.run.devices[last].ends_s)
    kept = f"of which {rough_duration(MARGIN_S)} are kept to restore"
    return f"{last} would be done at {done}, and {_closing(scenario, estimate, starts_at)}, {kept}"


def _closing(scenario: Scenario, estimate: Estimate, starts_at: datetime) -> str:
    closes = scenario.links[estimate.link].closes_s
    if closes is not None and (scenario.until_s is None or closes < scenario.until_s):
        return f"its site closes at {clock(starts_at, closes)}"
    assert scenario.until_s is not None, "a device is late for an end"
    return f"the run is to end at {clock(starts_at, scenario.until_s)}"


def clock(starts_at: datetime, seconds: float) -> str:
    """Return a moment of a run for people, to the nearest minute: `23:05`, or `Sun 01:10` where it is another day."""
    moment = starts_at + timedelta(seconds=seconds + 30)
    return f"{moment:%H:%M}" if moment.date() == starts_at.date() else f"{moment:%a %H:%M}"
