"""The plan of a run for many devices: what happens to each device, when, and over which link."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from flashferry.core.units import rough_duration
from flashferry.core.values import replace
from flashferry.images.image import PlannedImage
from flashferry.model.policy import PlanSettings, StagePolicy
from flashferry.model.waves import Wave
from inventory.transport_policy import USUAL

MOST_WAIT_S = 24 * 3600.0
"""Longest time that a command waits for a window to open; earlier starts are refused."""

_COUNTDOWN_S = (*(hours * 3600.0 for hours in range(24, 0, -1)), 1800.0, 600.0, 60.0)


class WindowState(StrEnum):
    """Position of a time relative to a plan's window."""

    BEFORE = "before"
    OPEN = "open"
    OVER = "over"


class PlanWindow(Struct, frozen=True, kw_only=True):
    """The time in which a plan can be carried out.

    Attributes:
        opens_at: With time zone; None if it is open from the start.
        ends_at: With time zone, exclusive; None for no end.
    """

    opens_at: datetime | None = None
    ends_at: datetime | None = None

    def state(self, now: datetime) -> WindowState:
        """Return the position of a time (with time zone); a window that ends before it opens is over."""
        if self.ends_at is not None and (now >= self.ends_at or self._never_opens):
            return WindowState.OVER
        return WindowState.BEFORE if self.opens_in_s(now) > 0 else WindowState.OPEN

    def opens_in_s(self, now: datetime) -> float:
        """Return the seconds until it opens; 0 if it has opened."""
        return 0.0 if self.opens_at is None else max((self.opens_at - now).total_seconds(), 0.0)

    def left_s(self, start: datetime) -> float:
        """Return the seconds from a start, or from the opening if that is later, to the end; infinite without end."""
        if self.ends_at is None:
            return float("inf")
        first = start if self.opens_at is None else max(start, self.opens_at)
        return (self.ends_at - first).total_seconds()

    def why_closed(self, now: datetime) -> str:
        """Return why nothing can start at a time, in a sentence with the times; empty if it is open."""
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
    """Return how many seconds before the opening the next countdown line is due: every hour, then 30, 10, 1 min."""
    return next((mark for mark in _COUNTDOWN_S if mark < left_s), 0.0)


def spoken(moment: datetime) -> str:
    """Format a time to the minute with its UTC offset: `2026-11-30 22:00 UTC+01:00`."""
    seconds = f":{moment:%S}" if moment.second else ""
    offset = f"{moment:%z}"
    zone = "UTC" if not moment.utcoffset() else f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{moment:%Y-%m-%d %H:%M}{seconds} {zone}"


SCHEMA = "flashferry.plan/1"


class Action(StrEnum):
    """What to do with a device; STAYS: the image rules keep its present image."""

    STAGE = "stage"
    ALREADY_THERE = "already there"
    STAYS = "stays as it is"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


class Supply(StrEnum):
    """Where a device copies its image from: the controller's server over the WAN, its site's depot, or a neighbour."""

    CENTRE = "centre"
    DEPOT = "depot"
    NEIGHBOUR = "neighbour"


class PlannedDevice(Struct, frozen=True, kw_only=True):
    """A device of the plan. Unknown values are None.

    Attributes:
        address: Name or address for the login.
        site: Site whose link it shares.
        group: Its first group.
        identity: Host name and serial number, see `flashferry.model.lease`.
        model: As the device shows it.
        version: Running release.
        rtt_s: Least round-trip time of the SSH connection.
        image: Name of its image; None if no rule gave one.
        image_reason: Why this image.
        file_system: Target, for example `bootflash:`.
        reason: Why it is refused or could not be read; else empty.
        hint: What to do about that.
        cause: Why it is unreachable (`flashferry.model.record.Failure`).
        notes: Notes of the check.
        wave: Number of its wave; -1 for none.
        transport_reason: Why this transport, in a sentence, if `auto` chose it; else empty.
        ceilings: Highest rate by each allowed transport, in a sentence; empty if there was no choice.
        tune: Whether it is tuned for its copy.
        tune_reason: Why not, in a sentence; else empty.
        adds: Whether `install add` follows.
        other_places: Number of other members or supervisors to which the run copies the image inside the device; 0 if
            there are none, or if the device does it by itself (install mode).
        expected_bytes_per_s: Expected rate if the link has that much left; None if unknown.
        expected_source: Where that rate is from.
        is_assumed: Whether the rate was not measured on this device.
        hash_bytes_per_s: Hashing speed, measured or assumed.
        starts_s: Start, in seconds after the start of the run, by the forecast.
        copy_s: Duration of its copy, beside the others.
        hash_s: Duration of hashing.
        finish_s: Duration of copies inside the device and of adding, after the restore; 0 for none.
        total_s: From login to last proof, waiting for slots included.
        pulls_from: Source of its image; the first device of a site with neighbours copies from the controller.
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


class SiteForecast(Struct, frozen=True, kw_only=True):
    """Load on the link of a site by a run.

    With a depot or neighbours an image crosses the link once, and the devices' copies go over the LAN.

    Attributes:
        site: Its name; `device NAME` for a device without a site.
        devices: Number of devices to stage.
        link_rate_bps: Rate of its link; None if unknown, in which case copies find their own pace.
        link_source: Where that rate is from.
        cap_share: Share of the link that copies can take.
        cap_bytes_per_s: Payload rate of all its copies together; None for no cap.
        copies: Maximum number of concurrent copies.
        peak_copies: Concurrent copies in the forecast, those over a LAN included.
        load_share: Used share of the cap from the first copy to the end of the last; None without cap.
        busy_s: How long copies use the link.
        bytes: Bytes over the link.
        starts_s: Start of the first device, in seconds after the start of the run.
        ends_s: End of the last device.
        closes_at: End of its window, ISO 8601; None for none.
        depot: Its depot in the inventory; None for none.
        neighbours: Whether its devices copy from each other.
        at_depot_s: When the last image is verified at its depot, in seconds after the start; None without depot.
        lan_rate_bps: Rate of its LAN, if copies use it; else None.
        lan_source: Where that rate is from.
        lan_bytes: Bytes over the LAN.
        lan_busy_s: How long copies use the LAN.
        saved_bytes: Bytes that its link is spared, compared with a copy per device.
        saved_s: How much earlier the site ends, compared with a copy per device; negative if later.
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


