"""Input of a forecast: devices, their links and LANs, and the run's settings; and its simulation. Pure.

Changing one thing in a scenario shows its effect.

Facts
-----
- A depot copies an image at the rate that the link leaves for copies, and offers it once its SHA-512 is verified.
  Hashing ran at 0.6 to 1.4 GB/s on servers; for a small host a third of the slowest is assumed.
- Neighbours serve by TFTP (RFC 1350), one acknowledgement per block. With blocks of 8,192 bytes, the most that IOS
  accepts (`ip tftp blocksize`), and 1 ms round-trip time it cannot exceed 8 MB/s; what a router's CPU and flash leave
  of that was not published. A quarter is assumed.
- With three copies per serving device a site of 20 is done in three steps of a copy and a hash each.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from msgspec import Struct
from msgspec import field as struct_field

from flashferry.core.units import coarse_rate
from flashferry.core.values import replace
from flashferry.model.fleet_plan import MOST_WAIT_S, Supply
from flashferry.model.limits import Limits
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.waves import Wave, WavePolicy, waves
from flashferry.planning.deadline import MARGIN_S
from flashferry.planning.simulation import Job, Link, LinkUse, Simulated, simulate
from flashferry.tcp.ssh_channel_window import link_payload_bytes_per_s
from flashferry.transports.transport_selection import extra_round_trips
from inventory.transport_policy import USUAL

ASSUMED_LAN_RATE_BPS = 100e6
"""Assumed rate of a site's LAN: the management port of an old router."""

LAN_ASSUMED = "assumed, for the inventory does not state it"

LAN_RTT_S = 0.001
"""Assumed round-trip time to a depot or neighbour."""

PROOF_BYTES_PER_S = 200e6
"""Assumed hashing speed of a depot."""

SYNC_ROUND_TRIPS = 9.0
"""Until a depot copies at full rate: connection and request 3, start of a BBR flow 6 (`simulation`)."""

NEIGHBOUR_BYTES_PER_S = 2e6
"""Assumed highest rate from a neighbour."""


ImageKey = tuple[str | None, int]
"""Name and size in bytes of an image."""


class Sync(Struct, frozen=True, kw_only=True):
    """Copy of an image to a depot, in seconds after the start of the run.

    Attributes:
        begins_s: First byte.
        received_s: Last byte.
        proven_s: Verified; devices can copy it.
    """

    size_bytes: int
    begins_s: float
    received_s: float
    proven_s: float


def syncs(images: Iterable[ImageKey], *, from_s: float, bytes_per_s: float, rtt_s: float) -> dict[ImageKey, Sync]:
    """Return when each image is at a depot; they are copied one after the other.

    Args:
        images: In the order in which devices need them; repeated ones are there already.
        from_s: Earliest start.
        bytes_per_s: Rate of the link for copies, > 0.
        rtt_s: Round-trip time to the depot.
    """
    found: dict[ImageKey, Sync] = {}
    free_s = from_s
    for key in dict.fromkeys(images):
        _, size_bytes = key
        begins_s = free_s + SYNC_ROUND_TRIPS * rtt_s
        free_s = begins_s + size_bytes / bytes_per_s
        proven_s = free_s + size_bytes / PROOF_BYTES_PER_S
        found[key] = Sync(size_bytes=size_bytes, begins_s=begins_s, received_s=free_s, proven_s=proven_s)
    return found


def lan_of(link: str) -> str:
    """Return the key of the LAN behind a link; no site can be called so."""
    return f"lan {link}"


A_DEPOT = "a depot"
"""Placeholder for a proposed depot."""


class Rate(Struct, frozen=True, kw_only=True):
    """Expected rate of a copy.

    Attributes:
        bytes_per_s: > 0.
        source: Where it is from, as text.
        is_assumed: Whether it was not measured on this device.
        is_of_link: Whether the link or its cap is the limit, not the device.
    """

    bytes_per_s: float
    source: str
    is_assumed: bool = False
    is_of_link: bool = False

    @property
    def limit_bytes_per_s(self) -> float:
        """Return the device's own limit; infinite if the link is the limit."""
        return math.inf if self.is_of_link else self.bytes_per_s


FROM_A_NEIGHBOUR = Rate(
    bytes_per_s=NEIGHBOUR_BYTES_PER_S,
    source=f"assumed: a neighbour gives a device no more than {coarse_rate(NEIGHBOUR_BYTES_PER_S)}",
    is_assumed=True,
)


