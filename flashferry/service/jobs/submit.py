"""Asking for a job from outside: a transaction of its own, once however often it is sent, refusals in the audit."""

from __future__ import annotations

import hashlib
import json
import sqlite3

from flashferry.service.errors import InvalidRequest, NotFound, ServiceError
from flashferry.service.auditing import note_refusal
from flashferry.service.jobs.create import action_of, request_job
from flashferry.service.jobs.job_spec import SELECTS, JobWish
from flashferry.service.known_names import check_names, site_filters
from flashferry.service.principal import Actor, Role, Via
from flashferry.service.run_visibility import job_seen
from flashferry.service.service import Service
from flashferry.store.service.answers import Once, answer_of, keep_answer
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Job, job_of
from inventory.selection import Selection

MOST_KEY = 200
"""So many signs an `Idempotency-Key` has at most."""


def once_of(key: str | None, what: str, content: object) -> Once | None:
    """Return what makes a request one that is carried out once; None where its sender gave no key.

    Args:
        key: What he calls it.
        what: Which route he asks.
        content: What he asks of it, of JSON's types.

    Raises:
        ServiceError: The key is none.
    """
    if key is None:
        return None
    if not 0 < len(key) <= MOST_KEY or not key.isprintable():
        raise InvalidRequest(
            f"Idempotency-Key: expected 1 to {MOST_KEY} signs, found {len(key)}",
            hint="Send a random one for each thing that you want done, a UUID, say",
        )
    text = json.dumps([what, content], sort_keys=True)
    return Once(key=key, request=hashlib.sha256(text.encode()).hexdigest())


def asked_before(database: sqlite3.Connection, actor: Actor, once: Once | None) -> Job | None:
    """Return the job that somebody has asked for under that key; None where he has not.

    Raises:
        ServiceError: He has used the key for something else.
    """
    before = answer_of(database, actor.name, once.key) if once is not None else None
    if before is None or once is None:
        return None
    if before.request != once.request:
        raise InvalidRequest(
            "Idempotency-Key: expected one for this request, found one that was sent with another",
            hint="Send a new key for each thing that you want done",
        )
    return job_of(database, before.answer)


def ask(service: Service, actor: Actor, wish: JobWish, once: Once | None = None, *, about: str = "") -> Job:
    """Ask for a job and return it, or the one that was asked for under the same key.

    Args:
        service: The service.
        actor: Who asks.
        wish: What he wants.
        once: Under which key, if under any.
        about: Of which object a refusal is told, as the audit names it; empty: by the kind of the job.

    Raises:
        ServiceError: As `request_job` says, or the key was used for something else; that it was refused is in the audit.
    """
    try:
        check_devices(service, actor, wish)
        with service.database.writing() as database:
            if (before := asked_before(database, actor, once)) is not None:
                return before
            job = request_job(service, database, actor, wish)
            if once is not None:
                keep_answer(database, actor.name, once, answer=job.job_id, at=moment(service.now()))
            return job
    except ServiceError as problem:
        note_refusal(service, actor, action_of(wish.kind), about or f"job:{wish.kind.value}", problem.sentence)
        raise


def check_devices(service: Service, actor: Actor, wish: JobWish) -> None:
    """Check that the inventory has what a wish names, before its transaction: reading an inventory takes a second.

    Who may not operate the sites is refused for that first, by `request_job`.

    Raises:
        ServiceError: A device, group, site or another value is not in the inventory.
    """
    if actor.via is Via.SYSTEM or not actor.may({Role.OPERATOR}, wish.sites):
        return
    devices = wish.devices
    filters = (*devices.filters, *site_filters(wish.sites))
    if wish.digest is None and wish.kind in SELECTS:
        check_names(service, Selection(hosts=devices.hosts, groups=devices.groups, filters=filters))


def seen_job(database: sqlite3.Connection, actor: Actor, job_id: str) -> Job:
    """Return a job that somebody may look at, with all that is known of it; `job_seen` has what he is told.

    Raises:
        ServiceError: It is not here, or not for him to see: he is not told which.
    """
    job = job_of(database, job_id)
    if job is None or job_seen(actor, job) is None:
        raise NotFound(
            f"job: expected one that you may see, found {job_id[:60]!r}",
            hint="The pages of plans and runs show their jobs; the API has them by GET /api/v1/jobs",
        )
    return job
