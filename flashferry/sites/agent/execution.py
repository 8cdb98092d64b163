"""Carry out a site's part of an approved plan: fetch what it needs, run it, and report the run."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.jobs import JobFolder
from flashferry.core.state_folder import make_private_directory, open_private
from flashferry.core.units import counted
from flashferry.core.values import replace
from flashferry.depot.sync.filling import Interrupted, SyncStopped
from flashferry.model.fleet_plan import Action, FleetPlan, limited_to
from flashferry.model.plan_file import plan_from, save_plan
from flashferry.sites.agent.bench import Bench, End
from flashferry.sites.agent.order_intake import OrderRefused, check_begins
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
from flashferry.sites.agent.word_sender import add_word
from flashferry.sites.wire import Order, OrderJob, WordKind, canonical
from flashferry.store.control_requests import SteerKind
from flashferry.store.reader import is_run_alive, reading
from flashferry.store.sites import ledger, spool
from flashferry.store.sites.agents import AgentDatabase
from flashferry.store.stored_run import StoredRun, read_run
from flashferry.store.tables import held_devices, run_of_job

_MOST_NAMED = 5
_STOPS_EVERY_S = 1.0


def fetch_images(bench: Bench, order: Order) -> list[str]:
    """Fetch the images of a plan into the depot, and return their names.

    Raises:
        SyncStopped: The agent is to end.
        OrderRefused: The order has expired, or plan or image differ from the ordered ones.
        ConfigInvalid: The plan or an image is missing.
    """
    check_begins(order)
    interrupted = bench.ending.is_set
    return _fetched(bench, order, _plan(bench, order, interrupted), interrupted)


def write_part(bench: Bench, order: Order, path: Path, *, is_stopped: Callable[[], bool]) -> bool:
    """Fetch the images, and write the site's part of the plan; return False if it was stopped.

    Args:
        bench: What orders are carried out with.
        order: The plan's digest and the devices.
        path: The file to write.
        is_stopped: Returns whether the centre stopped the part.

    Raises:
        SyncStopped: The agent is to end.
        OrderRefused: The order has expired, or does not agree with the plan or the inventory.
        ConfigInvalid: The plan or an image is missing.
    """
    if is_stopped():
        return False
    unwanted = _Unwanted(bench.ending, is_stopped)
    check_begins(order)
    try:
        whole = _plan(bench, order, unwanted)
        plan = site_part(whole, order, folder=bench.depot.catalogue.path, inventory=bench.devices())
        _fetched(bench, order, plan, unwanted)
    except SyncStopped:
        if not is_stopped():
            raise
    # Images may have taken hours.
    check_begins(order)
    if is_stopped():
        return False
    make_private_directory(path.parent)
    save_plan(plan, path)
    return True


def site_part(plan: FleetPlan, order: Order, *, folder: Path, inventory: Collection[str]) -> FleetPlan:
    """Return the plan narrowed to the ordered devices, with image paths of the depot.

    Args:
        plan: The whole approved plan.
        order: The devices.
        folder: The catalogue's folder.
        inventory: Names of all devices in the site's inventory.

    Raises:
        OrderRefused: A device is not in the plan or not in the inventory, or none is to be staged.
    """
    hosts = set(order.devices)
    _check_known(order, hosts - {one.host for one in plan.devices}, f"the plan {plan.digest[:12]}")
    _check_known(order, hosts - set(inventory), f"the inventory of site {order.site}")
    part = limited_to(plan, hosts)
    names = {one.image for one in part.of(Action.STAGE)}
    if not names:
        raise OrderRefused(
            f"order {order.id}: expected a device that the plan stages, found that none of its {len(part.devices)} is: "
            "all are there already, refused or out of reach",
            hint="'flashferry plan' says why",
        )
    here = folder.resolve()
    images = tuple(replace(image, path=str(here / image.name)) for image in plan.images if image.name in names)
    return replace(
        part,
        sites=tuple(one for one in plan.sites if one.site in {device.site for device in part.devices}),
        images=images,
        image_folders=(str(here),),
    )


def _check_known(order: Order, unknown: Collection[str], where: str) -> None:
    if unknown:
        named = ", ".join(sorted(unknown)[:_MOST_NAMED])
        more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
        raise OrderRefused(
            f"order {order.id}: expected devices of {where}, found {named}{more}, not in its inventory",
            hint="Bring the inventories of centre and site to the same, and make a new plan",
        )


class _Unwanted:
    """Whether the fetch for a part is to end; called many times a second, it reads the database once."""

    def __init__(self, ending: threading.Event, is_stopped: Callable[[], bool]) -> None:
        self._ending, self._is_stopped = ending, is_stopped
        self._asked_s, self._was_stopped = float("-inf"), False

    def __call__(self) -> bool:
        """Return whether the fetch is to end."""
        if time.monotonic() - self._asked_s > _STOPS_EVERY_S:
            self._was_stopped, self._asked_s = self._is_stopped(), time.monotonic()
        return self._was_stopped or self._ending.is_set()


def _plan(bench: Bench, order: Order, interrupted: Interrupted) -> FleetPlan:
    """Return the ordered plan; raises what `SiteDepot.plan` does.

    Raises:
        OrderRefused: The source's plan has another digest.
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
    """Fetch all images of a plan; return their names. Raises what `SiteDepot.fetch` does.

    Raises:
        OrderRefused: An image has another size than in the plan.
    """
    for image in plan.images:
        found = bench.depot.fetch(image, interrupted=interrupted)
        if found.size_bytes != image.size_bytes:
            raise OrderRefused(
                f"order {order.id}: expected {image.name} to have {image.size_bytes:,} bytes, as the plan has it, "
                f"found {found.size_bytes:,} of the same SHA-512",
                hint="Make a new plan",
            )
    return [image.name for image in plan.images]


