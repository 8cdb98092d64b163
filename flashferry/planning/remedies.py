"""What depots and neighbours save, and what would make a run fit its window: simulations with one change each. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec import Struct

from flashferry.core.units import counted, rough_duration, size
from flashferry.core.values import replace
from flashferry.model.fleet_plan import DepotAdvice, Remedy, Savings, Supply
from flashferry.model.limits import MOST, Limits
from flashferry.planning.scenario import Estimate, Scenario, ScenarioOutcome, play

LEAST_GAIN = 0.98
"""A change that leaves more than this share of the duration is not listed."""

MUCH_SHORTER = 0.75
"""For a run that fits, changes that leave less than this share of the duration are listed."""

SIDE_BY_SIDE = "all sites side by side instead of one after the other (--wave-by all)"
NAMES = 6


def remedies(
    scenario: Scenario, now: ScenarioOutcome, *, should_have_depots: tuple[str, ...] = ()
) -> tuple[Remedy, ...]:
    """Return changes that make a run fit, or much shorter if it fits; those that make it fit first.

    Args:
        scenario: The run as planned.
        now: Its simulation.
        should_have_depots: Sites at which a depot would save much.
    """
    if not now.late:
        return _faster(scenario, now)
    tried = [_remedy(change, changed) for change, changed in _changes(scenario) if changed is not None]
    useful = [one for one in tried if one.fits or one.ends_s < now.run.ends_s * LEAST_GAIN]
    if not any(one.fits for one in useful) and len(useful) > 1:
        useful.append(_together(scenario, useful))
    useful.extend(one for one in _depots(scenario, should_have_depots) if one.fits or one.ends_s < now.run.ends_s)
    useful.extend(_fewer(scenario, now))
    return tuple(sorted(useful, key=lambda one: not one.fits))


def _faster(scenario: Scenario, now: ScenarioOutcome) -> tuple[Remedy, ...]:
    """Return the choice that makes a run needlessly long: waves by site make sites wait for each other."""
    changed = _side_by_side(scenario)
    if changed is None:
        return ()
    found = _remedy(SIDE_BY_SIDE, changed)
    return (found,) if found.fits and found.ends_s < now.run.ends_s * MUCH_SHORTER else ()


def _depots(scenario: Scenario, sites: tuple[str, ...]) -> Iterator[Remedy]:
    """Yield depots at all of some sites."""
    if sites:
        where = f"{'a depot' if len(sites) == 1 else 'depots'} at {listed(sites)} (depot in the inventory)"
        yield _remedy(where, scenario.with_depots(sites))


def _changes(scenario: Scenario) -> Iterator[tuple[str, Scenario | None]]:
    """Yield each change by itself, the cheapest first."""
    yield SIDE_BY_SIDE, _side_by_side(scenario)
    yield from _more_copies(scenario)
    yield from _more_hashes(scenario)
    yield "tuning the devices that are not tuned (--tune always)", _tuned(scenario)
    yield from _wider(scenario)


def _side_by_side(scenario: Scenario) -> Scenario | None:
    policy = scenario.policy
    return None if policy.by is None else replace(scenario, policy=replace(policy, by=None, size=None))


def _more_copies(scenario: Scenario) -> Iterator[tuple[str, Scenario | None]]:
    """Yield the least doubling of copies per site that fits, else the last one that helps."""
    most = max(map(len, scenario.at_link.values()), default=0)
    best: tuple[str, Scenario] | None = None
    copies, length = _fewest_copies(scenario), play(scenario).run.ends_s
    while copies < most:
        copies = min(copies * 2, most, MOST)
        changed = _with_copies(scenario, copies)
        result = play(changed)
        if result.run.ends_s < length * LEAST_GAIN:
            best, length = (_copies_in_words(scenario, changed), changed), result.run.ends_s
        if not result.late:
            break
    if best is not None:
        yield best


def _with_copies(scenario: Scenario, copies: int) -> Scenario:
    limits = scenario.limits
    in_all = max(limits.copies, min(copies * len(scenario.links), MOST))
    links = {
        name: replace(link, max_copies=None if link.max_copies is None else max(link.max_copies, copies))
        for name, link in scenario.links.items()
    }
    wider = replace(limits, site_copies=max(limits.site_copies, copies), copies=in_all)
    return replace(scenario, links=links, limits=wider)


def _fewest_copies(scenario: Scenario) -> int:
    return min((scenario.copies_at(link) for link in scenario.links), default=1)


def _copies_in_words(before: Scenario, after: Scenario) -> str:
    old, new = before.limits, after.limits
    ways = []
    if new.site_copies != old.site_copies:
        ways.append(f"--site-copies {new.site_copies}")
    if new.copies != old.copies:
        ways.append(f"--max-copies {new.copies}")
    if before.links != after.links:
        ways.append("max_copies in the inventory")
    fewest = _fewest_copies(after)
    return (
        f"{counted(fewest, 'copy', 'copies')} at once per site instead of {_fewest_copies(before)} ({', '.join(ways)})"
    )


def _more_hashes(scenario: Scenario) -> Iterator[tuple[str, Scenario | None]]:
    limits: Limits = scenario.limits
    needed = min(len(scenario.estimates), MOST)
    if needed > limits.hashes:
        changed = replace(scenario, limits=replace(limits, hashes=needed))
        yield f"{needed} hash runs at once instead of {limits.hashes} (--max-hashes {needed})", changed


def _tuned(scenario: Scenario) -> Scenario | None:
    changed = tuple(
        one if one.tuned_rate is None else replace(one, rate=one.tuned_rate, tuned_rate=None)
        for one in scenario.estimates
    )
    return None if changed == scenario.estimates else replace(scenario, estimates=changed)


def _wider(scenario: Scenario) -> Iterator[tuple[str, Scenario | None]]:
    """Yield the least cap share that fits, in steps of 5 %, else the whole link."""
    capped = [link.cap_share for link in scenario.links.values() if link.rate_bps is not None]
    if not capped or min(capped) >= 1:
        return
    steps = [percent for percent in range(5, 101, 5) if percent / 100 > min(capped)]
    # A larger share makes no device later: bisect.
    first = bisect_left(steps, True, key=lambda one: not play(_with_share(scenario, one / 100)).late)
    found = steps[min(first, len(steps) - 1)]
    before = " to ".join(sorted({f"{share:.0%}" for share in (min(capped), max(capped))}, key=len))
    text = f"{found}% of the links for copies instead of {before} (cap_share in the inventory)"
    yield text, _with_share(scenario, found / 100)


def _with_share(scenario: Scenario, share: float) -> Scenario:
    links = {name: replace(link, cap_share=max(link.cap_share, share)) for name, link in scenario.links.items()}
    return replace(scenario, links=links)


def _together(scenario: Scenario, useful: list[Remedy]) -> Remedy:
    """Return all useful changes at once."""
    changed, names = scenario, {one.change for one in useful}
    side_by_side = _side_by_side(changed)
    if side_by_side is not None and any("--wave-by" in name for name in names):
        changed = side_by_side
    if any("--tune" in name for name in names):
        changed = _tuned(changed) or changed
    if any("cap_share" in name for name in names):
        changed = _with_share(changed, 1.0)
    for find in (_more_copies, _more_hashes):
        changed = next((one for _, one in find(changed) if one is not None), changed)
    return _remedy("all of these together", changed)


def _fewer(scenario: Scenario, now: ScenarioOutcome) -> Iterator[Remedy]:
    """Yield leaving devices to another night: the late ones, or fewer if those are the slowest."""
    everyone = frozenset(one.host for one in scenario.estimates)
    late = frozenset(now.late)
    if early := everyone - late:
        nights, never = further_nights(scenario, now)
        text = f"{1 + nights} nights: leave {listed(now.late)} for {'the second' if nights == 1 else 'the later ones'}"
        if never:
            text = f"leaving out {listed(now.late)}; {listed(never)} fit into no night of this length"
        yield _remedy(text, scenario.of(early))
    slowest = _slowest_to_leave(scenario)
    if slowest is not None and len(slowest) < len(late):
        yield _remedy(f"without the slowest: {listed(slowest)}", scenario.of(everyone - frozenset(slowest)))


def further_nights(scenario: Scenario, now: ScenarioOutcome) -> tuple[int, tuple[str, ...]]:
    """Return how many further nights the late devices need, and the devices for which no night is long enough.

    Images at a depot by the end of a night are there in the next.
    """
    nights, left = 0, frozenset(now.late)
    following = _a_night_later(scenario, now)
    while left:
        found = play(following.of(left))
        then = _a_night_later(following, found)
        if len(found.late) == len(left) and then.there == following.there:
            return nights, found.late
        left, nights, following = frozenset(found.late), nights + 1, then
    return nights, ()


def _a_night_later(scenario: Scenario, outcome: ScenarioOutcome) -> Scenario:
    """Return a scenario with the images that reached depots in time."""
    came = {
        (link, image)
        for link, images in outcome.syncs.items()
        for image, sync in images.items()
        if (end := scenario.link_ends_s(link)) is None or sync.proven_s <= end
    }
    return replace(scenario, there=scenario.there | came) if came else scenario


def _slowest_to_leave(scenario: Scenario) -> tuple[str, ...] | None:
    """Return the fewest slowest devices without which the run fits; None if it never does."""
    alone = sorted(scenario.estimates, key=_alone_s, reverse=True)
    names = [one.host for one in alone]
    low, high = 1, len(names)
    while low < high:
        middle = (low + high) // 2
        if play(scenario.of(frozenset(names[middle:]))).late:
            low = middle + 1
        else:
            high = middle
    return tuple(names[:low]) if low < len(names) else None


def _alone_s(estimate: Estimate) -> float:
    """Return the duration of a device's copy by itself, and of what follows its restore."""
    return estimate.size_bytes / estimate.rate.bytes_per_s + estimate.finish_s


def _remedy(change: str, changed: Scenario) -> Remedy:
    result = play(changed)
    return Remedy(change=change, fits=not result.late, ends_s=round(result.run.ends_s, 1))


def listed(hosts: tuple[str, ...]) -> str:
    """List the first few names, and how many more there are."""
    shown = ", ".join(hosts[:NAMES])
    more = f" and {len(hosts) - NAMES} more" if len(hosts) > NAMES else ""
    return shown + more


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
