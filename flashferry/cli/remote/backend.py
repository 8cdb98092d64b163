# ruff: noqa: ARG002 -- the service has its own server, depot and inventory
"""Backend that carries out verbs at a remote service, through its API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.cli.remote.connection import service_client
from flashferry.cli.remote.documents import devices_as, document_result, job_to_its_end, run_in, started
from flashferry.cli.remote.jobs import (
    Document,
    Follower,
    continues,
    gathered,
    leaving_alone,
    result_of,
    run_continues,
)
from flashferry.cli.remote.requests import chosen_devices, image_name
from flashferry.cli.remote.runs import RunsAtService
from flashferry.cli.remote.staging import StagingAtService
from flashferry.cli.result import Result, Watching
from flashferry.cli.terminal.output import command, say
from flashferry.cli.view.live import watching
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import write_whole
from flashferry.model.exit_codes import ExitCode
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.planning.inspection import CheckRecord
from flashferry.run.recover import RecoveryRecord
from flashferry.service.client.client import ServiceClient, as_agreed

if TYPE_CHECKING:
    from flashferry.api import FleetOptions, ServerPlace
    from flashferry.cli.check import CheckAsked
    from flashferry.cli.plan import PlanAsked
    from flashferry.cli.probe import ProbeAsked
    from flashferry.cli.recover import RecoverAsked
    from flashferry.cli.stage import StageAsked
    from flashferry.model.record import RunReport
    from flashferry.service.client.values import RemoteJob

_OFFERED_WITHIN_S = 20.0
"""Time within which the service stores a plan that it made; it checks every two seconds."""


@contextmanager
def at_service(words: Mapping[str, Any]) -> Iterator[AtService]:
    """Open the service that a command line selects; see `service_client`."""
    with service_client(words) as client:
        yield AtService(client)


class AtService:
    """Carries out verbs at a service.

    Args:
        client: Client of the service.
    """

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
