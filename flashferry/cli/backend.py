"""Interface of what carries out a verb: this host or a remote service."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import typer

from flashferry.cli.command_line import is_at_service
from flashferry.cli.result import Result, StatusPage, Watching

if TYPE_CHECKING:
    from flashferry.api import DeviceHistory, FleetOptions, ServerPlace, Steered
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.model.fleet_plan import FleetPlan
    from flashferry.model.record import RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.reports.model import Report
    from flashferry.run.recover import RecoveryRecord
    from flashferry.store.control import ControlRequest
    from flashferry.store.control_requests import SteerKind
    from flashferry.store.history import History
    from flashferry.store.status import RunStatus
    from flashferry.store.stored_run import StoredRun

T = TypeVar("T")


class Backend(Protocol):
    """Carries out the verbs of the command line.

    Methods raise the errors of the corresponding functions in `flashferry.api`, or of the service's client.
    """

    def check(self, which: FleetOptions, server: ServerPlace, asked: CheckAsked) -> Result[tuple[CheckRecord, ...]]:
        """Check devices."""

    def probe(self, which: FleetOptions, server: ServerPlace, asked: ProbeAsked, to: Watching) -> Result[RunReport]:
        """Time copies to `null:`."""

    def plan(self, which: FleetOptions, chosen: dict[str, object], asked: PlanAsked) -> Result[FleetPlan]:
        """Make a plan."""

    def stage(
        self, which: FleetOptions, chosen: dict[str, object], server: ServerPlace, asked: StageAsked, to: Watching
    ) -> Result[object]:
        """Stage, resume or rehearse a run. The result's `verb` is `stage`, `dry-run` or `job`."""

    def recover(self, which: FleetOptions, asked: RecoverAsked) -> Result[tuple[RecoveryRecord, ...]]:
        """Restore devices that killed runs left tuned."""


class Runs(Protocol):
    """Reads and steers runs. Errors as for `Backend`."""

    def status(self, last: int, depot: str, catalogue: Path | None) -> StatusPage:
        """Return the latest runs and the devices left to recover."""

    def runs(self, last: int) -> tuple[RunStatus, ...]:
        """Return the latest runs."""

    def stored_run(self, run: str) -> tuple[StoredRun, ControlRequest]:
        """Return a run with its devices, and the operators' requests for it."""

    def steer(self, run: str, what: SteerKind, reason: str) -> Steered:
        """Pause, continue or stop a run."""

    def approve(self, run: str, wave: int | None, reason: str) -> Steered:
        """Approve a run's waves up to `wave`. None: the wave that waits for approval, or else the next one."""

    def history(self) -> History:
        """Return the timed copies of all devices."""

    def device_history(self, device: str, last: int) -> tuple[History, DeviceHistory]:
        """Return the timed copies of one device."""

    def report(self, run: str) -> Report:
        """Return the report of a run."""

    def nothing(self, what: str) -> str:
        """Return the sentence for an empty result. what: `run` or `copy`."""


def backend_of(ctx: typer.Context, state_dir: Path | None = None) -> AbstractContextManager[Backend]:
    """Open the backend that the command line selects, and close it at the end of the block.

    Raises:
        ConfigInvalid: The service's address is invalid, its token is missing, or one of its files cannot be used.
    """
    # Imported here for the start time: this host needs no HTTP client, a service no journal.
    if not is_at_service(ctx):
        from flashferry.cli.this_host import ThisHost

        return nullcontext(ThisHost(state_dir))
    from flashferry.cli.remote.backend import at_service

    return at_service(ctx.find_root().params)


def runs_of(ctx: typer.Context, state_dir: Path | None = None) -> AbstractContextManager[Runs]:
    """Open the runs of this host or of the service that the command line selects; as for `backend_of`."""
    # Imported here for the start time, as above.
    if not is_at_service(ctx):
        from flashferry.cli.this_host_runs import RunsOfThisHost

        return nullcontext(RunsOfThisHost(state_dir))
    from flashferry.cli.remote.runs import runs_at_service

    return runs_at_service(ctx.find_root().params)
