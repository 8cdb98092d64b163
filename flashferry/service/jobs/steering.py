"""A run that is under way is steered, one that is not is restored or gone on with; each with a reason, in the audit.

What somebody wants stands in the audit as `asked` before the run is told, so that nothing is done without its line,
whoever is killed in between, and what came of it behind: `done`, `refused` where it ended meanwhile, `failed` where its
journal could not be written. An `asked` without such a line was cut short: the run's journal, which has name and reason
besides, tells whether it was done.
"""

from __future__ import annotations

import sqlite3

from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, ServiceError, not_delivered
from flashferry import api
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.service.auditing import note, note_outcome, note_refusal
from flashferry.service.jobs.job_spec import JobWish
from flashferry.service.jobs.submit import ask
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.offering import told_sites
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import seen_run, sites_of_run
from flashferry.service.service import Service
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import Asker, WishKind
from flashferry.store.run_lock import RunState
from flashferry.store.service.answers import Once
from flashferry.store.service.jobs import Job, JobKind
from flashferry.store.service.plans import plan_of
from flashferry.store.stored_run import StoredRun

_LOOK_AGAIN = "GET /api/v1/runs/ID says where it stands"


def steer(service: Service, actor: Actor, run_id: str, what: WishKind, reason: str) -> ControlRequest:
    """Tell a run that is under way to pause, to go on, or to stop and restore; return what is wanted of it now.

    Args:
        service: The service.
        actor: Who wants it: an operator at all sites of the run.
        run_id: The run's whole identifier.
        what: `pause`, `continue` or `stop`; waves are approved elsewhere.
        reason: Why; it may not be empty.

    Raises:
        ServiceError: 404 where he may not see the run, 403 where he does not operate it, 422 without a reason, 409 where it
            is not under way, 503 or 507 where its journal cannot be written.
    """
    run, object_, action = seen_run(service.state, run_id, actor).whole, f"run:{run_id}", f"run.{what.value}"
    try:
        reason = _operated(run, actor, reason)
        if run.state is not RunState.ALIVE:
            raise _conflict(f"run {run_id} is {run.state}: expected one that is under way")
    except ServiceError as problem:
        note_refusal(service, actor, action, object_, problem.sentence)
        raise
    with service.database.writing() as database:
        note(service, database, actor, action, object_, outcome="asked", reason=reason)
    asker = Asker(actor=actor.name, via=actor.via.value, reason=reason)
    paused = {WishKind.PAUSE: True, WishKind.CONTINUE: False}.get(what)
    stopping = True if what is WishKind.STOP else None
    try:
        control = api.steer(run_id, paused=paused, stopping=stopping, asker=asker, state=service.state).control
    except ConfigInvalid as error:
        # It ended in between.
        note_outcome(service, actor, action, object_, outcome="refused", reason=error.message)
        raise _conflict(error.message) from None
    except (FlashferryError, OSError, sqlite3.Error) as error:
        untold = not_delivered(error)
        note_outcome(service, actor, action, object_, outcome="failed", reason=untold.sentence)
        raise untold from None
    note_outcome(service, actor, action, object_, outcome="done", reason=reason)
    return control


def restore(service: Service, actor: Actor, run_id: str, reason: str, once: Once | None = None) -> Job:
    """Ask for the devices that a run left in its hands to be restored; those of other runs are left alone.

    Raises:
        ServiceError: As `steer`; 409 where the run is under way, or left nothing.
    """
    run = seen_run(service.state, run_id, actor).whole
    wish = JobWish(kind=JobKind.RECOVER, run_id=run_id, sites=sites_of_run(run), reason=reason)
    _check_asker(service, actor, run, wish)
    if run.state is RunState.ALIVE or not any(device.is_held for device in run.devices):
        why = "is under way" if run.state is RunState.ALIVE else "left no device to restore"
        return _refused(service, actor, wish, f"run {run_id} {why}")
    return ask(service, actor, wish, once, about=f"run:{run_id}")


def go_on(service: Service, actor: Actor, run_id: str, reason: str, once: Once | None = None) -> Job:
    """Ask for a run that died or was stopped to be gone on with; what it left is restored first.

    Raises:
        ServiceError: As `steer`; 409 where the run is under way, is no staging, or was not begun by a plan that is here and
            approved.
    """
    run = seen_run(service.state, run_id, actor).whole
    sites = sites_of_run(run)
    wish = JobWish(kind=JobKind.RESUME, run_id=run_id, digest=run.plan_digest, sites=sites, reason=reason)
    _check_asker(service, actor, run, wish)
    with service.database.reading() as database:
        has_plan = run.plan_digest is not None and plan_of(database, run.plan_digest) is not None
    if run.state is RunState.ALIVE or run.verb != "stage":
        why = "is under way" if run.state is RunState.ALIVE else f"is a {run.verb}, which is not gone on with"
        return _refused(service, actor, wish, f"run {run_id} {why}")
    if not has_plan:
        return _refused(service, actor, wish, f"run {run_id} was not begun by a plan that was approved here")
    return ask(service, actor, wish, once, about=f"run:{run_id}")


def _check_asker(service: Service, actor: Actor, run: StoredRun, wish: JobWish) -> None:
    """Look that who asks operates the run and says why, before anything is told of how it stands."""
    try:
        _operated(run, actor, wish.reason)
    except ServiceError as problem:
        note_refusal(service, actor, f"run.{wish.kind}", f"run:{run.run_id}", problem.sentence)
        raise


def _refused(service: Service, actor: Actor, wish: JobWish, why: str) -> Job:
    note_refusal(service, actor, f"run.{wish.kind}", f"run:{wish.run_id}", why)
    raise _conflict(why)


def _operated(run: StoredRun, actor: Actor, reason: str) -> str:
    """Return the reason of who operates a run.

    Raises:
        ServiceError: He does not, or gives none.
    """
    sites = sites_of_run(run)
    if not actor.may({Role.OPERATOR}, sites):
        raise Forbidden(
            f"run: expected an operator at {told_sites(sites)} to steer it", hint="Ask a colleague with that role"
        )
    if not (found := checked_comment(reason)):
        raise InvalidRequest(
            "reason: expected a few words, found none", hint="Say why: it stands in the audit and at the run"
        )
    return found


def _conflict(why: str) -> ServiceError:
    return Conflict(why, hint=_LOOK_AGAIN)
