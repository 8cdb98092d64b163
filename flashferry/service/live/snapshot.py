"""What goes on as values: runs, their sites and devices, with rates, ends and what is changed and not restored. Pure.

A run is told by two: the journal, which is right, and its events, which are newer and have rates. A device stands where
its events say as long as its run lives and tells of it; else where the journal says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from flashferry.core.json_access import Node
from flashferry.model.states import NOT_DONE, Outcome, Phase, Restored, label_of, phase_of
from flashferry.service.run_visibility import Sites, is_seen
from flashferry.store.control_requests import Wish, WishKind
from flashferry.store.status import DeviceStatus, FollowedRun, RunState

NOTHING_HEARD_S = 60.0
"""A run under way that says nothing for so long is told as silent; one that waits may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceActivity:
    """What events tell of a device that its journal does not.

    Attributes:
        phase: Where it stands by them.
        step: What it does.
        waits: What it waits for, in words; empty where it does not.
        text: Why it failed, or what it ended with.
        acked_bytes: What of its copy it has acknowledged.
        size_bytes: What the file has; 0 where no copy was begun.
        rate_bytes_per_s: Of its copy, now.
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
    """What the events of a run tell, so far as they were followed.

    Attributes:
        devices: By device.
        wave: The wave under way, in words; empty without waves.
        hold: What holds up the run: `paused`, `stopping`, `waiting`; empty for nothing.
        hold_since: When that was told, ISO 8601; empty where it was not heard.
        last_at: When the last event was told, ISO 8601; empty where none was heard.
    """

    devices: Mapping[str, DeviceActivity] = field(default_factory=dict)
    wave: str = ""
    hold: str = ""
    hold_since: str = ""
    last_at: str = ""


NOTHING = EventView()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the plan of a run foresaw.

    Attributes:
        duration_s: How long it takes; None where that is not known.
        caps_bytes_per_s: By site: what its copies may take together.
    """

    duration_s: float | None = None
    caps_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNow:
    """A device of a run.

    Attributes:
        host: Inventory name.
        site: Its site; empty for none.
        wave: Number of its wave.
        phase: Where it stands.
        step: What it does or did last.
        text: What it waits for, why it failed, or empty.
        is_changed: Whether its configuration may not be what it was: it is in the run's hands, or left by it.
        restored: Whether it is what it was, in the run's word; None where nobody has told.
        acked_bytes: What of its copy was acknowledged.
        size_bytes: What is to be copied; 0 where that is not known.
        rate_bytes_per_s: Now; 0 where nothing flows.
        verdict: What limits or limited its copy, or None.
        attempt: Which attempt this is, from 1.
        outcome: What became of it, a value of `flashferry.model.states.Outcome`; None while the run did not say.
        is_accepted: Whether the operator accepted its configuration as it is, so that nothing of it is open.
        is_left_by_plan: Whether the run's plan leaves it as it is by rule: it was to get nothing.
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
        """What became of it, or where it stands, in the word for people."""
        return label_of(self.outcome) if self.outcome is not None and self.phase.is_over else self.phase.label

    @property
    def left_bytes(self) -> int:
        """What is still to be copied."""
        return 0 if self.phase.is_over else max(0, self.size_bytes - self.acked_bytes)

    @property
    def is_unrestored(self) -> bool:
        """Whether its run gave up on it, and its configuration is not proven to be what it was."""
        return self.restored == Restored.INCOMPLETE and not self.is_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Devices and bytes of a site, a run, or all.

    Attributes:
        devices: How many there are.
        done: Through, with what they were to have.
        failed: A step failed.
        refused: A check found a reason not to touch them.
        interrupted: The run was stopped or killed while they were being staged.
        not_begun: The run did not touch them, and is over.
        copying: Something flows.
        under_way: In the run's hands, those that copy among them.
        waiting: Had no turn yet.
        acked_bytes: What of all was acknowledged.
        left_bytes: What is still to be copied.
        rate_bytes_per_s: What all copies make together.
        cap_bytes_per_s: What they may take together; None where that is not known.
        ends_at: When the copies end at the rate of now; None where nobody can tell.
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
        """Return how many devices ended in a phase that is over."""
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
        """How many devices nothing follows for."""
        return self.done + sum(self.of(phase) for phase in NOT_DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNow:
    """A run.

    Attributes:
        run_id: Its identifier.
        verb: `stage` or `probe`.
        state: Where it stands.
        started_at: When it began, ISO 8601, UTC.
        finished_at: When it ended in good order, or None.
        devices: Its devices.
        sites: Tallies by site, by name.
        whole: The tally of all.
        unrestored: Devices that are changed and not restored, and nobody is at them.
        wave: The wave under way, in words.
        waves: Numbers of its waves.
        waiting_wave: The wave that waits for approval, or None.
        hold: `paused`, `stopping`, `waiting`, or empty.
        hold_since: Since when, ISO 8601; empty where nobody knows.
        until: When it must have ended, or None.
        ends_at: When it will have ended, as far as anybody can tell; None where nobody can.
        is_at_least: Whether it may take longer than that: sites whose copies have not begun are not in it.
        heard_at: When it last said something, ISO 8601; empty where it was not heard.
        resumed: How often it was gone on with.
        actor: Who began it; empty where nobody said.
        plan_digest: The plan that it carries out, or None.
        wishes: What was wanted of it, the oldest first.
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
    wishes: tuple[Wish, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Whether its process lives."""
        return self.state is RunState.ALIVE

    @property
    def spare(self) -> timedelta | None:
        """Return how long before its end it will be through; negative: too late; None: nobody can tell, or no end."""
        return None if self.until is None or self.ends_at is None else self.until - self.ends_at


def run_now(run: FollowedRun, heard: EventView, forecast: Forecast, now: datetime) -> RunNow:
    """Return a run as it is now.

    Args:
        run: What the journal knows.
        heard: What its events told.
        forecast: What its plan foresaw.
        now: The time.
    """
    status = run.status
    is_alive = status.state is RunState.ALIVE
    sizes = _sizes(run.request)
    # Of a run that is over only the journal counts: its events end where they ended.
    motions = heard.devices if is_alive else {}
    devices = tuple(
        _device(one, motions.get(one.host), sizes.get(one.host, 0), is_alive=is_alive) for one in status.devices
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
        wave=heard.wave,
        waves=tuple(sorted({one.wave for one in devices})),
        waiting_wave=status.waiting_wave if is_alive else None,
        hold=_hold(run, heard) if is_alive else "",
        hold_since=heard.hold_since or _wished_at(run),
        until=_time(Node(run.request).text("until")),
        heard_at=heard.last_at,
        resumed=status.resumed,
        actor=run.actor or "",
        plan_digest=run.plan_digest,
        wishes=run.wishes,
    )
    return _summed(made, forecast, now)


def limited_to(run: RunNow, sites: Sites, forecast: Forecast, now: datetime) -> RunNow | None:
    """Return a run as somebody sees it who may see some sites only, or None where it touches none of them.

    Args:
        run: The run.
        sites: His sites; None: all, and what has none.
        forecast: What its plan foresaw.
        now: The time.
    """
    if sites is None:
        return run
    devices = tuple(one for one in run.devices if is_seen(one.site, sites))
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
    """Return what some devices sum up to."""
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
        under_way=counts[Phase.UNDER_WAY],
        waiting=counts[Phase.QUEUED],
        acked_bytes=acked,
        left_bytes=left,
        rate_bytes_per_s=rate,
        cap_bytes_per_s=cap_bytes_per_s,
        ends_at=_after(now, left, rate),
    )


def sum_up(found: Sequence[Totals], now: datetime) -> Totals:
    """Return several sums as one; its cap is known where all are."""
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
    return now + timedelta(seconds=left_bytes / rate_bytes_per_s)


def _end(run: RunNow, sites: Iterable[Totals], forecast: Forecast, now: datetime) -> tuple[datetime | None, bool]:
    """Return when a run ends, and whether it may take longer.

    The slowest of the sites that copy tells. Where others have not begun, the plan's word counts if it is later;
    without a plan it is told that it may take longer.
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


def _device(one: DeviceStatus, motion: DeviceActivity | None, size_bytes: int, *, is_alive: bool) -> DeviceNow:
    phase = phase_of(one.outcome, one.state, is_alive=is_alive)
    # The journal's last word is the last word; before it the events are newer.
    is_told = motion is not None and not phase.is_over and motion.phase is not Phase.QUEUED
    moves = motion if motion is not None and is_told else None
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


def _hold(run: FollowedRun, heard: EventView) -> str:
    status = run.status
    if status.is_stopping:
        return "stopping"
    if status.is_paused:
        return "paused"
    return "waiting" if status.waiting_wave is not None else heard.hold if heard.hold != "waiting" else ""


def _wished_at(run: FollowedRun) -> str:
    """Return when somebody asked for the halt that a run is in; empty where it is in none that somebody asked for."""
    status = run.status
    wanted = WishKind.STOP if status.is_stopping else WishKind.PAUSE if status.is_paused else None
    return next((one.at for one in reversed(run.wishes) if one.what == wanted), "")


def _sizes(request: Mapping[str, object]) -> dict[str, int]:
    """Return by device what it is to get, in bytes."""
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
