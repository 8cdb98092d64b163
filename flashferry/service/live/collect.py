"""Reader of the live state: the journal, events of live runs, and the service's tables."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.core.errors import FlashferryError, reason_of
from flashferry.core.jobs import JobFolder
from flashferry.model.states import RunState
from flashferry.monitor.events import Lines, WrittenEvent, event_of, lines_from
from flashferry.monitor.progress import Device, Fleet, Roster
from flashferry.service.live.snapshot import (
    NOTHING,
    DeviceActivity,
    EventView,
    Forecast,
    RunNow,
    forecast_of,
    limited_to,
    run_now,
)
from flashferry.service.service import Service
from flashferry.store.service.figures import WaitingPlan, waiting_plans
from flashferry.store.service.jobs import Job, JobKind, jobs_of_run
from flashferry.store.service.plans import text_of
from flashferry.store.status import FollowedRun, LostDevice, RunStatus, Status, StatusReader

BEGIN_BYTES = 1 << 20
"""Read first from the end: with 500 devices the last minute, and each reports every ten seconds."""
_MOST_BYTES = 16 << 20
"""Backlog after which reading continues near the end."""
_LAST_STEPS = {"probe": "probe"}


class Follower:
    """Follows the event file of one run (verb `stage` or `probe`), which may not exist yet."""

    def __init__(self, path: Path, verb: str) -> None:
        self.path = path
        self._fleet = Fleet(Roster(), _LAST_STEPS.get(verb, "restore"))
        self._offset, self._mark = -BEGIN_BYTES, ""
        self._hold_since = self._last_at = ""

    def read(self) -> EventView:
        """Read new events and return the state from all events so far. Raises `OSError`."""
        for event in self._news():
            before = self._fleet.hold
            self._fleet.take(event, event.at_s)
            self._last_at = event.at
            if self._fleet.hold != before:
                self._hold_since = event.at
        return EventView(
            devices=DeviceActivities(self._fleet.devices),
            wave=self._fleet.wave,
            hold=self._fleet.hold,
            hold_since=self._hold_since,
            last_at=self._last_at,
        )

    def _news(self) -> Iterator[WrittenEvent]:
        read = 0
        while True:
            lines = lines_from(self.path, self._offset, mark=self._mark)
            self._keep_place(lines)
            for line, _ in lines.each():
                if (event := event_of(line)) is not None:
                    yield event
            read += len(lines.data)
            if not lines.data:
                return
            if read > _MOST_BYTES:
                self._offset = -BEGIN_BYTES

    def _keep_place(self, lines: Lines) -> None:
        if lines.mark:
            self._offset, self._mark = lines.end, lines.mark


class DeviceActivities(Mapping[str, DeviceActivity]):
    """Mapping of device activities by name; each is converted when accessed."""

    def __init__(self, devices: Mapping[str, Device]) -> None:
        self._devices = devices

    def __getitem__(self, host: str) -> DeviceActivity:
        one = self._devices[host]
        return DeviceActivity(
            phase=one.phase,
            step=one.step,
            waits=one.waits,
            text=one.text if one.has_failed else "",
            acked_bytes=one.acked_bytes,
            size_bytes=one.size_bytes,
            rate_bytes_per_s=one.rate_bytes_per_s,
            verdict=one.verdict,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)


NIGHT_S = 12 * 3600.0
"""A run that started longer ago no longer belongs to tonight, unless it is live or not restored."""
LATEST_RUNS = 30
"""Runs in a snapshot; those that hold a device come on top."""
_WRITERS = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE})
"""Jobs whose process writes the events of a run."""
_NO_FORECAST = Forecast()


class Snapshot(Struct, frozen=True, kw_only=True):
    """The live state at one time.

    Attributes:
        at: When it was asked for; its time zone is that of texts about it.
        jobs: Newest job of the service, by run.
        lost: Devices left changed by killed runs that the journal does not have.
        trouble: Why the snapshot is out of date, such as an unreadable journal; empty: it is current.
        read_at: When all of it was last read.
    """

    at: datetime
    runs: tuple[RunNow, ...] = ()
    forecasts: Mapping[str, Forecast] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    lost: tuple[LostDevice, ...] = ()
    plans: tuple[WaitingPlan, ...] = ()
    trouble: str = ""
    read_at: datetime

    @property
    def tonight(self) -> tuple[RunNow, ...]:
        """Return the runs on the wall screen: live, with unrestored devices, or started recently."""
        since = (self.at - timedelta(seconds=NIGHT_S)).isoformat()
        return tuple(one for one in self.runs if one.is_alive or one.unrestored or _is_after(one.started_at, since))

    def run(self, run_id: str) -> RunNow | None:
        """Return a run, or None if the snapshot does not include it."""
        return next((one for one in self.runs if one.run_id == run_id), None)

    def in_zone(self, zone: tzinfo) -> Snapshot:
        """Return it with a time zone for texts about it."""
        return replace(self, at=self.at.astimezone(zone))

    def seen_from(self, sites: frozenset[str] | None) -> Snapshot:
        """Return the snapshot limited to some sites; None: all."""
        if sites is None:
            return self
        seen = (limited_to(one, sites, self.forecasts.get(one.run_id, _NO_FORECAST), self.at) for one in self.runs)
        return Snapshot(
            at=self.at,
            runs=tuple(one for one in seen if one is not None),
            forecasts=self.forecasts,
            jobs=self.jobs,
            plans=tuple(one for one in self.plans if sites.issuperset(one.sites)),
            trouble=self.trouble,
            read_at=self.read_at,
        )


class SnapshotReader:
    """Reads snapshots; calls within a second return the same one."""

    FRESH_S = 0.9

    def __init__(self, service: Service) -> None:
        self._service = service
        self._status = StatusReader(service.state, LATEST_RUNS)
        self._followers: dict[str, Follower] = {}
        self._forecasts: dict[str, Forecast] = {}
        self._busy = threading.Lock()
        self._runs: dict[str, FollowedRun] = {}
        self._writers: dict[str, str] = {}
        self._still: dict[int, tuple[FollowedRun, RunNow]] = {}
        self._last: Snapshot | None = None

    def read(self) -> Snapshot:
        """Return a snapshot less than a second old; `trouble` says what could not be read."""
        with self._busy:
            now = self._service.now()
            last = self._last
            if last is not None and 0 <= (now - last.at).total_seconds() < self.FRESH_S:
                return last
            self._last = self._read_or_last(now, last)
            return self._last

    def renew(self) -> None:
        """Read a snapshot now, so that a change just made is in it."""
        with self._busy:
            self._last = self._read_or_last(self._service.now(), self._last)

    def some(self, run_ids: Sequence[str]) -> Snapshot:
        """Return a snapshot of the given runs, which may be old. Raises `ConfigInvalid`."""
        snapshot = self.read()
        missing = [run_id for run_id in run_ids if snapshot.run(run_id) is None]
        with self._service.database.reading() as database:
            found = {run_id: jobs_of_run(database, run_id) for run_id in missing}
            older = self._status.some(missing)
            forecasts = {one.status.run_id: self._forecast(database, one.row.plan_digest) for one in older}
        runs_then = {
            one.status.run_id: run_now(one, NOTHING, forecasts[one.status.run_id], snapshot.at) for one in older
        }
        runs = (snapshot.run(run_id) or runs_then.get(run_id) for run_id in run_ids)
        return replace(
            snapshot,
            runs=tuple(one for one in runs if one is not None),
            forecasts={**snapshot.forecasts, **forecasts},
            jobs={**snapshot.jobs, **{run_id: its[-1] for run_id, its in found.items() if its}},
        )

    def statuses(self, count: int) -> tuple[RunStatus, ...]:
        """Return the latest `count` runs, and all with devices left changed. Raises `ConfigInvalid`."""
        with self._busy:
            return self._status.latest(count)

    def identifiers(self) -> tuple[str, ...]:
        """Return the identifiers of all runs in the journal, latest first. Raises `ConfigInvalid`."""
        return self._status.identifiers()

    def run(self, run_id: str) -> FollowedRun | None:
        """Return a run from the journal, or None if it is not among the latest."""
        self.read()
        return self._runs.get(run_id)

    def events_of(self, run: FollowedRun) -> Path | None:
        """Return the event file of a run, or None if it has none."""
        if run.row.events:
            return self._service.state / run.row.events
        job_id = self._writers.get(run.status.run_id)
        return JobFolder.of(self._service.state, job_id).events if job_id else None

    def _read_or_last(self, now: datetime, last: Snapshot | None) -> Snapshot:
        try:
            return self._read_all(now)
        except (FlashferryError, OSError, sqlite3.Error) as error:
            found = last or Snapshot(at=now, read_at=datetime.fromtimestamp(0, UTC))
            return Snapshot(
                at=now,
                runs=found.runs,
                forecasts=found.forecasts,
                jobs=found.jobs,
                lost=found.lost,
                plans=found.plans,
                trouble=f"the live state cannot be read: {reason_of(error)}",
                read_at=found.read_at,
            )

    def _read_all(self, now: datetime) -> Snapshot:
        followed, status = self._status.read()
        ids = tuple(one.status.run_id for one in followed)
        with self._service.database.reading() as database:
            found = {run_id: jobs_of_run(database, run_id) for run_id in ids}
            plans = waiting_plans(database, self._service.moment())
            jobs = {run_id: its[-1] for run_id, its in found.items() if its}
            forecasts = {one.status.run_id: self._forecast(database, one.row.plan_digest) for one in followed}
        self._writers = {
            run_id: its_jobs[-1]
            for run_id, its in found.items()
            if (its_jobs := [one.job_id for one in its if one.kind in _WRITERS])
        }
        runs = tuple(self._run_now(one, forecasts[one.status.run_id], now) for one in followed)
        self._still = {id(one): (one, run) for one, run in zip(followed, runs, strict=True)}
        self._runs = {one.status.run_id: one for one in followed}
        self._forget(status)
        return Snapshot(at=now, runs=runs, forecasts=forecasts, jobs=jobs, lost=status.lost, plans=plans, read_at=now)

    def _run_now(self, run: FollowedRun, forecast: Forecast, now: datetime) -> RunNow:
        # For a finished run without held devices the reader returns the same object; nothing changes there.
        if (still := self._still.get(id(run))) is not None:
            return still[1]
        return run_now(run, self._events(run), forecast, now)

    def _events(self, run: FollowedRun) -> EventView:
        path = self.events_of(run)
        if path is None or run.status.state is not RunState.ALIVE:
            return NOTHING
        known = self._followers.get(run.status.run_id)
        if known is None or known.path != path:
            known = self._followers[run.status.run_id] = Follower(path, run.status.verb)
        try:
            return known.read()
        except OSError:
            # The journal still has the states of devices.
            return NOTHING

    def _forget(self, status: Status) -> None:
        alive = {one.run_id for one in status.runs if one.state is RunState.ALIVE}
        self._followers = {run_id: one for run_id, one in self._followers.items() if run_id in alive}

    def _forecast(self, database: sqlite3.Connection, digest: str | None) -> Forecast:
        if digest is None:
            return _NO_FORECAST
        if digest not in self._forecasts:
            try:
                self._forecasts[digest] = forecast_of(text_of(database, digest))
            except KeyError:
                return _NO_FORECAST
        return self._forecasts[digest]


def _is_after(at: str, since: str) -> bool:
    try:
        return datetime.fromisoformat(at) > datetime.fromisoformat(since)
    except (ValueError, TypeError):
        return False
