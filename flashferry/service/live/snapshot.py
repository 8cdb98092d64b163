"""Live state as values: runs, sites and devices, with rates, ends, and what is not restored. Pure.

The journal is authoritative; events are newer and have rates. A device's state is that of its events while its run is
live and reports it, else that of the journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from flashferry.core.json_access import Node
from flashferry.model.states import NOT_DONE, Outcome, Phase, Restored, label_of, phase_of
from flashferry.service.run_visibility import Sites, is_visible
from flashferry.store.control_requests import SteerKind, SteerRequest
from flashferry.store.status import DeviceStatus, FollowedRun, RunState

SILENT_RUN_S = 60.0
"""A running run without events for so long needs attention, unless it waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceActivity:
    """Activity of a device by its events.

    Attributes:
        waits: What it waits for; empty: nothing.
        text: Why it failed, or its result.
        verdict: What limits it so far, or None.
    """

    phase: Phase
    step: str = ""
    waits: str = ""
    text: str = ""
    acked_bytes: int = 0
    size_bytes: int = 0
    rate_bytes_per_s: float = 0.0
    verdict: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """The events of a run so far.

    Attributes:
        hold: `paused`, `stopping`, `waiting`, or empty.
        hold_since: Time of that event, ISO 8601, or empty.
    """

    devices: Mapping[str, DeviceActivity] = field(default_factory=dict)
    wave: str = ""
    hold: str = ""
    hold_since: str = ""
    last_at: str = ""


