"""`flashferry plan`: which device gets what, when, how long it takes, and whether that fits. Changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.policy import policy_options
from flashferry.cli.options.shared import OUTPUT_VARIABLE, DepotOption, JsonOption, StateOption
from flashferry.cli.terminal.interrupt import looking
from flashferry.cli.terminal.output import finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.model.limits import parse_window
from flashferry.model.policy import settings
from inventory.image_rules import RULES_FILE

if TYPE_CHECKING:
    from flashferry.api import PlanResult


@fleet_options
@policy_options(one for one in settings().values() if one.in_plans)
def plan(
    which: FleetOptions,
    chosen: dict[str, object],
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
    depot: DepotOption = None,
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="FROM-UNTIL", help="When the run may be at work, such as 22:00-05:00."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            envvar=OUTPUT_VARIABLE,
            metavar="FILE",
            help="Keep the plan, for 'flashferry stage --plan'.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Plan a run over a fleet: images, waves, minutes, load on the links, does it fit. Changes nothing."""
    if image is not None and images is not None:
        raise ConfigInvalid(
            "--image cannot be combined with --image-rules: one image for all, or rules for each",
            hint="Leave one of them out",
        )
    if image is None and chosen.keys() & {"md5", "sha512"}:
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image", hint="Give --image too")
    from flashferry.cli.view.plan_table import PlanProgress, print_plan
    from flashferry.model.plan_file import plan_document

    now = datetime.now().astimezone()
    policy = api.StagePolicy().changed(chosen)
    starts_at, until = _span(window, policy.until, now)
    rules, folders = api.image_rules(which.folder, images, has_image=image is not None)
    request = api.PlanRequest(
        image=image,
        rules=rules,
        folders=(*(image_dir or ()), *folders),
        policy=replace(policy, until=until),
        starts_at=starts_at,
        state_directory=api.state_folder(state_dir),
        depot=depot or "auto",
    )
    nornir = fleet(which)
    progress = PlanProgress(len(nornir.inventory.hosts))
    with looking("a plan") as stop:
        found = api.plan(nornir, request, now=now, emit=progress, interrupted=stop.is_set)
    if out is not None:
        _keep(found, out)
    document = plan_document(found.plan)
    digest = str(document["digest"])
    finish("plan", found.exit_code, document, as_json=json, human=lambda: print_plan(found.plan, out, digest=digest))


def _span(window: str | None, until: datetime | None, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return when the run begins, if that was said, and when it must have ended."""
    if window is None:
        return None, until
    if until is not None:
        raise ConfigInvalid("--window cannot be combined with --until: a window has its end", hint="Leave --until out")
    opens, closes = parse_window(window, now)
    return opens.astimezone(now.tzinfo), closes.astimezone(now.tzinfo)


def _keep(found: PlanResult, out: Path) -> None:
    """Write the plan, unless it was interrupted: half a fleet is no plan."""
    if found.is_whole:
        api.save_plan(found.plan, out)
    else:
        say(f"interrupted: {out} was not written, for some devices were not looked at")
