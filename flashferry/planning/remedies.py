"""What would make a run fit its window: simulations with one change each. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from flashferry.core.value_description import counted
from flashferry.core.values import replace
from flashferry.model.fleet_plan import Remedy
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
