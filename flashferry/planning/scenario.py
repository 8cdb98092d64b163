"""What a forecast is made from: devices to be staged, their links, how the run is to be done. Pure.

The same scenario with one thing changed shows what that would bring.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from flashferry.core.units import coarse_rate
from flashferry.model.fleet_plan import MOST_WAIT_S, Supply
from flashferry.model.limits import Limits
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.waves import Wave, WavePolicy, waves
from flashferry.planning.deadline import MARGIN_S
from flashferry.planning.local_copies import (
    ASSUMED_LAN_RATE_BPS,
    NEIGHBOUR_BYTES_PER_S,
    ImageKey,
    Sync,
    lan_of,
    syncs,
)
from flashferry.planning.simulation import Job, Link, LinkUse, Simulated, simulate
from flashferry.tcp.ssh_channel_window import link_payload_bytes_per_s
from flashferry.transports.transport_selection import extra_round_trips
from inventory.transport_policy import USUAL

A_DEPOT = "a depot"
"""Stands for a depot that is not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast a copy may be expected to be.

    Attributes:
        bytes_per_s: The figure, > 0.
        source: Where it comes from, in words.
        is_assumed: Whether it is no measurement of this device.
        is_of_link: Whether it is the link, or our cap on it, that gave it: by itself the device takes what it gets.
    """

    bytes_per_s: float
    source: str
    is_assumed: bool = False
    is_of_link: bool = False

    @property
    def limit_bytes_per_s(self) -> float:
        """Return what the device can take by itself; infinite where it takes what its link gives."""
        return math.inf if self.is_of_link else self.bytes_per_s


FROM_A_NEIGHBOUR = Rate(
    bytes_per_s=NEIGHBOUR_BYTES_PER_S,
    source=f"assumed: a neighbour gives a device no more than {coarse_rate(NEIGHBOUR_BYTES_PER_S)}",
    is_assumed=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """What a device does once it is restored: nothing of it crosses its link.

    Attributes:
        copies: Copies inside the box, one after the other.
        copy_rate: How fast they go, or None where there is none.
        hashes: Hashes of them: each once behind its copy, and once more where the final check asks whether the device
            is ready.
        add_rate: How fast `install add` goes through the image, or None where nothing is added.
    """

    copies: int = 0
    copy_rate: Rate | None = None
    hashes: int = 0
    add_rate: Rate | None = None

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Return the rates that it goes by, but for that of hashing."""
        return tuple(rate for rate in (self.copy_rate, self.add_rate) if rate is not None)

    def seconds(self, size_bytes: int, hash_bytes_per_s: float) -> float:
        """Return how long it takes for an image of a size."""
        copying = self.copies / self.copy_rate.bytes_per_s if self.copy_rate is not None else 0.0
        adding = 1 / self.add_rate.bytes_per_s if self.add_rate is not None else 0.0
        return size_bytes * (copying + self.hashes / hash_bytes_per_s + adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A device that is to be staged.

    Attributes:
        host: Inventory name.
        link: Key of its link: its site, or `device NAME` where it has none.
        site: Its site, or None.
        group: Its first group, or None.
        model: Its model.
        image: Name of its image.
        size_bytes: Size of its image.
        rate: How fast its copy is expected to be, as it is to be done.
        tuned_rate: The same were it tuned, or None if unknown, or where it is tuned anyway.
        hash_bytes_per_s: How fast it hashes, > 0.
        is_hash_assumed: Whether neither it nor one of its model was seen to hash.
        rtt_s: Round-trip time.
        transport: By what it is to fetch.
        finish: What it does once it is restored.
        lan_rate: How fast its copy is expected to be from a depot or a neighbour of its site; None: no other than over
            its link.
        takes_part: Whether it takes an image from a neighbour, and serves others, where its site does so.
    """

    host: str
    link: str
    site: str | None
    group: str | None
    model: str | None
    image: str | None = None
    size_bytes: int
    rate: Rate
    tuned_rate: Rate | None = None
    hash_bytes_per_s: float
    is_hash_assumed: bool = False
    rtt_s: float
    transport: str = USUAL
    finish: Finish = field(default_factory=Finish)
    lan_rate: Rate | None = None
    takes_part: bool = True

    @property
    def image_key(self) -> ImageKey:
        """Return which image it is to have."""
        return (self.image, self.size_bytes)

    def rate_from(self, supply: Supply) -> Rate:
        """Return how fast its copy is expected to be from somewhere."""
        found = self.rate if supply is Supply.CENTRE or self.lan_rate is None else self.lan_rate
        if supply is Supply.NEIGHBOUR and found.limit_bytes_per_s > NEIGHBOUR_BYTES_PER_S:
            return FROM_A_NEIGHBOUR
        return found

    @property
    def finish_s(self) -> float:
        """Return how long it goes on once it is restored."""
        return self.finish.seconds(self.size_bytes, self.hash_bytes_per_s)

    def job(
        self,
        supply: Supply = Supply.CENTRE,
        *,
        over: str = "",
        not_before_s: float = 0.0,
        joins: str = "",
        needs: str = "",
    ) -> Job:
        """Return it as work of a run that pulls from somewhere; the other arguments are those of `Job`."""
        return Job(
            host=self.host,
            site=self.link,
            size_bytes=self.size_bytes,
            limit_bytes_per_s=self.rate_from(supply).limit_bytes_per_s,
            hash_s=self.size_bytes / self.hash_bytes_per_s,
            rtt_s=self.rtt_s,
            extra_round_trips=extra_round_trips(self.transport),
            finish_s=self.finish_s,
            not_before_s=not_before_s,
            over=over,
            joins=joins,
            needs=needs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """A link that copies share.

    Attributes:
        name: Its key: a site, or `device NAME` for a device without one.
        rate_bps: Its rate, or None if unknown: then nothing caps its copies.
        source: Who says so.
        cap_share: Share of it that copies may take, in (0, 1].
        max_copies: How many copies may run over it at once by the inventory, or None.
        opens_s: When its window opens, in seconds from the start of the run; 0 where it is open.
        closes_s: When it closes, or None: never.
        depot: The site's depot, to which each image goes once, or None.
        neighbours: Whether the site's devices serve each other; a depot goes before that.
        lan_rate_bps: Rate of the LAN behind it, or None if not stated.
    """

    name: str
    rate_bps: float | None
    source: str = ""
    cap_share: float
    max_copies: int | None = None
    opens_s: float = 0.0
    closes_s: float | None = None
    depot: str | None = None
    neighbours: bool = False
    lan_rate_bps: float | None = None

    @property
    def supply(self) -> Supply:
        """Return where its devices pull from; with neighbours, all but the first one."""
        if self.depot is not None:
            return Supply.DEPOT
        return Supply.NEIGHBOUR if self.neighbours else Supply.CENTRE

    @property
    def lan_cap_bytes_per_s(self) -> float:
        """Return what copies over its LAN may take together, as payload."""
        return link_payload_bytes_per_s(self.lan_rate_bps or ASSUMED_LAN_RATE_BPS)

    @property
    def cap_bytes_per_s(self) -> float | None:
        """Return what copies may take together, as payload, or None where there is no cap."""
        return None if self.rate_bps is None else payload_cap_bytes_per_s(self.rate_bps * self.cap_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a run has before it.

    Attributes:
        estimates: The devices to be staged, in the order of the inventory.
        links: Their links.
        limits: How much goes on at the same time.
        policy: How waves are made.
        until_s: When the run must have ended, in seconds from its start, or None.
        there: Images that the depot of a link has already, from a night before: the link's key and the image.
        at_link: The estimates by their link, in the same order.
    """

    estimates: tuple[Estimate, ...]
    links: Mapping[str, LinkFacts]
    limits: Limits
    policy: WavePolicy
    until_s: float | None = None
    there: frozenset[tuple[str, ImageKey]] = frozenset()
    at_link: Mapping[str, Sequence[Estimate]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[str, list[Estimate]] = {}
        for one in self.estimates:
            found.setdefault(one.link, []).append(one)
        object.__setattr__(self, "at_link", found)

    def ends_s(self, estimate: Estimate) -> float | None:
        """Return when a device must be done: at the run's end or its site's, less the time kept to restore; or None."""
        return self.link_ends_s(estimate.link)

    def link_ends_s(self, link: str) -> float | None:
        """Return when what goes over a link must be done, or None."""
        ends = [end for end in (self.until_s, self.links[link].closes_s) if end is not None]
        return min(ends) - MARGIN_S if ends else None

    def opens_too_late(self, estimate: Estimate) -> bool:
        """Return whether a run gives a device up because of when its site opens, as `Deadline.fit` does."""
        opens_s = self.links[estimate.link].opens_s
        return opens_s > 0 and (
            opens_s > MOST_WAIT_S or (self.until_s is not None and opens_s >= self.until_s - MARGIN_S)
        )

    @property
    def has_end(self) -> bool:
        """Return whether any device has an end to keep."""
        return any(self.ends_s(estimate) is not None for estimate in self.estimates)

    def of(self, hosts: frozenset[str]) -> Scenario:
        """Return the same for some of the devices only."""
        return replace(self, estimates=tuple(one for one in self.estimates if one.host in hosts))

    def at(self, link: str) -> Scenario:
        """Return the same for one link by itself, all its devices at once."""
        return replace(
            self,
            estimates=tuple(self.at_link.get(link, ())),
            links={link: self.links[link]},
            policy=replace(self.policy, canary=False, by=None, size=None),
        )

    def each_for_itself(self) -> Scenario:
        """Return the same with every device pulling over the WAN."""
        links = {name: replace(facts, depot=None, neighbours=False) for name, facts in self.links.items()}
        return replace(self, links=links)

    def with_depots(self, sites: Collection[str]) -> Scenario:
        """Return the same with a depot at some sites more."""
        links = {
            name: replace(facts, depot=facts.depot or A_DEPOT) if name in sites else facts
            for name, facts in self.links.items()
        }
        return replace(self, links=links)

    def copies_at(self, link: str) -> int:
        """Return how many copies may run over a link at once."""
        return self.limits.of_site(self.links[link].max_copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """A scenario played through.

    Attributes:
        waves: The waves, of all devices.
        run: What the run comes to.
        shut: Devices whose site opens so late that the run does not wait for it; they are not in `run`.
        late: Devices that are not done in time: those that start, in that order, then those of `shut`.
        pulls: Where each device that starts pulls from.
        syncs: The images on their way to the depot behind a link, in order, for each link that has one.
    """

    waves: tuple[Wave, ...]
    run: Simulated
    shut: tuple[str, ...]
    late: tuple[str, ...]
    pulls: Mapping[str, Supply] = field(default_factory=dict)
    syncs: Mapping[str, Mapping[ImageKey, Sync]] = field(default_factory=dict)

    def carried_bytes(self, link: str) -> int:
        """Return what crosses a link, what goes to its depot included."""
        copies = self.run.links.get(link)
        return (copies.carried_bytes if copies else 0) + sum(sync.size_bytes for sync in self.syncs_of(link))

    def syncs_of(self, link: str) -> tuple[Sync, ...]:
        """Return what goes to the depot behind a link, in order; nothing where there is none."""
        return tuple(self.syncs.get(link, {}).values())

    def busy_s(self, link: str) -> float:
        """Return how long something is on a link."""
        copies = self.run.links.get(link)
        return (copies.busy_s if copies else 0.0) + sum(one.received_s - one.begins_s for one in self.syncs_of(link))

    def uses_of(self, link: str) -> tuple[LinkUse, ...]:
        """Return what becomes of a link and of the LAN behind it, as far as copies of devices go over them."""
        return tuple(use for key in (link, lan_of(link)) if (use := self.run.links.get(key)) is not None)


def play(scenario: Scenario) -> ScenarioOutcome:
    """Return what a run comes to."""
    made = waves(scenario.estimates, scenario.policy)
    by_host = {one.host: one for one in scenario.estimates}
    shut = {host: None for host, one in by_host.items() if scenario.opens_too_late(one)}
    started = [by_host[host] for wave in made for host in wave.hosts if host not in shut]
    pulls, at_depots = _pulls(scenario, started), _syncs(scenario, started)
    jobs = [
        [_job(by_host[host], scenario, pulls[host], at_depots) for host in hosts if host not in shut]
        for hosts in _as_started(made, scenario, by_host)
    ]
    run = simulate(jobs, _links(scenario), scenario.limits)
    ends = {host: scenario.ends_s(one) for host, one in by_host.items() if host not in shut}
    late = [host for host, end in ends.items() if end is not None and run.devices[host].ends_s > end]
    late.sort(key=lambda host: run.devices[host].begins_s)
    return ScenarioOutcome(waves=made, run=run, shut=tuple(shut), late=(*late, *shut), pulls=pulls, syncs=at_depots)


def _as_started(made: Sequence[Wave], scenario: Scenario, by_host: Mapping[str, Estimate]) -> list[list[str]]:
    """Return the devices wave by wave, those that wait for their window while a later wave is open in the last one."""
    started = [list(wave.hosts) for wave in made]
    opens_s = {host: scenario.links[one.link].opens_s for host, one in by_host.items()}
    if scenario.policy.approve:
        return started
    # When the first device of any later wave can start, for each wave but the last.
    opens = [min(opens_s[host] for host in wave.hosts) for wave in made[1:]]
    later_s = list(accumulate(reversed(opens), min))[::-1]
    for number, (wave, first_s) in enumerate(zip(made, later_s, strict=False)):
        if not wave.is_canary:
            started[-1] += [host for host in started[number] if opens_s[host] > first_s]
            started[number] = [host for host in started[number] if opens_s[host] <= first_s]
    return started


def _pulls(scenario: Scenario, started: Sequence[Estimate]) -> dict[str, Supply]:
    """Return where each device pulls from: of neighbours the first for each image, and who takes no part, from afar."""
    seen: set[tuple[str, ImageKey]] = set()
    pulls: dict[str, Supply] = {}
    for one in started:
        pulls[one.host] = supply = scenario.links[one.link].supply
        if supply is Supply.NEIGHBOUR and not (one.takes_part and (one.link, one.image_key) in seen):
            pulls[one.host] = Supply.CENTRE
            if one.takes_part:
                seen.add((one.link, one.image_key))
    return pulls


def _syncs(scenario: Scenario, started: Sequence[Estimate]) -> dict[str, dict[ImageKey, Sync]]:
    """Return what goes to each depot, in the order in which devices need it, from the beginning of the run on."""
    at: dict[str, list[Estimate]] = {}
    for one in started:
        if scenario.links[one.link].supply is Supply.DEPOT:
            at.setdefault(one.link, []).append(one)
    return {
        link: syncs(
            (one.image_key for one in devices if (link, one.image_key) not in scenario.there),
            from_s=scenario.links[link].opens_s,
            # Where the link is not known, the fastest of its devices shows what it carries at least.
            bytes_per_s=scenario.links[link].cap_bytes_per_s or max(one.rate.bytes_per_s for one in devices),
            rtt_s=min(one.rtt_s for one in devices),
        )
        for link, devices in at.items()
    }


def _job(one: Estimate, scenario: Scenario, supply: Supply, at_depots: Mapping[str, Mapping[ImageKey, Sync]]) -> Job:
    """Return a device as work of a run, by where it pulls from."""
    if supply is Supply.DEPOT:
        sync = at_depots[one.link].get(one.image_key)
        return one.job(supply, over=lan_of(one.link), not_before_s=sync.proven_s if sync is not None else 0.0)
    if scenario.links[one.link].supply is not Supply.NEIGHBOUR or not one.takes_part:
        return one.job()
    served = f"{one.link} {one.image} {one.size_bytes}"
    if supply is Supply.CENTRE:
        return one.job(joins=served)
    return one.job(supply, over=lan_of(one.link), joins=served, needs=served)


def _links(scenario: Scenario) -> dict[str, Link]:
    links: dict[str, Link] = {}
    for link, facts in scenario.links.items():
        cap, copies = facts.cap_bytes_per_s, scenario.copies_at(link)
        links[link] = Link(cap_bytes_per_s=math.inf if cap is None else cap, copies=copies, opens_s=facts.opens_s)
        if facts.supply is not Supply.CENTRE:
            lan = facts.lan_cap_bytes_per_s
            links[lan_of(link)] = Link(cap_bytes_per_s=lan, copies=copies, opens_s=facts.opens_s)
    return links