class Finish(Struct, frozen=True, kw_only=True):
    """What a device does after its restore, without using its link.

    Attributes:
        copies: Copies inside the device, one after the other.
        copy_rate: Their rate; None for none.
        hashes: Hashes of them: one per copy, and one more each if the final check tests readiness.
        add_rate: Rate of `install add`; None for none.
    """

    copies: int = 0
    copy_rate: Rate | None = None
    hashes: int = 0
    add_rate: Rate | None = None

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Return its rates, without that of hashing."""
        return tuple(rate for rate in (self.copy_rate, self.add_rate) if rate is not None)

    def seconds(self, size_bytes: int, hash_bytes_per_s: float) -> float:
        """Return its duration for an image of a size."""
        copying = self.copies / self.copy_rate.bytes_per_s if self.copy_rate is not None else 0.0
        adding = 1 / self.add_rate.bytes_per_s if self.add_rate is not None else 0.0
        return size_bytes * (copying + self.hashes / hash_bytes_per_s + adding)


class Estimate(Struct, frozen=True, kw_only=True):
    """A device to stage.

    Attributes:
        link: Key of its link: its site, or `device NAME`.
        site: Its site; None for none.
        group: Its first group; None for none.
        image: Name of its image.
        size_bytes: Size of its image.
        rate: Expected rate of its copy as planned.
        tuned_rate: The same if it were tuned; None if unknown, or if it is tuned.
        hash_bytes_per_s: Hashing speed, > 0.
        is_hash_assumed: Whether that was measured neither on it nor on its model.
        finish: What it does after its restore.
        lan_rate: Expected rate from a depot or neighbour of its site; None: as over its link.
        takes_part: Whether it copies from and serves neighbours if its site does.
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
    finish: Finish = struct_field(default_factory=Finish)
    lan_rate: Rate | None = None
    takes_part: bool = True

    @property
    def image_key(self) -> ImageKey:
        """Return its image."""
        return (self.image, self.size_bytes)

    def rate_from(self, supply: Supply) -> Rate:
        """Return the expected rate from a source."""
        found = self.rate if supply is Supply.CENTRE or self.lan_rate is None else self.lan_rate
        if supply is Supply.NEIGHBOUR and found.limit_bytes_per_s > NEIGHBOUR_BYTES_PER_S:
            return FROM_A_NEIGHBOUR
        return found

    @property
    def finish_s(self) -> float:
        """Return the duration of what it does after its restore."""
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
        """Return it as a job of the simulation; the other arguments are those of `Job`."""
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


