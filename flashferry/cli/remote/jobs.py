"""Jobs and plans of a remote service: follow jobs to their end, wait for approvals, read results."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from flashferry.cli.terminal.output import command, report_to_programs, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import reading
from flashferry.model.exit_codes import ExitCode
from flashferry.model.fleet_plan import Action
from flashferry.model.plan_file import plan_from
from flashferry.model.states import RunState
from flashferry.monitor.progress import Expected, Roster
from flashferry.service.client.client import ApprovalNeeded, ServiceClient, ServiceRefused, ServiceUnusable
from flashferry.service.client.stream import MOST_DEVICES, PATIENCE_S, run_events

if TYPE_CHECKING:
    from flashferry.api.watching import View
    from flashferry.service.client.values import RemoteJob, RemotePlan

Document = Mapping[str, Any]

_ERROR = "error"

_ERRORS = f"flashferry.{_ERROR}/"


def result_of(client: ServiceClient, job: RemoteJob) -> Document:
    """Return the JSON document that the job's verb printed.

    Raises:
        ServiceUnusable: The job was killed, or there is no document.
    """
    if job.exit_code is None:
        raise ServiceUnusable(
            f"job {job.job_id} ({job.kind}) is {job.state}: {job.sentence or 'no reason was given'}",
            hint=f"The service's page has its runs: {client.url}/runs",
        )
    return client.document(job)


def gathered(found: Sequence[Document]) -> Document:
    """Merge the documents of several jobs of one verb: all devices, and the gravest exit code.

    The first error document is returned as it is. found: at least one document.
    """
    if error := next((one for one in found if _is_error(one)), None):
        return error
    gravest = next((one for one in found if one.get("exit_code") == ExitCode.RESTORE_INCOMPLETE), None)
    gravest = gravest or next((one for one in found if one.get("exit_code")), found[0])
    lists = [one.get("devices") for one in found]
    return {**gravest, "devices": [device for one in lists if isinstance(one, list) for device in one]}


def error_in(document: Document) -> str:
    """Return the error reported in a document, or an empty string."""
    return (str(document.get(_ERROR, "")) or "no reason was given") if _is_error(document) else ""


def code_of(document: Document, verb: str) -> ExitCode:
    """Return the exit code in a document.

    Raises:
        ServiceUnusable: The document is not of this verb, or of another release.
    """
    schema, code = document.get("schema"), document.get("exit_code")
    known = (f"flashferry.{verb}/1", f"{_ERRORS}1")
    with suppress(ValueError):
        if schema in known and isinstance(code, int) and not isinstance(code, bool):
            return ExitCode(code)
    raise ServiceUnusable(
        f"the service's result: expected {known[0]} and an exit code, found {str(schema)[:60]!r}, {str(code)[:20]}",
        hint="Check that the service has the same release as this command line",
    )


def _is_error(document: Document) -> bool:
    return str(document.get("schema", "")).startswith(_ERRORS)


POLL_S = 1.0
"""Seconds between requests for a job's state."""

SUCCESSOR_S = 30.0
"""Time for the service to resume a killed run; its first attempt is immediate."""

_RUNS = frozenset({"stage", "resume", "probe"})

_DEAD = "dead"

_CONTINUES = frozenset({"stage", "resume"})


@contextmanager
def leaving_alone(words: Callable[[], str]) -> Iterator[None]:
    """Within the block, let Ctrl-C end only this command; the service continues the job.

    Args:
        words: Returns the sentence printed at Ctrl-C, with the command to type next.
    """

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
        raise KeyboardInterrupt

    before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        text = f"interrupted; {words()}"
        say(text)
        meaning = "interrupted by the operator; what the service has started continues there"
        report_to_programs(text, ExitCode.INTERRUPTED, meaning)
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def continues(what: str) -> Callable[[], str]:
    """Return a function for the sentence that a job without a run continues. what: the job, such as `the check`."""
    return lambda: f"{what} continues at the service"


def job_ended(client: ServiceClient, job: RemoteJob) -> RemoteJob:
    """Wait for a job that changes no device, and return its final state."""
    return next(seen for seen in _states(client, job, say) if not seen.is_open)


