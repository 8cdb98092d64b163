"""Storage of offered plans as drafts, and the reasons why a plan cannot start now."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from flashferry import api
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.files import is_below
from flashferry.core.units import counted
from flashferry.images.image import PlannedImage
from flashferry.model.fleet_plan import Action, FleetPlan, PlanWindow
from flashferry.model.plan_file import check_places, plan_from
from flashferry.planning.local_images import named_image
from flashferry.service.access import MOST_PLAN_BYTES
from flashferry.service.entered_text import checked_title, sites_text
from flashferry.service.errors import Forbidden, InvalidRequest, NotFound, ServiceError, TooLarge, invalid_from, listed
from flashferry.service.images.verification import why_not_usable
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.serializers import object_of
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.people import roles_lost
from flashferry.store.service.plans import NewPlan, PlanState, StoredPlan, add_plan, plan_of, text_of

MOST_BYTES = MOST_PLAN_BYTES
_CALLED = "as sent"
_ONE_AT_A_TIME = threading.Lock()
"""Plans parsed at once: a large one takes ten times its size in memory."""


def offer(service: Service, actor: Actor, content: bytes, title: str = "") -> tuple[StoredPlan, bool]:
    """Store a plan file as a draft; return it, and False if it was stored already.

    The caller operates each of its sites. Plans of one title are compared with each other.

    Raises:
        Forbidden: The caller is not such an operator.
        InvalidRequest, TooLarge: Not a plan, damaged, past its end, or with images outside of the image folder.
    """
    title = checked_title(title)
    plan = _read(content)
    sites = sites_of(plan)
    if not actor.may({Role.OPERATOR}, sites):
        refusal = _no_operator(sites)
        service.note_refusal(actor, "plan.made", object_of(_digest(content)), refusal.sentence)
        raise refusal
    _check_images(plan, service.images)
    _moment("starts_at", plan.starts_at)
    new = _row(service, actor, plan, content, title)
    if new.ends_at is not None and new.ends_at <= new.made_at:
        raise InvalidRequest(
            f"plan: expected an end that is still to come, found {plan.ends_at}",
            hint="Create the plan again with 'flashferry plan', with a window that lies ahead",
        )
    with service.database.writing() as database:
        is_new = add_plan(database, new)
        if is_new:
            after = {"title": title, "sites": sites, "devices": new.devices, "ends_at": new.ends_at}
            service.note(database, actor, "plan.made", object_of(new.digest), after=after)
            _announce(service, database, new)
        stored = plan_of(database, new.digest)
    assert stored is not None
    return stored, is_new


def _announce(service: Service, database: sqlite3.Connection, plan: NewPlan) -> None:
    announce(
        *(service, database, NoticeKind.APPROVAL_NEEDED, object_of(plan.digest)),
        f"{plan.made_by} made a plan for {counted(plan.devices, 'device')} at {sites_text(plan.sites)}, "
        "which waits for approval by someone else",
        {
            "digest": plan.digest,
            "title": plan.title,
            "sites": list(plan.sites),
            "devices": plan.devices,
            "made_by": plan.made_by,
            "ends_at": plan.ends_at,
        },
        path=f"/plans/{plan.digest}",
    )


def sites_of(plan: FleetPlan) -> tuple[str, ...]:
    """Return the sites of all devices of a plan, including skipped ones.

    An empty name stands for devices without a site, which need a role at all sites.
    """
    return tuple(sorted({device.site or "" for device in plan.devices})) or ("",)


def _read(content: bytes) -> FleetPlan:
    if len(content) > MOST_BYTES:
        raise TooLarge(
            f"plan: expected at most {MOST_BYTES:,} bytes, found more",
            hint="Give the file that 'flashferry plan --output FILE' wrote, or plan a part of the fleet",
        )
    try:
        with _ONE_AT_A_TIME:
            plan = plan_from(content, _CALLED)
        check_places(plan, _CALLED)
        json.dumps(to_json(plan), allow_nan=False, ensure_ascii=False).encode()
    except ConfigInvalid as error:
        raise invalid_from(error) from None
    except ValueError:
        raise InvalidRequest(
            "plan: expected figures that are finite and texts of whole characters, found others",
            hint="Create the plan again with 'flashferry plan'",
        ) from None
    if not plan.of(Action.STAGE):
        raise InvalidRequest(
            "plan: expected at least one device to stage, found none: all have it, are refused or out of reach",
            hint="'flashferry plan' says of each device why",
        )
    return plan


def _check_images(plan: FleetPlan, folder: Path) -> None:
    """Refuse a plan that would send files outside of the image folder."""
    outside = [image.name for image in plan.images if not is_below(Path(image.path), (folder,))]
    if outside:
        raise InvalidRequest(
            f"plan: expected each image below the service's folder of images, found {outside[0]} elsewhere",
            hint="Put it there, and create the plan again on the service's host",
        )


def _no_operator(sites: Iterable[str]) -> ServiceError:
    return Forbidden(
        f"plan: expected an operator at {sites_text(sites)}",
        hint="Ask an admin for the role at these sites, or plan only sites where you have it",
    )


def _row(service: Service, actor: Actor, plan: FleetPlan, content: bytes, title: str) -> NewPlan:
    return NewPlan(
        digest=_digest(content),
        text=content.decode(),
        title=title,
        sites=sites_of(plan),
        devices=len(plan.of(Action.STAGE)),
        images=tuple(image.name for image in plan.images),
        duration_s=plan.duration_s,
        made_by=actor.name,
        made_at=service.moment(),
        ends_at=None if plan.ends_at is None else _moment("ends_at", plan.ends_at),
    )


def _digest(content: bytes) -> str:
    """Return the digest in a plan file that was checked."""
    return str(json.loads(content)["digest"])


def _moment(name: str, text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if at.tzinfo is None:
        raise InvalidRequest(
            f"plan: {name}: expected a time as ISO 8601 has it, with its zone, found {text[:40]!r}",
            hint="Create the plan again with 'flashferry plan'",
        )
    return moment(at)


def start_obstacle(service: Service, digest: str) -> str:
    """Return why a plan cannot start now; empty if it can. Hashes changed image files. Raises `NotFound`."""
    with service.database.reading() as database:
        why = database_obstacle(database, found(database, digest), service.now())
    return why or image_obstacle(service, digest)


def database_obstacle(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> str:
    """Return why a plan cannot start according to tables and clock, images left out; empty if it can."""
    return resume_obstacle(plan, now) or approval_obstacle(database, plan, now)


def resume_obstacle(plan: StoredPlan, now: datetime) -> str:
    """Return why a run of a plan cannot be resumed; roles lost since its start do not matter."""
    return _not_approved(plan) if plan.state is not PlanState.APPROVED else _why_too_late(plan, now)


def approval_obstacle(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> str:
    """Return why a present or future approval of a plan is not valid; empty if nothing prevents it."""
    unusable = (why_not_usable(database, name) for name in plan.images)
    return next(filter(None, (*decision_obstacles(database, plan, now), *unusable)), "")


def decision_obstacles(database: sqlite3.Connection, plan: StoredPlan, now: datetime) -> tuple[str, ...]:
    """Return why an approval is not valid besides the images: the plan's end, and roles lost by its makers."""
    whys = [_why_too_late(plan, now), _why_lost(database, plan.made_by, "made", Role.OPERATOR, plan.sites)]
    if plan.decided_by is not None:
        whys.append(_why_lost(database, plan.decided_by, "approved", Role.APPROVER, plan.sites))
    return tuple(filter(None, whys))


