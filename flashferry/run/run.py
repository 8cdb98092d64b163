"""One run over a fleet: server, journal, waves, and the final check of configurations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ImageFile, raise_soft_limit
from flashferry.images.image import check_published
from flashferry.images.safe_open import checked_image
from flashferry.model.lease import JournalUnusable
from flashferry.model.link_rates import LinkRates
from flashferry.model.record import DeviceRecord, RunReport
from flashferry.model.states import Restored, State
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.planning.deadline import Deadline, left_out, now_utc
from flashferry.planning.image_platforms import GivenImages
from flashferry.planning.local_images import HashProgress
from flashferry.run.concurrency import SlotPools
from flashferry.run.context import RunContext
from flashferry.run.control import Approve, RunControl
from flashferry.run.device.workflow import stage_device
from flashferry.run.neighbours.board import Neighbourhood, may_serve
from flashferry.run.recover import RecoveryRecord, recover
from flashferry.run.request import FleetRequest, RunOptions, to_stored
from flashferry.run.resume import with_earlier
from flashferry.run.runner import share_arenas
from flashferry.run.scheduler import Fleet, WaveScheduler
from flashferry.run.server import (
    depot_for,
    may_push,
    own_fingerprints,
    port_notices,
    served_for,
    server_notes,
    serving,
    site_caps,
    transports_of,
)
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.probe_choices import SshPreferences
from flashferry.store.staged import dead_man_proven
from flashferry.store.status import last_hash_speeds
from flashferry.store.stored_run import read_run
from flashferry.transports.transport import Transport, checked_name
from inventory.host_view import HostView, view
from inventory.sites import check_addresses
from tasks.run_marker import local_owner

if TYPE_CHECKING:
    from flashferry.depot.client import DepotClient
    from flashferry.fileserver import ServerClient


def check_configs_again(
    nornir: Nornir,
    journal: Journal,
    run_id: str,
    records: Mapping[str, DeviceRecord],
    *,
    emit: Emit,
    interrupted: Callable[[], bool],
) -> dict[str, DeviceRecord]:
    """Restore again the devices whose restore a rollback or lock could undo; return the updated records.

    The run must be marked as ended in the journal. If the operator stops, the devices stay there.
    """
    waiting = {host for host, record in records.items() if _is_to_be_restored_again(record)}
    if not waiting or interrupted():
        return dict(records)
    try:
        found = recover(nornir, journal, emit=emit, interrupted=interrupted, only=run_id)
    except ConfigInvalid:
        # Another recovery is running and finds these devices too.
        return dict(records)
    recovered = {one.host: one for one in found if one.host in waiting}
    return {host: _with(record, recovered.get(host)) for host, record in records.items()}


def _is_to_be_restored_again(record: DeviceRecord) -> bool:
    report = record.restore
    return (
        record.restored is Restored.INCOMPLETE and report is not None and report.held_by is not None and report.passes
    )


def _with(record: DeviceRecord, found: RecoveryRecord | None) -> DeviceRecord:
    if found is None:
        return record
    if found.failure is not None:
        return replace(record, restore=found.restore or record.restore, restore_failure=found.failure)
    state = State.DONE if record.failure is None else State.FAILED
    return replace(record, state=state, restored=found.restored, restore=found.restore, restore_failure=None)


def selected(nornir: Nornir, names: tuple[str, ...]) -> Nornir:
    """Return the inventory narrowed to the named hosts; all hosts if none is named.

    Raises:
        ConfigInvalid: A name is not in the inventory, or no host is left.
    """
    hosts = nornir.inventory.hosts
    unknown = [name for name in names if name not in hosts]
    if unknown:
        known = ", ".join(sorted(hosts)[:10]) or "none"
        raise ConfigInvalid(
            f"unknown device {', '.join(map(repr, unknown))}: the inventory has {known}",
            hint="Check --host and --inventory",
        )
    chosen = nornir.filter(filter_func=lambda host: host.name in names) if names else nornir
    if not chosen.inventory.hosts:
        raise ConfigInvalid(
            "no device in the inventory", hint="Add devices to the inventory, or give another with --inventory"
        )
    return chosen


def run_fleet(
    nornir: Nornir,
    image: Path,
    options: RunOptions,
    *,
    journal: Journal,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    device_task: Callable[[Task, RunContext], Result] = stage_device,
    more_images: tuple[Path, ...] = (),
) -> RunReport:
    """Run all devices with one image, in one wave and without retries. See `run_waves`."""
    request = FleetRequest(images=dict.fromkeys(nornir.inventory.hosts, image), more_images=more_images)
    options = replace(options, policy=options.policy.changed({"retries": 0}))
    return run_waves(
        nornir, request, options, journal=journal, emit=emit, interrupted=interrupted, device_task=device_task
    )


def run_waves(
    nornir: Nornir,
    request: FleetRequest,
    options: RunOptions,
    *,
    journal: Journal,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    device_task: Callable[[Task, RunContext], Result] = stage_device,
    approve: Approve | None = None,
) -> RunReport:
    """Run the devices of a request.

    Args:
        nornir: The devices, with credentials.
        request: Which devices get which image, in which waves.
        options: How the run is to be done.
        journal: Keeps prior configurations until they are restored.
        emit: Receives events, from several threads.
        interrupted: Whether the operator stops.
        device_task: Nornir task of each device; its result is a DeviceRecord.
        approve: Asks whether a wave may start, if waves need approval; None: only `flashferry run approve` does.

    Returns:
        A record per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory or an image is wrong, the server cannot start, or a required depot is not there; no
            device was touched.
    """
    for path in request.files:
        checked_name(checked_image(path).name)
    names = (*request.images, *_helpers(nornir, request))
    check_addresses(nornir.inventory.hosts[name] for name in names)
    views = {name: view(nornir.inventory.hosts[name]) for name in names}
    with depot_for(options, journal.directory) as (depot, options, note):
        choices = transports_of(views.values(), options, first=request.transports)
        # A device under way needs several descriptors: a limit of 1024 is soon reached, and restores would fail.
        raise_soft_limit()
        share_arenas(len(views))
        run = _Run(nornir, request, options, journal, never_failing(emit), views, choices, depot, note)
        return run.execute(interrupted, device_task, approve)


def _helpers(nornir: Nornir, request: FleetRequest) -> tuple[str, ...]:
    """Return the devices that were done before the run was resumed and may serve others."""
    if request.resumed is None:
        return ()
    names = {path.name for path in request.files}
    done = (
        host
        for host, record in request.resumed.before.items()
        if record.is_staged_and_restored and record.image in names and host not in request.images
    )
    return may_serve(done, request.images, nornir.inventory.hosts)


class _Run:
    """One run from the first event to the report."""

    def __init__(
        self,
        nornir: Nornir,
        request: FleetRequest,
        options: RunOptions,
        journal: Journal,
        emit: Emit,
        views: dict[str, HostView],
        choices: dict[str, tuple[Transport, ...]],
        depot: DepotClient | None,
        note: str,
    ) -> None:
        self._choices, self._depot, self._note = choices, depot, note
        self._nornir, self._request, self._options = nornir, request, options
        self._journal, self._emit, self._views = journal, emit, views
        self._hash_speeds = last_hash_speeds(journal.directory)
        self._dead_man_proven = dead_man_proven(journal.directory) if options.verb == "stage" else frozenset()
        self._links = LinkRates(journal.directory)
        self._started, self._since = time.monotonic(), now_utc()

    def execute(
        self,
        interrupted: Callable[[], bool],
        device_task: Callable[[Task, RunContext], Result],
        approve: Approve | None,
    ) -> RunReport:
        """Start the server, run all waves, and return the report."""
        if not self._request.images:
            return self._nothing_left(interrupted())
        self._check_time()
        options, files = self._options, self._request.files
        self._event("server", "started", f"hashing {', '.join(path.name for path in files)}")
        served = served_for(self._choices)
        with (
            serving(
                (*files, *self._request.more_images),
                options,
                state=self._journal.directory,
                transports=served,
                pushes=may_push(self._choices),
                depot=self._depot,
            ) as server,
            server_notes(server, partial(self._event, "server", "note")),
        ):
            if self._note:
                self._event("server", "note", f"note: {self._note}")
            images = self._offered(server, interrupted)
            self._set_caps(server)
            run_id = self._enter_in_journal(images)
            for notice in port_notices(server, options, served):
                self._event("server", "note", f"note: {notice}")
            ports = ", ".join(f"{one.title} port {server.port_of(one.name)}" for one in served)
            for image in dict.fromkeys(images.values()):
                where = f"on {ports}{server.label}" if ports else "by push alone: no port is open"
                self._event("server", "done", f"offers {image.name}, {image.size_bytes:,} bytes, {where}")
            control = RunControl(self._journal, run_id, interrupted=interrupted, notify=self._event, approve=approve)
            fleet = Fleet(nornir=self._nornir, views=self._views, images=images, transports=self._choices)
            context = self._context(run_id, server, fleet, control)
            scheduler = WaveScheduler(fleet, self._request, context, device_task, control, self._deadline())
            records = scheduler.run()
            with suppress(JournalUnusable):
                self._journal.finish_run(run_id)
        with suppress(JournalUnusable):
            records = check_configs_again(
                self._nornir, self._journal, run_id, records, emit=self._emit, interrupted=control.is_stopping
            )
        return self._report(run_id, images, records, stopped=scheduler.stopped, is_stopped=control.is_stopping())

    def _check_time(self) -> None:
        """Report which sites cannot be staged in time, before anything is started. Raises if none can, in a new run."""
        holds, sentence = left_out(self._deadline(), self._views, self._request.images)
        if len(holds) == len(self._request.images) and self._request.resumed is None:
            raise ConfigInvalid(
                f"expected a device that can be staged in time, found none: {sentence}",
                hint="Start nearer to the sites' windows, or give a later end with --until; no run was made, no device "
                "was touched",
            )
        if holds:
            self._event("run", "note", f"note: cannot be staged in this run: {sentence}")

    def _nothing_left(self, is_stopped: bool) -> RunReport:
        """Return the report of a resumed run in which all devices were done already; no server is needed."""
        resumed = self._request.resumed
        if resumed is None:
            raise ConfigInvalid("no device to stage", hint="Name at least one device: the request has none")
        self._journal.finish_run(resumed.run_id)
        return self._report(resumed.run_id, {}, {}, stopped=None, is_stopped=is_stopped)

    def _offered(self, server: ServerClient, interrupted: Callable[[], bool]) -> dict[str, ImageFile]:
        """Return the image of each device, hashed: that takes a while, and no device is touched before it is done."""
        by_path = {
            path: server.image(
                path.name, on_progress=HashProgress(self._emit, path.name, self._started, interrupted=interrupted)
            )
            for path in self._request.files
        }
        for image in by_path.values():
            check_published(image, self._options.policy.vendor)
        images = {host: by_path[path] for host, path in self._request.images.items()}
        by_name = {image.name: image for image in by_path.values()}
        before = self._request.resumed.before if self._request.resumed is not None else {}
        return images | {host: by_name[before[host].image or ""] for host in self._views if host not in images}

    def _set_caps(self, server: ServerClient) -> None:
        for site, cap_bytes_per_s in site_caps(self._views.values()).items():
            server.set_site_cap(site, cap_bytes_per_s)
        for site, cap in self._links.learned_site_caps(self._views.values()).items():
            server.set_site_cap(site, cap.bytes_per_s, cap.source)

    def _enter_in_journal(self, images: dict[str, ImageFile]) -> str:
        """Enter the run and its devices in the journal, or resume it; return its identifier."""
        resumed = self._request.resumed
        stored = to_stored(self._request, self._options, images)
        run_id = resumed.run_id if resumed else self._journal.begin_run(self._options.verb, stored)
        at_s = time.monotonic() - self._started
        self._emit(Event(host=None, step="run", status="started", text=run_id, at_s=at_s, run_id=run_id))
        waves = {host: wave.number for wave in self._request.in_waves for host in wave.hosts}
        # A run killed early may not have entered all devices; others may have a new address since.
        known: frozenset[str] = frozenset()
        if resumed:
            run = read_run(self._journal.directory, run_id, with_transfers=False)
            known = frozenset(one.host for one in run.devices)
        devices = [
            NewDevice.of(device, wave=waves.get(device.name, 0), image=images[device.name].name)
            for device in self._views.values()
        ]
        self._journal.add_devices(run_id, (one for one in devices if one.host not in known))
        self._journal.update_devices(run_id, (one for one in devices if one.host in known))
        if self._request.excluded and resumed is None:
            self._journal.exclude(run_id, self._request.excluded)
        return run_id

    def _context(self, run_id: str, server: ServerClient, fleet: Fleet, control: RunControl) -> RunContext:
        limits = self._options.policy.limits
        return RunContext(
            run_id=run_id,
            image=next(iter(fleet.images.values())),
            server=server,
            journal=self._journal,
            policy=self._options.policy,
            to_null=self._options.to_null,
            server_address=self._options.server.address,
            emit=self._emit,
            interrupted=control.is_stopping,
            started_s=self._started,
            links=self._links,
            hash_speeds=self._hash_speeds,
            dead_man_proven=self._dead_man_proven,
            verb=self._options.verb,
            owner=local_owner(),
            certificate=self._options.server.certificate_and_key,
            not_served=self._options.not_served,
            given=GivenImages(),
            slots=SlotPools(limits, site_copies=fleet.site_copies(limits.of_site), gate=server.slot_reservations),
            fingerprints=own_fingerprints(self._journal.directory, served_for(self._choices), self._options),
            ssh_preferences=SshPreferences.read(self._journal.directory).by_name,
            neighbourhood=self._neighbourhood(fleet),
        )

    def _neighbourhood(self, fleet: Fleet) -> Neighbourhood | None:
        is_staging = self._options.verb == "stage" and not self._options.to_null
        return Neighbourhood(fleet.views, fleet.images) if is_staging else None

    def _deadline(self) -> Deadline:
        windows = {name: device.windows for name, device in self._views.items()}
        until, expected_s = self._options.policy.until, self._request.expected_s
        return Deadline(until=until, windows=windows, expected_s=expected_s, since=self._since)

    def _report(
        self,
        run_id: str,
        images: dict[str, ImageFile],
        records: dict[str, DeviceRecord],
        *,
        stopped: str | None,
        is_stopped: bool,
    ) -> RunReport:
        offered = tuple(one.of_record() for one in dict.fromkeys(images.values()))
        resumed = self._request.resumed
        done = dict(resumed.before) if resumed else {}
        excluded = dict(resumed.excluded) if resumed else {one.host: record for one, record in self._request.excluded}
        everyone = done | excluded | records
        with suppress(JournalUnusable, ConfigInvalid):
            everyone = with_earlier(self._journal, run_id, everyone)
        order = [name for name in self._nornir.inventory.hosts if name in everyone]
        return RunReport(
            run_id=run_id,
            verb=self._options.verb,
            image=offered[0].name if offered else "nothing left to copy",
            image_bytes=offered[0].size_bytes if offered else 0,
            md5=offered[0].md5 if offered else "",
            devices=tuple(everyone[name] for name in (*order, *(name for name in everyone if name not in order))),
            interrupted=is_stopped,
            images=offered,
            stopped=stopped,
        )

    def _event(self, step: str, status: str, text: str) -> None:
        at_s = time.monotonic() - self._started
        self._emit(Event(host=None, step=step, status=status, text=text, at_s=at_s))