class DepotAdvice(Struct, frozen=True, kw_only=True):
    """What a depot would save at a site, with all its devices staged at once.

    Attributes:
        devices: Number of devices to stage.
        images: Number of different images.
        bytes: Bytes over its link without a depot.
        bytes_with: The same with a depot.
        takes_s: Duration without.
        takes_with_s: Duration with.
        saved_s: The difference.
        fits: Whether it fits its window without; None for no window.
        fits_with: Whether it fits with a depot; None for no window.
        nights: Number of such windows needed without; None for no window, or if a device fits into none.
        nights_with: Number needed with a depot; None as in `nights`.
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


class Savings(Struct, frozen=True, kw_only=True):
    """What a plan's depots and neighbours save, compared with a copy per device over the WAN.

    Attributes:
        sentence: The figures as text.
        bytes: Bytes over all WAN links.
        bytes_without: The same without depots and neighbours.
        lan_bytes: Bytes over LANs.
        duration_s: Duration of the run.
        duration_without_s: The same without.
        nights: Number of such windows for all devices; None for no window, or if a device fits into none.
        nights_without: The same without.
    """

    sentence: str
    bytes: int
    bytes_without: int
    lan_bytes: int
    duration_s: float
    duration_without_s: float
    nights: int | None
    nights_without: int | None


class Remedy(Struct, frozen=True, kw_only=True):
    """A change that would shorten a run.

    Attributes:
        change: What to change.
        fits: Whether the run then fits the window.
        ends_s: When the run then ends, in seconds after its start.
    """

    change: str
    fits: bool
    ends_s: float


class Fit(Struct, frozen=True, kw_only=True):
    """Whether a run fits its window.

    Attributes:
        fits: None for no window.
        sentence: The result as text.
        late: Devices that would not end in time, in starting order.
        remedies: What would shorten it, the cheapest first.
    """

    fits: bool | None
    sentence: str
    late: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan(PlanSettings):
    """The plan of a run, with its settings.

    Attributes:
        created_at: ISO 8601, UTC.
        starts_at: Start of the run, ISO 8601: now, or when the window opens.
        ends_at: When it must have ended, ISO 8601; None for no limit.
        images: All images, each once.
        image_folders: Their folders, absolute, with links resolved.
        digest: SHA-256 of the rest, see `flashferry.model.plan_file`; empty before it is written.
        duration_s: By the forecast.
        assumptions: Of the forecast, one sentence each.
        sites: Load on each site's link.
        devices: The selected devices of the inventory, in its order.
        savings: None if no site has a depot or neighbours.
        depot_advice: Sites that would gain from a depot, the highest gain first.
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
        """Return the settings of a run that carries it out unchanged."""
        until = None if self.ends_at is None else datetime.fromisoformat(self.ends_at)
        return StagePolicy(**self.of_plan(), until=until)

    def of(self, action: Action) -> tuple[PlannedDevice, ...]:
        """Return the devices with an action."""
        return tuple(device for device in self.devices if device.action is action)

    @property
    def canaries(self) -> frozenset[str]:
        """Return the hosts of its canary wave; empty if it has none."""
        return frozenset(host for wave in self.waves if wave.is_canary for host in wave.hosts)


def limited_to(plan: FleetPlan, hosts: Collection[str]) -> FleetPlan:
    """Return a plan with only some devices; waves keep their numbers, and the digest is that of the whole.

    Args:
        plan: The approved plan.
        hosts: Inventory names; unknown ones are ignored.
    """
    waves = [replace(wave, hosts=tuple(host for host in wave.hosts if host in hosts)) for wave in plan.waves]
    return replace(
        plan,
        devices=tuple(device for device in plan.devices if device.host in hosts),
        waves=tuple(wave for wave in waves if wave.hosts),
    )
