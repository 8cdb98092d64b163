"""`flashferry --service URL plan`: the service makes a plan over its devices, and keeps it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.policy import WITH_THE_PLAN, policy_options
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption
from flashferry.cli.remote.connect import connect
from flashferry.cli.remote.follow import job_ended, job_goes_on, leaving_alone
from flashferry.cli.remote.options import (
    FilterOption,
    GroupOption,
    HostOption,
    ImageOption,
    TitleOption,
    image_name,
    selected,
)
from flashferry.cli.remote.results import Document, leave_with_result
from flashferry.cli.terminal.output import command, say
from flashferry.core.atomic_write import write_whole
from flashferry.core.errors import ConfigInvalid
from flashferry.service.client.answers import as_agreed
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.values import RemoteJob

_OFFERED_WITHIN_S = 20.0
"""So long after a plan was made the service takes to keep it as a draft; it looks each two seconds."""


@policy_options(WITH_THE_PLAN)
def plan(
    chosen: dict[str, object],
    ctx: typer.Context,
    host: HostOption = None,
    group: GroupOption = None,
    filter: FilterOption = None,  # noqa: A002 -- the option's name
    image: ImageOption = None,
    golden: Annotated[
        bool, typer.Option("--golden", help="Each device gets the golden image of its model, as the service has it.")
    ] = False,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            metavar="FROM-UNTIL",
            help="When the run may be at work, such as 22:00-05:00, by the clock of the service's host.",
        ),
    ] = None,
    title: TitleOption = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            envvar=OUTPUT_VARIABLE,
            metavar="FILE",
            help="Keep the plan here, too.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Have the service plan a run over its devices; its plan is a draft there, for somebody else to approve."""
    wanted = _chosen(selected(host, group, filter))
    wanted |= chosen | {"image": image_name(image), "golden": golden, "window": window or "", "title": title}
    with connect(ctx) as client:
        with leaving_alone(job_goes_on("the planning")):
            job = client.begin("/plans/make", wanted)
            say(f"job {job.job_id} makes a plan")
            job = _offered(client, job_ended(client, job))
        if job.digest is not None and out is not None:
            _keep(client.plan_file(job.digest), out)
        leave_with_result(client, job, "plan", as_json=json, human=lambda document: _print_plan(document, client, job))


def _chosen(chosen: dict[str, object]) -> dict[str, object]:
    """Return which devices a plan is for, as the API takes it.

    Raises:
        ConfigInvalid: A filter is there that is none by site.
    """
    if others := chosen.pop("filters"):
        assert isinstance(others, list)
        raise ConfigInvalid(
            f"--filter: a service plans by site, expected site=NAME, found {others[0]!r}",
            hint="Name devices with --host, or a group with --group",
        )
    return chosen


def _offered(client: ServiceClient, job: RemoteJob) -> RemoteJob:
    """Return the job that made a plan once the service has kept that, or has said why it did not."""
    until_s, before = time.monotonic() + _OFFERED_WITHIN_S, job.sentence
    while job.exit_code is not None and job.digest is None and job.sentence == before and time.monotonic() < until_s:
        client.pause(1.0)
        job = client.job(job.job_id)
    return job


def _keep(content: bytes, out: Path) -> None:
    try:
        write_whole(out, content, is_private=True)
    except OSError as error:
        raise ConfigInvalid(
            f"plan {out}: cannot be written: {error.strerror}", hint="Name another file with --output"
        ) from None


def _print_plan(document: Document, client: ServiceClient, job: RemoteJob) -> None:
    from flashferry.cli.view.layout import console
    from flashferry.cli.view.plan_table import print_plan
    from flashferry.model.fleet_plan import Action, FleetPlan

    plan = as_agreed(FleetPlan, dict(document))
    print_plan(plan, tells_next=False)
    if job.digest is None:
        console().print(f"At the service: {job.sentence or 'it is not kept'}")
        return
    console().print(f"SHA-256 {job.digest}")
    if not plan.of(Action.STAGE):
        console().print(f"It is a draft at the service, and stages nothing: {client.url}/plans/{job.digest}")
        return
    console().print(f"It is a draft at the service, for somebody else to approve: {client.url}/plans/{job.digest}")
    console().print(f"Then '{command(f'stage --plan {job.digest[:12]}')}' carries it out")
