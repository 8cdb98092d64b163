"""What needs attention, the most urgent first, as the wall screen shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from flashferry.core.safe_quote import counted
from flashferry.core.units import rough_duration
from flashferry.model.states import Phase
from flashferry.service.live.collect import Snapshot
from flashferry.service.live.snapshot import SILENT_RUN_S, RunNow
from flashferry.service.notices import key_of_unrestored
from flashferry.store.status import RunState

_NAMED = 3
"""Devices named in a sentence."""


class Urgency(StrEnum):
    """Why an item needs attention; NOT_RESTORED and DEAD are red."""

    NOT_RESTORED = "not restored"
    DEAD = "dead run"
    LATE = "late"
    WAVE = "wave"
    FAILED = "failed"
    REFUSED = "refused"
    INTERRUPTED = "interrupted"
    SILENT = "silent"
    HELD = "held"
    PLAN = "plan"

    @property
    def is_red(self) -> bool:
        """Whether a device is left changed without a process that restores it."""
        return self in (Urgency.NOT_RESTORED, Urgency.DEAD)


_ENDS = {
    Phase.FAILED: Urgency.FAILED,
    Phase.REFUSED: Urgency.REFUSED,
    Phase.INTERRUPTED: Urgency.INTERRUPTED,
}
"""Ends that need attention, each with a sentence of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionItem:
    """An item that needs attention.

    Attributes:
        key: Identifies it as long as it lasts.
        what: Run, plan or device.
    """

    key: str
    urgency: Urgency
    what: str
    sentence: str
    since: str = ""
    path: str = ""


def action_items(snapshot: Snapshot) -> tuple[ActionItem, ...]:
    """Return what needs attention, the most urgent first."""
    found = [*_lost(snapshot), *_plans(snapshot)]
    done_later: set[str] = set()
    # The latest first: a failure that a later run made good needs no attention.
    for run in snapshot.tonight:
        found += _of_run(run, snapshot.at, frozenset(done_later))
        done_later |= {one.host for one in run.devices if one.phase is Phase.DONE}
    order = list(Urgency)
    return tuple(sorted(found, key=lambda item: order.index(item.urgency)))


def _lost(snapshot: Snapshot) -> Iterator[ActionItem]:
    for one in snapshot.lost:
        yield ActionItem(
            key=f"lost {one.run_id} {one.host}",
            urgency=Urgency.NOT_RESTORED,
            what=one.host,
            sentence=f"left changed by run {one.run_id}, which is not in the journal: run 'flashferry recover'",
        )


def _of_run(run: RunNow, now: datetime, done_later: frozenset[str]) -> Iterator[ActionItem]:
    path = f"/runs/{run.run_id}"
    if run.unrestored:
        is_dead = run.state is RunState.DIED
        count = counted(len(run.unrestored), "device")
        how = "the run died" if is_dead else "the run ended"
        yield ActionItem(
            key=key_of_unrestored(run.run_id),
            urgency=Urgency.DEAD if is_dead else Urgency.NOT_RESTORED,
            what=run.run_id,
            sentence=f"{how} and left {count} changed and not restored: {_names(run.unrestored)}",
            since=run.heard_at if is_dead else run.finished_at or "",
            path=path,
        )
    elif run.state is RunState.DIED and any(one.phase is Phase.NOT_BEGUN for one in run.devices):
        yield ActionItem(
            key=f"died {run.run_id}",
            urgency=Urgency.HELD,
            what=run.run_id,
            sentence=f"died; nothing is left changed, {counted(run.whole.not_begun, 'device')} {Phase.NOT_BEGUN.label}",
            path=path,
        )
    if run.is_alive:
        yield from _of_one_alive(run, now, path)
    for phase, urgency in () if run.unrestored else _ENDS.items():
        hosts = [one.host for one in run.devices if one.phase is phase and one.host not in done_later]
        if hosts:
            yield ActionItem(
                key=f"{phase} {run.run_id}",
                urgency=urgency,
                what=run.run_id,
                sentence=f"{counted(len(hosts), 'device')} {phase.label}: {_names(hosts)}",
                path=f"{path}?state={phase.label}",
            )


def _of_one_alive(run: RunNow, now: datetime, path: str) -> Iterator[ActionItem]:
    if run.waiting_wave is not None:
        yield ActionItem(
            key=f"wave {run.run_id} {run.waiting_wave}",
            urgency=Urgency.WAVE,
            what=run.run_id,
            sentence=f"wave {run.waiting_wave} waits for approval",
            since=run.hold_since,
            path=path,
        )
    elif run.hold in ("paused", "stopping"):
        yield ActionItem(
            key=f"{run.hold} {run.run_id}",
            urgency=Urgency.HELD,
            what=run.run_id,
            sentence="paused: running devices finish, no new ones start" if run.hold == "paused" else "is stopping",
            since=run.hold_since,
            path=path,
        )
    elif (silent_s := _silent_s(run, now)) is not None and silent_s > SILENT_RUN_S:
        yield ActionItem(
            key=f"silent {run.run_id}",
            urgency=Urgency.SILENT,
            what=run.run_id,
            sentence="running, without an event for over a minute",
            since=run.heard_at,
            path=path,
        )
    if run.spare is not None and run.spare.total_seconds() < 0:
        yield ActionItem(
            key=f"late {run.run_id}",
            urgency=Urgency.LATE,
            what=run.run_id,
            sentence=f"will end {rough_duration(-run.spare.total_seconds())} after its window at the present rate",
            path=path,
        )


def _plans(snapshot: Snapshot) -> Iterator[ActionItem]:
    for plan in snapshot.plans:
        yield ActionItem(
            key=f"plan {plan.digest}",
            urgency=Urgency.PLAN,
            what=plan.title or f"plan {plan.digest[:12]}",
            sentence=f"plan of {plan.made_by} for {counted(plan.devices, 'device')} waits for approval",
            since=plan.made_at,
            path=f"/plans/{plan.digest}",
        )


def _silent_s(run: RunNow, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(run.heard_at)).total_seconds()
    except ValueError:
        return None


def _names(hosts: tuple[str, ...] | list[str]) -> str:
    named = ", ".join(hosts[:_NAMED])
    return f"{named} and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else named
