"""`flashferry ready`: check whether devices are ready to boot their images. Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.policy import Md5Option, Sha512Option
from flashferry.cli.options.shared import JsonOption, StateOption
from flashferry.cli.terminal.interrupt import reading_only
from flashferry.cli.terminal.output import EventLines, finish, say
from flashferry.cli.view.layout import BAD, GOOD, console, line, print_error, show
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import check_writable, write_whole
from flashferry.core.units import counted
from flashferry.images.image import published_digests
from inventory.image_rules import RULES_FILE
from tasks.readiness.values import Met, Verdict

if TYPE_CHECKING:
    from flashferry.api.readiness import ReadyResult
    from flashferry.planning.readiness import ReadyRecord

_STYLES = {Verdict.YES: GOOD, Verdict.RUNS_IT: GOOD, Verdict.NO: BAD, Verdict.UNKNOWN: "bold yellow"}
_WORDS = {Verdict.YES: "ready", Verdict.RUNS_IT: "runs it already", Verdict.NO: "not ready", Verdict.UNKNOWN: "unknown"}


def print_ready(found: ReadyResult) -> None:
    """Print a table of all devices, then a line per reason why one is not ready."""
    show((_row(record) for record in found.devices), wide_only=frozenset({"mode", "conditions"}))
    for record in found.devices:
        if record.readiness is not None:
            for one in record.readiness.blocking:
                at = f" ({one.place})" if one.place else ""
                style = BAD if one.met is Met.NOT_MET else "yellow"
                line(record.host, f"{one.name.value}{at}: {one.sentence} ('{one.command}')", style)
        for text in record.since:
            line(record.host, f"since {record.staged_by}: {text}", "yellow")
        print_error(record.host, record.failure)
    print_answer(found)


def print_answer(found: ReadyResult) -> None:
    """Print the answer for all devices together in one line."""
    answers = [record.readiness for record in found.devices]
    good = sum(1 for one in answers if one is not None and one.is_good)
    lost = sum(1 for one in answers if one is None)
    rest = len(answers) - good - lost
    parts = [f"{good} of {counted(len(answers), 'device')} ready"]
    parts += [f"{rest} not"] if rest else []
    parts += [f"{lost} could not be checked"] if lost else []
    about = f"plan {found.plan[:12]}: " if found.plan else ""
    answer = "yes" if found.ready else "no"
    console().print(f"{about}{answer}: {', '.join(parts)}", style=GOOD if found.ready else BAD)


def _row(record: ReadyRecord) -> dict[str, str | Text]:
    found = record.readiness
    if found is None:
        return {
            "device": record.host,
            "runs": "-",
            "mode": "-",
            "image": "-",
            "members": "-",
            "conditions": "-",
            "ready": Text("not seen", style=BAD),
        }
    met = sum(1 for one in found.conditions if one.met is Met.MET)
    return {
        "device": record.host,
        "runs": found.running or "-",
        "mode": found.mode,
        "image": found.version or found.image,
        "members": str(len(found.members)) if found.members else "-",
        "conditions": f"{met} met, {len(found.blocking)} in the way",
        "ready": Text(_WORDS[found.verdict], style=_STYLES[found.verdict]),
    }


@fleet_options
def ready(
    which: FleetOptions,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Ask about a plan's devices, each for the image of the plan."),
    ] = None,
    image: Annotated[
        Path | None,
        typer.Option("--image", metavar="FILE", help="The image for all devices that name none themselves."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--image-rules",
            metavar="FILE",
            help=f"Rules that give each device its image (default: {RULES_FILE} in the inventory's folder).",
        ),
    ] = None,
    image_dir: Annotated[
        list[Path] | None,
        typer.Option("--image-dir", metavar="DIR", help="Where images named without a folder are; may be repeated."),
    ] = None,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    signature: Annotated[
        bool,
        typer.Option(
            "--signature/--no-signature",
            help="Have devices verify the vendor's signature in the image too, where it has one.",
        ),
    ] = True,
    at_a_time: Annotated[
        int, typer.Option("--at-a-time", metavar="N", min=1, max=1000, help="How many devices to ask at the same time.")
    ] = 100,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            metavar="FILE",
            help="Keep the answers as JUnit XML too, a case per device and condition.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Ask devices whether they are ready to boot their images, member by member. Changes nothing."""
    _check_options(plan=plan, image=image, images=images, has_hash=md5 is not None or sha512 is not None)

    if junit is not None:
        check_writable(junit, option="--junit")
    nornir = fleet(which)
    rules, folders = api.image_rules(which.folder, images, has_image=image is not None or plan is not None)
    request = api.ReadyRequest(
        image=image,
        vendor=published_digests(md5, sha512) if image is not None else None,
        rules=rules,
        folders=(*(image_dir or ()), *folders),
        plan=plan,
        signature=signature,
        at_a_time=at_a_time,
    )
    with reading_only("a readiness check") as stop:
        found = api.ready(nornir, request, state=state_dir, emit=EventLines(), interrupted=stop.is_set)
    if junit is not None:
        _keep(junit, found)
    document: dict[str, object] = {"ready": found.ready, "plan": found.plan, "devices": found.devices}
    finish("ready", found.exit_code, document, as_json=json, human=lambda: print_ready(found))


def _check_options(*, plan: Path | None, image: Path | None, images: Path | None, has_hash: bool) -> None:
    if plan is not None and (image is not None or images is not None or has_hash):
        raise ConfigInvalid(
            "--plan names the images of its devices: --image, --image-rules, --md5 and --sha512 are not for it",
            hint="Leave them out, or leave out --plan",
        )
    if image is not None and images is not None:
        raise ConfigInvalid(
            "--image cannot be combined with --image-rules: one image for all, or rules for each",
            hint="Leave one of them out",
        )
    if image is None and has_hash:
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image", hint="Give --image too")


def _keep(path: Path, found: api.ReadyResult) -> None:
    from flashferry.reports.junit import ready_junit  # imports xml

    try:
        write_whole(path, ready_junit(found.devices, plan=found.plan), is_private=False)
    except OSError as error:
        raise ConfigInvalid(
            f"--junit {path}: cannot be written: {error.strerror}",
            hint="Check free disk space and the folder's permissions, or name another file",
        ) from None
    say(f"the answers are in {path}")
