"""Requests for jobs: names checked, answered once per idempotency key, refusals recorded."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable

from flashferry.service.errors import (
    InvalidRequest,
    ServiceError,
)
from flashferry.service.jobs.create import action_of, request_job
from flashferry.service.jobs.job_spec import SELECTS, JobSpec
from flashferry.service.known_names import check_names, site_filters
from flashferry.service.principal import Actor, Role, Via
from flashferry.service.service import Service
from flashferry.store.service.answers import Once, answer_of, keep_answer
from flashferry.store.service.jobs import Job, job_of
from inventory.selection import Selection

MOST_KEY = 200
"""Characters of an `Idempotency-Key`."""


def once_of(key: str | None, what: str, content: object) -> Once | None:
    """Return an idempotency key with a hash of the request; None without a key. Raises `InvalidRequest`."""
    if key is None:
        return None
    if not 0 < len(key) <= MOST_KEY or not key.isprintable():
        raise InvalidRequest(
            f"Idempotency-Key: expected 1 to {MOST_KEY} signs, found {len(key)}",
            hint="Send a random key for each request, such as a UUID",
        )
    text = json.dumps([what, content], sort_keys=True)
    return Once(key=key, request=hashlib.sha256(text.encode()).hexdigest())


def asked_before(database: sqlite3.Connection, actor: Actor, once: Once | None) -> Job | None:
    """Return the job of an earlier request with the same key, or None.

    Raises:
        InvalidRequest: The key was used for another request.
    """
    before = answer_of(database, actor.name, once.key) if once is not None else None
    if before is None or once is None:
        return None
    if before.request != once.request:
        raise InvalidRequest(
            "Idempotency-Key: expected one for this request, found one that was sent with another",
            hint="Send a new key for each request",
        )
    return job_of(database, before.answer)


def request_once(
    service: Service, database: sqlite3.Connection, actor: Actor, once: Once | None, spec: Callable[[], JobSpec]
) -> Job:
    """Request a job in the caller's transaction, unless an earlier request had the same key; return the job.

    Raises:
        ServiceError: As `request_job` and `asked_before`.
    """
    if (before := asked_before(database, actor, once)) is not None:
        return before
    job = request_job(service, database, actor, spec())
    if once is not None:
        keep_answer(database, actor.name, once, answer=job.job_id, at=service.moment())
    return job


def ask(service: Service, actor: Actor, spec: JobSpec, once: Once | None = None, *, about: str = "") -> Job:
    """Request a job and return it, or the job of an earlier request with the same key.

    `about` is the audit object of a refusal; empty: by the kind of the job.

    Raises:
        ServiceError: As `request_job`, `asked_before` and `check_devices`; the refusal is in the audit.
    """
    try:
        check_devices(service, actor, spec)
        with service.database.writing() as database:
            return request_once(service, database, actor, once, lambda: spec)
    except ServiceError as problem:
        service.note_refusal(actor, action_of(spec.kind), about or f"job:{spec.kind.value}", problem.sentence)
        raise


def check_devices(service: Service, actor: Actor, spec: JobSpec) -> None:
    """Check device names against the inventory, outside of a transaction: reading an inventory takes a second.

    Skipped for callers who do not operate the sites: `request_job` refuses them. Raises `InvalidRequest`.
    """
    if actor.via is Via.SYSTEM or not actor.may({Role.OPERATOR}, spec.sites):
        return
    devices = spec.devices
    filters = (*devices.filters, *site_filters(spec.sites))
    if spec.digest is None and spec.kind in SELECTS:
        check_names(service, Selection(hosts=devices.hosts, groups=devices.groups, filters=filters))
