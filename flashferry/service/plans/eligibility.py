"""Whether a plan may be begun now, and if not, why: in one sentence, for people. Worked out anew each time.

A window that is yet to open is no reason: its job waits for it (`flashferry.service.jobs.create`).

Approved is not enough. An approval falls with an image on disk that is no longer the planned one, with the end of the
plan, and with the role of who made it or approved it. What is asked of the database is asked again in the transaction
that begins a run (`why_not_begun`); hashing images takes seconds, and is done before it (`why_not_images`).
"""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path

from flashferry.service.errors import NotFound, listed
from flashferry import api
from flashferry.core.errors import FlashferryError
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.plan_file import plan_from
from flashferry.model.plan_window import PlanWindow
from flashferry.planning.local_images import named_image
from flashferry.service.images.verification import usable
from flashferry.service.plans.offering import told_sites
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.database import moment_of
from flashferry.store.service.people import roles_lost
from flashferry.store.service.plans import PlanState, StoredPlan, plan_of, text_of


def why_not_startable(service: Service, digest: str) -> str:
    """Return why a plan may not be begun now; empty where it may. Hashes its images where their files are new.

    Raises:
        ServiceError: The plan is not here.
    """
    with service.database.reading() as database:
        why = why_not_begun(database, found(database, digest), service.now())
    return why or why_not_images(service, digest)


def why_not_begun(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> str:
    """Return why a plan may not be begun, as far as tables and clock can tell; empty where they have nothing."""
    return why_not_gone_on_with(plan, now) or why_fallen(database, plan, now)


def why_not_gone_on_with(plan: StoredPlan, now: datetime) -> str:
    """Return why a run that has begun may not be gone on with; who was disabled since did not begin it any less."""
    return _not_approved(plan) if plan.state is not PlanState.APPROVED else _why_too_late(plan, now)


def why_fallen(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> str:
    """Return what makes an approval of a plan worth nothing, given or yet to be given; empty where nothing does."""
    why = _why_too_late(plan, now) or _why_lost(database, plan.made_by, "made", Role.OPERATOR, plan.sites)
    if not why and plan.decided_by is not None:
        why = _why_lost(database, plan.decided_by, "approved", Role.APPROVER, plan.sites)
    return why or next(filter(None, (usable(database, name).why_not for name in plan.images)), "")


def why_not_images(service: Service, digest: str) -> str:
    """Return which image of a plan is not the planned one, or not usable; empty where all are as they were."""
    with service.database.reading() as database:
        plan = plan_in(database, digest)
        told = {image.name: usable(database, image.name, image.sha512).why_not for image in plan.images}
    for image in plan.images:
        if why := told[image.name] or _why_other(service, image):
            return why
    return ""


def found(database: sqlite3.Connection, digest: str, actor: Actor | None = None) -> StoredPlan:
    """Return a plan; with an actor, one that he may look at.

    Raises:
        ServiceError: It is not here, or not for him to see: he is not told which.
    """
    plan = plan_of(database, digest)
    if plan is None or (actor is not None and not actor.may(Role, plan.sites)):
        raise NotFound(
            f"plan: expected the SHA-256 of a plan that you may see, found {digest[:64]!r}", hint=listed("plans")
        )
    return plan


def plan_in(database: sqlite3.Connection, digest: str) -> FleetPlan:
    """Return what a plan that is here says.

    Raises:
        KeyError: It is not here.
    """
    return plan_from(text_of(database, digest).encode(), digest)


def _not_approved(plan: StoredPlan) -> str:
    if plan.state is PlanState.DENIED:
        return f"it was denied by {plan.decided_by}: {plan.comment}"
    if plan.state is PlanState.WITHDRAWN:
        return f"it was withdrawn by {plan.withdrawn_by}: {plan.withdrawn_because}"
    return "it is a draft, which nobody has approved yet"


def _why_too_late(plan: StoredPlan, now: datetime) -> str:
    return "" if plan.ends_at is None else PlanWindow(ends_at=moment_of(plan.ends_at)).why_closed(now)


def _why_lost(database: sqlite3.Connection, person: str, did: str, role: Role, sites: tuple[str, ...]) -> str:
    lost = roles_lost(database, person, role.value, sites)
    if lost is None:
        return f"{person}, who {did} it, is disabled"
    return f"{person}, who {did} it, is no longer {role.value} at {told_sites(lost)}" if lost else ""


def _why_other(service: Service, image: PlannedImage) -> str:
    path = Path(image.path)
    try:
        named_image(path, (service.images,))
        # Keeps digests by the state of the file: a look at one that did not change costs nothing.
        now = api.image_catalogue(path, state=service.state).image(image.name)
    except FlashferryError as error:
        return error.message
    if (now.size_bytes, now.sha512) != (image.size_bytes, image.sha512):
        return f"image {image.name} on disk is another one than the plan was made for"
    return ""
