"""What carries out a verb, this host or a remote service, and the verb's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

import typer
from msgspec import Struct, field

from flashferry.cli.command_line import is_at_service
from flashferry.cli.terminal.output import echo, finish, here, print_document, printed
from flashferry.core.codec import to_json
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from flashferry.api import DepotFound, DeviceHistory, FleetOptions, ServerPlace, Steered
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.depot.catalogue.folder import CatalogueSummary
    from flashferry.model.fleet_plan import FleetPlan
    from flashferry.model.record import RunReport
    from flashferry.planning.inspection import CheckRecord
    from flashferry.reports.model import Report
    from flashferry.run.recover import RecoveryRecord
    from flashferry.sites.centre.overview import RunOverview
    from flashferry.store.control import ControlRequest
    from flashferry.store.control_requests import SteerKind
    from flashferry.store.history import History
    from flashferry.store.status import RunStatus, Status
    from flashferry.store.stored_run import StoredRun

T = TypeVar("T")

T_co = TypeVar("T_co", covariant=True)


class Result(Struct, Generic[T_co], frozen=True, kw_only=True):
    """Result of a verb.

    Attributes:
        verb: The verb's name in JSON documents.
        code: The exit code.
        content: Content of the JSON document; from a service the whole document.
        value: Returns the value to print for people.
        meaning: What the exit code means here; None: what it always means for this verb.
        is_document: Whether `content` is a service's whole document.
        error: Error reported by a service, or empty.
        sentence: Sentence printed in place of the value, or empty.
        after: Lines printed after the value.
        before_bytes_per_s: Speed before tuning by device, from an earlier speed test.
    """

    verb: str
    code: ExitCode
    content: Mapping[str, object]
    value: Callable[[], T_co]
    meaning: str | None = None
    is_document: bool = False
    error: str = ""
    sentence: str = ""
    after: Sequence[str] = ()
    before_bytes_per_s: Mapping[str, float] = field(default_factory=dict)


def devices_result(verb: str, code: ExitCode, devices: T) -> Result[T]:
    """Return the result of a verb whose document is a list of devices."""
    return Result(verb=verb, code=code, content={"devices": devices}, value=lambda: devices)


class Watching(Struct, frozen=True, kw_only=True):
    """Where a run's events go besides the terminal: a file, and the address that serves metrics. None: neither."""

    events: Path | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPage:
    """What `status` prints.

    Attributes:
        runs: Runs, devices being staged, and devices left to recover.
        content: Content of the JSON document.
        meaning: What the exit code means.
        without: Sentence printed if there is no run; empty: the default sentence.
        depot: The shared file server, or None.
        images: The image catalogue, or None.
        site_runs: Runs at sites.
        troubles: Parts that could not be read, as sentences.
    """

    runs: Status
    content: dict[str, object]
    meaning: str
    without: str = ""
    depot: DepotFound | None = None
    images: CatalogueSummary | None = None
    site_runs: tuple[RunOverview, ...] = ()
    troubles: Sequence[str] = ()


def show(result: Result[T], human: Callable[[T], None], *, as_json: bool) -> NoReturn:
    """Print a result for people or as its JSON document, and exit with its code."""

    def for_people() -> None:
        from flashferry.cli.view.layout import console  # imports rich

        if not result.sentence:
            human(result.value())
        for text in (result.sentence,) if result.sentence else result.after:
            console().print(text)

    if not result.is_document:
        content = dict(result.content)
        finish(result.verb, result.code, content, as_json=as_json, human=for_people, meaning=result.meaning)
    if result.error:
        with suppress(OSError):
            echo(f"flashferry: error: at the service: {here(result.error)}", err=True)
        is_out = not as_json or printed(lambda: print_document(result.content))
    else:
        is_out = printed((lambda: print_document(result.content)) if as_json else for_people)
    raise typer.Exit(int(result.code if is_out else result.code or ExitCode.INTERNAL))


def status_content(found: Status, url: str = "") -> tuple[dict[str, object], str]:
    """Return the content of `status`'s JSON document and what its exit code means. url: the service's address."""
    left = [{"run_id": run.run_id, "host": device.host, "address": device.address} for run, device in found.to_recover]
    left += [{"run_id": one.run_id, "host": one.host, "address": one.address} for one in found.lost]
    what = counted(len(left), "device") if left else "nothing"
    status = {**to_json(found), "directory": url} if url else found
    content: dict[str, object] = {"status": status, "needs_recovery": bool(left), "to_recover": left}
    return content, f"the journal was read; {what} left to recover"


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
