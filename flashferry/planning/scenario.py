"""What a forecast is made from: devices to be staged, their links, how the run is to be done. Pure.

The same scenario with one thing changed shows what that would bring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flashferry.model.limits import Limits
from flashferry.model.links import payload_cap_bytes_per_s
from flashferry.model.waves import Wave, WavePolicy, waves
from flashferry.planning.deadline import MARGIN_S, WAIT_FOR_OPENING_S
from flashferry.planning.simulation import Job, Link, Simulated, simulate
from flashferry.transports.choice import more_round_trips
from inventory.transport_policy import USUAL


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
        tuned_rate: The same were it tuned, or None where nobody knows, or where it is tuned anyway.
        hash_bytes_per_s: How fast it hashes, > 0.
        is_hash_assumed: Whether neither it nor one of its model was seen to hash.
        rtt_s: Round-trip time.
        transport: By what it is to fetch.
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

    @property
    def job(self) -> Job:
        """Return it as work of a run."""
        return Job(
            host=self.host,
            site=self.link,
            size_bytes=self.size_bytes,
            limit_bytes_per_s=math.inf if self.rate.is_of_link else self.rate.bytes_per_s,
            hash_s=self.size_bytes / self.hash_bytes_per_s,
            rtt_s=self.rtt_s,
            more_round_trips=more_round_trips(self.transport),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFacts:
    """A link that copies share.

    Attributes:
        name: Its key: a site, or `device NAME` for a device without one.
        rate_bps: Its rate, or None where nobody knows it: then nothing caps its copies.
        source: Who says so.
        cap_share: Share of it that copies may take, in (0, 1].
        max_copies: How many copies may run over it at once by the inventory, or None.
        opens_s: When its window opens, in seconds from the start of the run; 0 where it is open.
        closes_s: When it closes, or None: never.
    """

    name: str
    rate_bps: float | None
    source: str = ""
    cap_share: float
    max_copies: int | None = None
    opens_s: float = 0.0
    closes_s: float | None = None

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
    """

    estimates: tuple[Estimate, ...]
    links: Mapping[str, LinkFacts]
    limits: Limits
    policy: WavePolicy
    until_s: float | None = None

    def ends_s(self, estimate: Estimate) -> float | None:
        """Return when a device must be done: at the run's end or its site's, less the time kept to restore; or None."""
        ends = [end for end in (self.until_s, self.links[estimate.link].closes_s) if end is not None]
        return min(ends) - MARGIN_S if ends else None

    @property
    def has_end(self) -> bool:
        """Return whether any device has an end to keep."""
        return any(self.ends_s(estimate) is not None for estimate in self.estimates)

    def of(self, hosts: frozenset[str]) -> Scenario:
        """Return the same for some of the devices only."""
        return replace(self, estimates=tuple(one for one in self.estimates if one.host in hosts))

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
        late: Devices that are not done in time: those that are begun, as they are begun, then those of `shut`.
    """

    waves: tuple[Wave, ...]
    run: Simulated
    shut: tuple[str, ...]
    late: tuple[str, ...]


def play(scenario: Scenario) -> ScenarioOutcome:
    """Return what a run comes to."""
    made = waves(scenario.estimates, scenario.policy)
    by_host = {one.host: one for one in scenario.estimates}
    shut = tuple(host for host, one in by_host.items() if scenario.links[one.link].opens_s > WAIT_FOR_OPENING_S)
    jobs = [[by_host[host].job for host in wave.hosts if host not in shut] for wave in made]
    run = simulate(jobs, _links(scenario), scenario.limits)
    ends = {host: scenario.ends_s(one) for host, one in by_host.items() if host not in shut}
    late = [host for host, end in ends.items() if end is not None and run.devices[host].ends_s > end]
    late.sort(key=lambda host: run.devices[host].begins_s)
    return ScenarioOutcome(waves=made, run=run, shut=shut, late=(*late, *shut))


def _links(scenario: Scenario) -> dict[str, Link]:
    return {
        link: Link(
            cap_bytes_per_s=math.inf if facts.cap_bytes_per_s is None else facts.cap_bytes_per_s,
            copies=scenario.copies_at(link),
            opens_s=facts.opens_s,
        )
        for link, facts in scenario.links.items()
    }
