"""An order carried out: a part staged, images fetched, devices restored. Blocking; a restart continues it.

The order of a stage: the plan by its digest, the images that the depot lacks, their digests proven, the plan narrowed
to the devices that were ordered and to where its images lie here, and then a run in a process of its own. Only then is
any device touched. A link to the centre that is lost meanwhile changes nothing: reports wait in the spool.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import counted
from flashferry.sites.agent.bench import Bench, End
from flashferry.sites.agent.order_checks import OrderRefused
from flashferry.sites.agent.part_run import PartRun, has_left_devices, left_held
from flashferry.sites.agent.run_reports import EventTail
from flashferry.sites.agent.site_plan import fetch_images, write_part
from flashferry.sites.agent.tries import (
    PAUSES_S,
    Try,
    TryFolder,
    TryKind,
    carry_through,
    events_file,
    next_kind,
    plan_file,
    prepare,
    recoveries_in_a_row,
    tries_of,
)
from flashferry.sites.wire import Order, OrderJob
from flashferry.store.sites import ledger

_LOG = logging.getLogger("flashferry.sites")
_RECORDS_EVERY_S = 15.0
_MOST_SHOWN = 200


def carry_out(bench: Bench, order: Order) -> End | None:
    """Carry an order out; None: the agent is to end, and goes on with it when it is back.

    Raises:
        OrderRefused: It cannot be; no device was touched.
        ConfigInvalid: The same: the plan or an image is not to be had, or the inventory is wrong.
    """
    if order.job is OrderJob.SYNC:
        images = fetch_images(bench, order)
        return End(exit_code=0, sentence="the depot has proven all images of the plan", data={"images": images})
    if order.job is OrderJob.RECOVER:
        return _recovered(bench, order)
    return _StagedPart(bench, order).through()


def restore_left(bench: Bench) -> None:
    """Restore what dead runs left before anything new starts; what is left is tried again later.

    Where the agent is to end meanwhile, the recovery is a process of its own, and goes on.
    """
    state = bench.settings.state
    if not has_left_devices(state):
        return
    order_id = f"start-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    one = prepare(state, order_id, 0, TryKind.RECOVER, _recover_words(bench), "site agent, at its start")
    carry_through(one, on_poll=bench.teller.wake, ending=bench.ending)
    outcome = one.outcome
    _LOG.warning("what dead runs left: %s", outcome.sentence if outcome is not None else one.folder.last_error_line())


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
        self._run = PartRun(bench.database, self._state, order)
        self._records_at_s = 0.0

    def through(self) -> End | None:
        """Take it to its end."""
        # What is on disk may be under way still, or have ended unseen.
        folders = list(tries_of(self._state, self._order.id))
        tries = [self._carried(folder) for folder in folders]
        while not self._bench.ending.is_set():
            kind = next_kind(tries, **self._run.state(), resumes=self._bench.settings.runs.resumes)
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
            return made(_recover_words(self._bench, self._run.run_id()))
        if kind is TryKind.RESUME:
            return made(self._words(number, "--resume", str(self._run.run_id())))
        path = plan_file(self._state, self._order.id)
        is_written = write_part(self._bench, self._order, path, is_stopped=self._run.is_stopped_early)
        return made(self._words(number, "--plan", str(path))) if is_written else None

    def _words(self, number: int, *subject: str) -> tuple[str, ...]:
        runs = self._bench.settings.runs
        events = events_file(self._state, self._order.id, number)
        return (
            *("stage", *subject, "--inventory", runs.inventory, "--events", str(events)),
            # An inventory that the centre has too says what its line to the site carries, and the agent is behind it.
            *("--state-dir", str(self._state), "--json", "--at-depot", *runs.options),
        )

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
        if time.monotonic() - self._records_at_s > _RECORDS_EVERY_S and self._run.run_id() is not None:
            self._records_at_s = time.monotonic()
            has_news |= bool(self._run.spool_records())
        if has_news:
            self._bench.teller.wake()

    def _is_ended_within(self, pause_s: float) -> bool:
        return self._bench.ending.wait(pause_s)

    def _end(self, folders: Sequence[TryFolder]) -> End:
        """Return what it came to, with everything reported."""
        outcome = next((one.outcome for one in reversed(folders) if one.kind is not TryKind.RECOVER), None)
        run = self._run.stored()
        if run is None:
            # Its verb ended before it entered a run: nothing was touched.
            why = (
                outcome.sentence if outcome is not None else f"its process died; {folders[-1].folder.last_error_line()}"
            )
            raise OrderRefused(f"order {self._order.id}: {why}", hint="Set that right at the site, and order it anew")
        self._run.spool_records()
        held = left_held(self._state, run.run_id)
        outcomes = Counter(str(one.record.get("outcome") or one.state) for one in run.devices)
        data = {"run_id": run.run_id, "outcomes": dict(outcomes), "held": held[:_MOST_SHOWN], "tries": len(folders)}
        if outcome is not None:
            return End(exit_code=outcome.exit_code, sentence=outcome.sentence, data=data)
        given_up = f"its process died; it is given up after {counted(len(folders), 'try', 'tries')}"
        return End(exit_code=None, sentence=given_up, data=data)


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
