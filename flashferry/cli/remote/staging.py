"""Staging at a remote service: start a plan's run, resume or follow one, or rehearse."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from flashferry.cli.options.policy import AT_THE_START
from flashferry.cli.remote.documents import devices_as, document_result, job_to_its_end, run_in
from flashferry.cli.remote.jobs import (
    Follower,
    approved,
    leaving_alone,
    planned,
    result_of,
    roster_of_plan,
    run_continues,
)
from flashferry.cli.remote.requests import api_time, check_stage, chosen_devices, image_name
from flashferry.cli.remote.runs import RunsAtService
from flashferry.cli.result import Result
from flashferry.cli.terminal.output import command, here, say
from flashferry.cli.view.live import watching
from flashferry.core.errors import ConfigInvalid
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.limits import parse_until
from flashferry.run.dry_run import DryRecord
from flashferry.service.client.client import ServiceClient, ServiceUnusable
from flashferry.store.reader import chosen as chosen_run

if TYPE_CHECKING:
    from flashferry.api import FleetOptions
    from flashferry.cli.stage import StageAsked
    from flashferry.model.record import RunReport
    from flashferry.monitor.progress import Roster
    from flashferry.service.client.values import RemoteJob


class StagingAtService:
    """Stages at a service.

    Args:
        client: Client of the service.
    """

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
