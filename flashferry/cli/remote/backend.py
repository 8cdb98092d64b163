# ruff: noqa: ARG002 -- the service has its own server, depot and inventory
"""Verbs carried out by a remote service, through its API."""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from flashferry.cli.command_line import SERVICE_TOKEN_VARIABLE
from flashferry.cli.options.policy import AT_THE_START
from flashferry.cli.remote.jobs import (
    Document,
    Follower,
    approved,
    code_of,
    continues,
    error_in,
    gathered,
    job_ended,
    leaving_alone,
    planned,
    result_of,
    roster_of_plan,
    run_continues,
)
from flashferry.cli.remote.runs import RunsAtService
from flashferry.cli.result import Result, Watching
from flashferry.cli.terminal.output import command, here, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_whole
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.limits import parse_until
from flashferry.service.client.client import ServiceClient, ServiceUnusable, as_agreed
from flashferry.service.client.place import ServicePlace, checked_token, checked_url, token_in
from flashferry.service.client.values import RemoteJob
from flashferry.store.reader import chosen as chosen_run

if TYPE_CHECKING:
    from flashferry.api import FleetOptions, ServerPlace
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.model.fleet_plan import FleetPlan
    from flashferry.model.record import RunReport
    from flashferry.monitor.progress import Roster
    from flashferry.planning.inspection import CheckRecord
    from flashferry.run.recover import RecoveryRecord

T = TypeVar("T")
_SITE = "site"
_OFFERED_WITHIN_S = 20.0
"""The service keeps a plan that it made as a draft within this time; it checks every two seconds."""


@contextmanager
def service_of(words: Mapping[str, Any]) -> Iterator[AtService]:
    """Yield the service that a command line names.

    Args:
        words: The values of the options before the verb.

    Raises:
        ConfigInvalid: Its address is none, there is no token for it, or a file of it cannot be used.
    """
    url = checked_url(str(words.get("service") or ""))
    token = _token(url, words.get("service_token_file"))
    with ServiceClient(ServicePlace(url=url, token=token, ca=words.get("service_ca"))) as client:
        yield AtService(client)


def _token(url: str, file: Path | None) -> str:
    # Removed from the environment, so that no process started from here inherits it.
    given = os.environ.pop(SERVICE_TOKEN_VARIABLE, "")
    if file is not None:
        return token_in(file, url)
    if not given and sys.stdin is not None and sys.stdin.isatty():
        given = getpass.getpass(f"Token for {url}: ", stream=sys.stderr)
    if not given:
        raise ConfigInvalid(
            f"the service at {url} needs a token, found none",
            hint=f"Put it in {SERVICE_TOKEN_VARIABLE}, or name its file with --service-token-file; {url}/me makes one",
        )
    return checked_token(given, url)


