"""`flashferry plan`: which device gets what, when, how long it takes, and whether that fits. Changes nothing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions, Overrides
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.server import TransportOption, asked
from flashferry.cli.options.shared import (
    OUTPUT_VARIABLE,
    AnyImageOption,
    DepotOption,
    JsonOption,
    Md5Option,
    Sha512Option,
    StateOption,
    UncappedOption,
)
from flashferry.cli.options.waves import TuneOption, wave_options
from flashferry.cli.terminal.interrupt import looking
from flashferry.cli.terminal.output import finish, say
from flashferry.core.errors import ConfigInvalid
from flashferry.images.digests import published
from flashferry.model.fleet_plan import TuneMode
from flashferry.model.limits import parse_window
from inventory.image_rules import RULES_FILE

if TYPE_CHECKING:
    from flashferry.api import PlanResult


@fleet_options
@wave_options
def plan(
    which: FleetOptions,
    waves: Overrides,
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
    any_image: AnyImageOption = False,
    uncapped: UncappedOption = False,
    transport: TransportOption = None,
    depot: DepotOption = None,
    md5: Md5Option = None,
    sha512: Sha512Option = None,
    tune: TuneOption = None,
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
    if image is None and (md5 is not None or sha512 is not None):
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image", hint="Give --image too")
    from flashferry.cli.view.plan_table import PlanProgress, print_plan
    from flashferry.model.plan_file import plan_document

    now = datetime.now().astimezone()
    starts_at, until = _span(window, waves, now)
    rules, folders = api.image_rules(which.folder, images, has_image=image is not None)
    request = api.PlanRequest(
        image=image,
        rules=rules,
        folders=(*(image_dir or ()), *folders),
        vendor=published(md5, sha512) if image is not None else None,
        tune=tune or TuneMode.AUTO,
        limits=waves.limits(),
        policy=waves.policy(),
        starts_at=starts_at,
        until=until,
        state_directory=api.state_folder(state_dir),
        any_image=any_image,
        uncapped=uncapped,
        transport=asked(transport),
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


def _span(window: str | None, waves: Overrides, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return when the run begins, if that was said, and when it must have ended."""
    if window is None:
        return None, waves.until
    if waves.until is not None:
        raise ConfigInvalid("--window cannot be combined with --until: a window has its end", hint="Leave --until out")
    opens, closes = parse_window(window, now)
    return opens.astimezone(now.tzinfo), closes.astimezone(now.tzinfo)


def _keep(found: PlanResult, out: Path) -> None:
    """Write the plan, unless it was interrupted: half a fleet is no plan."""
    if found.is_whole:
        api.save_plan(found.plan, out)
    else:
        say(f"interrupted: {out} was not written, for some devices were not looked at")