class PartRun:
    """The run by which a part is carried out; none exists until its command enters one in the journal."""

    def __init__(self, database: AgentDatabase, state: Path, order: Order) -> None:
        self._database, self._state, self._order = database, state, order

    def run_id(self) -> str | None:
        """Return the run ID of the part in our journal; None: not entered yet."""
        with self._database.reading() as database:
            entry = ledger.entry_of(database, self._order.id)
        if entry is not None and entry.run_id is not None:
            return entry.run_id
        jobs = [one.job_id for one in tries_of(self._state, self._order.id)]
        with reading(self._state) as journal:
            found = [run_of_job(journal, job) for job in jobs] if journal is not None else []
        run_id = next((one for one in found if one is not None), None)
        if run_id is not None:
            with self._database.writing() as database:
                ledger.set_run(database, self._order.id, run_id)
        return run_id

    def stored(self) -> StoredRun | None:
        """Return the run from the journal."""
        run_id = self.run_id()
        return None if run_id is None else read_run(self._state, run_id, with_transfers=False)

    def state(self) -> dict[str, bool]:
        """Return the arguments `has_run`, `holds` and `is_stopped` of `next_kind`."""
        run = self.stored()
        return {
            "has_run": run is not None,
            "holds": run is not None and any(device.is_held for device in run.devices),
            "is_stopped": self.is_stopped_early()
            or (run is not None and any(one.what == SteerKind.STOP for one in run.steer_requests)),
        }

    def is_stopped_early(self) -> bool:
        """Return whether the centre stopped the part, even before its order arrived."""
        with self._database.reading() as database:
            return bool(ledger.orders_of_run(database, self._order.run, OrderJob.STOP.value))

    def spool_records(self) -> int:
        """Spool the device records that changed since the last report; return how many."""
        run_id = self.run_id()
        if run_id is None:
            return 0
        order = self._order
        return spool_records(self._database, self._state, order_id=order.id, run=order.run, run_id=run_id)


def has_left_devices(state: Path) -> bool:
    """Return whether a dead run holds devices."""
    with reading(state) as journal:
        runs = {device.run_id for device in held_devices(journal)} if journal is not None else set()
    return any(not is_run_alive(state, run_id) for run_id in runs)


def spool_records(database: AgentDatabase, state: Path, *, order_id: str, run: str, run_id: str) -> int:
    """Spool the device records that changed since the last report; return how many."""
    try:
        devices = read_run(state, run_id, with_transfers=False).devices
    except ConfigInvalid:
        return 0
    count = 0
    with database.writing() as writing:
        for device in devices:
            data = device.status() | {"record": device.record}
            digest = hashlib.sha256(canonical(data).encode()).hexdigest()
            if device.record and spool.is_news(writing, order_id, device.host, digest):
                add_word(writing, run, WordKind.RECORD, {"order": order_id, "run_id": run_id} | data)
                count += 1
    return count


def left_held(state: Path, run_id: str) -> list[str]:
    """Return the devices of a run that are not proven restored; empty if the journal cannot be read."""
    try:
        return [one.host for one in read_run(state, run_id, with_transfers=False).devices if one.is_held]
    except ConfigInvalid:
        return []


MOST_READ_BYTES = 1 << 20
MOST_BATCH_BYTES = 64_000
"""Size of a report's lines; a line has a few hundred bytes."""


class EventTail:
    """Follow the events of one job.

    Args:
        database: The agent's database.
        state: The state folder.
        order_id: The order of the job.
        run: The centre's name of the part.
        job_id: The job.
        progress_s: Least interval between progress reports of a device, by the times in the lines.
    """

    def __init__(
        self, database: AgentDatabase, state: Path, *, order_id: str, run: str, job_id: str, progress_s: float
    ) -> None:
        self._database, self._path = database, JobFolder.of(state, job_id).events
        self._order_id, self._run, self._job_id = order_id, run, job_id
        self._progress_s = progress_s
        self._logged_at_s: dict[object, float] = {}

    def take(self) -> bool:
        """Put new lines into the spool; return whether there were any."""
        with self._database.reading() as database:
            begins = spool.position_of(database, self._job_id)
        text = self._new_text(begins)
        if not text:
            return False
        with self._database.writing() as database:
            for batch in _batches(self._kept(text)):
                add_word(database, self._run, WordKind.EVENT, {"order": self._order_id, "events": batch})
            spool.set_position(database, self._job_id, begins + len(text))
        return True

    def _new_text(self, begins: int) -> bytes:
        """Return the complete lines from a position on; may be empty."""
        try:
            with open_private(self._path, "rb") as file:
                file.seek(begins)
                text: bytes = file.read(MOST_READ_BYTES)
        except OSError:
            return b""
        return text[: text.rfind(b"\n") + 1]

    def _kept(self, text: bytes) -> Iterator[dict[str, Any]]:
        for line in text.splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and not self._is_too_soon(event):
                    yield event

    def _is_too_soon(self, event: dict[str, Any]) -> bool:
        if event.get("status") != "progress":
            return False
        host, at_s = event.get("host"), float(event.get("at_s") or 0.0)
        if at_s - self._logged_at_s.get(host, -self._progress_s) < self._progress_s:
            return True
        self._logged_at_s[host] = at_s
        return False


