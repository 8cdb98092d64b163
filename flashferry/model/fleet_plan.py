"""The plan of a fleet, and its window."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from flashferry.core.units import rough_duration
from flashferry.images.image import PlannedImage
from flashferry.model.policy import PlanSettings, StagePolicy
from flashferry.model.waves import Wave
from inventory.transport_policy import USUAL

MOST_WAIT_S = 24 * 3600.0
"""A command waits so long for a window to open; an earlier start is refused before its run exists."""

_COUNTDOWN_S = (*(hours * 3600.0 for hours in range(24, 0, -1)), 1800.0, 600.0, 60.0)


class WindowState(StrEnum):
    """Where a moment lies."""

    BEFORE = "before"
    OPEN = "open"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWindow:
    """The time in which a plan may be carried out.

    Attributes:
        opens_at: The first moment, with a time zone; None: it is open from the start.
        ends_at: The moment from which on it is over, with a time zone; None: it has no end.
    """

    opens_at: datetime | None = None
    ends_at: datetime | None = None

    def state(self, now: datetime) -> WindowState:
        """Return where a moment, with a time zone, lies; one that ends before it opens is over."""
        if self.ends_at is not None and (now >= self.ends_at or self._never_opens):
            return WindowState.OVER
        return WindowState.BEFORE if self.opens_in_s(now) > 0 else WindowState.OPEN

    def opens_in_s(self, now: datetime) -> float:
        """Return the seconds until it opens; 0 where it has opened."""
        return 0.0 if self.opens_at is None else max((self.opens_at - now).total_seconds(), 0.0)

    def left_s(self, start: datetime) -> float:
        """Return the seconds from a start, or from the opening where that is later, to the end; infinite without."""
        if self.ends_at is None:
            return float("inf")
        first = start if self.opens_at is None else max(start, self.opens_at)
        return (self.ends_at - first).total_seconds()

    def why_closed(self, now: datetime) -> str:
        """Return why nothing may start at a moment, in a sentence with the times; empty where it is open."""
        state = self.state(now)
        if state is WindowState.OPEN:
            return ""
        if state is WindowState.BEFORE:
            assert self.opens_at is not None
            return f"its window opens {spoken(self.opens_at)}, in {rough_duration(self.opens_in_s(now))}"
        assert self.ends_at is not None
        if self._never_opens:
            assert self.opens_at is not None
            return f"its end, {spoken(self.ends_at)}, is before its window opens, {spoken(self.opens_at)}"
        return f"its window has passed: it was to end by {spoken(self.ends_at)}"

    @property
    def _never_opens(self) -> bool:
        return self.ends_at is not None and self.opens_at is not None and self.ends_at <= self.opens_at


def next_countdown_s(left_s: float) -> float:
    """Return how many seconds before the opening the next line of a countdown is due: by the hour, 30, 10, 1 min."""
    return next((mark for mark in _COUNTDOWN_S if mark < left_s), 0.0)


def spoken(moment: datetime) -> str:
    """Return a moment to the minute with its offset from UTC: `2026-11-30 22:00 UTC+01:00`."""
    seconds = f":{moment:%S}" if moment.second else ""
    offset = f"{moment:%z}"
    zone = "UTC" if not moment.utcoffset() else f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{moment:%Y-%m-%d %H:%M}{seconds} {zone}"


SCHEMA = "flashferry.plan/1"


class Action(StrEnum):
    """What is to be done with a device; STAYS: the image rules say that it keeps what it has."""

    STAGE = "stage"
    ALREADY_THERE = "already there"
    STAYS = "stays as it is"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


class Supply(StrEnum):
    """Where a device pulls its image from: the controller's server over the WAN, its site's depot, or a neighbour."""

    CENTRE = "centre"
    DEPOT = "depot"
    NEIGHBOUR = "neighbour"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """A device of the plan. What could not be seen is None.

    Attributes:
        host: Inventory name.
        address: Name or address to log in to.
        site: Site whose link it shares, or None.
        group: Its first group, or None.
        identity: What it calls itself (`flashferry.model.lease`): host name and serial number.
        model: Model as the device shows it.
        version: Release that runs on it.
        rtt_s: Least round-trip time of the SSH connection.
        image: Name of the image that it is to have, or None where no rule gave one.
        image_reason: Why this one.
        file_system: Where it goes, for example `bootflash:`.
        action: What is to be done.
        reason: Why it is refused or could not be seen; else empty.
        hint: What to do about that, or None.
        cause: Why it is out of reach, for programs (`flashferry.model.record.Failure`); else None.
        notes: What the check noticed.
        wave: Number of its wave; -1 where it is in none.
        transport: By what it fetches.
        transport_reason: Why by that, in a sentence, where `auto` chose; else empty.
        ceilings: How fast it can fetch at most by each transport that is allowed, in a sentence; empty where the usual
            one was no choice.
        tune: Whether it is to be tuned for its copy.
        tune_reason: Why it is not, in a sentence; else empty.
        adds: Whether it adds the image (`install add`) once it is restored: by the rule of its image, or as all do.
        other_places: How many other members, or supervisors, the run copies the image to inside the box once it is
            restored; 0 for a device that is alone, or hands it on by itself (install mode).
        expected_bytes_per_s: Rate to expect of a copy that has the link's share it needs, or None: unknown.
        expected_source: Where that comes from; where it is assumed, it says so.
        is_assumed: Whether the rate is an assumption and not a measurement of this device.
        hash_bytes_per_s: How fast it hashes, measured or assumed.
        starts_s: When it begins, in seconds from the start of the run, by the forecast.
        copy_s: How long its copy takes beside the others'.
        hash_s: How long it hashes.
        finish_s: How long it goes on once it is restored: copies inside the box with their hashes, adding; 0 where
            there is nothing of the kind.
        total_s: From its login to its last proof, waiting for slots included.
        pulls_from: Where it pulls its image from, by the inventory; the first device of a site of neighbours pulls from
            the centre.
    """

    host: str
    address: str
    site: str | None = None
    group: str | None = None
    identity: str | None = None
    model: str | None = None
    version: str | None = None
    rtt_s: float | None = None
    image: str | None = None
    image_reason: str = ""
    file_system: str | None = None
    action: Action
    reason: str = ""
    hint: str | None = None
    cause: str | None = None
    notes: tuple[str, ...] = ()
    wave: int = -1
    transport: str = USUAL
    transport_reason: str = ""
    ceilings: str = ""
    tune: bool = True
    tune_reason: str = ""
    adds: bool = False
    other_places: int = 0
    expected_bytes_per_s: float | None = None
    expected_source: str = ""
    is_assumed: bool = False
    hash_bytes_per_s: float | None = None
    starts_s: float | None = None
    copy_s: float | None = None
    hash_s: float | None = None
    finish_s: float | None = None
    total_s: float | None = None
    pulls_from: Supply = Supply.CENTRE


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteForecast:
    """What a run does to the link of a site.

    With a depot or neighbours an image crosses the link once, and the copies of the others go over the LAN.

    Attributes:
        site: Its name; of a device without a site `device NAME`.
        devices: Devices that are to be staged there.
        link_rate_bps: Rate of its link, or None where it is unknown: its copies find their pace themselves.
        link_source: Who says so.
        cap_share: Share of the link that copies may take.
        cap_bytes_per_s: What its copies may take together, as payload, or None.
        copies: Most copies at the same time that are allowed.
        peak_copies: Most that the forecast has, those over a LAN among them.
        load_share: Share of the cap in use from its first copy to the end of its last one; None without a cap.
        busy_s: How long a copy is on the link.
        bytes: What crosses it.
        starts_s: First device begins, in seconds from the start of the run.
        ends_s: Last device is done.
        closes_at: When its window closes, ISO 8601, or None.
        depot: Its depot as the inventory names it, or None.
        neighbours: Whether its devices serve each other.
        at_depot_s: When its last image is proven at its depot, in seconds from the start of the run; None without one.
        lan_rate_bps: Rate of its LAN, where copies go over that; else None.
        lan_source: Who says so.
        lan_bytes: What its copies carry over the LAN.
        lan_busy_s: How long one is on it.
        saved_bytes: What crosses its link less than if each device pulled for itself.
        saved_s: How much earlier the site is done than so, by itself and all at once; negative: later.
    """

    site: str
    devices: int
    link_rate_bps: float | None
    link_source: str
    cap_share: float
    cap_bytes_per_s: float | None
    copies: int
    peak_copies: int
    load_share: float | None
    busy_s: float
    bytes: int
    starts_s: float
    ends_s: float
    closes_at: str | None = None
    depot: str | None = None
    neighbours: bool = False
    at_depot_s: float | None = None
    lan_rate_bps: float | None = None
    lan_source: str = ""
    lan_bytes: int = 0
    lan_busy_s: float = 0.0
    saved_bytes: int = 0
    saved_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotAdvice:
    """A site that should have a depot: what it would bring. The site is looked at by itself, all its devices at once.

    Attributes:
        site: Its name.
        devices: Devices that are to be staged there.
        images: Images that they are to have.
        bytes: What crosses its link without a depot.
        bytes_with: What would cross it with one.
        takes_s: How long the site takes without.
        takes_with_s: How long it would take with one.
        saved_s: The difference.
        fits: Whether it fits its window without; None where there is none.
        fits_with: Whether it would with one.
        nights: How many windows like this one it takes without; None where there is none, or a device fits into none.
        nights_with: How many with one.
    """

    site: str
    devices: int
    images: int
    bytes: int
    bytes_with: int
    takes_s: float
    takes_with_s: float
    saved_s: float
    fits: bool | None
    fits_with: bool | None
    nights: int | None
    nights_with: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What the depots and neighbours of a plan save against each device pulling for itself.

    Attributes:
        sentence: The same for people, with the figures.
        bytes: What crosses all links.
        bytes_without: What would.
        lan_bytes: What goes over LANs instead.
        duration_s: How long the run takes.
        duration_without_s: How long it would.
        nights: How many windows like this one all devices take; None where there is none, or a device fits into none.
        nights_without: How many they would.
    """

    sentence: str
    bytes: int
    bytes_without: int
    lan_bytes: int
    duration_s: float
    duration_without_s: float
    nights: int | None
    nights_without: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Something that would make a run shorter.

    Attributes:
        change: What to do, in words.
        fits: Whether the run fits the window then.
        ends_s: When the run ends then, in seconds from its start.
    """

    change: str
    fits: bool
    ends_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether a run fits its window.

    Attributes:
        fits: Yes or no; None where there is no window.
        sentence: The same for people, with the figures.
        late: Devices that would not be done in time, in the order in which they would start.
        remedies: What would make it fit, or at least shorter; the cheapest first.
    """

    fits: bool | None
    sentence: str
    late: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan(PlanSettings):
    """The plan of a run, with the settings that it carries.

    Attributes:
        created_at: When it was made, ISO 8601, UTC.
        starts_at: When the run is to begin, ISO 8601: now, or when the window opens.
        ends_at: When it must have ended, ISO 8601, or None: no end is given for the run as a whole.
        images: All images, each once.
        image_folders: The folders that they are in, absolute and with all links followed.
        digest: SHA-256 of all the rest, as `flashferry.model.plan_file` works it out; empty before it is written.
        duration_s: How long the run takes, by the forecast.
        fit: Whether that fits.
        assumptions: What the forecast takes for granted, in sentences.
        sites: What happens to each site's link.
        waves: Who goes when.
        devices: Every device of the inventory as selected, in its order.
        savings: What its depots and neighbours save; None where no site has any.
        depot_advice: The sites that should have a depot, the one that gains most first.
    """

    created_at: str
    starts_at: str
    ends_at: str | None
    images: tuple[PlannedImage, ...]
    duration_s: float
    fit: Fit
    assumptions: tuple[str, ...] = ()
    sites: tuple[SiteForecast, ...] = ()
    waves: tuple[Wave, ...] = ()
    devices: tuple[PlannedDevice, ...] = ()
    image_folders: tuple[str, ...] = ()
    savings: Savings | None = None
    depot_advice: tuple[DepotAdvice, ...] = ()
    digest: str = field(default="", compare=False)

    @property
    def run_policy(self) -> StagePolicy:
        """Return the policy of a run that carries it out as it stands."""
        until = None if self.ends_at is None else datetime.fromisoformat(self.ends_at)
        return StagePolicy(**self.of_plan(), until=until)

    def of(self, action: Action) -> tuple[PlannedDevice, ...]:
        """Return the devices with which this is to be done."""
        return tuple(device for device in self.devices if device.action is action)

    @property
    def canaries(self) -> frozenset[str]:
        """Return the names of its canaries; none where it has no wave of them."""
        return frozenset(host for wave in self.waves if wave.is_canary for host in wave.hosts)


def limited_to(plan: FleetPlan, hosts: Collection[str]) -> FleetPlan:
    """Return a plan with some of its devices alone; waves keep their numbers, and the digest is that of the whole.

    Args:
        plan: The plan, as it is approved.
        hosts: Which of its devices; others are not made up.
    """
    waves = [replace(wave, hosts=tuple(host for host in wave.hosts if host in hosts)) for wave in plan.waves]
    return replace(
        plan,
        devices=tuple(device for device in plan.devices if device.host in hosts),
        waves=tuple(wave for wave in waves if wave.hosts),
    )
