"""Reminders: a device that is changed and not restored is told of every hour; a run that will be late, once.

It goes by the same look as the wall screen, so that runs begun from a shell are told of, too. Where the service has a
job for a run the first word is left to that job's end (`flashferry.service.jobs`), and to the recoveries that follow a
death: only what nobody has told of when they are over is told of here. Whoever tells keeps it under one key, in the
transaction of its notice: one fact is one notice, and then a reminder in each hour.
"""

from __future__ import annotations

from datetime import timedelta

from flashferry.service.background import PeriodicTask
from flashferry.service.jobs.auto_recovery import RECOVERY_PAUSES_S
from flashferry.service.live.action_items import Need, Urgency, needs_of
from flashferry.service.live.collect import Looker, Scene
from flashferry.service.notices import AGAIN_AFTER, NoticeKind, announce_lasting
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.hooks import forget_reminder, reminders

LEFT_TO_JOBS = timedelta(seconds=2 * max(RECOVERY_PAUSES_S))
"""So long after the end of a run's newest job the first word is left to the next one: a recovery waits at most half."""

_EVERY_S = 30.0
_KINDS = {
    Urgency.NOT_RESTORED: NoticeKind.NOT_RESTORED,
    Urgency.DEAD: NoticeKind.NOT_RESTORED,
    Urgency.LATE: NoticeKind.OUTSIDE_WINDOW,
}


class Reminding:
    """Looks at what goes on; when people were told of what is in the tables, and outlives the service."""

    def __init__(self) -> None:
        self._looks: tuple[Service, Looker] | None = None

    def __call__(self, service: Service) -> None:
        """Announce what is due, and forget what is over."""
        if self._looks is None or self._looks[0] is not service:
            self._looks = (service, Looker(service))
        scene = self._looks[1].look()
        # What cannot be read is not over.
        if not scene.trouble:
            remind(service, scene)


def remind(service: Service, scene: Scene) -> None:
    """Announce what is due of a scene, and forget what is over, in one transaction."""
    needs = {need.key: need for need in needs_of(scene) if need.urgency in _KINDS}
    with service.database.reading() as database:
        told = reminders(database)
    # What was told behind the look is not over because the look has not seen it.
    over = [key for key, at in told.items() if key not in needs and at <= moment(scene.read_at)]
    due = [need for need in needs.values() if _is_due(service, scene, need, told.get(need.key))]
    if not due and not over:
        return
    with service.database.writing() as database:
        for key in over:
            forget_reminder(database, key)
        for need in due:
            announce_lasting(
                *(service, database, need.key, _KINDS[need.urgency], f"run:{_run_of(need)}", _sentence(need)),
                {"run": _run_of(need), "what": need.what, "since": need.since},
                path=need.path,
                sites=_sites_of(scene, need),
                again_after=AGAIN_AFTER if need.urgency.is_red else None,
            )


def _is_due(service: Service, scene: Scene, need: Need, told_at: str | None) -> bool:
    """Return whether people are to be told of something now; whoever tells looks again whether somebody has."""
    now = service.now()
    if told_at is not None:
        return need.urgency.is_red and not _is_within(now - moment_of(told_at), AGAIN_AFTER)
    job = scene.jobs.get(need.what)
    if job is None or need.urgency is Urgency.LATE:
        return True
    if job.ended_at is None:
        # It tells of it at its end, unless it takes too long to come to one.
        return not _is_within(now - moment_of(job.created_at), AGAIN_AFTER)
    return not _is_within(now - moment_of(job.ended_at), LEFT_TO_JOBS)


def _sites_of(scene: Scene, need: Need) -> frozenset[str]:
    """Return the sites of the run that is meant; none where nobody knows them, since the journal lost it."""
    found = scene.run(_run_of(need))
    return frozenset() if found is None else frozenset(device.site for device in found.devices)


def _is_within(since: timedelta, limit: timedelta) -> bool:
    """Return whether something was so lately; what is yet to come by our clock was told by one that was put back."""
    return timedelta(0) <= since < limit


def _run_of(need: Need) -> str:
    return need.key.split(" ")[1]


def _sentence(need: Need) -> str:
    return f"{need.what}: {need.sentence}"


KEEPER = PeriodicTask(name="reminders", every_s=_EVERY_S, look=Reminding())
