"""`flashferry stage`: tune, copy, verify, restore."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from flashferry.api.fleet_options import FleetOptions
from flashferry.cli.backend import backend_of
from flashferry.cli.command_line import (
    AT_SERVICE,
    HERE,
    OUTPUT,
    TUNING,
    WAVES,
    Offered,
    is_at_service,
    verb_with_first,
)
from flashferry.cli.options.fleet import fleet_options
from flashferry.cli.options.policy import AT_THE_START, policy_options
from flashferry.cli.options.server import server_options
from flashferry.cli.options.shared import (
    EventsOption,
    ImageFileOption,
    JsonOption,
    MetricsOption,
    ServiceReasonOption,
    StateOption,
    TitleOption,
    options_of,
)
from flashferry.cli.result import Result, Watching, show
from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import Chosen, ServerPlace, TuneMode, settings, settled_at_start

if TYPE_CHECKING:
    from typing import Any

COMMAND = verb_with_first("inventory", "host", "image", "plan", "resume", "dry_run")
"""Command class; `--help` shows these options."""

_AT_SERVICE = {"transport", "until", *(one.name for one in AT_THE_START)}


class StageAsked(Struct, frozen=True, kw_only=True):
    """Options of `flashferry stage` that select an image, a plan, or a run to resume."""

    image: ImageFileOption = None
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="FILE", help="Carry out what 'flashferry plan --output' wrote."),
        Offered(
            metavar="FILE|DIGEST",
            help="What 'flashferry plan --output' wrote, to be offered there, or the digest of a plan that is.",
        ),
    ] = None
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Resume a run that was killed or stopped; recovers it first."),
    ] = None
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Where the plan is not approved yet, wait until it is, then start."),
        AT_SERVICE,
    ] = False
    not_before: Annotated[
        str | None,
        typer.Option(
            "--not-before",
            metavar="TIME",
            help="Have the service start it then: HH:MM (the next one) or a date and time, by this host's clock.",
            rich_help_panel=WAVES,
        ),
        AT_SERVICE,
    ] = None
    no_tune: Annotated[
        bool,
        typer.Option("--no-tune", help="Copy with the device's TCP settings as they are.", rich_help_panel=TUNING),
        HERE,
    ] = False
    sites: Annotated[
        Path | None,
        typer.Option(
            "--sites",
            metavar="FILE",
            help="Give each site its part of the plan: the centre's settings, whose agents carry it out.",
        ),
        HERE,
    ] = None
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            metavar="NAME",
            help="With --sites: leave this site of the plan, or this device, out of the run; may be repeated.",
        ),
        HERE,
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be sent to each device; change nothing.")
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="End with what was measured and proven of each device, as 'flashferry report RUN' has it.",
            rich_help_panel=OUTPUT,
        ),
    ] = False
    title: TitleOption = ""
    reason: ServiceReasonOption = ""
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Start it, and do not wait for its end.", rich_help_panel=OUTPUT),
        AT_SERVICE,
    ] = False


@fleet_options
@policy_options(settings().values(), at_service=_AT_SERVICE)
@server_options
@options_of(StageAsked)
def stage(
    ctx: typer.Context,
    which: FleetOptions,
    chosen: dict[str, object],
    server: ServerPlace,
    asked: StageAsked,
    state_dir: StateOption = None,
    events: EventsOption = None,
    metrics: MetricsOption = None,
    json: JsonOption = False,
) -> None:
    """Have devices pull an image: tune TCP, copy, verify the hash, restore the configuration, prove it."""
    to = Watching(events=events, metrics=metrics)
    if not is_at_service(ctx):
        chosen = _checked(dict(chosen), asked)
        if asked.sites is not None:
            from flashferry.cli.sites.staging import stage_at_sites  # imports nornir

            file = _check_for_sites(asked.plan, which, chosen, dry_run=asked.dry_run)
            stage_at_sites(asked.sites, file, state_dir, to, without=asked.leave_out or (), as_json=json)
    with backend_of(ctx, state_dir) as backend:
        result = backend.stage(which, chosen, server, asked, to)
    show(result, lambda value: _print(result, value, is_verbose=asked.verbose), as_json=json)


def _print(result: Result[object], value: Any, *, is_verbose: bool) -> None:
    from flashferry.cli.view.device_tables import print_dry_run, print_run, print_run_details  # imports rich and nornir

    if result.verb == "dry-run":
        print_dry_run(value)
    elif is_verbose:
        print_run_details(value, result.before_bytes_per_s)
    else:
        print_run(value)


def _checked(chosen: dict[str, object], asked: StageAsked) -> dict[str, object]:
    """Check the settings for a run on this host against each other, and return them.

    Raises:
        ConfigInvalid: Two of them contradict each other.
    """
    _check_one_job(asked)
    if asked.leave_out and asked.sites is None:
        raise ConfigInvalid(
            "--leave-out: expected --sites FILE with it, found none",
            hint="From here --host, --group and --filter choose among the plan's devices",
        )
    settled = _tuned(chosen, no_tune=asked.no_tune)
    if asked.resume is not None and (asked.dry_run or asked.no_tune):
        raise settled_at_start("--dry-run" if asked.dry_run else "--no-tune")
    return settled


def _check_for_sites(plan: str | None, which: FleetOptions, chosen: Chosen, *, dry_run: bool) -> Path:
    """Check that a run at sites is given only a plan, and return the plan's file.

    Raises:
        ConfigInvalid: There is no plan, or an option that the plan or the sites' settings determine.
    """
    if plan is None or dry_run or which.has_selection or chosen:
        what = "no plan" if plan is None else "a dry run" if dry_run else "more about devices, images, waves or tuning"
        raise ConfigInvalid(
            f"--sites: expected --plan FILE with it and nothing else that a plan says, found {what}",
            hint="Each site carries out its part of the plan as it stands, with its agent's own settings; --leave-out "
            "leaves sites or devices out",
        )
    return Path(plan)


def _check_one_job(asked: StageAsked) -> None:
    """Check that exactly one of image, plan and run is given. Raises `ConfigInvalid`: none or several are given."""
    words = (("--image", asked.image), ("--plan", asked.plan), ("--resume", asked.resume))
    given = [name for name, value in words if value is not None]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise ConfigInvalid(
            f"expected one of --image, --plan and --resume, found {found}",
            hint="Where rules say which device gets which image, make a plan: 'flashferry plan --output FILE'",
        )


def _tuned(chosen: dict[str, object], *, no_tune: bool) -> dict[str, object]:
    """Return the settings with `--no-tune` as the tuning mode it stands for.

    Raises:
        ConfigInvalid: Another tuning option was given too.
    """
    tune = chosen.get("tune")
    if no_tune and tune not in (None, TuneMode.NEVER):
        raise ConfigInvalid(
            f"--no-tune cannot be combined with --tune {tune}: it means --tune never", hint="Leave one of them out"
        )
    if (no_tune or tune is TuneMode.NEVER) and "extra" in chosen:
        raise ConfigInvalid(
            "--no-tune cannot be combined with --extra: an extra is tuning", hint="Leave one of them out"
        )
    return {**chosen, "tune": TuneMode.NEVER} if no_tune else chosen
