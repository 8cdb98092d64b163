"""Live state as values: runs, sites and devices, with rates, expected ends, and unrestored devices. Pure.

The journal is authoritative; events are newer and have rates. A device's state is from its events while its run is live
and reports it, else from the journal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from flashferry.core.json_access import Node
from flashferry.core.values import as_dict, replace
from flashferry.model.states import NOT_DONE, Outcome, Phase, Restored, RunState, label_of, phase_of
from flashferry.model.waves import wave_label, wave_names
from flashferry.service.run_visibility import Sites, is_visible
from flashferry.store.control_requests import SteerKind, SteerRequest
from flashferry.store.status import DeviceStatus, FollowedRun

SILENT_RUN_S = 60.0
"""A running run without events for so long needs attention, unless it waits."""


class DeviceActivity(Struct, frozen=True, kw_only=True):
    """Activity of a device as its events report it.

    Attributes:
        waits: What the device waits for; empty: nothing.
        text: Reason of its failure, or its result.
        verdict: What limits the transfer so far, or None.
    """

    phase: Phase
    step: str = ""
    waits: str = ""
    text: str = ""
    acked_bytes: int = 0
    size_bytes: int = 0
    rate_bytes_per_s: float = 0.0
    verdict: str | None = None


class EventView(Struct, frozen=True, kw_only=True):
    """State of a run from all its events so far.

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


class Forecast(Struct, frozen=True, kw_only=True):
    """Forecast in a plan: duration (None: unknown) and the rate limit of each site."""

    duration_s: float | None = None
    caps_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


class DeviceNow(DeviceStatus, frozen=True, kw_only=True):
    """A device of a run by the journal, with what its events report while its run is live.

    Attributes:
        is_changed: Whether its configuration may be changed by the run at present.
        restored: Whether the run restored it; None: unknown.
        outcome: Value of `flashferry.model.states.Outcome`; None before the end.
        is_accepted: Whether an operator accepted its configuration as it is.
        is_left_by_plan: Whether the plan skips it.
    """

    site: str = ""
    rate_bytes_per_s: float = 0.0
    phase: Phase
    step: str
    text: str
    acked_bytes: int
    size_bytes: int

    @property
    def label(self) -> str:
        """Return its outcome or phase in words."""
        return label_of(self.outcome) if self.outcome is not None and self.phase.is_over else self.phase.label

    @property
    def left_bytes(self) -> int:
        """Return the number of bytes still to be copied."""
        return 0 if self.phase.is_over else max(0, self.size_bytes - self.acked_bytes)

    @property
    def is_unrestored(self) -> bool:
        """Return whether its run ended without proof that its configuration is restored."""
        return self.restored == Restored.INCOMPLETE and not self.is_accepted


class Totals(Struct, frozen=True, kw_only=True):
    """Devices and bytes of a site, a run, or all runs.

    Attributes:
        not_started: Devices that the run had not started when it ended.
        in_progress: Devices that started and have not ended.
        cap_bytes_per_s: Rate limit; None: unknown.
        ends_at: End of the copies at the present rate; None: unknown.
    """

    devices: int = 0
    done: int = 0
    failed: int = 0
    refused: int = 0
    interrupted: int = 0
    not_started: int = 0
    copying: int = 0
    in_progress: int = 0
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
            Phase.NOT_STARTED: self.not_started,
        }
        return counts[phase]

    @property
    def resumable(self) -> int:
        """Return how many devices a resume of the run would stage: neither done nor refused."""
        return self.devices - self.done - self.refused

    @property
    def over(self) -> int:
        """Return the number of devices that ended."""
        return self.done + sum(self.of(phase) for phase in NOT_DONE)


class RunNow(Struct, frozen=True, kw_only=True):
    """State of a run.

    Attributes:
        unrestored: Devices left changed that no process is restoring.
        hold: `paused`, `stopping`, `waiting`, or empty.
        until: Required end, or None.
        ends_at: Expected end, or None.
        is_at_least: Whether it may take longer, because some sites have not started copying.
        last_event_at: Time of its last event, ISO 8601, or empty.
        wave_names: Names of waves by number; empty: unknown.
        waves_ahead: Waves that will wait for an approval which they do not have yet, or wait for it now.
        steer_requests: Control requests of operators, oldest first.
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
    wave_names: Mapping[int, str] = field(default_factory=dict)
    waves_ahead: tuple[int, ...] = ()
    waiting_wave: int | None = None
    hold: str = ""
    hold_since: str = ""
    until: datetime | None = None
    ends_at: datetime | None = None
    is_at_least: bool = False
    last_event_at: str = ""
    resumed: int = 0
    actor: str = ""
    plan_digest: str | None = None
    steer_requests: tuple[SteerRequest, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Return whether its process is alive."""
        return self.state is RunState.ALIVE

    @property
    def last_seen_at(self) -> str:
        """Return the time of its last event, else of the journal's last change of a device, ISO 8601."""
        return self.last_event_at or max((one.updated_at for one in self.devices), default=self.started_at)

    def wave_label(self, wave: int) -> str:
        """Return how a wave is called."""
        return wave_label(wave, self.wave_names.get(wave, ""))

    @property
    def stopped_by(self) -> str | None:
        """Return the user who stopped it, empty if unknown; None if it was not stopped."""
        stops = [one for one in self.steer_requests if one.what == SteerKind.STOP]
        return stops[-1].actor or "" if stops else None

    @property
    def spare(self) -> timedelta | None:
        """Return the time from expected to required end; negative: too late; None: unknown."""
        return None if self.until is None or self.ends_at is None else self.until - self.ends_at