class Follower:
    """Follows a run across its jobs: the service resumes a killed run in a new job.

    Args:
        client: Client of the service.
        job: The run's first job.
        clock: Monotonic seconds.
    """

    def __init__(self, client: ServiceClient, job: RemoteJob, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self.job = job

    @property
    def run_id(self) -> str | None:
        """The run, or None while it is unknown."""
        return self.job.run_id

    def follow(self, view: View) -> RemoteJob:
        """Show the run's events until it has ended, and return its last job.

        Raises:
            ServiceRefused: The user may not see the run any more.
            ServiceUnusable: The service did not answer for too long.
        """
        while True:
            self._show(view)
            if self.job.state != _DEAD or (after := self._successor(view)) is None:
                return self.job
            self.job = after

    def _show(self, view: View) -> None:
        """Show the present job's events until it has ended."""
        is_shown = False
        for job in _states(self._client, self.job, view.say):
            self.job = job
            if not is_shown and self._has_started():
                is_shown = True
                self._show_events(str(self.job.run_id), view)
            if not job.is_open:
                return

    def _has_started(self) -> bool:
        """Return whether the job's run is under way or over. The id of a resumed run is known before it starts."""
        if self.job.run_id is None or self.job.kind not in _RUNS:
            return False
        return self.job.kind != "resume" or self._client.run(self.job.run_id).state is RunState.ALIVE

    def _show_events(self, run_id: str, view: View) -> None:
        hosts: set[str | None] = set()
        try:
            for event in run_events(self._client, run_id, view.say):
                hosts.add(event.host)
                if len(hosts) > MOST_DEVICES:
                    raise ServiceUnusable(
                        f"run {run_id}: the service reports more devices than a run has, over {MOST_DEVICES:,}",
                        hint="Check that a flashferry service is at that address",
                    )
                view(event)
        except ServiceRefused as error:
            # Without events, follow the job's state.
            view.say(f"the events of run {run_id} cannot be shown: {error.message}")

    def _successor(self, view: View) -> RemoteJob | None:
        """Return the job in which the service resumes the killed run; None if it does not."""
        dead, until_s = self.job, self._clock() + SUCCESSOR_S
        if dead.run_id is None:
            return None
        view.say(f"run {dead.run_id} died: {dead.sentence or 'no reason was given'}; the service restores what it left")
        while self._clock() < until_s:
            for job in reversed(self._client.run(dead.run_id).jobs):
                if job.job_id == dead.job_id:
                    break
                if job.is_open:
                    until_s = self._clock() + SUCCESSOR_S
                if job.kind in _CONTINUES:
                    view.say(f"the service resumes run {dead.run_id}, job {job.job_id}")
                    return job
            self._client.pause(POLL_S)
        return None


def _states(client: ServiceClient, job: RemoteJob, say: Callable[[str], None]) -> Iterator[RemoteJob]:
    """Yield a job's state at intervals; wait while the service does not answer."""
    printed, away_s = "", 0.0
    while True:
        if job.is_open and job.sentence and job.sentence != printed:
            printed = job.sentence
            say(f"job {job.job_id}: {printed}")
        yield job
        client.pause(POLL_S)
        try:
            job = client.job(job.job_id)
        except ServiceUnusable as error:
            if not error.passes or (away_s and time.monotonic() - away_s > PATIENCE_S):
                raise
            if not away_s:
                away_s = time.monotonic()
                say(f"{error.message}. Trying again; what it has started continues there")
        else:
            away_s = 0.0


def run_continues(run_id: str | None) -> str:
    """Return the sentence after Ctrl-C. run_id: None if it is unknown whether the run has started."""
    if run_id is None:
        return f"the service starts the run that was asked for all the same: '{command('status')}' shows it"
    return (
        f"run {run_id} continues at the service: '{command(f'run follow {run_id}')}' follows it again, "
        f"'{command(f'run pause {run_id} --reason WHY')}' starts no further device, "
        f"'{command(f'run stop {run_id} --reason WHY')}' ends it and restores"
    )


_DIGEST = re.compile(r"[0-9a-f]{8,64}")

_WHOLE = 64

_MOST_BYTES = 64 << 20

_PLAN_POLL_S = 2.0


def planned(client: ServiceClient, given: str, title: str) -> RemotePlan:
    """Return a plan of the service; a file of this host is uploaded as a plan.

    Args:
        client: Client of the service.
        given: A file, or the digest of a plan at the service or its first digits.
        title: Title for an uploaded plan.

    Raises:
        ConfigInvalid: The file is unreadable or not a plan, or the service has no plan with that digest.
    """
    if Path(given).exists() or not _DIGEST.fullmatch(given):
        return _offered(client, Path(given), title)
    if title:
        raise ConfigInvalid(
            "--title: a plan that is at the service already has its title, found another", hint="Leave it out"
        )
    return client.plan(given if len(given) == _WHOLE else _whole(client, given))


def approved(client: ServiceClient, plan: RemotePlan, *, waits: bool) -> RemotePlan:
    """Return the plan once it is approved.

    Raises:
        ApprovalNeeded: It is not approved yet, and is not to be waited for.
        ConfigInvalid: It was denied or withdrawn, or cannot be started for another reason.
    """
    if plan.is_draft:
        if not waits:
            raise ApprovalNeeded(
                f"plan {_short(plan)} waits for approval; nothing was started",
                hint=f"{_approver(client, plan)}; then '{command(f'stage --plan {plan.digest}')}' starts it, "
                "and --wait waits for it",
            )
        say(f"plan {_short(plan)} waits for approval. {_approver(client, plan)}")
        plan = _decided(client, plan)
    if plan.state != "approved" or plan.why_not:
        _refuse(plan)
    return plan


def roster_of_plan(client: ServiceClient, digest: str | None) -> Roster:
    """Return the devices of a plan's run for the live view; empty if they are unknown."""
    if digest is None:
        return Roster()
    try:
        plan = plan_from(client.plan_file(digest), f"{digest[:12]}… at the service")
    except ConfigInvalid:
        # A plan of another release: follow its run with the devices that events name.
        return Roster()
    sizes = {image.name: image.size_bytes for image in plan.images}
    devices = tuple(
        Expected(host=one.host, site=one.site or "", size_bytes=sizes.get(one.image or ""))
        for one in plan.of(Action.STAGE)
    )
    caps = {site.site: site.cap_bytes_per_s for site in plan.sites if site.cap_bytes_per_s is not None}
    return Roster(devices=devices, caps_bytes_per_s=caps)


def _offered(client: ServiceClient, path: Path, title: str) -> RemotePlan:
    content = _content(path)
    name = title or path.stem
    offered = client.offer(content, name)
    say(f"plan {path}: SHA-256 {offered.digest}, at the service as {offered.title or name!r}")
    return client.plan(offered.digest)


def _content(path: Path) -> bytes:
    """Return the content of a plan's file, after checking it.

    Raises:
        ConfigInvalid: The file is unreadable or not a plan.
    """
    try:
        with reading(path) as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {path}: cannot be read: {error.strerror}",
            hint="Give the file that 'flashferry plan --output' wrote, or at least eight digits of a plan's digest",
        ) from None
    plan_from(content, path)
    return content