class LinkFacts(Struct, frozen=True, kw_only=True):
    """A link shared by copies.

    Attributes:
        name: Its key: a site, or `device NAME`.
        rate_bps: Its rate; None if unknown, in which case there is no cap.
        source: Where that rate is from.
        cap_share: Share for copies, in (0, 1].
        max_copies: Copies at the same time by the inventory; None for no limit.
        opens_s: Opening of its window, in seconds after the start of the run; 0 if open.
        closes_s: Its end; None for none.
        depot: The site's depot; None for none.
        neighbours: Whether the site's devices serve each other; a depot takes precedence.
        lan_rate_bps: Rate of the LAN; None if not stated.
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
        """Return the source of its devices; with neighbours, of all but the first one."""
        if self.depot is not None:
            return Supply.DEPOT
        return Supply.NEIGHBOUR if self.neighbours else Supply.CENTRE

    @property
    def lan_cap_bytes_per_s(self) -> float:
        """Return the payload rate of all copies over its LAN together."""
        return link_payload_bytes_per_s(self.lan_rate_bps or ASSUMED_LAN_RATE_BPS)

    @property
    def cap_bytes_per_s(self) -> float | None:
        """Return the payload rate of all copies together; None for no cap."""
        return None if self.rate_bps is None else payload_cap_bytes_per_s(self.rate_bps * self.cap_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A run to simulate.

    Attributes:
        estimates: The devices to stage, in the order of the inventory.
        limits: Concurrency.
        policy: How waves are formed.
        until_s: When the run must have ended, in seconds after its start; None for no limit.
        there: Images that depots already have, as link key and image.
        at_link: The estimates by link, in the same order.
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
        """Return the deadline of a device: the run's or its site's, less the time to restore; None for none."""
        return self.link_ends_s(estimate.link)

    def link_ends_s(self, link: str) -> float | None:
        """Return the deadline of copies over a link; None for none."""
        ends = [end for end in (self.until_s, self.links[link].closes_s) if end is not None]
        return min(ends) - MARGIN_S if ends else None

    def opens_too_late(self, estimate: Estimate) -> bool:
        """Return whether the run excludes a device because its site opens too late, as `Deadline.fit` does."""
        opens_s = self.links[estimate.link].opens_s
        return opens_s > 0 and (
            opens_s > MOST_WAIT_S or (self.until_s is not None and opens_s >= self.until_s - MARGIN_S)
        )

    @property
    def has_end(self) -> bool:
        """Return whether any device has a deadline."""
        return any(self.ends_s(estimate) is not None for estimate in self.estimates)

    def of(self, hosts: frozenset[str]) -> Scenario:
        """Return the scenario with only some devices."""
        return replace(self, estimates=tuple(one for one in self.estimates if one.host in hosts))

    def at(self, link: str) -> Scenario:
        """Return the scenario of one link alone, with all its devices at once."""
        return replace(
            self,
            estimates=tuple(self.at_link.get(link, ())),
            links={link: self.links[link]},
            policy=replace(self.policy, canary=False, by=None, size=None),
        )

    def each_for_itself(self) -> Scenario:
        """Return the scenario with every device copying over the WAN."""
        links = {name: replace(facts, depot=None, neighbours=False) for name, facts in self.links.items()}
        return replace(self, links=links)

    def with_depots(self, sites: Collection[str]) -> Scenario:
        """Return the scenario with depots at further sites."""
        links = {
            name: replace(facts, depot=facts.depot or A_DEPOT) if name in sites else facts
            for name, facts in self.links.items()
        }
        return replace(self, links=links)

    def copies_at(self, link: str) -> int:
        """Return the number of concurrent copies over a link."""
        return self.limits.of_site(self.links[link].max_copies)


class ScenarioOutcome(Struct, frozen=True, kw_only=True):
    """A simulated scenario.

    Attributes:
        waves: The waves, of all devices.
        run: The simulation.
        shut: Devices whose site opens too late; not in `run`.
        late: Devices that do not end in time: started ones in starting order, then those of `shut`.
        pulls: Source of each started device's copy.
        syncs: Copies of images to the depot of each link, in order.
    """

    waves: tuple[Wave, ...]
    run: Simulated
    shut: tuple[str, ...]
    late: tuple[str, ...]
    pulls: Mapping[str, Supply] = struct_field(default_factory=dict)
    syncs: Mapping[str, Mapping[ImageKey, Sync]] = struct_field(default_factory=dict)

    def carried_bytes(self, link: str) -> int:
        """Return the bytes over a link, those to its depot included."""
        copies = self.run.links.get(link)
        return (copies.carried_bytes if copies else 0) + sum(sync.size_bytes for sync in self.syncs_of(link))

    def syncs_of(self, link: str) -> tuple[Sync, ...]:
        """Return the copies to the depot of a link, in order."""
        return tuple(self.syncs.get(link, {}).values())

    def busy_s(self, link: str) -> float:
        """Return how long a link is used."""
        copies = self.run.links.get(link)
        return (copies.busy_s if copies else 0.0) + sum(one.received_s - one.begins_s for one in self.syncs_of(link))

    def uses_of(self, link: str) -> tuple[LinkUse, ...]:
        """Return the use of a link and of its LAN by copies of devices."""
        return tuple(use for key in (link, lan_of(link)) if (use := self.run.links.get(key)) is not None)


def play(scenario: Scenario) -> ScenarioOutcome:
    """Simulate a scenario."""
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
    """Return the devices by wave; those that wait for a window while a later wave runs are in the last one."""
    started = [list(wave.hosts) for wave in made]
    opens_s = {host: scenario.links[one.link].opens_s for host, one in by_host.items()}
    if scenario.policy.approve:
        return started
    # For each wave but the last: when the first device of any later wave can start.
    opens = [min(opens_s[host] for host in wave.hosts) for wave in made[1:]]
    later_s = list(accumulate(reversed(opens), min))[::-1]
    for number, (wave, first_s) in enumerate(zip(made, later_s, strict=False)):
        if not wave.is_canary:
            started[-1] += [host for host in started[number] if opens_s[host] > first_s]
            started[number] = [host for host in started[number] if opens_s[host] <= first_s]
    return started


def _pulls(scenario: Scenario, started: Sequence[Estimate]) -> dict[str, Supply]:
    """Return the source of each device.

    The first of neighbours per image, and devices that do not take part, use the WAN.
    """
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
    """Return the copies to each depot from the start of the run, in the order in which devices need them."""
    at: dict[str, list[Estimate]] = {}
    for one in started:
        if scenario.links[one.link].supply is Supply.DEPOT:
            at.setdefault(one.link, []).append(one)
    return {
        link: syncs(
            (one.image_key for one in devices if (link, one.image_key) not in scenario.there),
            from_s=scenario.links[link].opens_s,
            # If the link's rate is unknown, its fastest device is a lower bound.
            bytes_per_s=scenario.links[link].cap_bytes_per_s or max(one.rate.bytes_per_s for one in devices),
            rtt_s=min(one.rtt_s for one in devices),
        )
        for link, devices in at.items()
    }


def _job(one: Estimate, scenario: Scenario, supply: Supply, at_depots: Mapping[str, Mapping[ImageKey, Sync]]) -> Job:
    """Return a device as a job of the simulation, by its source."""
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
