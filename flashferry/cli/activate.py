"""`flashferry activate`: reload the devices of a plan that are ready into their images, after an approval."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.api import FleetOptions
from flashferry.cli.invocation import origin
from flashferry.cli.options.fleet import fleet, fleet_options
from flashferry.cli.options.shared import EventsOption, JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import finish, say, typed
from flashferry.cli.view.activation_table import print_activation_plan, print_activations, to_be_restarted
from flashferry.cli.view.live import watching
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.model.activation import LARGEST_TIMER_MIN, LEAST_TIMER_MIN, ActivationLimits
from flashferry.model.exit_codes import ExitCode, run_exit_code
from flashferry.monitor.progress import Expected, Roster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.api import ActivationPlan

_DIGITS = 8
_TIMES = "How long things may take"


@fleet_options
def activate(
    which: FleetOptions,
    plan: Annotated[
        Path, typer.Option("--plan", metavar="FILE", help="The plan that was staged: its devices, each for its image.")
    ],
    console_access: Annotated[
        bool,
        typer.Option(
            "--i-have-console-access",
            help="The console of every device can be reached (else the inventory's 'console_access' says so).",
        ),
    ] = False,
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve",
            metavar="SHA256",
            help="Approve the plan by its digest, or the first 8 digits of it, instead of typing them when asked.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show who would be restarted when; sends nothing.")
    ] = False,
    per_site: Annotated[
        int, typer.Option("--per-site", metavar="N", min=1, max=100, help="Devices of one site at the same time.")
    ] = 1,
    at_a_time: Annotated[
        int, typer.Option("--at-a-time", metavar="N", min=1, max=200, help="Devices at the same time, in all.")
    ] = 10,
    canary: Annotated[
        bool, typer.Option("--canary/--no-canary", help="One device of each model goes first, before all others.")
    ] = True,
    max_failures: Annotated[
        int, typer.Option("--max-failures", metavar="N", min=0, help="So many may fail before nothing new begins.")
    ] = 0,
    signature: Annotated[
        bool, typer.Option("--signature/--no-signature", help="Have the image's signature verified once more.")
    ] = True,
    timer_min: Annotated[
        int,
        typer.Option(
            "--timer-min",
            metavar="MINUTES",
            min=LEAST_TIMER_MIN,
            max=LARGEST_TIMER_MIN,
            help="Without a commit a device in install mode brings its old image back after this.",
            rich_help_panel=_TIMES,
        ),
    ] = 60,
    boot_limit_min: Annotated[
        float,
        typer.Option(
            "--boot-limit-min",
            metavar="MINUTES",
            min=0.05,
            help="How long a device may be away.",
            rich_help_panel=_TIMES,
        ),
    ] = 30.0,
    settle_min: Annotated[
        float,
        typer.Option(
            "--settle-min",
            metavar="MINUTES",
            min=0.0,
            help="How long ports, neighbours and routes may take to be back.",
            rich_help_panel=_TIMES,
        ),
    ] = 5.0,
    poll_s: Annotated[
        float,
        typer.Option(
            "--look-every-s", metavar="SECONDS", min=0.2, help="Pause between two looks.", rich_help_panel=_TIMES
        ),
    ] = 10.0,
    state_dir: StateOption = None,
    events: EventsOption = None,
    json: JsonOption = False,
) -> None:
    """Restart devices that are proven ready into their images: in rounds, each device once, followed to its end."""
    limits = ActivationLimits(
        timer_min=timer_min,
        boot_limit_s=boot_limit_min * 60,
        settle_s=settle_min * 60,
        look_every_s=poll_s,
    )
    options = api.ActivationOptions(
        limits=limits,
        per_site=per_site,
        at_a_time=at_a_time,
        canary=canary,
        max_failures=max_failures,
        signature=signature,
        has_console_access=console_access or dry_run,
    )
    if not dry_run and approve is None and not sys.stdin.isatty():
        raise ConfigInvalid(
            "the approval cannot be asked for: standard input is no terminal",
            hint="Look at the rounds with --dry-run; --approve SHA256 names the plan that was approved",
        )
    found = api.activation_plan(fleet(which), plan, options)
    if dry_run:
        document: dict[str, object] = {"plan": found.digest, "rounds": found.rounds}
        finish("activate", ExitCode.OK, document, as_json=json, human=lambda: print_activation_plan(found))
    if approve is None:
        approve = _asked(found, to_be_restarted(found), as_json=json)
    with (
        stop_on_signals(announce=_print_stopping) as stop,
        api.journal_in(state_dir, origin(events)) as journal,
        watching("device", devices=len(found.hosts), roster=_roster(found), events=events) as emit,
    ):
        report = api.activate(found, approve, state=journal, emit=emit, interrupted=stop.is_set)
    finish("activate", run_exit_code(report), {"run": report}, as_json=json, human=lambda: print_activations(report))


def _asked(found: ActivationPlan, above: Sequence[str], *, as_json: bool) -> str:
    """Ask for the approval and return what was typed; without input the command ends."""
    question = f"type {found.digest[:_DIGITS]} to restart {counted(len(found.hosts), 'device')}:"
    with stop_on_signals() as stop:
        approved = typed(above, question, stop.is_set)
    if stop.is_set() or not approved:
        code = ExitCode.INTERRUPTED if stop.is_set() else ExitCode.UNFINISHED
        why = "interrupted at the question" if stop.is_set() else "the plan was not approved"
        text = f"{why}: no device was asked or restarted"
        document: dict[str, object] = {"plan": found.digest, "rounds": found.rounds}
        finish("activate", code, document, as_json=as_json, human=lambda: say(text), meaning=text)
    return approved


def _roster(found: ActivationPlan) -> Roster:
    return Roster(devices=tuple(Expected(host=host, site=found.site_of(host) or "") for host in found.hosts))


def _print_stopping(first: bool) -> None:
    say(
        "interrupted: nothing new starts; what was restarted is followed to its end, or left to its timer and reported"
        if first
        else "still following; if this process is killed, run 'flashferry recover'"
    )
