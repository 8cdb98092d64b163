"""An order carried out: a part staged, images fetched, devices restored. Blocking; a restart continues it.

The order of a stage: the plan by its digest, the images that the depot lacks, their digests proven, the plan narrowed
to the devices that were ordered and to where its images lie here, and then a run in a process of its own. Only then is
any device touched. A link to the centre that is lost meanwhile changes nothing: reports wait in the spool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from flashferry.api import FleetOptions, whole_fleet
from flashferry.core.apart.processes import JobFolder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import counted
from flashferry.core.state_folder import make_private_directory
from flashferry.depot.sync.filling import Interrupted, SyncStopped
from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.plan_file import plan_from, save_plan
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.order_checks import OrderRefused, check_begins, site_part
from flashferry.sites.agent.run_reports import EventTail, left_held, spool_records
from flashferry.sites.agent.tries import (
    PAUSES_S,
    Try,
    TryFolder,
    TryKind,
    carry_through,
    job_of_try,
    next_kind,
    plan_file,
    prepare,
    recoveries_in_a_row,
    tries_of,
)
from flashferry.sites.agent.word_sender import WordSender
from flashferry.sites.settings import AgentSettings
from flashferry.sites.wire import Order, OrderJob
from flashferry.store.control_requests import SteerKind
from flashferry.store.reader import is_run_alive, reading
from flashferry.store.sites import ledger
from flashferry.store.sites.agents import AgentDatabase
from flashferry.store.stored_run import StoredRun, read_run
from flashferry.store.tables import held_devices, run_of_job

_LOG = logging.getLogger("flashferry.sites")
_RECORDS_EVERY_S = 15.0
_MOST_SHOWN = 200
_STOPS_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What orders are carried out with.

    Attributes:
        settings: The agent's.
        database: Its database.
        depot: Its site's depot.
        teller: Takes what is to be reported.
        ending: Set when the agent is to end.
    """

    settings: AgentSettings
    database: AgentDatabase
    depot: SiteDepot
    teller: WordSender
    ending: threading.Event

    def devices(self) -> frozenset[str]:
        """Return the names of all devices of the site's own inventory.

        Raises:
            ConfigInvalid: It is wrong.
        """
        options = FleetOptions(inventory=self.settings.runs.inventory, state_dir=self.settings.state)
        return frozenset(whole_fleet(options).inventory.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an order ended.

    Attributes:
        exit_code: The exit code of what was done last; None where it said none.
        sentence: What that means.
        data: What else there is to report.
    """

    exit_code: int | None
    sentence: str
    data: Mapping[str, Any]


def carry_out(bench: Bench, order: Order) -> End | None:
    """Carry an order out; None: the agent is to end, and goes on with it when it is back.

    Raises:
        OrderRefused: It cannot be; no device was touched.
        ConfigInvalid: The same: the plan or an image is not to be had, or the inventory is wrong.
    """
    if order.job is OrderJob.SYNC:
        check_begins(order)
        images = _fetched(bench, order, _plan(bench, order, bench.ending.is_set), bench.ending.is_set)
        return End(exit_code=0, sentence="the depot has proven all images of the plan", data={"images": images})
    if order.job is OrderJob.RECOVER:
        return _recovered(bench, order)
    return _StagedPart(bench, order).through()


def restore_left(bench: Bench) -> None:
    """Restore what dead runs left before anything new starts; what is left is tried again later.

    Where the agent is to end meanwhile, the recovery is a process of its own, and goes on.
    """
    state = bench.settings.state
    if not _has_left(state):
        return
    order_id = f"start-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    one = prepare(state, order_id, 0, TryKind.RECOVER, _recover_words(bench), "site agent, at its start")
    carry_through(one, on_poll=bench.teller.wake, ending=bench.ending)
    outcome = one.outcome
    _LOG.warning("what dead runs left: %s", outcome.sentence if outcome is not None else one.folder.last_error_line())


def _has_left(state: Path) -> bool:
    """Return whether a run that does not live has devices in its hands."""
    with reading(state) as journal:
        runs = {device.run_id for device in held_devices(journal)} if journal is not None else set()
    return any(not is_run_alive(state, run_id) for run_id in runs)


def _recover_words(bench: Bench, run_id: str | None = None) -> tuple[str, ...]:
    runs = bench.settings.runs
    only = ("--run", run_id) if run_id is not None else ()
    options = runs.options if runs.recover_options is None else runs.recover_options
    return (
        *("recover", *only, "--inventory", runs.inventory),
        *("--state-dir", str(bench.settings.state), "--json", *options),
    )


class _StagedPart:
    """A part of a plan on its way through: what was tried, and what is tried next."""

    def __init__(self, bench: Bench, order: Order) -> None:
        self._bench, self._order = bench, order
        self._state = bench.settings.state
        self._records_at_s = 0.0

    def through(self) -> End | None:
        """Take it to its end."""
        # What is on disk may be under way still, or have ended unseen.
        folders = list(tries_of(self._state, self._order.id))
        tries = [self._carried(folder) for folder in folders]
        while not self._bench.ending.is_set():
            kind = next_kind(tries, **self._stands(folders), resumes=self._bench.settings.runs.resumes)
            if kind is None:
                return self._end(folders)
            if kind is TryKind.RECOVER and self._is_ended_within(PAUSES_S[recoveries_in_a_row(tries)]):
                return None
            folder = self._prepared(len(folders), kind)
            if folder is None:
                return End(exit_code=None, sentence="it was stopped before it had started", data={})
            folders.append(folder)
            tries.append(self._carried(folder))
        return None

    def _prepared(self, number: int, kind: TryKind) -> TryFolder | None:
        """Return the next try, written to disk; None where the part was stopped before anything was started."""
        made = partial(prepare, self._state, self._order.id, number, kind, actor=f"site agent, order {self._order.id}")
        if kind is TryKind.RECOVER:
            return made(_recover_words(self._bench, self._run_id()))
        if kind is TryKind.RESUME:
            return made(self._words(number, "--resume", str(self._run_id())))
        plan = None if self._is_stopped_early() else self._narrowed()
        if plan is None:
            return None
        path = plan_file(self._state, self._order.id)
        make_private_directory(path.parent)
        save_plan(plan, path)
        return made(self._words(number, "--plan", str(path)))

    def _words(self, number: int, *subject: str) -> tuple[str, ...]:
        runs = self._bench.settings.runs
        events = JobFolder.of(self._state, job_of_try(self._order.id, number)).events
        return (
            *("stage", *subject, "--inventory", runs.inventory, "--events", str(events)),
            # An inventory that the centre has too says what its line to the site carries, and the agent is behind it.
            *("--state-dir", str(self._state), "--json", "--at-depot", *runs.options),
        )

    def _narrowed(self) -> FleetPlan | None:
        """Return the site's part of the plan, with its images proven at the depot; None where it was stopped before.

        Raises:
            SyncStopped: The agent is to end.
        """
        bench, unwanted = self._bench, _Unwanted(self._bench.ending, self._is_stopped_early)
        check_begins(self._order)
        try:
            plan = site_part(
                _plan(bench, self._order, unwanted),
                self._order,
                folder=bench.depot.catalogue.path,
                inventory=bench.devices(),
            )
            _fetched(bench, self._order, plan, unwanted)
        except SyncStopped:
            if not self._is_stopped_early():
                raise
        # Images may have taken hours.
        check_begins(self._order)
        return None if self._is_stopped_early() else plan

    def _carried(self, folder: TryFolder) -> Try:
        """Follow a try to its end and report what it reports."""
        settings = self._bench.settings
        tail = EventTail(
            self._bench.database,
            self._state,
            order_id=self._order.id,
            run=self._order.run,
            job_id=folder.job_id,
            progress_s=settings.progress_s,
        )
        return carry_through(folder, on_poll=partial(self._report_news, tail), ending=self._bench.ending)

    def _report_news(self, tail: EventTail) -> None:
        has_news = tail.take()
        if time.monotonic() - self._records_at_s > _RECORDS_EVERY_S and (run_id := self._run_id()) is not None:
            self._records_at_s = time.monotonic()
            has_news |= bool(self._spool_records(run_id))
        if has_news:
            self._bench.teller.wake()

    def _spool_records(self, run_id: str) -> int:
        order = self._order
        return spool_records(self._bench.database, self._state, order_id=order.id, run=order.run, run_id=run_id)

    def _run_id(self) -> str | None:
        """Return the run that the part is in our journal, once there is one."""
        with self._bench.database.reading() as database:
            entry = ledger.entry_of(database, self._order.id)
        if entry is not None and entry.run_id is not None:
            return entry.run_id
        jobs = [one.job_id for one in tries_of(self._state, self._order.id)]
        with reading(self._state) as journal:
            found = [run_of_job(journal, job) for job in jobs] if journal is not None else []
        run_id = next((one for one in found if one is not None), None)
        if run_id is not None:
            with self._bench.database.writing() as database:
                ledger.set_run(database, self._order.id, run_id)
        return run_id

    def _stands(self, folders: Sequence[TryFolder]) -> dict[str, bool]:
        run = self._run() if folders else None
        return {
            "has_run": run is not None,
            "holds": run is not None and any(device.is_held for device in run.devices),
            "is_stopped": self._is_stopped_early()
            or (run is not None and any(one.what == SteerKind.STOP for one in run.wishes)),
        }

    def _run(self) -> StoredRun | None:
        run_id = self._run_id()
        return None if run_id is None else read_run(self._state, run_id, with_transfers=False)

    def _is_stopped_early(self) -> bool:
        """Return whether the centre had the part stopped: by whatever way, its stop may have come before its order."""
        with self._bench.database.reading() as database:
            return bool(ledger.orders_of_run(database, self._order.run, OrderJob.STOP.value))

    def _is_ended_within(self, pause_s: float) -> bool:
        return self._bench.ending.wait(pause_s)

    def _end(self, folders: Sequence[TryFolder]) -> End:
        """Return what it came to, with everything reported."""
        outcome = next((one.outcome for one in reversed(folders) if one.kind is not TryKind.RECOVER), None)
        run = self._run()
        if run is None:
            # Its verb ended before it entered a run: nothing was touched.
            why = (
                outcome.sentence if outcome is not None else f"its process died; {folders[-1].folder.last_error_line()}"
            )
            raise OrderRefused(f"order {self._order.id}: {why}", hint="Set that right at the site, and order it anew")
        self._spool_records(run.run_id)
        held = left_held(self._state, run.run_id)
        outcomes = Counter(str(one.record.get("outcome") or one.state) for one in run.devices)
        data = {"run_id": run.run_id, "outcomes": dict(outcomes), "held": held[:_MOST_SHOWN], "tries": len(folders)}
        if outcome is not None:
            return End(exit_code=outcome.exit_code, sentence=outcome.sentence, data=data)
        given_up = f"its process died; it is given up after {counted(len(folders), 'try', 'tries')}"
        return End(exit_code=None, sentence=given_up, data=data)


class _Unwanted:
    """Check whether what is fetched for a part is no longer needed; asked many times a second, it reads once.

    Args:
        ending: Set when the agent is to end.
        is_stopped: Returns whether the centre had the part stopped.
    """

    def __init__(self, ending: threading.Event, is_stopped: Callable[[], bool]) -> None:
        self._ending, self._is_stopped = ending, is_stopped
        self._asked_s, self._was_stopped = float("-inf"), False

    def __call__(self) -> bool:
        """Return whether it is not."""
        if time.monotonic() - self._asked_s > _STOPS_EVERY_S:
            self._was_stopped, self._asked_s = self._is_stopped(), time.monotonic()
        return self._was_stopped or self._ending.is_set()


def _plan(bench: Bench, order: Order, interrupted: Interrupted) -> FleetPlan:
    """Return the plan that was ordered; raises what `SiteDepot.plan` does.

    Raises:
        OrderRefused: What the source has under that digest is another one.
        ConfigInvalid: It is no plan.
    """
    plan = plan_from(bench.depot.plan(order.plan, interrupted=interrupted), f"of order {order.id}")
    if plan.digest != order.plan:
        raise OrderRefused(
            f"order {order.id}: expected the plan with SHA-256 {order.plan}, the source gave one with {plan.digest}",
            hint="Have the centre offer the plan that it ordered",
        )
    return plan


def _fetched(bench: Bench, order: Order, plan: FleetPlan, interrupted: Interrupted) -> list[str]:
    """Have all images of a plan at the depot, proven; return their names. Raises what `SiteDepot.fetch` does.

    Raises:
        OrderRefused: The depot has proven another one than the plan has.
    """
    for image in plan.images:
        found = bench.depot.fetch(image, interrupted=interrupted)
        if found.size_bytes != image.size_bytes:
            raise OrderRefused(
                f"order {order.id}: expected {image.name} to have {image.size_bytes:,} bytes, as the plan has it, "
                f"found {found.size_bytes:,} of the same SHA-512",
                hint="Make the plan anew",
            )
    return [image.name for image in plan.images]


def _recovered(bench: Bench, order: Order) -> End | None:
    """Restore what dead runs left; of the run of a part, where one is named and known."""
    state = bench.settings.state
    with bench.database.reading() as database:
        staged = ledger.orders_of_run(database, order.run, OrderJob.STAGE.value) if order.run else []
    run_id = next((one.run_id for one in staged if one.run_id is not None), None)
    one, actor = next(tries_of(state, order.id), None), f"site agent, order {order.id}"
    if one is None:
        one = prepare(state, order.id, 0, TryKind.RECOVER, _recover_words(bench, run_id), actor)
    carry_through(one, on_poll=bench.teller.wake, ending=bench.ending)
    if (outcome := one.outcome) is None:
        raise ConfigInvalid(
            f"order {order.id}: its process died; {one.folder.last_error_line() or 'it printed nothing'}",
            hint="Run 'flashferry recover' at the site",
        )
    return End(exit_code=outcome.exit_code, sentence=outcome.sentence, data={"run_id": run_id})
