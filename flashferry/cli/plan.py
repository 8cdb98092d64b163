"""`flashferry plan`: plan which device gets which image when, how long it takes, and whether it fits the window."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from flashferry.api.fleet_options import FleetOptions
from flashferry.cli.backend import backend_of
from flashferry.cli.command_line import AT_SERVICE, HERE, OUTPUT, Offered
from flashferry.cli.options.fleet import fleet_options
from flashferry.cli.options.policy import WITH_THE_PLAN, policy_options
from flashferry.cli.options.shared import (
    OUTPUT_VARIABLE,
    DepotOption,
    JsonOption,
    StateOption,
    TitleOption,
    options_of,
)
from flashferry.cli.result import show
from flashferry.core.errors import ConfigInvalid
from flashferry.core.files import check_writable
from flashferry.model.limits import parse_window
from flashferry.model.policy import settings
from inventory.image_rules import RULES_FILE


class PlanAsked(Struct, frozen=True, kw_only=True):
    """Options of `flashferry plan`."""

    image: Annotated[
        Path | None,
        typer.Option("--image", metavar="FILE", help="The image for all devices that name none themselves."),
        Offered(metavar="NAME", help="An image of the service's, by its name there."),
    ] = None
    images: Annotated[
        Path | None,
        typer.Option(
            "--image-rules",
            metavar="FILE",
            help=f"Rules that give each device its image (default: {RULES_FILE} in the inventory's folder).",
        ),
        HERE,
    ] = None
    image_dir: Annotated[
        list[Path] | None,
        typer.Option("--image-dir", metavar="DIR", help="Where images named without a folder are; may be repeated."),
        HERE,
    ] = None
    golden: Annotated[
        bool,
        typer.Option("--golden", help="Each device gets the golden image of its model, as the service has it."),
        AT_SERVICE,
    ] = False
    depot: DepotOption = None
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="FROM-UNTIL", help="When the run may be at work, such as 22:00-05:00."),
        Offered(help="When the run may be at work, such as 22:00-05:00, by the clock of the service's host."),
    ] = None
    title: TitleOption = ""
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
        Offered(help="Keep the plan here, too."),
    ] = None

    def span(self, until: datetime | None, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return the run's start, if given, and its end.

        Raises:
            ConfigInvalid: The window is invalid, or an end is given besides the window's own.
        """
        if self.window is None:
            return None, until
        if until is not None:
            raise ConfigInvalid(
                "--window cannot be combined with --until: a window has its end", hint="Leave --until out"
            )
        opens, closes = parse_window(self.window, now)
        return opens.astimezone(now.tzinfo), closes.astimezone(now.tzinfo)


@fleet_options
@policy_options((one for one in settings().values() if one.in_plans), at_service={one.name for one in WITH_THE_PLAN})
@options_of(PlanAsked)
def plan(
    ctx: typer.Context,
    which: FleetOptions,
    chosen: dict[str, object],
    asked: PlanAsked,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Plan a run over a fleet: images, waves, minutes, load on the links, does it fit. Changes nothing."""
    from flashferry.cli.view.plan_table import print_plan  # imports rich and nornir

    if asked.image is not None and asked.images is not None:
        raise ConfigInvalid(
            "--image cannot be combined with --image-rules: one image for all, or rules for each",
            hint="Leave one of them out",
        )
    for folder in asked.image_dir or ():
        if not folder.is_dir():
            raise ConfigInvalid(f"--image-dir {folder}: expected a folder, found none", hint="Check the path")
    if asked.out is not None:
        check_writable(asked.out, option="--output")
    if asked.image is None and chosen.keys() & {"md5", "sha512"}:
        raise ConfigInvalid("--md5 and --sha512 are hashes of an image", hint="Give --image too")
    with backend_of(ctx, state_dir) as backend:
        result = backend.plan(which, chosen, asked)
    show(result, print_plan, as_json=json)