def forecast_of(text: str) -> Forecast:
    """Return the forecast in a plan's text; values that cannot be read are None."""
    try:
        plan = Node(json.loads(text))
    except ValueError:
        return Forecast()
    caps = {one.text("site"): one.number("cap_bytes_per_s") for one in plan.list("sites")}
    return Forecast(
        duration_s=plan.number("duration_s"),
        caps_bytes_per_s={site: cap for site, cap in caps.items() if site is not None and cap is not None},
    )


def run_now(run: FollowedRun, events_view: EventView, forecast: Forecast, now: datetime) -> RunNow:
    """Return the present state of a run from its journal, events and forecast."""
    status = run.status
    is_alive = status.state is RunState.ALIVE
    sizes = _sizes(run.request)
    # For a run that is over only the journal counts: its event file may be incomplete.
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
        unrestored=tuple(one.host for one in devices if one.is_unrestored or (one.is_held and not is_alive)),
        wave=events_view.wave,
        # Devices that the plan skips are in no wave.
        waves=tuple(sorted({one.wave for one in devices if one.wave >= 0})),
        wave_names=wave_names(run.request),
        waves_ahead=_waves_ahead(run, devices) if is_alive else (),
        waiting_wave=status.waiting_wave if is_alive else None,
        # That a wave waits is in the journal: an event of it alone is older.
        hold=(status.hold or events_view.hold.removeprefix("waiting")) if is_alive else "",
        hold_since=(events_view.hold_since if events_view.hold else "") or run.held_since or _wave_waits_since(run),
        until=_time(Node(run.request).text("until")),
        last_event_at=events_view.last_at,
        resumed=status.resumed,
        actor=status.actor or "",
        plan_digest=run.row.plan_digest,
        steer_requests=run.steer_requests,
    )
    return _summed(made, forecast, now)


def _wave_waits_since(run: FollowedRun) -> str:
    """Return when the last device before the waiting wave changed: then the wave began to wait. Empty if none waits."""
    waiting = run.status.waiting_wave
    if waiting is None:
        return ""
    return max((one.updated_at for one in run.status.devices if 0 <= one.wave < waiting), default="")


def _waves_ahead(run: FollowedRun, devices: Iterable[DeviceNow]) -> tuple[int, ...]:
    """Return the waves that need an approval and do not have it: no first one, and none whose devices started."""
    if not Node(run.request).flag("policy", "policy", "approve"):
        return ()
    by_wave: dict[int, bool] = {}
    for one in devices:
        if one.wave >= 0:
            by_wave[one.wave] = by_wave.get(one.wave, False) or one.phase is not Phase.QUEUED
    later = sorted(by_wave)[1:]
    return tuple(wave for wave in later if wave > run.row.approved_wave and not by_wave[wave])


def limited_to(run: RunNow, sites: Sites, forecast: Forecast, now: datetime) -> RunNow | None:
    """Return a run limited to some sites (None: all), or None if it has no device there."""
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
    """Return the totals of devices."""
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
        not_started=counts[Phase.NOT_STARTED],
        copying=copying,
        in_progress=counts[Phase.IN_PROGRESS],
        waiting=counts[Phase.QUEUED],
        acked_bytes=acked,
        left_bytes=left,
        rate_bytes_per_s=rate,
        cap_bytes_per_s=cap_bytes_per_s,
        ends_at=_after(now, left, rate),
    )


def sum_up(found: Sequence[Totals], now: datetime) -> Totals:
    """Return the sum of totals; its rate limit is known only if all are."""
    caps = [one.cap_bytes_per_s for one in found]
    left, rate = sum(one.left_bytes for one in found), sum(one.rate_bytes_per_s for one in found)
    return Totals(
        devices=sum(one.devices for one in found),
        done=sum(one.done for one in found),
        failed=sum(one.failed for one in found),
        refused=sum(one.refused for one in found),
        interrupted=sum(one.interrupted for one in found),
        not_started=sum(one.not_started for one in found),
        copying=sum(one.copying for one in found),
        in_progress=sum(one.in_progress for one in found),
        waiting=sum(one.waiting for one in found),
        acked_bytes=sum(one.acked_bytes for one in found),
        left_bytes=left,
        rate_bytes_per_s=rate,
        # The rate limit is that of the site's link, shared by all runs.
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

    The slowest copying site decides. If other sites have not started, the plan's forecast counts where it is later.
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
    # A final state in the journal counts; before that the events are newer.
    is_visible_to_caller = activity is not None and not phase.is_over and activity.phase is not Phase.QUEUED
    moves = activity if activity is not None and is_visible_to_caller else None
    is_done = phase is Phase.DONE
    by_events = {
        "site": one.site or "",
        "rate_bytes_per_s": moves.rate_bytes_per_s if moves else 0.0,
        "verdict": (moves.verdict if moves else None) or one.verdict,
    }
    return DeviceNow(
        **as_dict(one) | by_events,
        phase=moves.phase if moves else phase,
        step=(moves.step if moves else "") or one.activation or one.state,
        text=(moves.waits or moves.text if moves else "") or one.reason or "",
        acked_bytes=moves.acked_bytes if moves else size_bytes if is_done and one.outcome == Outcome.DONE else 0,
        size_bytes=(moves.size_bytes if moves else 0) or size_bytes,
    )


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