def image_obstacle(service: Service, digest: str) -> str:
    """Return the first image of a plan that changed or is not usable, with the reason; empty: none."""
    return next(iter(image_obstacles(service, digest).values()), "")


def image_obstacles(service: Service, digest: str) -> dict[str, str]:
    """Return the images of a plan that changed or are not usable, each with the reason."""
    with service.database.reading() as database:
        plan = plan_in(database, digest)
        details = {image.name: why_not_usable(database, image.name, image.sha512) for image in plan.images}
    whys = {image.name: details[image.name] or _why_other(service, image) for image in plan.images}
    return {name: why for name, why in whys.items() if why}


def found(database: sqlite3.Connection, digest: str, actor: Actor | None = None) -> StoredPlan:
    """Return a plan; with an actor, only one that the actor may see. Raises `NotFound`."""
    plan = plan_of(database, digest)
    if plan is None or (actor is not None and not actor.may(Role, plan.sites)):
        raise NotFound(
            f"plan: expected the SHA-256 of a plan that you may see, found {digest[:64]!r}", hint=listed("plans")
        )
    return plan


def plan_in(database: sqlite3.Connection, digest: str) -> FleetPlan:
    """Parse a stored plan. Raises `KeyError`."""
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
        # Digests are cached by the file's state, so that an unchanged file is not read again.
        now = api.image_catalogue(path, state=service.state).image(image.name)
    except FlashferryError as error:
        return error.message
    if (now.size_bytes, now.sha512) != (image.size_bytes, image.sha512):
        return f"image {image.name} on disk is not the one that the plan was made for"
    return ""
