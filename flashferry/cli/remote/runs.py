# ruff: noqa: ARG002 -- the service has its own depot
"""Reading, steering and reporting runs of a remote service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.api import Steered
from flashferry.cli.remote.requests import service_client
from flashferry.cli.result import StatusPage, status_content
from flashferry.cli.terminal.output import command
from flashferry.core.errors import ConfigInvalid
from flashferry.service.client.client import ServiceClient, as_agreed, report_in
from flashferry.service.client.values import RemoteCopies, RemoteHistory
from flashferry.store.control import may_approve
from flashferry.store.reader import chosen as chosen_run
from flashferry.store.status import Status

if TYPE_CHECKING:
    from flashferry.api import DeviceHistory
    from flashferry.reports.model import Report
    from flashferry.store.control import ControlRequest
    from flashferry.store.control_requests import SteerKind
    from flashferry.store.history import History
    from flashferry.store.status import RunStatus
    from flashferry.store.stored_run import StoredRun

_MOST_RUNS = 200
_MOST_COPIES = 2000


@contextmanager
def runs_at_service(words: Mapping[str, Any]) -> Iterator[RunsAtService]:
    """Open the service that a command line selects; see `service_client`."""
    with service_client(words) as client:
        yield RunsAtService(client)


class RunsAtService:
    """Reads and steers runs of a service."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    def status(self, last: int, depot: str, catalogue: Path | None) -> StatusPage:
        """Return the latest runs and the devices left to recover."""
        found = self.status_of_runs(last)
        content, meaning = status_content(found, self._client.url)
        without = "" if found.runs or found.lost else self.nothing("run")
        return StatusPage(runs=found, content=content, meaning=meaning, without=without)

    def runs(self, last: int) -> tuple[RunStatus, ...]:
        """Return the latest runs."""
        return self.status_of_runs(last).runs

    def stored_run(self, run: str) -> tuple[StoredRun, ControlRequest]:
        """Return a run with its devices, and the operators' requests for it."""
        run_id = self.run_named(run)
        found = self._client.run(run_id)
        return found.stored(self._client.devices(run_id)), found.control

    def steer(self, run: str, what: SteerKind, reason: str) -> Steered:
        """Pause, continue or stop a run."""
        if not reason.strip():
            raise ConfigInvalid(
                "--reason: expected a few words, found none",
                hint="Give the reason: it is in the service's audit and shown with the run",
            )
        run_id = self.run_named(run)
        return Steered(run_id=run_id, control=self._client.steer(run_id, what.value, reason))

    def approve(self, run: str, wave: int | None, reason: str) -> Steered:
        """Approve a run's waves up to one."""
        run_id = self.run_named(run)
        found = self._client.run(run_id)
        number = may_approve(found.stored(self._client.devices(run_id)), found.control, wave)
        self._client.approve_wave(run_id, number, digest=found.plan_digest or "", comment=reason)
        return Steered(run_id=run_id, control=self._client.run(run_id).control, wave=number)

    def history(self) -> History:
        """Return the newest copies of all devices."""
        return as_agreed(RemoteCopies, self._client.read("/history", {"device": "", "last": 20})).history()

    def device_history(self, device: str, last: int) -> tuple[History, DeviceHistory]:
        """Return the copies of one device."""
        _check_most("--last", last, _MOST_COPIES)
        answer = self._client.read("/history", {"device": device, "last": last})
        return as_agreed(RemoteCopies, answer).history(), as_agreed(RemoteHistory, answer.get("device")).history()

    def report(self, run: str) -> Report:
        """Return the report of a run."""
        return report_in(self._client.report(self.run_named(run), "json"))

    def nothing(self, what: str) -> str:
        """Return the sentence that the service has no run or copy that the user may see."""
        return f"the service at {self._client.url} has no {what} that you may see yet"

    def status_of_runs(self, last: int) -> Status:
        """Return the latest runs, the devices being staged, and those left to recover."""
        _check_most("--last", last, _MOST_RUNS)
        return as_agreed(Status, self._client.read("/status", {"last": last}).get("status"))

    def run_named(self, given: str) -> str:
        """Return the id of a run of the service.

        Raises:
            ConfigInvalid: No run, or more than one, has that name.
        """
        known = [run.run_id for run in reversed(self._client.runs())]
        if not known:
            hint = f"'{command('stage --plan FILE')}' starts one; runs of sites at which you have no role are not shown"
            raise ConfigInvalid(self.nothing("run"), hint=hint)
        try:
            return chosen_run(given, known)
        except ConfigInvalid as error:
            is_unknown = "could be" not in error.message
            newest = f"no run {given!r} at the service: the newest that you may see is {known[-1]}"
            hint = f"'{command('run list')}' has the latest"
            raise ConfigInvalid(newest if is_unknown else error.message, hint=hint) from None


def _check_most(option: str, value: int, most: int) -> None:
    if value > most:
        raise ConfigInvalid(f"{option}: expected {most} at most, found {value}", hint="A service shows no more")