class AtService(RunsAtService):
    """Carries verbs out at a service."""

    def check(self, which: FleetOptions, server: ServerPlace, asked: CheckAsked) -> Result[tuple[CheckRecord, ...]]:
        """Check devices."""
        from flashferry.planning.inspection import CheckRecord

        body = _devices(which) | {"image": _image_name(asked.image), "transport": asked.transport or ""}
        body |= {"reach": asked.reach, "reason": asked.reason}
        job = self._job_to_its_end("/checks", body, "the check", "checks the devices")
        return self._result(job, "check", _devices_as(tuple[CheckRecord, ...]))

    def probe(self, which: FleetOptions, server: ServerPlace, asked: ProbeAsked, to: Watching) -> Result[RunReport]:
        """Time copies to `null:`."""
        from flashferry.cli.view.live import watching

        body = _devices(which) | {"image": _image_name(asked.image), "transport": asked.transport or ""}
        how = "both" if asked.as_is == asked.tuned else "as-is" if asked.as_is else "tuned"
        body |= {"how": how, "seconds": asked.seconds, "reason": asked.reason}
        with leaving_alone(lambda: run_continues(None)):
            follower = Follower(self._client, self._client.begin("/probes", body))
        with leaving_alone(lambda: run_continues(follower.run_id)):
            say(f"job {follower.job.job_id} measures copies")
            with watching("restore", devices=0) as view:
                job = follower.follow(view)
        return self._result(job, "probe", _run_in)

    def plan(self, which: FleetOptions, chosen: dict[str, object], asked: PlanAsked) -> Result[FleetPlan]:
        """Have a plan made and kept as a draft."""
        from flashferry.model.fleet_plan import FleetPlan

        devices = _devices(which)
        if others := devices.pop("filters"):
            assert isinstance(others, list)
            raise ConfigInvalid(
                f"--filter: a service plans by site, expected site=NAME, found {others[0]!r}",
                hint="Name devices with --host, or a group with --group",
            )
        body = devices | chosen | {"image": _image_name(asked.image), "golden": asked.golden}
        body |= {"window": asked.window or "", "title": asked.title}
        with leaving_alone(continues("the planning")):
            job = self._kept(self._started("/plans/make", body, "makes a plan"))
        if job.digest is not None and asked.out is not None:
            _write(self._client.plan_file(job.digest), asked.out)
        return self._result(
            job, "plan", lambda document: as_agreed(FleetPlan, dict(document)), after=lambda doc: self._next(doc, job)
        )

    def stage(
        self,
        which: FleetOptions,
        chosen: dict[str, object],
        server: ServerPlace,
        asked: StageAsked,
        to: Watching,
    ) -> Result[object]:
        """Have an approved plan carried out and follow its run, resume one, or rehearse."""
        until, transport = chosen.pop("until", None), chosen.pop("transport", "")
        devices = _devices(which)
        _check_stage(asked, is_choice=bool(asked.image or transport or any(devices.values())))
        times: dict[str, object] = {} if until is None else {"until": _time(until)}
        times |= (
            {}
            if asked.not_before is None
            else {"not_before": _time(parse_until(asked.not_before, datetime.now().astimezone()))}
        )
        if (times or chosen) and (asked.dry_run or asked.resume is not None):
            names = ("--not-before", "--until", *(one.on for one in AT_THE_START))
            raise ConfigInvalid(f"{' and '.join(names)} are for the run of a plan", hint="Leave them out")
        if asked.dry_run:
            body = devices | {"image": _image_name(asked.image), "transport": transport, "reason": asked.reason}
            return self._dry_run(
                body if asked.plan is None else {"plan": planned(self._client, asked.plan, asked.title).digest}
            )
        if asked.plan is not None:
            with leaving_alone(lambda: "nothing was started; the plan is at the service as it was"):
                plan = planned(self._client, asked.plan, asked.title)
                digest: str | None = approved(self._client, plan, waits=asked.wait).digest
            path, body = "/runs", times | chosen | {"plan": digest, "reason": asked.reason}
        else:
            known = [run.run_id for run in reversed(self._client.runs()) if run.verb == "stage"]
            run_id = chosen_run(str(asked.resume), known)
            path, body = f"/runs/{run_id}/resume", {"reason": asked.reason}
            digest = self._client.run(run_id).plan_digest
        roster = roster_of_plan(self._client, digest)
        with leaving_alone(lambda: run_continues(None)):
            job = self._client.begin(path, body)
        if asked.detach:
            words = f"job {job.job_id} is {job.state}; '{command('status')}' shows its run"
            content = {"job": job}
            return Result(
                verb="job",
                code=ExitCode.OK,
                content=content,
                value=lambda: job,
                meaning="the job was started",
                sentence=words,
            )
        say(f"job {job.job_id} carries it out: {counted(len(roster.devices), 'device')}")
        return self._followed(job, roster)

    def follow(self, run: str) -> Result[RunReport]:
        """Follow a run that the service started until it ends."""
        found = self._client.run(self.run_named(run))
        jobs = [job for job in found.jobs if job.kind in {"stage", "resume"}]
        if not jobs:
            raise ConfigInvalid(
                f"run {found.run_id}: expected a staging that the service started, found another",
                hint=here(f"'flashferry run show {found.run_id}' shows where it stands"),
            )
        return self._followed(jobs[-1], roster_of_plan(self._client, found.plan_digest))

    def recover(self, which: FleetOptions, asked: RecoverAsked) -> Result[tuple[RecoveryRecord, ...]]:
        """Have restored what runs of the service that were killed left tuned."""
        from flashferry.run.recover import RecoveryRecord

        left = list(dict.fromkeys(one.run_id for one, _ in self.status_of_runs(1).to_recover))
        if asked.run is not None:
            left = [self.run_named(asked.run)]
        if not left:
            return Result(verb="recover", code=ExitCode.OK, content={"devices": []}, value=lambda: ())
        found = []
        with leaving_alone(continues("the recovery")):
            for run_id in left:
                path, body = f"/runs/{run_id}/recover", {"reason": asked.reason}
                found.append(result_of(self._client, self._started(path, body, f"restores what run {run_id} left")))
        return _shown(gathered(found), "recover", _devices_as(tuple[RecoveryRecord, ...]))

    def _started(self, path: str, body: Mapping[str, object], does: str) -> RemoteJob:
        """Return a job that changes no device, once it has ended."""
        job = self._client.begin(path, body)
        say(f"job {job.job_id} {does}")
        return job_ended(self._client, job)

    def _job_to_its_end(self, path: str, body: Mapping[str, object], what: str, does: str) -> RemoteJob:
        with leaving_alone(continues(what)):
            return self._started(path, body, does)

    def _dry_run(self, body: Mapping[str, object]) -> Result[object]:
        from flashferry.run.dry_run import DryRecord

        job = self._job_to_its_end("/dry-runs", body, "the dry run", "finds out what would be done")
        return self._result(job, "dry-run", _devices_as(tuple[DryRecord, ...]))

    def _kept(self, job: RemoteJob) -> RemoteJob:
        """Return the job that made a plan once the service has kept that, or has reported why it did not."""
        until_s, before = time.monotonic() + _OFFERED_WITHIN_S, job.sentence
        while (
            job.exit_code is not None and job.digest is None and job.sentence == before and time.monotonic() < until_s
        ):
            self._client.pause(1.0)
            job = self._client.job(job.job_id)
        return job

    def _next(self, document: Document, job: RemoteJob) -> Iterator[str]:
        """Yield what to do with a plan that the service made."""
        from flashferry.model.fleet_plan import Action

        if job.digest is None:
            yield f"At the service: {job.sentence or 'it is not kept'}"
            return
        page = f"{self._client.url}/plans/{job.digest}"
        yield f"SHA-256 {job.digest}"
        if not any(one.get("action") == Action.STAGE for one in document.get("devices", ())):
            yield f"It is a draft at the service, and stages nothing: {page}"
            return
        yield f"It is a draft at the service; someone else must approve it: {page}"
        yield f"Then '{command(f'stage --plan {job.digest[:12]}')}' carries it out"

    def _followed(self, job: RemoteJob, roster: Roster) -> Result[RunReport]:
        """Follow a run to its end."""
        from flashferry.cli.view.live import watching

        follower = Follower(self._client, job)
        with leaving_alone(lambda: run_continues(follower.run_id)):
            with watching("restore", devices=len(roster.devices), roster=roster) as view:
                job = follower.follow(view)
            if job.exit_code is None and job.run_id is not None:
                resume = command(f"stage --resume {job.run_id} --reason WHY")
                raise ServiceUnusable(
                    f"run {job.run_id} died and was not resumed: {job.sentence or 'no reason was given'}",
                    hint=f"'{command(f'run show {job.run_id}')}' shows where its devices stand; '{resume}' resumes it",
                )
            return self._result(job, "stage", _run_in)

    def _result(
        self,
        job: RemoteJob,
        verb: str,
        value: Callable[[Document], T],
        after: Callable[[Document], Iterator[str]] | None = None,
    ) -> Result[T]:
        return _shown(result_of(self._client, job), verb, value, after)