def _batches(events: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size_bytes = 0
    for event in events:
        length = len(json.dumps(event))
        if batch and size_bytes + length > MOST_BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(event)
        size_bytes += length
    if batch:
        yield batch


_LOG = logging.getLogger("flashferry.sites")
_RECORDS_EVERY_S = 15.0
_MOST_SHOWN = 200


def carry_out(bench: Bench, order: Order) -> End | None:
    """Carry out an order; None: the agent is ending, and continues the order after its restart.

    Raises:
        OrderRefused: It cannot be carried out; no device was touched.
        ConfigInvalid: The plan or an image is missing, or the inventory is wrong; no device was touched.
    """
    if order.job is OrderJob.SYNC:
        images = fetch_images(bench, order)
        return End(exit_code=0, sentence="the depot has proven all images of the plan", data={"images": images})
    if order.job is OrderJob.RECOVER:
        return _recovered(bench, order)
    return _StagedPart(bench, order).through()


def end_after(bench: Bench, order: Order, error: FlashferryError) -> End | None:
    """Return the result of an order that failed after it entered a run; None: it entered none."""
    with bench.database.reading() as database:
        entry = ledger.entry_of(database, order.id)
    if entry is None or entry.run_id is None:
        return None
    held = left_held(bench.settings.state, entry.run_id)
    return End(exit_code=None, sentence=error.message, data={"run_id": entry.run_id, "held": held})


def restore_left(bench: Bench) -> None:
    """Restore the devices of runs that were killed, before anything new starts; failures are retried later.

    The recovery is a process of its own and continues if the agent ends.
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
    """The staging of one part: its attempts so far, and the next one."""

    def __init__(self, bench: Bench, order: Order) -> None:
        self._bench, self._order = bench, order
        self._state = bench.settings.state
        self._run = PartRun(bench.database, self._state, order)
        self._records_at_s = 0.0

    def through(self) -> End | None:
        """Run attempts until the part has ended."""
        # What is on disk may be under way still, or have ended unseen.
        folders = list(tries_of(self._state, self._order.id))
        tries = [self._carried(folder) for folder in folders]
        while not self._bench.ending.is_set():
            kind = next_kind(tries, **self._run.state(), resumes=self._bench.settings.runs.resumes)
            if kind is None:
                return self._end(folders)
            if kind is TryKind.RECOVER and self._bench.ending.wait(PAUSES_S[recoveries_in_a_row(tries)]):
                return None
            folder = self._prepared(len(folders), kind)
            if folder is None:
                return End(exit_code=None, sentence="it was stopped before it had started", data={})
            folders.append(folder)
            tries.append(self._carried(folder))
        return None

    def _prepared(self, number: int, kind: TryKind) -> TryFolder | None:
        """Write the next attempt to disk; None if the part was stopped before anything started."""
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
        """Follow an attempt to its end and report its events."""
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

    def _end(self, folders: Sequence[TryFolder]) -> End:
        """Return the result, with everything reported."""
        outcome = next((one.outcome for one in reversed(folders) if one.kind is not TryKind.RECOVER), None)
        run = self._run.stored()
        if run is None:
            # Its verb ended before it entered a run: nothing was touched.
            why = (
                outcome.sentence if outcome is not None else f"its process died; {folders[-1].folder.last_error_line()}"
            )
            raise OrderRefused(f"order {self._order.id}: {why}", hint="Correct that at the site, and order it again")
        self._run.spool_records()
        held = left_held(self._state, run.run_id)
        outcomes = Counter(str(one.record.get("outcome") or one.state) for one in run.devices)
        data = {"run_id": run.run_id, "outcomes": dict(outcomes), "held": held[:_MOST_SHOWN], "tries": len(folders)}
        if outcome is not None:
            return End(exit_code=outcome.exit_code, sentence=outcome.sentence, data=data)
        given_up = f"its process died; it is given up after {counted(len(folders), 'try', 'tries')}"
        return End(exit_code=None, sentence=given_up, data=data)


def _recovered(bench: Bench, order: Order) -> End | None:
    """Restore devices of killed runs: of the order's run, if it names one, else of all."""
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
