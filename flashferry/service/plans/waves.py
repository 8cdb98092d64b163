"""A wave of a run is approved: by an approver at its sites who is not the plan's maker, for the digest that he read.

The yes is entered here first, once, with its audit, and then told to the run by its journal. Where the service died in
between, the next who says yes has it told: the run waits until then, and nobody's name is lost.
"""

from __future__ import annotations

import sqlite3

from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, ServiceError, not_delivered
from flashferry import api
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.reports import words
from flashferry.service.auditing import deciding, note, note_outcome, note_refusal
from flashferry.service.background import PeriodicTask
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.eligibility import why_not_gone_on_with
from flashferry.service.plans.offering import told_sites
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
    """Let a run begin its waves up to one.

    Args:
        service: The service.
        actor: Who says yes.
        run_id: The run's whole identifier.
        wave: Up to this wave, from 0.
        digest: The plan that he read; empty where the run was begun without one.
        comment: What he says to it.

    Raises:
        ServiceError: 404 where he may not see the run, 403 where he may not approve it, 409 where another plan was read, the
            plan was withdrawn or is past its end, the run is not under way, or the wave is approved already.
    """
    comment = checked_comment(comment)
    run = seen_run(service.state, run_id, actor).whole
    object_ = f"run:{run_id}"
    approval = WaveApproval(
        run_id=run_id, wave=wave, digest=digest, by=actor.name, at=moment(service.now()), comment=comment
    )
    with deciding(service, actor, _ACTION, object_) as database:
        _check(service, database, actor, run, approval)
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
        raise _conflict(error.message) from None
    except (FlashferryError, OSError, sqlite3.Error) as error:
        # The yes stays: it is told once somebody says it again.
        untold = not_delivered(error)
        note_outcome(service, actor, _ACTION, object_, outcome="failed", reason=untold.sentence)
        raise untold from None
    return approval


def look(service: Service) -> None:
    """Announce each wave that began to wait for somebody's yes, once."""
    for run_id, wave in waiting_waves(service.state).items():
        with service.database.writing() as database:
            if wave_is_wanted(database, run_id, wave, moment(service.now())):
                announce(
                    *(service, database, NoticeKind.APPROVAL_WANTED, f"run:{run_id}"),
                    f"run {run_id}: wave {wave} waits for somebody's approval",
                    {"run": run_id, "wave": wave},
                    path=f"/runs/{run_id}",
                    sites=sites_of_run(read_run(service.state, run_id, with_transfers=False)),
                )


KEEPER = PeriodicTask(name="waves", every_s=_EVERY_S, look=look)


def _check(
    service: Service, database: sqlite3.Connection, actor: Actor, run: StoredRun, approval: WaveApproval
) -> None:
    sites, wanted = sites_of_run(run), run.plan_digest or ""
    plan = plan_of(database, wanted) if wanted else None
    if not actor.may({Role.APPROVER}, sites):
        raise _forbidden(f"an approver at {told_sites(sites)}")
    if plan is not None and plan.made_by == actor.name:
        raise _forbidden(f"somebody else than {actor.name}, who made its plan")
    if approval.digest != wanted:
        found = f"plan {approval.digest[:12]}…" if approval.digest else "none"
        raise _conflict(f"it carries out {f'plan {wanted[:12]}…' if wanted else 'no plan'}, and {found} was read")
    if plan is not None and (why := why_not_gone_on_with(plan, service.now())):
        raise _conflict(f"of its plan, {why}")
    if not is_run_alive(service.state, run.run_id):
        raise _conflict("it is not under way")
    _check_wave(service, database, run, approval)


def _check_wave(service: Service, database: sqlite3.Connection, run: StoredRun, approval: WaveApproval) -> None:
    control = control_request(service.state, run.run_id)
    try:
        may_approve(run, control, approval.wave)
    except ConfigInvalid as error:
        raise InvalidRequest(error.message, hint="GET /api/v1/runs/ID has its waves") from None
    if control.approved_wave < approval.wave:
        return
    before = wave_approval(database, run.run_id, approval.wave)
    who = f" by {before.by} at {words.moment(before.at)}" if before is not None else ""
    raise _conflict(f"it was approved{who} up to wave {control.approved_wave}")


def _forbidden(who: str) -> ServiceError:
    return Forbidden(f"run: expected {who} to approve a wave of it", hint="Ask a colleague with that role")


def _conflict(why: str) -> ServiceError:
    return Conflict(f"run: its wave cannot be approved: {why}", hint="Look at the run again: GET /api/v1/runs/ID")