def _shown(
    document: Document,
    verb: str,
    value: Callable[[Document], T],
    after: Callable[[Document], Iterator[str]] | None = None,
) -> Result[T]:
    """Return the document of a verb as its result.

    Raises:
        ServiceUnusable: It is no document of the verb, or of another release.
    """
    return Result(
        verb=verb,
        code=code_of(document, verb),
        content=document,
        value=lambda: value(document),
        is_document=True,
        error=error_in(document),
        after=tuple(after(document)) if after is not None and not error_in(document) else (),
    )


def _devices_as(kind: type[T]) -> Callable[[Document], T]:
    """Return what reads the devices of a verb's document."""
    return lambda document: as_agreed(kind, document.get("devices"))


def _run_in(document: Document) -> RunReport:
    from flashferry.model.record import RunReport

    return as_agreed(RunReport, document.get("run"))


def _devices(which: FleetOptions) -> dict[str, object]:
    """Return which devices are meant, as the API takes them: sites by themselves.

    Raises:
        ConfigInvalid: A filter is none.
    """
    sites, others = [], []
    for one in which.selection.filters:
        key, equals, value = one.partition("=")
        if not equals or not key.strip():
            raise ConfigInvalid(f"--filter: expected KEY=VALUE, found {one!r}", hint="Write it as site=branch1")
        if key.strip().lower() == _SITE:
            sites.append(value.strip())
        else:
            others.append(one)
    selection = which.selection
    return {"sites": sites, "hosts": list(selection.hosts), "groups": list(selection.groups), "filters": others}


def _image_name(given: Path | None) -> str:
    """Return the name of an image at the service; empty where none is named.

    Raises:
        ConfigInvalid: It is a path of this host.
    """
    if given is None:
        return ""
    if PurePath(given).name != str(given):
        raise ConfigInvalid(
            f"--image: expected the name of an image at the service, found the path {str(given)!r}",
            hint=f"Send it there first, by the page Images, then give --image {PurePath(given).name}",
        )
    return str(given)


def _check_stage(asked: StageAsked, *, is_choice: bool) -> None:
    """Check that one thing is to be done, and that nothing is given that a plan holds.

    Raises:
        ConfigInvalid: None is, more than one, or something that only a rehearsal takes.
    """
    if is_choice and not (asked.dry_run and asked.plan is None):
        raise ConfigInvalid(
            "--image, --host, --group, --filter, --transport: a service stages by plans, in which they stand",
            hint=f"'{command('plan --image NAME')}' has it make one; to rehearse an image give --dry-run too",
        )
    given = [name for name, value in (("--plan", asked.plan), ("--resume", asked.resume)) if value is not None]
    if asked.dry_run and asked.image is not None:
        given.append("--image")
    if len(given) != 1 or (asked.dry_run and asked.resume is not None):
        expected = "--plan and --image with --dry-run" if asked.dry_run else "--plan and --resume"
        raise ConfigInvalid(
            f"expected one of {expected}, found {' and '.join(given) or 'none of them'}",
            hint=f"'{command('plan')}' makes a plan at the service",
        )


def _time(at: object) -> str:
    """Return a time as the API takes it."""
    assert isinstance(at, datetime)
    return at.astimezone().isoformat()


def _write(content: bytes, out: Path) -> None:
    try:
        write_whole(out, content, is_private=True)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {out}: cannot be written: {error.strerror}", hint="Name another file with --output"
        ) from None
