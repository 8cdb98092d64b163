"""`flashferry --service URL stage|recover`: an approved plan carried out there, and followed as a run of this host."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, NoReturn

import typer

from flashferry.cli.command_line import WAVES
from flashferry.cli.options.policy import AT_THE_START, policy_options
from flashferry.cli.options.shared import JsonOption
from flashferry.cli.remote.connect import connect
from flashferry.cli.remote.follow import Follower, job_ended, job_goes_on, leaving_alone, run_goes_on
from flashferry.cli.remote.options import (
    DetachOption,
    FilterOption,
    GroupOption,
    HostOption,
    ImageOption,
    TitleOption,
    TransportOption,
    WhyOption,
    image_name,
    selected,
)
from flashferry.cli.remote.plans import approved, planned, roster_of_plan
from flashferry.cli.remote.results import Document, leave, leave_with_result, result_of, together
from flashferry.cli.terminal.output import command, finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.core.safe_quote import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.model.limits import parse_until
from flashferry.monitor.progress import Roster
from flashferry.service.client.answers import ServiceUnusable, as_agreed
from flashferry.service.client.client import ServiceClient
from flashferry.service.client.values import RemoteJob
from flashferry.store.reader import chosen as chosen_run


@policy_options(AT_THE_START)
def stage(
    chosen: dict[str, object],
    ctx: typer.Context,
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="FILE|DIGEST",
            help="What 'flashferry plan --output' wrote, to be offered there, or the digest of a plan that is.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Go on with a run that died or was stopped; recovers it first."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Where the plan is not approved yet, wait until it is, then begin.")
    ] = False,
    not_before: Annotated[
        str | None,
        typer.Option(
            "--not-before",
            metavar="TIME",
            help="Have the service begin it then: HH:MM (the next one) or a date and time, by this host's clock.",
            rich_help_panel=WAVES,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="When the run must have ended, likewise.", rich_help_panel=WAVES),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be sent to each device; change nothing.")
    ] = False,
    image: ImageOption = None,
    host: HostOption = None,
    group: GroupOption = None,
    filter: FilterOption = None,  # noqa: A002 -- the option's name
    transport: TransportOption = None,
    title: TitleOption = "",
    reason: WhyOption = "",
    detach: DetachOption = False,
    json: JsonOption = False,
) -> None:
    """Have the service carry out a plan that somebody else approved, and follow its run to the end."""
    chosen_devices = selected(host, group, filter)
    is_choice = bool(image or transport or any(chosen_devices.values()))
    _check_words(plan, resume, dry_run=dry_run, is_choice=is_choice, image=image)
    times = _times({"not_before": not_before, "until": until})
    if (times or chosen) and (dry_run or resume is not None):
        names = ("--not-before", "--until", *(one.on for one in AT_THE_START))
        raise ConfigInvalid(f"{' and '.join(names)} are for the run of a plan", hint="Leave them out")
    with connect(ctx) as client:
        if dry_run:
            wanted = chosen_devices | {"image": image_name(image), "transport": transport or "", "reason": reason}
            _dry_run(client, wanted if plan is None else {"plan": planned(client, plan, title).digest}, as_json=json)
        if plan is not None:
            digest = _begun_by(client, plan, title, waits=wait)
            _carry_out(
                client, "/runs", times | chosen | {"plan": digest, "reason": reason}, digest, detach, as_json=json
            )
        run_id = chosen_run(str(resume), [run.run_id for run in reversed(client.runs()) if run.verb == "stage"])
        path, digest_of_run = f"/runs/{run_id}/resume", client.run(run_id).plan_digest
        _carry_out(client, path, {"reason": reason}, digest_of_run, detach, as_json=json)


def _begun_by(client: ServiceClient, plan: str, title: str, *, waits: bool) -> str:
    """Return the digest of the plan that is meant, once it is approved."""
    with leaving_alone(lambda: "nothing was begun; the plan is at the service as it was"):
        return approved(client, planned(client, plan, title), waits=waits).digest


def _carry_out(
    client: ServiceClient, path: str, body: Mapping[str, object], digest: str | None, detach: bool, *, as_json: bool
) -> NoReturn:
    """Have a run begun, follow it if that is wanted, and leave."""
    roster = roster_of_plan(client, digest)
    with leaving_alone(lambda: run_goes_on(None)):
        job = client.begin(path, body)
    if detach:
        _tell_begun(job, as_json=as_json)
    say(f"job {job.job_id} carries it out: {counted(len(roster.devices), 'device')}")
    follow(client, job, roster, as_json=as_json)


def follow(client: ServiceClient, job: RemoteJob, roster: Roster, *, as_json: bool) -> NoReturn:
    """Follow a run to its end, print what it came to, and leave with its exit code."""
    from flashferry.cli.view.live import watching

    follower = Follower(client, job)
    with leaving_alone(lambda: run_goes_on(follower.run_id)):
        with watching("restore", devices=len(roster.devices), roster=roster) as view:
            job = follower.follow(view)
        if job.exit_code is None and job.run_id is not None:
            raise _died(job)
        leave_with_result(client, job, "stage", as_json=as_json, human=_print_run)


def _died(job: RemoteJob) -> ServiceUnusable:
    return ServiceUnusable(
        f"run {job.run_id} died and was not gone on with: {job.sentence or 'nobody said why'}",
        hint=f"'{command(f'run show {job.run_id}')}' says where its devices stand; "
        f"'{command(f'stage --resume {job.run_id} --reason WHY')}' goes on with it",
    )


def recover(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Only what this dead run left; no device of another."),
    ] = None,
    reason: WhyOption = "",
    json: JsonOption = False,
) -> None:
    """Have the service restore every device that a dead run of its own left tuned, and prove it."""
    from flashferry.cli.remote.journal import run_named, status_of

    with connect(ctx) as client:
        left = list(dict.fromkeys(one.run_id for one, _ in status_of(client, 1).to_recover))
        if run is not None:
            left = [run_named(client, run)]
        if not left:
            words = "nothing is left to recover"
            finish("recover", ExitCode.OK, {"devices": []}, as_json=json, human=lambda: _print_words(words))
        with leaving_alone(job_goes_on("the recovery")):
            found = [_recovered(client, run_id, reason) for run_id in left]
        leave(together(found), "recover", as_json=json, human=_print_recovery)


def _recovered(client: ServiceClient, run_id: str, reason: str) -> Document:
    job = client.begin(f"/runs/{run_id}/recover", {"reason": reason})
    say(f"job {job.job_id} restores what run {run_id} left")
    return result_of(client, job_ended(client, job))


def _check_words(plan: str | None, resume: str | None, *, dry_run: bool, is_choice: bool, image: str | None) -> None:
    """Check that one thing is to be done, and that nothing is said of it that a plan says.

    Raises:
        ConfigInvalid: None is, more than one, or something that only a rehearsal takes.
    """
    if is_choice and not (dry_run and plan is None):
        raise ConfigInvalid(
            "--image, --host, --group, --filter, --transport: a service stages by plans, in which they stand",
            hint=f"'{command('plan --image NAME')}' has it make one; to rehearse an image give --dry-run too",
        )
    given = [name for name, value in (("--plan", plan), ("--resume", resume)) if value is not None]
    if dry_run and image is not None:
        given.append("--image")
    if len(given) != 1 or (dry_run and resume is not None):
        wanted = "--plan and --image with --dry-run" if dry_run else "--plan and --resume"
        raise ConfigInvalid(
            f"expected one of {wanted}, found {' and '.join(given) or 'none of them'}",
            hint=f"'{command('plan')}' makes a plan at the service",
        )


def _times(given: Mapping[str, str | None]) -> dict[str, object]:
    """Return times of day, or dates, as the API takes them.

    Raises:
        ConfigInvalid: One is none.
    """
    now = datetime.now().astimezone()
    return {name: parse_until(text, now).astimezone().isoformat() for name, text in given.items() if text is not None}


def _dry_run(client: ServiceClient, wanted: dict[str, object], *, as_json: bool) -> NoReturn:
    with leaving_alone(job_goes_on("the dry run")):
        job = client.begin("/dry-runs", wanted)
        say(f"job {job.job_id} looks what would be done")
        job = job_ended(client, job)
    leave_with_result(client, job, "dry-run", as_json=as_json, human=_print_dry_run)


def _tell_begun(job: RemoteJob, *, as_json: bool) -> NoReturn:
    words = f"job {job.job_id} is {job.state}; '{command('status')}' tells how its run does"
    finish(
        "job", ExitCode.OK, {"job": job}, as_json=as_json, human=lambda: _print_words(words), meaning="the job is begun"
    )
    raise AssertionError("unreachable")


def _print_words(words: str) -> None:
    from flashferry.cli.view.layout import console

    console().print(words)


def _print_run(document: Document) -> None:
    from flashferry.cli.view.device_tables import print_run
    from flashferry.model.record import RunReport

    print_run(as_agreed(RunReport, document.get("run")))


def _print_dry_run(document: Document) -> None:
    from flashferry.cli.view.device_tables import print_dry_run
    from flashferry.run.dry_run import DryRecord

    print_dry_run(as_agreed(tuple[DryRecord, ...], document.get("devices")))


def _print_recovery(document: Document) -> None:
    from flashferry.cli.view.device_tables import print_recovery
    from flashferry.run.recover import RecoveryRecord

    print_recovery(as_agreed(tuple[RecoveryRecord, ...], document.get("devices")))
