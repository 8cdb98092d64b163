"""Reminders of devices left changed (hourly) and of late runs (once), also for runs started from a shell.

The end of a job and the recoveries after a death send notices themselves first; reminders cover what they did not. Each
notice is stored under one key in its transaction, so that it is sent once.
"""

from __future__ import annotations

from datetime import timedelta

from flashferry.service.jobs.supervisor import RECOVERY_PAUSES_S
from flashferry.service.live.collect import Snapshot, SnapshotReader
from flashferry.service.live.presenters import ActionItem, Urgency, action_items
from flashferry.service.notices import AGAIN_AFTER, NoticeKind, announce_lasting
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.hooks import forget_reminder, reminders

LEFT_TO_JOBS = timedelta(seconds=2 * max(RECOVERY_PAUSES_S))
"""After the end of a run's newest job the next recovery announces first; it waits at most half of this."""

_KINDS = {
    Urgency.NOT_RESTORED: NoticeKind.NOT_RESTORED,
    Urgency.DEAD: NoticeKind.NOT_RESTORED,
    Urgency.LATE: NoticeKind.OUTSIDE_WINDOW,
}


class Reminding:
    """Background task that sends due reminders; what was sent is in the tables."""

    def __init__(self) -> None:
        self._reader: tuple[Service, SnapshotReader] | None = None

    def __call__(self, service: Service) -> None:
        """Send due reminders, and delete keys of states that are over."""
        if self._reader is None or self._reader[0] is not service:
            self._reader = (service, SnapshotReader(service))
        snapshot = self._reader[1].read()
        # An unreadable state does not count as over.
        if not snapshot.trouble:
            remind(service, snapshot)


def remind(service: Service, snapshot: Snapshot) -> None:
    """Send the due reminders of a snapshot and delete the keys of states that are over, in one transaction."""
    items = {item.key: item for item in action_items(snapshot) if item.urgency in _KINDS}
    with service.database.reading() as database:
        details = reminders(database)
    # A state announced after the snapshot is missing from it, but not over.
    over = [key for key, at in details.items() if key not in items and at <= moment(snapshot.read_at)]
    due = [item for item in items.values() if _is_due(service, snapshot, item, details.get(item.key))]
    if not due and not over:
        return
    with service.database.writing() as database:
        for key in over:
            forget_reminder(database, key)
        for item in due:
            announce_lasting(
                *(
                    service,
                    database,
                    item.key,
                    _KINDS[item.urgency],
                    f"run:{_run_of(item)}",
                    f"{item.what}: {item.sentence}",
                ),
                {"run": _run_of(item), "what": item.what, "since": item.since},
                path=item.path,
                sites=_sites_of(snapshot, item),
                again_after=AGAIN_AFTER if item.urgency.is_red else None,
            )


def _is_due(service: Service, snapshot: Snapshot, item: ActionItem, announced_at: str | None) -> bool:
    """Return whether an item seems due for a reminder; the transaction checks again."""
    now = service.now()
    if announced_at is not None:
        return item.urgency.is_red and not _is_within(now - moment_of(announced_at), AGAIN_AFTER)
    job = snapshot.jobs.get(item.what)
    if job is None or item.urgency is Urgency.LATE:
        return True
    if job.ended_at is None:
        # The job sends the notice itself at its end, unless that takes too long.
        return not _is_within(now - moment_of(job.created_at), AGAIN_AFTER)
    return not _is_within(now - moment_of(job.ended_at), LEFT_TO_JOBS)


def _sites_of(snapshot: Snapshot, item: ActionItem) -> frozenset[str]:
    """Return the sites of an item's run; empty if unknown."""
    found = snapshot.run(_run_of(item))
    return frozenset() if found is None else frozenset(device.site for device in found.devices)


def _is_within(since: timedelta, limit: timedelta) -> bool:
    """Return whether an age is below a limit; a negative age (the clock was set back) is not."""
    return timedelta(0) <= since < limit


def _run_of(item: ActionItem) -> str:
    return item.key.split(" ")[1]
