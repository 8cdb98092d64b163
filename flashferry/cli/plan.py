"""`flashferry plan`: which device gets what, when, how long it takes, and whether that fits. Changes nothing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.fleet import FleetOptions, fleet, fleet_options
from flashferry.cli.options.shared import (
    OUTPUT_VARIABLE,
    AnyImageOption,
    JsonOption,
    Md5Option,
    Sha512Option,
    StateOption,
    UncappedOption,
)
from flashferry.cli.options.waves import TuneOption, WaveOptions, wave_options
from flashferry.cli.terminal.interrupt import looking
from flashferry.cli.terminal.output import finish, say
from flashferry.cli.view.plan_table import PlanProgress, print_plan
from flashferry.core.errors import ConfigInvalid
from flashferry.images.digests import published
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.fleet_plan import Action, FleetPlan, TuneMode
from flashferry.model.limits import parse_window
from flashferry.model.plan_file import plan_document, save_plan
from flashferry.model.states import Outcome
from flashferry.planning.fleet_planner import PlanRequest, plan_fleet
from flashferry.store.journal import state_directory
from inventory.image_rules import RULES_FILE, ImageRules, load_image_rules, rules_beside
from inventory.load import SAMPLE, sample_directory

if TYPE_CHECKING:
    from nornir.core import Nornir

_OUTCOMES = {
    Action.STAGE: Outcome.DONE,
    Action.ALREADY_THERE: Outcome.ALREADY_THERE,
    Action.STAYS: Outcome.ALREADY_THERE,  # as asked for, nothing to do
    Action.REFUSED: Outcome.REFUSED,
    Action.UNREACHABLE: Outcome.FAILED,
}


@fleet_options
@wave_options
def plan(
    which: FleetOptions,
    waves: WaveOptions,
    image: Annotated[
        Path | None,
        typer.Option("--image", metavar="FILE", help="The image for all devices that name none themselves."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--image-rules",
            "--images",
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
            "--out",
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
        raise ConfigInvalid("--image cannot be combined with --image-rules: one image for all, or rules for each")
    if image is None and (md5 is not None or sha512 is not None):
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image: give --image too")
    now = datetime.now().astimezone()
    starts_at, until = _span(window, waves, now)
    rules, folders = _rules(which, image, images)
    request = PlanRequest(
        image=image,
        rules=rules,
        folders=(*(image_dir or ()), *folders),
        vendor=published(md5, sha512) if image is not None else None,
        tune=tune or TuneMode.AUTO,
        limits=waves.limits(),
        policy=waves.policy(),
        starts_at=starts_at,
        until=until,
        state_directory=state_directory(state_dir),
        any_image=any_image,
        uncapped=uncapped,
    )
    nornir = fleet(which)
    if image is None:
        _check_some_image(nornir, rules)
    progress = PlanProgress(len(nornir.inventory.hosts))
    with looking("a plan") as stop:
        found = plan_fleet(nornir, request, now=now, emit=progress, interrupted=stop.is_set)
        code = exit_code((_OUTCOMES[device.action] for device in found.devices), interrupted=stop.is_set())
    _keep(found, out, code)
    document = plan_document(found)
    digest = str(document["digest"])
    finish("plan", code, document, as_json=json, human=lambda: print_plan(found, out, digest=digest))


def _span(window: str | None, waves: WaveOptions, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return when the run begins, if that was said, and when it must have ended."""
    if window is None:
        return None, waves.deadline(now)
    if waves.until is not None:
        raise ConfigInvalid("--window cannot be combined with --until: a window has its end")
    opens, closes = parse_window(window, now)
    return opens.astimezone(now.tzinfo), closes.astimezone(now.tzinfo)


def _rules(which: FleetOptions, image: Path | None, images: Path | None) -> tuple[ImageRules, tuple[Path, ...]]:
    """Return the rules, and the folders in which their images are looked for."""
    inventory = sample_directory() if which.inventory == SAMPLE else Path(which.inventory)
    # A Nornir configuration file stands for the folder that it is in.
    beside = inventory if inventory.is_dir() else inventory.parent
    if images is not None:
        return load_image_rules(images), (images.parent, beside)
    return (rules_beside(inventory) if image is None else ImageRules()), (beside,)


def _check_some_image(nornir: Nornir, rules: ImageRules) -> None:
    """Check that there is any image to plan: else every device would be logged in to for nothing."""
    if rules.source is None and not any(host.get("image") for host in nornir.inventory.hosts.values()):
        raise ConfigInvalid(
            f"no image is given: neither --image nor --image-rules, no {RULES_FILE} in the inventory's folder, and no "
            "device has a data key 'image'",
            hint="--image FILE plans one for all devices",
        )


def _keep(found: FleetPlan, out: Path | None, code: ExitCode) -> None:
    """Write the plan, unless it was interrupted: half a fleet is no plan."""
    if out is None:
        return
    if code is ExitCode.INTERRUPTED:
        say(f"interrupted: {out} was not written, for some devices were not looked at")
        return
    save_plan(found, out)
