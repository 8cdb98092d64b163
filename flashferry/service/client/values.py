"""JSON objects of a remote service, with the members that the command line uses."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from flashferry.api.runs import DeviceHistory, TransportHistory
from flashferry.core.values import as_dict
from flashferry.model.states import RunState
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import SteerRequest
from flashferry.store.history import Expectation, History
from flashferry.store.measurements import Measurement
from flashferry.store.stored_run import StoredDevice, StoredRun


class RemoteJob(Struct, frozen=True, kw_only=True):
    """A job; see `flashferry.store.service.jobs.Job`."""

    job_id: str
    kind: str
    state: str
    is_open: bool
    digest: str | None = None
    run_id: str | None = None
    parent: str | None = None
    requested_by: str = ""
    created_at: str = ""
    exit_code: int | None = None
    sentence: str = ""


class RemotePlan(Struct, frozen=True, kw_only=True):
    """A plan; `why_not` is why it cannot start now, empty if it can or was not checked."""

    digest: str
    state: str
    made_by: str
    title: str = ""
    sites: tuple[str, ...] = ()
    devices: int = 0
    decided_by: str | None = None
    comment: str | None = None
    withdrawn_by: str | None = None
    withdrawn_because: str | None = None
    why_not: str = ""

    @property
    def is_draft(self) -> bool:
        """Return whether the plan is not yet approved or denied."""
        return self.state == "draft"


class RemoteDevice(Struct, frozen=True, kw_only=True):
    """A device of a run, as `GET /runs/ID/devices` returns it."""

    host: str
    site: str | None = None
    wave: int = 0
    image: str | None = None
    state: str = ""
    attempt: int = 1
    is_held: bool = False
    outcome: str | None = None
    restored: str | None = None
    updated_at: str = ""

    def stored(self) -> StoredDevice:
        """Convert to the type that the local journal returns."""
        record = {"outcome": self.outcome, "restored": self.restored}
        return StoredDevice(
            **{name: getattr(self, name) for name in ("host", "site", "wave", "image", "state", "attempt", "is_held")},
            address="",
            identity=None,
            record=record if self.outcome or self.restored else {},
            updated_at=self.updated_at,
        )


class RemoteRun(Struct, frozen=True, kw_only=True):
    """A run, as `GET /runs/ID` returns it."""

    run_id: str
    verb: str
    state: RunState
    started_at: str
    finished_at: str | None = None
    resumed: int = 0
    actor: str | None = None
    plan_digest: str | None = None
    control: ControlRequest = field(default_factory=ControlRequest)
    wishes: tuple[SteerRequest, ...] = ()
    damaged: tuple[str, ...] = ()
    jobs: tuple[RemoteJob, ...] = ()

    def stored(self, devices: tuple[RemoteDevice, ...]) -> StoredRun:
        """Convert to the type that the local journal returns."""
        same: dict[str, Any] = {name: getattr(self, name) for name in _SAME}
        return StoredRun(
            **same,
            steer_requests=self.wishes,
            request={},
            devices=tuple(one.stored() for one in devices),
            job=self.jobs[-1].job_id if self.jobs else None,
        )


_SAME = ("run_id", "verb", "state", "started_at", "finished_at", "resumed", "damaged", "actor", "plan_digest")


class RunWord(Struct, frozen=True, kw_only=True):
    """A run in a list."""

    run_id: str
    verb: str
    state: RunState
    started_at: str = ""


class RemoteSeries(Struct, frozen=True, kw_only=True):
    """Copies of a device by one transport; see `flashferry.api.runs.TransportHistory`."""

    transport: str
    copies: int
    expected_tuned: Expectation | None
    expected_as_it_is: Expectation | None
    shown_not_to_gain: str | None


class RemoteHistory(Struct, frozen=True, kw_only=True):
    """Copies of a device over time; see `flashferry.api.runs.DeviceHistory`."""

    device: str
    measurements: tuple[Measurement, ...]
    expected_tuned: Expectation | None
    expected_as_it_is: Expectation | None
    shown_not_to_gain: str | None
    by_transport: tuple[RemoteSeries, ...]
    damaged: int

    def history(self) -> DeviceHistory:
        """Convert to the type that the local journal returns."""
        found = as_dict(self)
        series = tuple(TransportHistory(**as_dict(each)) for each in self.by_transport)
        return DeviceHistory(**found | {"by_transport": series})


class RemoteCopies(Struct, frozen=True, kw_only=True):
    """The newest copy of each device; see `flashferry.store.history.History`."""

    copies: tuple[Measurement, ...]
    damaged: int = 0

    def history(self) -> History:
        """Convert to the type that the local journal returns."""
        return History(self.copies, damaged=self.damaged)