NOTHING = EventView()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Forecast of a plan: duration, or None if unknown, and the rate limit of each site."""

    duration_s: float | None = None
    caps_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNow:
    """A device of a run.

    Attributes:
        is_changed: Its configuration may be changed: the run holds it.
        restored: Whether it was restored, by the run; None if unknown.
        outcome: Value of `flashferry.model.states.Outcome`; None before the end.
        is_accepted: An operator accepted its configuration as it is.
        is_left_by_plan: The plan leaves it as it is.
    """

    host: str
    site: str
    wave: int
    phase: Phase
    step: str
    text: str
    is_changed: bool
    restored: str | None
    acked_bytes: int
    size_bytes: int
    rate_bytes_per_s: float
    verdict: str | None
    attempt: int
    outcome: str | None = None
    is_accepted: bool = False
    is_left_by_plan: bool = False

    @property
    def label(self) -> str:
        """Its outcome or phase, in words."""
        return label_of(self.outcome) if self.outcome is not None and self.phase.is_over else self.phase.label

    @property
    def left_bytes(self) -> int:
        """Bytes still to be copied."""
        return 0 if self.phase.is_over else max(0, self.size_bytes - self.acked_bytes)

    @property
    def is_unrestored(self) -> bool:
        """Whether its run ended without proof that its configuration is restored."""
        return self.restored == Restored.INCOMPLETE and not self.is_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Devices and bytes of a site, a run, or all.

    Attributes:
        not_begun: The run ended before it started them.
        under_way: Started and not ended.
        cap_bytes_per_s: Their limit; None if unknown.
        ends_at: End of the copies at the present rate; None if unknown.
    """

    devices: int = 0
    done: int = 0
    failed: int = 0
    refused: int = 0
    interrupted: int = 0
    not_begun: int = 0
    copying: int = 0
    under_way: int = 0
    waiting: int = 0
    acked_bytes: int = 0
    left_bytes: int = 0
    rate_bytes_per_s: float = 0.0
    cap_bytes_per_s: float | None = None
    ends_at: datetime | None = None

    def of(self, phase: Phase) -> int:
        """Return how many devices ended in a phase."""
        counts = {
            Phase.DONE: self.done,
            Phase.FAILED: self.failed,
            Phase.REFUSED: self.refused,
            Phase.INTERRUPTED: self.interrupted,
            Phase.NOT_BEGUN: self.not_begun,
        }
        return counts[phase]

    @property
    def over(self) -> int:
        """Devices that ended."""
        return self.done + sum(self.of(phase) for phase in NOT_DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNow:
    """A run.

    Attributes:
        unrestored: Devices left changed without a process that restores them.
        hold: `paused`, `stopping`, `waiting`, or empty.
        until: When it must have ended, or None.
        ends_at: Expected end, or None.
        is_at_least: It may take longer: some sites did not start copying.
        heard_at: Time of its last event, ISO 8601, or empty.
        wishes: Operator actions, the oldest first.
    """

    run_id: str
    verb: str
    state: RunState
    started_at: str
    finished_at: str | None
    devices: tuple[DeviceNow, ...]
    sites: Mapping[str, Totals]
    whole: Totals
    unrestored: tuple[str, ...]
    wave: str = ""
    waves: tuple[int, ...] = ()
    waiting_wave: int | None = None
    hold: str = ""
    hold_since: str = ""
    until: datetime | None = None
    ends_at: datetime | None = None
    is_at_least: bool = False
    heard_at: str = ""
    resumed: int = 0
    actor: str = ""
    plan_digest: str | None = None
    wishes: tuple[SteerRequest, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether its process is alive."""
        return self.state is RunState.ALIVE

    @property
    def stopped_by(self) -> str | None:
        """Return who stopped it, empty if unknown; None if it was not stopped."""
        stops = [one for one in self.wishes if one.what == SteerKind.STOP]
        return stops[-1].actor or "" if stops else None

    @property
    def spare(self) -> timedelta | None:
        """Return the time between its expected and its required end; negative: too late; None: unknown."""
        return None if self.until is None or self.ends_at is None else self.until - self.ends_at


def run_now(run: FollowedRun, events_view: EventView, forecast: Forecast, now: datetime) -> RunNow:
    """Return a run as it is now, from the journal, its events and its forecast."""
    status = run.status
    is_alive = status.state is RunState.ALIVE
    sizes = _sizes(run.request)
    # Of a run that is over only the journal counts: its events end where they ended.
    activities = events_view.devices if is_alive else {}
    devices = tuple(
        _device(one, activities.get(one.host), sizes.get(one.host, 0), is_alive=is_alive) for one in status.devices
    )
    made = RunNow(
        run_id=status.run_id,
        verb=status.verb,
        state=status.state,
        started_at=status.started_at,
        finished_at=status.finished_at,
        devices=devices,
        sites={},
        whole=Totals(),
        unrestored=tuple(one.host for one in devices if one.is_unrestored or (one.is_changed and not is_alive)),
        wave=events_view.wave,
        # Devices that the plan leaves out are in no wave.
        waves=tuple(sorted({one.wave for one in devices if one.wave >= 0})),
        waiting_wave=status.waiting_wave if is_alive else None,
        hold=_hold(run, events_view) if is_alive else "",
        hold_since=events_view.hold_since or _wished_at(run),
        until=_time(Node(run.request).text("until")),
        heard_at=events_view.last_at,
        resumed=status.resumed,
        actor=run.actor or "",
        plan_digest=run.plan_digest,
        wishes=run.wishes,
    )
    return _summed(made, forecast, now)


def limited_to(run: RunNow, sites: Sites, forecast: Forecast, now: datetime) -> RunNow | None:
    """Return a run limited to some sites, or None if it touches none of them; sites None: all."""
    if sites is None:
        return run
    devices = tuple(one for one in run.devices if is_visible(one.site, sites))
    if not devices:
        return None
    names = {one.host for one in devices}
    unrestored = tuple(host for host in run.unrestored if host in names)
    return _summed(replace(run, devices=devices, unrestored=unrestored), forecast, now)


def _summed(run: RunNow, forecast: Forecast, now: datetime) -> RunNow:
    by_site: dict[str, list[DeviceNow]] = {}
    for one in run.devices:
        by_site.setdefault(one.site, []).append(one)
    caps = forecast.caps_bytes_per_s
    sites = {site: sums_of(by_site[site], now, caps.get(site)) for site in sorted(by_site)}
    ends_at, is_at_least = _end(run, sites.values(), forecast, now)
    return replace(run, sites=sites, whole=sums_of(run.devices, now), ends_at=ends_at, is_at_least=is_at_least)


def sums_of(devices: Iterable[DeviceNow], now: datetime, cap_bytes_per_s: float | None = None) -> Totals:
    """Return the totals of some devices."""
    found = tuple(devices)
    counts = dict.fromkeys(Phase, 0)
    acked = left = copying = 0
    rate = 0.0
    for one in found:
        counts[one.phase] += 1
        acked += one.acked_bytes
        left += one.left_bytes
        rate += one.rate_bytes_per_s
        copying += one.rate_bytes_per_s > 0
    return Totals(
        devices=len(found),
        done=counts[Phase.DONE],
        failed=counts[Phase.FAILED],
        refused=counts[Phase.REFUSED],
        interrupted=counts[Phase.INTERRUPTED],
        not_begun=counts[Phase.NOT_BEGUN],
        copying=copying,
        under_way=counts[Phase.IN_PROGRESS],
        waiting=counts[Phase.QUEUED],
        acked_bytes=acked,
        left_bytes=left,
        rate_bytes_per_s=rate,
        cap_bytes_per_s=cap_bytes_per_s,
        ends_at=_after(now, left, rate),
    )


def sum_up(found: Sequence[Totals], now: datetime) -> Totals:
    """Return several totals as one; the limit is known if all are."""
    caps = [one.cap_bytes_per_s for one in found]
    left, rate = sum(one.left_bytes for one in found), sum(one.rate_bytes_per_s for one in found)
    return Totals(
        devices=sum(one.devices for one in found),
        done=sum(one.done for one in found),
        failed=sum(one.failed for one in found),
        refused=sum(one.refused for one in found),
        interrupted=sum(one.interrupted for one in found),
        not_begun=sum(one.not_begun for one in found),
        copying=sum(one.copying for one in found),
        under_way=sum(one.under_way for one in found),
        waiting=sum(one.waiting for one in found),
        acked_bytes=sum(one.acked_bytes for one in found),
        left_bytes=left,
        rate_bytes_per_s=rate,
        # A site has one link, whichever runs use it.
        cap_bytes_per_s=None if not caps or None in caps else max(one for one in caps if one is not None),
        ends_at=_after(now, left, rate),
    )


_LONGEST_S = 4 * 86_400.0


def _after(now: datetime, left_bytes: int, rate_bytes_per_s: float) -> datetime | None:
    if not left_bytes or rate_bytes_per_s * _LONGEST_S < left_bytes:
        return None
    # In UTC: in a zone whose clock is changed meanwhile, Python adds to the wall clock.
    return now.astimezone(UTC) + timedelta(seconds=left_bytes / rate_bytes_per_s)


def _end(run: RunNow, sites: Iterable[Totals], forecast: Forecast, now: datetime) -> tuple[datetime | None, bool]:
    """Return the expected end of a run, and whether it may take longer.

    The slowest copying site decides. If others did not start, the forecast counts if it is later.
    """
    if not run.is_alive:
        return None, False
    open_sites = [one for one in sites if one.left_bytes]
    known = [one.ends_at for one in open_sites if one.ends_at is not None]
    if len(known) == len(open_sites):
        return max(known, default=None), False
    planned = None
    if forecast.duration_s is not None and (began := _time(run.started_at)) is not None:
        planned = began + timedelta(seconds=forecast.duration_s)
    if planned is not None:
        return max([planned, now, *known]), False
    return max(known, default=None), bool(known)


def _device(one: DeviceStatus, activity: DeviceActivity | None, size_bytes: int, *, is_alive: bool) -> DeviceNow:
    phase = phase_of(one.outcome, one.state, is_alive=is_alive)
    # The journal's last word is the last word; before it the events are newer.
    is_visible_to_caller = activity is not None and not phase.is_over and activity.phase is not Phase.QUEUED
    moves = activity if activity is not None and is_visible_to_caller else None
    is_done = phase is Phase.DONE
    return DeviceNow(
        host=one.host,
        site=one.site or "",
        wave=one.wave,
        phase=moves.phase if moves else phase,
        step=(moves.step if moves else "") or one.activation or one.state,
        text=(moves.waits or moves.text if moves else "") or one.reason or "",
        is_changed=one.is_held,
        restored=one.restored,
        acked_bytes=moves.acked_bytes if moves else size_bytes if is_done and one.outcome == Outcome.DONE else 0,
        size_bytes=(moves.size_bytes if moves else 0) or size_bytes,
        rate_bytes_per_s=moves.rate_bytes_per_s if moves else 0.0,
        verdict=(moves.verdict if moves else None) or one.verdict,
        attempt=one.attempt,
        outcome=one.outcome,
        is_accepted=one.is_accepted,
        is_left_by_plan=one.is_left_by_plan,
    )


def _hold(run: FollowedRun, events_view: EventView) -> str:
    status = run.status
    if status.is_stopping:
        return "stopping"
    if status.is_paused:
        return "paused"
    return "waiting" if status.waiting_wave is not None else events_view.hold if events_view.hold != "waiting" else ""


def _wished_at(run: FollowedRun) -> str:
    """Return when the present pause or stop was requested; empty for none."""
    status = run.status
    requested = SteerKind.STOP if status.is_stopping else SteerKind.PAUSE if status.is_paused else None
    return next((one.at for one in reversed(run.wishes) if one.what == requested), "")


def _sizes(request: Mapping[str, object]) -> dict[str, int]:
    """Return the size of each device's image, bytes."""
    node = Node(request)
    sizes = {one.text("name"): one.number("size_bytes") for one in node.list("images")}
    images = request.get("image_of")
    if not isinstance(images, dict):
        return {}
    return {host: int(size) for host, name in images.items() if (size := sizes.get(name)) is not None}


def _time(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo is not None else found.replace(tzinfo=UTC)
