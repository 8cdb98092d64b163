"""`flashferry pilot`: try all verbs on one spare router, with a confirmation before each step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry.api.fleet_options import FleetOptions
from flashferry.cli.options.fleet import device_options, prompt
from flashferry.cli.options.server import TransportOption, server_options
from flashferry.cli.options.shared import OUTPUT_VARIABLE, JsonOption, StateOption
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import EventLines, agreed, finish, here, say
from flashferry.cli.transport_options import asked_transport
from flashferry.cli.view.layout import BAD, GOOD, WARN, console
from flashferry.core.errors import ConfigInvalid
from flashferry.model.policy import ServerPlace
from flashferry.pilot.facts import Verdict
from flashferry.pilot.step_results import ABOUT, PilotOptions, Status, Step
from flashferry.pilot.steps import pilot as take_steps

if TYPE_CHECKING:
    from flashferry.pilot.step_results import PilotResult

STEPS = "check, reach, probe, tune, copy, kill"


@device_options
@server_options
def pilot(
    which: FleetOptions,
    server: ServerPlace,
    host: Annotated[str, typer.Argument(metavar="HOST", help="The router's name in the inventory: a spare one.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            envvar=OUTPUT_VARIABLE,
            metavar="DIR",
            help="Where page, transcript and captures go; new, or an empty folder.",
        ),
    ],
    yes: Annotated[
        list[str] | None,
        typer.Option(
            "--yes", metavar="STEP", help=f"Consent to this step without a question; may be repeated. Steps: {STEPS}."
        ),
    ] = None,
    transport: TransportOption = None,
    state_dir: StateOption = None,  # noqa: ARG001 -- part of `which`
    json: JsonOption = False,
) -> None:
    """Try one spare router: check, reach, probe, tune and restore, one copy, a kill and recover. Asks before each."""
    named = frozenset(yes or ())
    if strange := sorted(named - set(Step)):
        raise ConfigInvalid(f"--yes {strange[0]}: expected a step, one of {STEPS}", hint="Give it once for each step")
    if named != set(Step) and not sys.stdin.isatty():
        missing = next(step for step in Step if step not in named)
        raise ConfigInvalid(
            f"no one can consent to '{missing}': standard input is no terminal",
            hint=f"Start it at a terminal, or name each step that you consent to: --yes {missing}",
        )
    options = PilotOptions(fleet=which, host=host, folder=output, server=server, transport=asked_transport(transport))
    with graceful_interrupt() as stop:

        def consent(step: Step) -> bool:
            about = f"{list(Step).index(step) + 1} of {len(Step)}: {step}. {ABOUT[step]}"
            if step in named:
                say(f"{step}: consented by --yes. {ABOUT[step]}")
                return True
            return agreed(("", about), f"{step} {host}?", stop.is_set)

        found = take_steps(options, consent, ask=prompt(), notify=say, emit=EventLines(), interrupted=stop.is_set)
    document: dict[str, object] = {
        "host": host,
        "folder": str(found.folder),
        "steps": found.steps,
        "facts": [
            {
                "id": one.fact.id,
                "statement": one.fact.statement,
                "verdict": one.verdict,
                "times": one.times,
                "seen": one.text,
            }
            for one in found.findings
        ],
    }
    finish("pilot", found.exit_code, document, as_json=json, human=lambda: _print(found))


def _print(found: PilotResult) -> None:
    styles = {Status.DONE: GOOD, Status.FAILED: BAD, Status.INCOMPLETE: BAD}
    for one in found.steps:
        console().print(
            here(f"{one.step:<6} {one.status}{f': {one.sentence}' if one.sentence else ''}"),
            style=styles.get(one.status, WARN),
        )
    for verdict in (Verdict.REFUTED, Verdict.CONFIRMED, Verdict.NOT_SEEN):
        names = [one.fact.id for one in found.findings if one.verdict is verdict]
        if names:
            console().print(f"{len(names)} of {len(found.findings)} facts {verdict}: {', '.join(names)}")
    if found.findings:
        console().print(
            f"page, transcript and captures are in {found.folder}: anonymised; read them before you hand them on"
        )
