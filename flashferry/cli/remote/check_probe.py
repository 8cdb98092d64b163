"""`flashferry --service URL check|probe`: the service looks at its devices, or times copies of theirs, and tells."""

from __future__ import annotations

from typing import Annotated

import typer

from flashferry.cli.options.shared import JsonOption
from flashferry.cli.remote.connect import connect
from flashferry.cli.remote.follow import Follower, job_ended, job_goes_on, leaving_alone, run_goes_on
from flashferry.cli.remote.options import (
    FilterOption,
    GroupOption,
    HostOption,
    ImageOption,
    TransportOption,
    WhyOption,
    image_name,
    selected,
)
from flashferry.cli.remote.results import Document, leave_with_result
from flashferry.cli.terminal.output import say
from flashferry.service.client.answers import as_agreed
from flashferry.tcp.probing import TARGET_S


def check(
    ctx: typer.Context,
    host: HostOption = None,
    group: GroupOption = None,
    filter: FilterOption = None,  # noqa: A002 -- the option's name
    image: ImageOption = None,
    reach: Annotated[
        bool, typer.Option("--reach", help="Have each device fetch a tiny file to null: path, login, mode, SYN audit.")
    ] = False,
    transport: TransportOption = None,
    reason: WhyOption = "",
    json: JsonOption = False,
) -> None:
    """Have the service look at devices: platform, room, TCP lines, whether the image is there. Changes nothing."""
    wanted = selected(host, group, filter) | {"image": image_name(image), "transport": transport or ""}
    with connect(ctx) as client:
        with leaving_alone(job_goes_on("the check")):
            job = client.begin("/checks", wanted | {"reach": reach, "reason": reason})
            say(f"job {job.job_id} looks at the devices")
            job = job_ended(client, job)
        leave_with_result(client, job, "check", as_json=json, human=_print_check)


def _print_check(document: Document) -> None:
    from flashferry.cli.view.device_tables import print_check_notes, print_checks
    from flashferry.planning.inspection import CheckRecord

    records = as_agreed(tuple[CheckRecord, ...], document.get("devices"))
    print_checks(records)
    print_check_notes(records)


def probe(
    ctx: typer.Context,
    host: HostOption = None,
    group: GroupOption = None,
    filter: FilterOption = None,  # noqa: A002 -- the option's name
    image: ImageOption = None,
    as_is: Annotated[bool, typer.Option("--as-is", help="Only with the TCP settings as they are.")] = False,
    tuned: Annotated[bool, typer.Option("--tuned", help="Only while tuned.")] = False,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="SECONDS", min=2, max=60, help="How long a copy should take; its size follows."
        ),
    ] = TARGET_S,
    transport: TransportOption = None,
    reason: WhyOption = "",
    json: JsonOption = False,
) -> None:
    """Have the service time copies to null: as devices are, then tuned and restored at once. No flash is written."""
    from flashferry.cli.view.live import watching

    wanted = selected(host, group, filter) | {"image": image_name(image), "transport": transport or ""}
    wanted |= {"how": _how(as_is=as_is, tuned=tuned), "seconds": seconds, "reason": reason}
    with connect(ctx) as client:
        with leaving_alone(lambda: run_goes_on(None)):
            follower = Follower(client, client.begin("/probes", wanted))
        with leaving_alone(lambda: run_goes_on(follower.run_id)):
            say(f"job {follower.job.job_id} measures copies")
            with watching("restore", devices=0) as view:
                job = follower.follow(view)
        leave_with_result(client, job, "probe", as_json=json, human=_print_probe)


def _how(*, as_is: bool, tuned: bool) -> str:
    if as_is == tuned:
        return "both"
    return "as-is" if as_is else "tuned"


def _print_probe(document: Document) -> None:
    from flashferry.cli.view.probe_table import print_probe
    from flashferry.model.record import RunReport

    print_probe(as_agreed(RunReport, document.get("run")))
