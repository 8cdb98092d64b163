"""Approval of a wave: by an approver at its sites who is not the plan's maker, for the digest that was read.

The approval is stored here first, with its audit entry, then passed to the run by its journal. If the service dies in
between, the run waits, and the next approval passes it on.
"""

from __future__ import annotations

import sqlite3

from flashferry import api
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.reports import words
from flashferry.service.auditing import deciding, note, note_outcome, note_refusal
from flashferry.service.background import PeriodicTask
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, ServiceError, not_delivered
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.eligibility import resume_obstacle
from flashferry.service.plans.offering import sites_text
from flashferry.service.principal import Actor, Role
from flashferry.service.run_visibility import seen_run, sites_of_run
from flashferry.service.service import Service
from flashferry.store.control import control_request, may_approve, waiting_waves
from flashferry.store.control_requests import Asker
from flashferry.store.run_lock import is_run_alive
from flashferry.store.service.database import moment
from flashferry.store.service.plans import (
    WaveApproval,
    add_wave_approval,
    plan_of,
    wave_approval,
    wave_is_wanted,
)
from flashferry.store.stored_run import StoredRun, read_run

_ACTION = "wave.approve"
_EVERY_S = 2.0


def approve_wave(
    service: Service, actor: Actor, run_id: str, wave: int, *, digest: str = "", comment: str = ""
) -> WaveApproval:
    """Approve the waves of a run up to one.

    Args:
        service: The service.
        actor: The approver.
        run_id: The run's whole identifier.
        wave: From 0.
        digest: The plan that was read; empty for a run without one.
        comment: For the audit.

    Raises:
        NotFound, Forbidden: The caller may not see or approve it.
        Conflict: Another plan was read, the plan was withdrawn or is past its end, the run is not running, or the wave
            is approved already.
    """
    comment = checked_comment(comment)
    run = seen_run(service.state, run_id, actor).whole
    object_ = f"run:{run_id}"
    approval = WaveApproval(
        run_id=run_id, wave=wave, digest=digest, by=actor.name, at=moment(service.now()), comment=comment
    )
    with deciding(service, actor, _ACTION, object_) as database:
        _check_approver(service, database, actor, run, approval)
        is_first = add_wave_approval(database, approval)
        after = {"wave": wave, "digest": digest, "is_told_again": not is_first}
        note(service, database, actor, _ACTION, object_, reason=comment, after=after)
    try:
        api.approve(
            run_id,
            wave,
            asker=Asker(actor=actor.name, via=actor.via.value, reason=comment),
            state=service.state,
        )
    except ConfigInvalid as error:
        note_refusal(service, actor, _ACTION, object_, error.message)
        raise _wave_conflict(error.message) from None
    except (FlashferryError, OSError, sqlite3.Error) as error:
        # The approval stays: the next one passes it on.
        untold = not_delivered(error)
        note_outcome(service, actor, _ACTION, object_, outcome="failed", reason=untold.sentence)
        raise untold from None
    return approval


def run_once(service: Service) -> None:
    """Announce each wave that started to wait for approval, once."""
    for run_id, wave in waiting_waves(service.state).items():
        with service.database.writing() as database:
            if wave_is_wanted(database, run_id, wave, moment(service.now())):
                announce(
                    *(service, database, NoticeKind.APPROVAL_WANTED, f"run:{run_id}"),
                    f"run {run_id}: wave {wave} waits for approval",
                    {"run": run_id, "wave": wave},
                    path=f"/runs/{run_id}",
                    sites=sites_of_run(read_run(service.state, run_id, with_transfers=False)),
                )


TASK = PeriodicTask(name="waves", every_s=_EVERY_S, run=run_once)


def _check_approver(
    service: Service, database: sqlite3.Connection, actor: Actor, run: StoredRun, approval: WaveApproval
) -> None:
    sites, requested = sites_of_run(run), run.plan_digest or ""
    plan = plan_of(database, requested) if requested else None
    if not actor.may({Role.APPROVER}, sites):
        raise _wave_forbidden(f"an approver at {sites_text(sites)}")
    if plan is not None and plan.made_by == actor.name:
        raise _wave_forbidden(f"someone else than {actor.name}, who made its plan")
    if approval.digest != requested:
        found = f"plan {approval.digest[:12]}…" if approval.digest else "none"
        plan_text = f"plan {requested[:12]}…" if requested else "no plan"
        raise _wave_conflict(f"it carries out {plan_text}, and {found} was read")
    if plan is not None and (why := resume_obstacle(plan, service.now())):
        raise _wave_conflict(f"of its plan, {why}")
    if not is_run_alive(service.state, run.run_id):
        raise _wave_conflict("it is not running")
    _check_wave(service, database, run, approval)


def _check_wave(service: Service, database: sqlite3.Connection, run: StoredRun, approval: WaveApproval) -> None:
    control = control_request(service.state, run.run_id)
    try:
        may_approve(run, control, approval.wave)
    except ConfigInvalid as error:
        raise InvalidRequest(error.message, hint="See the waves on the page of the run") from None
    if control.approved_wave < approval.wave:
        return
    before = wave_approval(database, run.run_id, approval.wave)
    who = f" by {before.by} at {words.moment(before.at)}" if before is not None else ""
    raise _wave_conflict(f"it was approved{who} up to wave {control.approved_wave}")


def _wave_forbidden(who: str) -> ServiceError:
    return Forbidden(f"run: expected {who} to approve a wave of it", hint="Ask a colleague with that role")


def _wave_conflict(why: str) -> ServiceError:
    return Conflict(f"run: its wave cannot be approved: {why}", hint="Read the run again")
