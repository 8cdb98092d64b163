"""Run the waves: start devices, retry failed ones, start no new ones once a limit is reached."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from msgspec import Struct, field
from nornir.core import Nornir
from nornir.core.state import GlobalState
from nornir.core.task import Result, Task

from flashferry.core.errors import Kind
from flashferry.core.units import counted
from flashferry.devices.identity import LoginGuard
from flashferry.fileserver import FileServerError, ImageFile
from flashferry.model.lease import JournalUnusable
from flashferry.model.limits import pause_before_retry
from flashferry.model.record import DeviceRecord, Failure, failure_of
from flashferry.model.states import Outcome, Phase, Restored
from flashferry.model.waves import Wave, may_go_on
from flashferry.monitor.events import Event
from flashferry.planning.deadline import Deadline, WindowNotice
from flashferry.planning.device_queue import DeviceQueue, Hold, QueuedDevice
from flashferry.run.context import RunContext
from flashferry.run.control import RunControl
from flashferry.run.neighbours.board import AT_ONCE
from flashferry.run.request import FleetRequest
from flashferry.run.resume import after_serving
from flashferry.run.runner import FleetRunner
from flashferry.transports import USUAL
from flashferry.transports.transport import Transport
from inventory.host_view import HostView

DeviceTask = Callable[[Task, RunContext], Result]

_FAILED = frozenset(one for one in Outcome if one.phase is Phase.FAILED)


class Fleet(Struct, frozen=True, kw_only=True):
    """What a run knows of its devices before it starts.

    Attributes:
        views: The inventory's values of each device.
        images: The hashed image of each.
        transports: Transports to try for each, in order.
    """

    nornir: Nornir
    views: Mapping[str, HostView]
    images: Mapping[str, ImageFile]
    transports: Mapping[str, tuple[Transport, ...]] = field(default_factory=dict)

    def site_copies(self, of_site: Callable[[int | None], int]) -> Callable[[str], int]:
        """Return a function from a site to the number of copies that may run there at once."""
        own = {view.site: view.max_copies for view in self.views.values() if view.site is not None}
        return lambda site: of_site(own.get(site))


class WaveScheduler:
    """One run through all its waves. Image, policy and other values of `context` are filled in per device."""

    def __init__(
        self,
        fleet: Fleet,
        request: FleetRequest,
        context: RunContext,
        device_task: DeviceTask,
        control: RunControl,
        deadline: Deadline,
    ) -> None:
        self._fleet, self._request, self._context = fleet, request, context
        self._device_task, self._control, self._deadline = device_task, control, deadline
        self._notice = WindowNotice(deadline, fleet.views, self._event_waiting)
        self._site_copies = fleet.site_copies(context.policy.limits.of_site)
        self._policy = context.policy
        self._dice = self._policy.retry.dice()
        self._lock = threading.Lock()
        self._records: dict[str, DeviceRecord] = {}
        self._failed: set[str] = set()
        self._attempts: dict[str, int] = {}
        self._guards: dict[str, LoginGuard] = {}
        self._to_retry: set[str] = set()
        # Devices that wait for a retry when their wave ends: they run with the next wave, and count for their own.
        self._late: tuple[QueuedDevice, ...] = ()
        # Devices that were done before a resume have a wave too: they may serve others.
        self._wave_of = {host: wave for wave in (*request.waves, *request.in_waves) for host in wave.hosts}
        before = self._before = request.resumed.before if request.resumed is not None else {}
        self._failed_before = frozenset(host for host, record in before.items() if record.outcome in _FAILED)
        self._started = len(before)
        # Of the whole run: a canary that an earlier process could not restore counts as failed.
        self._canaries = frozenset(host for wave in request.waves if wave.is_canary for host in wave.hosts)
        self._stopped: Hold | None = None
        self._helpers: frozenset[str] = frozenset()

    @property
    def stopped(self) -> str | None:
        """Return why the run started nothing new from some moment on, or None."""
        return self._stopped.reason if self._stopped is not None else None

    def run(self) -> dict[str, DeviceRecord]:
        """Run the waves and return a record for each of their devices."""
        waves = self._request.in_waves
        for place, wave in enumerate(waves):
            if self._stopped is None and self._is_asked_for(wave, place):
                self._stopped = self._control.await_approval(wave, self._deadline.over)
            if self._stopped is None:
                self._run_wave(wave, is_last=place == len(waves) - 1)
            else:
                self._record_not_started(dict.fromkeys(wave.hosts, self._stopped), wave)
        if self._stopped is not None:
            for host in (place.host for place in self._late if place.host not in self._records):
                self._record_not_started({host: self._stopped}, self._wave_of[host])
        return dict(self._records)

    def _is_asked_for(self, wave: Wave, place: int) -> bool:
        """Return whether a wave needs approval: all but the run's first, even if the run was resumed."""
        is_first = not place
        if self._request.resumed is not None:
            is_first = wave.number == min((one.number for one in self._request.waves), default=wave.number)
        return self._policy.waves.approve and not is_first

    def _run_wave(self, wave: Wave, *, is_last: bool) -> None:
        late, self._late = self._late, ()
        self._helpers = self._helpers_of((*wave.hosts, *(place.host for place in late)))
        helpers = tuple(QueuedDevice(host=host, site=self._fleet.views[host].site) for host in sorted(self._helpers))
        queue = DeviceQueue(
            (*helpers, *late, *(QueuedDevice(host=host, site=self._fleet.views[host].site) for host in wave.hosts)),
            self._policy.limits,
            site_copies=self._looked_at,
            hold=self._hold,
            fits=self._notice.fit,
            may_leave=lambda: not is_last and self._may_go_before_retries(wave) and self._is_of_use(wave, queue),
        )
        self._event(wave, "started", f"{wave.name}, {_devices(len(wave.hosts))}")
        runner = FleetRunner(source=queue, on_abort=self._control.stop)
        self._over((*wave.hosts, *self._helpers, *(place.host for place in late))).with_runner(runner).run(
            task=self._one, name=self._context.verb, raise_on_error=False, queue=queue
        )
        self._late = tuple(place for place in queue.left_over if place.host not in self._helpers)
        not_started = {host: hold for host, hold in queue.not_started.items() if host not in self._helpers}
        self._record_not_started(not_started, wave)
        failed = sum(host in self._records and self._records[host].outcome in _FAILED for host in wave.hosts)
        early = sum(place.again_s is None for place in self._late)
        retried = len(self._late) - early
        again = f", {_devices(retried)} to be tried again meanwhile" if retried else ""
        waits = f", {_devices(early)} waiting for their time window meanwhile" if early else ""
        self._event(wave, "done", f"{wave.name}, {failed} of {_devices(len(wave.hosts))} failed{again}{waits}")

    def _looked_at(self, site: str) -> int:
        """Return for how many copies at a site devices are checked ahead; copies from a neighbour take no slot."""
        copies = self._site_copies(site)
        neighbourhood = self._context.neighbourhood
        return max(copies, AT_ONCE) if neighbourhood is not None and site in neighbourhood.sites else copies

    def _helpers_of(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the devices that got the image earlier and are to serve these."""
        if self._context.neighbourhood is None:
            return frozenset()
        known = {**self._before, **self._records}
        proven = {host for host, record in known.items() if record.is_staged_and_restored}
        boards = Counter(board for host in hosts if (board := self._context.neighbourhood.board_of(host)) is not None)
        return frozenset(host for board, devices in boards.items() for host in board.helpers(proven, devices))

    def _may_go_before_retries(self, wave: Wave) -> bool:
        """Return whether the next wave may start while devices of this one wait for a retry.

        Otherwise a dead device would delay every later site by minutes of pauses. Not allowed if waves need approval,
        or if the run would stop should the last retries fail too.
        """
        if wave.is_canary or self._policy.waves.approve:
            return False
        return self._too_many_failed(with_retries=True) is None

    def _is_of_use(self, wave: Wave, queue: DeviceQueue) -> bool:
        """Return whether a later wave can run while devices of this one wait for their time window.

        Waves that would all wait stay in sequence; an open site does not wait for another one's window.
        """
        if all(place.again_s is not None for place in queue.left_over):
            return True
        later = self._request.in_waves[self._request.in_waves.index(wave) + 1 :]
        return any(self._deadline.fit(host) is None for one in later for host in one.hosts)

    def _over(self, names: Iterable[str]) -> Nornir:
        """Return a Nornir over some devices, with its own record of failed hosts.

        Nornir skips hosts that failed in any task before, for example in a user's script: a device of the wave would be
        missing. And a device whose step failed and was retried has not failed.
        """
        hosts = set(names)
        chosen = self._fleet.nornir.filter(filter_func=lambda host: host.name in hosts)
        return Nornir(
            inventory=chosen.inventory,
            config=chosen.config,
            data=GlobalState(dry_run=chosen.data.dry_run),
            processors=chosen.processors,
        )

    def _hold(self) -> Hold | None:
        """Return why nothing may start at present. A reason that holds for good holds for later waves too."""
        # Always polled: even if nothing new starts any more, the operator may stop what is under way.
        hold = self._control.hold()
        if self._stopped is None:
            if hold is None or not hold.for_good:
                hold = self._deadline.over() or hold or self._server_gone() or self._too_many_failed()
            if hold is None or not hold.for_good:
                return hold
            self._stopped = hold
        return self._stopped

    def _server_gone(self) -> Hold | None:
        """Return a hold if our server has ended for good: copies fail, devices are restored, nothing more starts.

        Not while a new process may still replace it. The number of replacements is limited, since what killed the
        server may do so again; resuming takes one command.
        """
        try:
            _ = self._context.server.port
        except FileServerError as error:
            return Hold(reason=f"our file server has ended: {error.message}", for_good=True, kind=Kind.SERVER_GONE)
        return None

    def _too_many_failed(self, *, with_retries: bool = False) -> Hold | None:
        with self._lock:
            failed = self._failed_before | (self._failed if with_retries else self._failed - self._to_retry)
            started = self._started
        canaries = len(failed & self._canaries)
        reason = may_go_on(self._policy.waves, started, len(failed), canaries_failed=canaries)
        return Hold(reason=reason, for_good=True, kind=Kind.TOO_MANY_FAILED) if reason else None

    def _one(self, task: Task, queue: DeviceQueue) -> Result:
        """Run one attempt of a device, and schedule the next one if it is to be retried."""
        host = task.host.name
        wave = self._wave_of[host]
        with self._lock:
            attempt = self._attempts[host] = self._attempts.get(host, self._first(host) - 1) + 1
            before = self._records.get(host, self._before.get(host))
            self._started += before is None
        record = self._attempted(task, self._context_of(host, queue, wave, before, attempt), before)
        if host in self._helpers and before is not None:
            return self._helped(task, before, record)
        pause_s = None
        if not self._control.is_stopping():
            tries = attempt - self._first(host) + 1
            pause_s = pause_before_retry(record, tries, self._policy.retry, self._dice)
        with self._lock:
            self._keep(host, record)
            # Failures count only after the last try: not during the pause, and not during the next try.
            if pause_s is not None:
                self._to_retry.add(host)
            else:
                self._to_retry.discard(host)
        if pause_s is not None and record.failure is not None:
            text = f"in {pause_s:.0f} s, attempt {attempt + 1}: {record.failure.reason}"
            self._emit(Event(host=host, step="device", status="retry", text=text, at_s=self._at_s, wave=wave.number))
            queue.again(host, pause_s)
        return Result(host=task.host, result=record, changed=record.transfer is not None)

    def _keep(self, host: str, record: DeviceRecord) -> None:
        """Store a device's record, and whether it failed; the caller holds the lock."""
        self._records[host] = record
        (self._failed.add if record.outcome in _FAILED else self._failed.discard)(host)

    def _helped(self, task: Task, before: DeviceRecord, found: DeviceRecord) -> Result:
        """Merge the record of a device that only served others into its earlier record."""
        record = before.after_serving(found)
        with self._lock:
            self._keep(before.host, record)
        with suppress(JournalUnusable):  # the report outweighs its copy in the journal
            self._context.journal.record(self._context.run_id, before.host, self._as_kept(record))
        return Result(host=task.host, result=record, changed=True)

    def _as_kept(self, record: DeviceRecord) -> object:
        """Return the record of a device that served others, as the journal stores it."""
        resumed = self._request.resumed
        kept = resumed.done.get(record.host) if resumed is not None else None
        return record if kept is None else after_serving(kept, record)

    def _first(self, host: str) -> int:
        """Return the number of a device's first attempt in this process; a resumed run counts on."""
        resumed = self._request.resumed
        return resumed.attempts.get(host, 1) if resumed is not None else 1

    def _attempted(self, task: Task, context: RunContext, before: DeviceRecord | None) -> DeviceRecord:
        host = task.host.name
        try:
            if before is not None:
                context.journal.again(context.run_id, host)
            found = self._device_task(task, context).result
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' run
            return DeviceRecord(
                host=host, restored=Restored.INCOMPLETE, failure=failure_of("stage", error), seconds_by_step={}
            )
        assert isinstance(found, DeviceRecord)
        return found

    def _context_of(
        self, host: str, queue: DeviceQueue, wave: Wave, before: DeviceRecord | None, attempt: int
    ) -> RunContext:
        closing, control, shared = self._deadline.closing(host), self._control, self._context
        reason = self._request.untuned.get(host)
        resumed = self._request.resumed
        earlier = (*before.earlier, before.failure) if before is not None and before.failure is not None else ()
        return replace(
            shared,
            image=self._fleet.images[host],
            policy=self._policy.of_device(
                is_untuned=reason is not None,
                adds=host in self._request.adds,
                takes_dead_man=host in shared.dead_man_proven,
            ),
            untuned_because=reason,
            wave=wave.number,
            attempt=attempt,
            earlier=earlier,
            identity=self._request.identities.get(host),
            guard=self._guards.setdefault(host, LoginGuard()),
            leftover=resumed.leftovers.get(host) if resumed is not None else None,
            interrupted=lambda: control.is_stopping() or closing() is not None,
            closing=closing,
            copied=lambda: queue.copied(host),
            is_helper=host in self._helpers,
            proof=before.verify if before is not None and host in self._helpers else None,
            board=shared.neighbourhood.board_of(host) if shared.neighbourhood is not None else None,
            transports=_in_order(self._fleet.transports.get(host, (USUAL,)), before),
        )

    def _record_not_started(self, hosts: Mapping[str, Hold], wave: Wave) -> None:
        records = {host: self._not_started(host, hold) for host, hold in hosts.items()}
        with self._lock:
            for host, record in records.items():
                self._keep(host, record)
        if records:
            with suppress(JournalUnusable):  # the report outweighs its copy in the journal
                self._context.journal.record_all(self._context.run_id, records)
        for host, hold in hosts.items():
            self._emit(
                Event(
                    host=host,
                    step="device",
                    status="failed",
                    text=f"{records[host].outcome.label}: {hold.reason}",
                    at_s=self._at_s,
                    site=self._fleet.views[host].site,
                    wave=wave.number,
                    outcome=records[host].outcome.value,
                    restored=records[host].restored.value,
                    failure=hold.kind,
                )
            )

    def _not_started(self, host: str, hold: Hold) -> DeviceRecord:
        return DeviceRecord(
            host=host,
            image=self._fleet.images[host].name,
            outcome=Outcome.NOT_STARTED,
            failure=Failure(
                step="wave",
                reason=hold.reason,
                hint=f"Go on with 'flashferry stage --resume {self._context.run_id}'",
                kind=hold.kind,
            ),
            seconds_by_step={},
        )

    @property
    def _at_s(self) -> float:
        return time.monotonic() - self._context.started_s

    def _emit(self, event: Event) -> None:
        self._context.emit(event)

    def _event_waiting(self, text: str, site: str | None) -> None:
        self._emit(Event(host=None, step="run", status="waiting", text=text, at_s=self._at_s, site=site))

    def _event(self, wave: Wave, status: str, text: str) -> None:
        self._emit(Event(host=None, step="wave", status=status, text=text, at_s=self._at_s, wave=wave.number))


def _devices(count: int) -> str:
    return counted(count, "device")


def _in_order(transports: tuple[Transport, ...], before: DeviceRecord | None) -> tuple[Transport, ...]:
    """Return the transports for a retry: the last one first, those by which no byte came last."""
    if before is None:
        return transports
    in_vain = {one.transport for one in before.transports_tried}
    return tuple(sorted(transports, key=lambda one: (one.name in in_vain, one.name != before.transport)))
