"""Whether a plan can start now, and if not, why: one sentence, worked out each time.

An approval lapses with a changed image, the end of the plan, and a lost role of its maker or approver. The database is
checked again in the transaction that starts a run (`database_obstacle`); hashing images takes seconds, and is done
before (`image_obstacle`). A window that opens later is no obstacle: its job waits.
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path

from flashferry import api
from flashferry.core.errors import FlashferryError
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.plan_file import plan_from
from flashferry.model.plan_window import PlanWindow
from flashferry.planning.local_images import named_image
from flashferry.service.errors import NotFound, listed
from flashferry.service.images.verification import why_not_usable
from flashferry.service.plans.offering import sites_text
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.database import moment_of
from flashferry.store.service.people import roles_lost
from flashferry.store.service.plans import PlanState, StoredPlan, plan_of, text_of


def start_obstacle(service: Service, digest: str) -> str:
    """Return why a plan cannot start now; empty if it can. Hashes changed image files. Raises `NotFound`."""
    with service.database.reading() as database:
        why = database_obstacle(database, found(database, digest), service.now())
    return why or image_obstacle(service, digest)


def database_obstacle(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> str:
    """Return why a plan cannot start, by tables and clock; empty if it can."""
    return resume_obstacle(plan, now) or approval_obstacle(database, plan, now)


def resume_obstacle(plan: StoredPlan, now: datetime) -> str:
    """Return why a run of a plan cannot be resumed; roles lost since its start do not matter."""
    return _not_approved(plan) if plan.state is not PlanState.APPROVED else _why_too_late(plan, now)


def approval_obstacle(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> str:
    """Return what invalidates an approval of a plan, present or future; empty for nothing."""
    why = _why_too_late(plan, now) or _why_lost(database, plan.made_by, "made", Role.OPERATOR, plan.sites)
    if not why and plan.decided_by is not None:
        why = _why_lost(database, plan.decided_by, "approved", Role.APPROVER, plan.sites)
    return why or next(filter(None, (why_not_usable(database, name) for name in plan.images)), "")


def image_obstacle(service: Service, digest: str) -> str:
    """Return which image of a plan has changed or is not usable; empty for none."""
    with service.database.reading() as database:
        plan = plan_in(database, digest)
        details = {image.name: why_not_usable(database, image.name, image.sha512) for image in plan.images}
    for image in plan.images:
        if why := details[image.name] or _why_other(service, image):
            return why
    return ""


def found(database: sqlite3.Connection, digest: str, actor: Actor | None = None) -> StoredPlan:
    """Return a plan; with an actor, one that the actor may see. Raises `NotFound`."""
    plan = plan_of(database, digest)
    if plan is None or (actor is not None and not actor.may(Role, plan.sites)):
        raise NotFound(
            f"plan: expected the SHA-256 of a plan that you may see, found {digest[:64]!r}", hint=listed("plans")
        )
    return plan


def plan_in(database: sqlite3.Connection, digest: str) -> FleetPlan:
    """Return the content of a stored plan. Raises `KeyError`."""
    return plan_from(text_of(database, digest).encode(), digest)


def _not_approved(plan: StoredPlan) -> str:
    if plan.state is PlanState.DENIED:
        return f"denied by {plan.decided_by}: {plan.comment}"
    if plan.state is PlanState.WITHDRAWN:
        return f"withdrawn by {plan.withdrawn_by}: {plan.withdrawn_because}"
    return "draft, not approved yet"


def _why_too_late(plan: StoredPlan, now: datetime) -> str:
    return "" if plan.ends_at is None else PlanWindow(ends_at=moment_of(plan.ends_at)).why_closed(now)


def _why_lost(database: sqlite3.Connection, person: str, did: str, role: Role, sites: tuple[str, ...]) -> str:
    lost = roles_lost(database, person, role.value, sites)
    if lost is None:
        return f"{person}, who {did} it, is disabled"
    return f"{person}, who {did} it, is no longer {role.value} at {sites_text(lost)}" if lost else ""


def _why_other(service: Service, image: PlannedImage) -> str:
    path = Path(image.path)
    try:
        named_image(path, (service.images,))
        # Keeps digests by the state of the file: a look at one that did not change costs nothing.
        now = api.image_catalogue(path, state=service.state).image(image.name)
    except FlashferryError as error:
        return error.message
    if (now.size_bytes, now.sha512) != (image.size_bytes, image.sha512):
        return f"image {image.name} on disk is not the one that the plan was made for"
    return ""
