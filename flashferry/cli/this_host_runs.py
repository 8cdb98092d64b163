"""Reading, steering and reporting runs of this host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from flashferry import api
from flashferry.cli.invocation import asker
from flashferry.cli.result import StatusPage, status_content
from flashferry.core.errors import ConfigInvalid
from flashferry.store.control_requests import SteerKind
from flashferry.store.sites.database import FILE, SitesDatabase

if TYPE_CHECKING:
    from flashferry.api import DeviceHistory, Steered
    from flashferry.reports.model import Report
    from flashferry.sites.centre.overview import RunOverview
    from flashferry.store.control import ControlRequest
    from flashferry.store.history import History
    from flashferry.store.status import RunStatus
    from flashferry.store.stored_run import StoredRun

T = TypeVar("T")


class RunsOfThisHost:
    """Reads and steers runs of this host.

    Args:
        state: The state folder; None: the default.
    """

    def __init__(self, state: Path | None) -> None:
        self._state = state

    def status(self, last: int, depot: str, catalogue: Path | None) -> StatusPage:
        """Return the latest runs, the depot, the catalogue, and the devices left to recover."""
        found = api.status(last, state=self._state)
        at_depot = api.find_depot(found.directory, depot)
        content, meaning = status_content(found)
        troubles: list[str] = []
        site_runs = _unless_broken(lambda: _site_runs(found.directory, last), troubles) or ()
        images = _unless_broken(lambda: api.catalogue_summary(found.directory, catalogue, at_depot), troubles)
        content |= {name: value for name, value in (("depot", at_depot), ("catalogue", images)) if value is not None}
        content |= {name: value for name, value in (("site_runs", site_runs), ("troubles", troubles)) if value}
        return StatusPage(
            runs=found,
            content=content,
            meaning=meaning,
            depot=at_depot,
            images=images,
            site_runs=site_runs,
            troubles=troubles,
        )

    def runs(self, last: int) -> tuple[RunStatus, ...]:
        """Return the latest runs."""
        return api.status(last, state=self._state).runs

    def stored_run(self, run: str) -> tuple[StoredRun, ControlRequest]:
        """Return a run with its devices, and the operators' requests for it."""
        return api.stored_run(run, state=self._state)

    def steer(self, run: str, what: SteerKind, reason: str) -> Steered:
        """Pause, continue or stop a run."""
        is_stop = what is SteerKind.STOP
        paused = None if is_stop else what is SteerKind.PAUSE
        return api.steer(run, paused=paused, stopping=True if is_stop else None, asker=asker(reason), state=self._state)

    def approve(self, run: str, wave: int | None, reason: str) -> Steered:
        """Approve a run's waves up to one."""
        return api.approve(run, wave, asker=asker(reason), state=self._state)

    def history(self) -> History:
        """Return the copies of all devices."""
        return api.history(state=self._state)

    def device_history(self, device: str, last: int) -> tuple[History, DeviceHistory]:
        """Return the copies of one device."""
        found = self.history()
        return found, api.device_history(found, device, last)

    def report(self, run: str) -> Report:
        """Return the report of a run."""
        return api.report(run, state=self._state)

    def nothing(self, what: str) -> str:
        """Return the sentence that the journal has no run or copy yet."""
        return f"the journal has no {what}{' of any device' if what == 'copy' else ''} yet"


def _unless_broken(read: Callable[[], T], troubles: list[str]) -> T | None:
    """Return what `read` returns; on an error add the reason to `troubles` and return None."""
    try:
        return read()
    except ConfigInvalid as error:
        troubles.append(f"{error.message}. {error.hint}" if error.hint else error.message)
        return None


def _site_runs(state: Path, most: int) -> tuple[RunOverview, ...]:
    """Return runs at sites that were started from here; none if this host is not a centre.

    Raises:
        ConfigInvalid: The ledger cannot be used.
    """
    if not (state / FILE).is_file():
        return ()
    from flashferry.sites.centre.overview import run_overviews  # imports cryptography

    return run_overviews(SitesDatabase(state), most=most, also_open=True)
