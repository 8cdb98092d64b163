"""Reminders: a device that is changed and not restored is told of every hour; a run that will be late, once.

It goes by the same look as the wall screen, so that runs begun from a shell are told of, too. What a job of the service
came to is announced when it ends (`flashferry.service.jobs`); here the first word is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from flashferry.service.keepers import Keeper
from flashferry.service.live.look import Looker, Scene
from flashferry.service.live.needs import Need, Urgency, needs_of
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.hooks import forget_reminder, reminders, set_reminder

AGAIN_AFTER = timedelta(hours=1)
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
    now = service.now()
    needs = {need.key: need for need in needs_of(scene) if need.urgency in _KINDS}
    with service.database.reading() as database:
        told = {key: moment_of(at) for key, at in reminders(database).items()}
    due, over = tuple(_due(needs.values(), told, now)), told.keys() - needs.keys()
    if not due and not over:
        return
    with service.database.writing() as database:
        for key in over:
            forget_reminder(database, key)
        for need in due:
            set_reminder(database, need.key, moment(now))
            if need.key in told or need.what not in scene.jobs or need.urgency is Urgency.LATE:
                announce(
                    *(service, database, _KINDS[need.urgency], f"run:{_run_of(need)}", _sentence(need)),
                    {"run": _run_of(need), "what": need.what, "since": need.since},
                    path=need.path,
                )


def _due(needs: Iterable[Need], told: Mapping[str, datetime], now: datetime) -> Iterable[Need]:
    """Yield what is new, and what is red and was told of an hour ago, or by a clock that was put back since."""
    for need in needs:
        at = told.get(need.key)
        if at is None or (need.urgency.is_red and not timedelta(0) <= now - at < AGAIN_AFTER):
            yield need


def _run_of(need: Need) -> str:
    return need.key.split(" ")[1]


def _sentence(need: Need) -> str:
    return f"{need.what}: {need.sentence}"


KEEPER = Keeper(name="reminders", every_s=_EVERY_S, look=Reminding())