def _whole(client: ServiceClient, beginning: str) -> str:
    found = [plan.digest for plan in client.plans() if plan.digest.startswith(beginning)]
    if len(found) != 1:
        raise ConfigInvalid(
            f"--plan: expected one plan at the service that begins with {beginning}, found {len(found)}",
            hint=f"Give more of its digest; {client.url}/plans lists them",
        )
    return found[0]


def _decided(client: ServiceClient, plan: RemotePlan) -> RemotePlan:
    while plan.is_draft:
        client.pause(_PLAN_POLL_S)
        try:
            plan = client.plan(plan.digest)
        except ServiceUnusable as error:
            if not error.passes:
                raise
            say(f"{error.message}. Trying again")
    say(f"plan {_short(plan)} is {plan.state}, by {plan.withdrawn_by or plan.decided_by or 'an approver'}")
    return plan


def _approver(client: ServiceClient, plan: RemotePlan) -> str:
    sites = ", ".join(site or "devices without a site" for site in plan.sites) or "all sites"
    return f"An approver for {sites} other than {plan.made_by} decides at {client.url}/plans/{plan.digest}"


def _refuse(plan: RemotePlan) -> NoReturn:
    because = plan.withdrawn_because or plan.comment or ""
    by = plan.withdrawn_by or plan.decided_by or "an approver"
    why = plan.why_not or f"it was {plan.state} by {by}" + (f": {because}" if because else "")
    raise ConfigInvalid(
        f"plan {_short(plan)} cannot be carried out: {why}; nothing was started",
        hint="Make a new one, and have it approved",
    )


def _short(plan: RemotePlan) -> str:
    return f"{plan.digest[:12]}…"
