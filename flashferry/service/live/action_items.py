"""Who must act, and on what: the sentences of the wall screen, the most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from flashferry.core.safe_quote import counted
from flashferry.core.units import rough_duration
from flashferry.model.states import Phase
from flashferry.service.live.collect import Scene
from flashferry.service.live.snapshot import NOTHING_HEARD_S, RunNow
from flashferry.service.notices import key_of_unrestored
from flashferry.store.status import RunState

_NAMED = 3
"""So many devices are named in a sentence."""


class Urgency(StrEnum):
    """How much something needs a person: NOT_RESTORED and DEAD are red, the others wait for a person."""

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
        """Whether something is changed on a device and nobody is at it."""
        return self in (Urgency.NOT_RESTORED, Urgency.DEAD)


_ENDS = {
    Phase.FAILED: Urgency.FAILED,
    Phase.REFUSED: Urgency.REFUSED,
    Phase.INTERRUPTED: Urgency.INTERRUPTED,
}
"""Ends that somebody has to act on, each in a sentence of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that needs a person.

    Attributes:
        key: Names it, as long as it lasts.
        urgency: How much.
        what: The run, plan or device that is meant.
        sentence: What there is to do.
        since: Since when, ISO 8601; empty where nobody knows.
        path: The page where it is done.
    """

    key: str
    urgency: Urgency
    what: str
    sentence: str
    since: str = ""
    path: str = ""


def needs_of(scene: Scene) -> tuple[Need, ...]:
    """Return what needs a person, the most urgent first."""
    found = [*_lost(scene), *_plans(scene)]
    done_later: set[str] = set()
    # The latest first: what failed, and was done by a later run, needs nobody any more.
    for run in scene.tonight:
        found += _of_run(run, scene.at, frozenset(done_later))
        done_later |= {one.host for one in run.devices if one.phase is Phase.DONE}
    order = list(Urgency)
    return tuple(sorted(found, key=lambda need: order.index(need.urgency)))


def _lost(scene: Scene) -> Iterator[Need]:
    for one in scene.lost:
        yield Need(
            key=f"lost {one.run_id} {one.host}",
            urgency=Urgency.NOT_RESTORED,
            what=one.host,
            sentence=f"left changed by run {one.run_id}, which the journal does not know: run 'flashferry recover'",
        )


def _of_run(run: RunNow, now: datetime, done_later: frozenset[str]) -> Iterator[Need]:
    path = f"/runs/{run.run_id}"
    if run.unrestored:
        is_dead = run.state is RunState.DIED
        count = counted(len(run.unrestored), "device")
        how = "the run died" if is_dead else "the run ended"
        yield Need(
            key=key_of_unrestored(run.run_id),
            urgency=Urgency.DEAD if is_dead else Urgency.NOT_RESTORED,
            what=run.run_id,
            sentence=f"{how} and left {count} changed and not restored: {_names(run.unrestored)}",
            since=run.heard_at if is_dead else run.finished_at or "",
            path=path,
        )
    elif run.state is RunState.DIED and any(one.phase is Phase.NOT_BEGUN for one in run.devices):
        yield Need(
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
            yield Need(
                key=f"{phase} {run.run_id}",
                urgency=urgency,
                what=run.run_id,
                sentence=f"{counted(len(hosts), 'device')} {phase.label}: {_names(hosts)}",
                path=f"{path}?state={phase.label}",
            )


def _of_one_alive(run: RunNow, now: datetime, path: str) -> Iterator[Need]:
    if run.waiting_wave is not None:
        yield Need(
            key=f"wave {run.run_id} {run.waiting_wave}",
            urgency=Urgency.WAVE,
            what=run.run_id,
            sentence=f"wave {run.waiting_wave} waits for approval",
            since=run.hold_since,
            path=path,
        )
    elif run.hold in ("paused", "stopping"):
        yield Need(
            key=f"{run.hold} {run.run_id}",
            urgency=Urgency.HELD,
            what=run.run_id,
            sentence="is paused: no further device begins" if run.hold == "paused" else "is stopping",
            since=run.hold_since,
            path=path,
        )
    elif (silent_s := _silent_s(run, now)) is not None and silent_s > NOTHING_HEARD_S:
        yield Need(
            key=f"silent {run.run_id}",
            urgency=Urgency.SILENT,
            what=run.run_id,
            sentence="lives, and has not said anything for over a minute",
            since=run.heard_at,
            path=path,
        )
    if run.spare is not None and run.spare.total_seconds() < 0:
        yield Need(
            key=f"late {run.run_id}",
            urgency=Urgency.LATE,
            what=run.run_id,
            sentence=f"will end {rough_duration(-run.spare.total_seconds())} behind its window at the rate of now",
            path=path,
        )


def _plans(scene: Scene) -> Iterator[Need]:
    for plan in scene.plans:
        yield Need(
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
