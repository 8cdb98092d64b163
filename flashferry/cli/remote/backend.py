"""Backend that carries out verbs at a remote service, through its API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.cli.options.policy import AT_THE_START
from flashferry.cli.remote.jobs import (
    Document,
    Follower,
    approved,
    continues,
    gathered,
    leaving_alone,
    planned,
    result_of,
    roster_of_plan,
    run_continues,
)
from flashferry.cli.remote.requests import (
    api_time,
    check_stage,
    chosen_devices,
    devices_as,
    document_result,
    image_name,
    job_to_its_end,
    run_in,
    service_client,
    started,
)
from flashferry.cli.remote.runs import RunsAtService
from flashferry.cli.result import Result, Watching
from flashferry.cli.terminal.output import command, here, say
from flashferry.cli.view.live import watching
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_whole
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.model.limits import parse_until
from flashferry.planning.inspection import CheckRecord
from flashferry.run.dry_run import DryRecord
from flashferry.run.recover import RecoveryRecord
from flashferry.service.client.client import ServiceClient, ServiceUnusable, as_agreed
from flashferry.store.reader import chosen as chosen_run

if TYPE_CHECKING:
    from flashferry.api import FleetOptions, ServerPlace
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.model.record import RunReport
    from flashferry.monitor.progress import Roster
    from flashferry.service.client.values import RemoteJob


class StagingAtService:
    """Stages at a service."""

    def __init__(self, client: ServiceClient) -> None:
        self._client, self._runs = client, RunsAtService(client)

    def stage(self, which: FleetOptions, chosen: dict[str, object], asked: StageAsked) -> Result[object]:
        """Start an approved plan and follow its run; or resume one, or rehearse."""
        until, transport = chosen.pop("until", None), chosen.pop("transport", "")
        devices = chosen_devices(which)
        check_stage(asked, is_choice=bool(asked.image or transport or any(devices.values())))
        times: dict[str, object] = {} if until is None else {"until": api_time(until)}
        times |= (
            {}
            if asked.not_before is None
            else {"not_before": api_time(parse_until(asked.not_before, datetime.now().astimezone()))}
        )
        if (times or chosen) and (asked.dry_run or asked.resume is not None):
            names = ("--not-before", "--until", *(one.on for one in AT_THE_START))
            raise ConfigInvalid(f"{' and '.join(names)} are for the run of a plan", hint="Leave them out")
        if asked.dry_run:
            body = devices | {"image": image_name(asked.image), "transport": transport, "reason": asked.reason}
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
        """Follow a run of the service until it ends."""
        found = self._client.run(self._runs.run_named(run))
        jobs = [job for job in found.jobs if job.kind in {"stage", "resume"}]
        if not jobs:
            raise ConfigInvalid(
                f"run {found.run_id}: expected a staging that the service started, found another",
                hint=here(f"'flashferry run show {found.run_id}' shows where it stands"),
            )
        return self._followed(jobs[-1], roster_of_plan(self._client, found.plan_digest))

    def _dry_run(self, body: Mapping[str, object]) -> Result[object]:
        job = job_to_its_end(self._client, "/dry-runs", body, "the dry run", "finds out what would be done")
        return document_result(result_of(self._client, job), "dry-run", devices_as(tuple[DryRecord, ...]))

    def _followed(self, job: RemoteJob, roster: Roster) -> Result[RunReport]:
        """Follow a run to its end."""
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
            return document_result(result_of(self._client, job), "stage", run_in)


# ruff: noqa: ARG002 -- the service has its own server, depot and inventory

_OFFERED_WITHIN_S = 20.0
"""Time within which the service stores a plan that it made; it checks every two seconds."""


@contextmanager
def at_service(words: Mapping[str, Any]) -> Iterator[AtService]:
    """Open the service that a command line selects; see `service_client`."""
    with service_client(words) as client:
        yield AtService(client)


class AtService:
    """Carries out verbs at a service."""

    def __init__(self, client: ServiceClient) -> None:
        self._client, self._runs = client, RunsAtService(client)

    def check(self, which: FleetOptions, server: ServerPlace, asked: CheckAsked) -> Result[tuple[CheckRecord, ...]]:
        """Check devices."""
        body = chosen_devices(which) | {"image": image_name(asked.image), "transport": asked.transport or ""}
        body |= {"reach": asked.reach, "reason": asked.reason}
        job = job_to_its_end(self._client, "/checks", body, "the check", "checks the devices")
        return document_result(result_of(self._client, job), "check", devices_as(tuple[CheckRecord, ...]))

    def probe(self, which: FleetOptions, server: ServerPlace, asked: ProbeAsked, to: Watching) -> Result[RunReport]:
        """Time copies to `null:`."""
        body = chosen_devices(which) | {"image": image_name(asked.image), "transport": asked.transport or ""}
        how = "both" if asked.as_is == asked.tuned else "as-is" if asked.as_is else "tuned"
        body |= {"how": how, "seconds": asked.seconds, "reason": asked.reason}
        with leaving_alone(lambda: run_continues(None)):
            follower = Follower(self._client, self._client.begin("/probes", body))
        with leaving_alone(lambda: run_continues(follower.run_id)):
            say(f"job {follower.job.job_id} measures copies")
            with watching("restore", devices=0) as view:
                job = follower.follow(view)
        return document_result(result_of(self._client, job), "probe", run_in)

    def plan(self, which: FleetOptions, chosen: dict[str, object], asked: PlanAsked) -> Result[FleetPlan]:
        """Make a plan at the service, kept there as a draft."""
        devices = chosen_devices(which)
        if others := devices.pop("filters"):
            assert isinstance(others, list)
            raise ConfigInvalid(
                f"--filter: a service plans by site, expected site=NAME, found {others[0]!r}",
                hint="Name devices with --host, or a group with --group",
            )
        body = devices | chosen | {"image": image_name(asked.image), "golden": asked.golden}
        body |= {"window": asked.window or "", "title": asked.title}
        with leaving_alone(continues("the planning")):
            job = self._kept(started(self._client, "/plans/make", body, "makes a plan"))
        if job.digest is not None and asked.out is not None:
            _write(self._client.plan_file(job.digest), asked.out)
        return document_result(
            result_of(self._client, job),
            "plan",
            lambda document: as_agreed(FleetPlan, dict(document)),
            after=lambda doc: self._next(doc, job),
        )

    def stage(
        self, which: FleetOptions, chosen: dict[str, object], server: ServerPlace, asked: StageAsked, to: Watching
    ) -> Result[object]:
        """Start an approved plan and follow its run; or resume one, or rehearse."""
        return StagingAtService(self._client).stage(which, chosen, asked)

    def follow(self, run: str) -> Result[RunReport]:
        """Follow a run of the service until it ends."""
        return StagingAtService(self._client).follow(run)

    def recover(self, which: FleetOptions, asked: RecoverAsked) -> Result[tuple[RecoveryRecord, ...]]:
        """Restore devices that killed runs of the service left tuned."""
        left = list(dict.fromkeys(one.run_id for one, _ in self._runs.status_of_runs(1).to_recover))
        if asked.run is not None:
            left = [self._runs.run_named(asked.run)]
        if not left:
            return Result(verb="recover", code=ExitCode.OK, content={"devices": []}, value=lambda: ())
        found = []
        with leaving_alone(continues("the recovery")):
            for run_id in left:
                path, body = f"/runs/{run_id}/recover", {"reason": asked.reason}
                found.append(
                    result_of(self._client, started(self._client, path, body, f"restores what run {run_id} left"))
                )
        return document_result(gathered(found), "recover", devices_as(tuple[RecoveryRecord, ...]))

    def _kept(self, job: RemoteJob) -> RemoteJob:
        """Wait until the service has stored the job's plan or reported why not; return the job."""
        until_s, before = time.monotonic() + _OFFERED_WITHIN_S, job.sentence
        while (
            job.exit_code is not None and job.digest is None and job.sentence == before and time.monotonic() < until_s
        ):
            self._client.pause(1.0)
            job = self._client.job(job.job_id)
        return job

    def _next(self, document: Document, job: RemoteJob) -> Iterator[str]:
        """Yield the commands that come next for a plan at the service."""
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


def _write(content: bytes, out: Path) -> None:
    try:
        write_whole(out, content, is_private=True)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {out}: cannot be written: {error.strerror}", hint="Name another file with --output"
        ) from None
