"""What depots and neighbours save, and which sites should have a depot, by simulating both. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from flashferry.core.units import rough_duration, size
from flashferry.model.fleet_plan import DepotAdvice, Savings, Supply
from flashferry.planning.remedies import MUCH_SHORTER, further_nights
from flashferry.planning.scenario import Scenario, ScenarioOutcome, play

LEAST_SAVED_S = 60.0
"""A smaller gain does not justify a host."""


class Course(Struct, frozen=True, kw_only=True):
    """Result of a simulated run, or of one site alone.

    Attributes:
        bytes: Bytes over its WAN links.
        lan_bytes: Bytes over LANs.
        takes_s: Duration from the opening of its first site.
        fits: Whether it fits; None without deadline.
        nights: Number of such windows needed; None without window, or if a device fits into none.
    """

    bytes: int
    lan_bytes: int
    takes_s: float
    fits: bool | None
    nights: int | None


def course(scenario: Scenario, outcome: ScenarioOutcome | None = None) -> Course:
    """Return the result of a scenario; `outcome` is its simulation if the caller has it."""
    found = outcome or play(scenario)
    crossed = sum(found.carried_bytes(link) for link in scenario.links)
    opened = [facts.opens_s for link, facts in scenario.links.items() if found.uses_of(link)]
    return Course(
        bytes=crossed,
        lan_bytes=sum(use.carried_bytes for link, use in found.run.links.items() if link not in scenario.links),
        takes_s=found.run.ends_s - min(opened, default=0.0),
        fits=not found.late if scenario.has_end else None,
        nights=_nights(scenario, found),
    )


def _nights(scenario: Scenario, found: ScenarioOutcome) -> int | None:
    """Return how many such windows all devices need; what does not fit into one starts in the next."""
    if not scenario.has_end:
        return None
    further, never = further_nights(scenario, found)
    return None if never else 1 + further


def savings(scenario: Scenario, outcome: ScenarioOutcome) -> Savings | None:
    """Return what depots and neighbours save compared with a copy per device; None if there are none."""
    if all(facts.supply is Supply.CENTRE for facts in scenario.links.values()):
        return None
    now, before = course(scenario, outcome), course(scenario.each_for_itself())
    return Savings(
        sentence=_sentence(now, before),
        bytes=now.bytes,
        bytes_without=before.bytes,
        lan_bytes=now.lan_bytes,
        duration_s=round(now.takes_s, 1),
        duration_without_s=round(before.takes_s, 1),
        nights=now.nights,
        nights_without=before.nights,
    )


def _sentence(now: Course, before: Course) -> str:
    text = f"{size(now.bytes)} over the links instead of {size(before.bytes)} if each device pulled for itself; "
    text += f"{rough_duration(now.takes_s)} instead of {rough_duration(before.takes_s)}"
    nights = nights_saved(before.nights, now.nights)
    return f"{text}; {nights}" if nights else text


def nights_saved(before: int | None, after: int | None) -> str:
    """Describe a change of the number of nights: `3 nights become 1`; empty for no change."""
    if before is None or after is None or before == after:
        return ""
    return f"{before} {'night becomes' if before == 1 else 'nights become'} {after}"


def site_savings(scenario: Scenario, link: str) -> tuple[int, float]:
    """Return what a site's depot or neighbours save: bytes on its link, and seconds with all its devices at once."""
    alone = scenario.at(link)
    now, before = course(alone), course(alone.each_for_itself())
    return before.bytes - now.bytes, before.takes_s - now.takes_s


def depot_advice(scenario: Scenario, outcome: ScenarioOutcome) -> tuple[DepotAdvice, ...]:
    """Return the sites that should have a depot, the highest gain first, without those that would gain little.

    Args:
        scenario: The run as planned.
        outcome: Its simulation.
    """
    found = [one for link in scenario.links if outcome.uses_of(link) for one in _advice(scenario, link)]
    return tuple(sorted(found, key=lambda one: (-_saved_nights(one), -one.saved_s, one.site)))


def _advice(scenario: Scenario, link: str) -> Iterator[DepotAdvice]:
    """Yield the gain of a depot at a site, if it justifies a host."""
    alone = scenario.at(link)
    images = {one.image_key for one in alone.estimates}
    if alone.links[link].supply is Supply.CENTRE and len(images) < len(alone.estimates):
        advice = _compared(link, len(alone.estimates), len(images), course(alone), course(alone.with_depots({link})))
        if _is_much(advice):
            yield advice


def _compared(link: str, devices: int, images: int, now: Course, then: Course) -> DepotAdvice:
    return DepotAdvice(
        site=link,
        devices=devices,
        images=images,
        bytes=now.bytes,
        bytes_with=then.bytes,
        takes_s=round(now.takes_s, 1),
        takes_with_s=round(then.takes_s, 1),
        saved_s=round(now.takes_s - then.takes_s, 1),
        fits=now.fits,
        fits_with=then.fits,
        nights=now.nights,
        nights_with=then.nights,
    )


def _is_much(advice: DepotAdvice) -> bool:
    if advice.saved_s <= 0:
        return False
    is_shorter = advice.takes_with_s <= advice.takes_s * MUCH_SHORTER and advice.saved_s >= LEAST_SAVED_S
    return is_shorter or (advice.fits is False and advice.fits_with is True) or _saved_nights(advice) > 0


def _saved_nights(advice: DepotAdvice) -> int:
    return (advice.nights or 0) - (advice.nights_with or 0) if advice.nights_with else 0
