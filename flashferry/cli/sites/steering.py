"""`flashferry sites pause|continue|stop|approve`: a run steered at its sites, from any terminal of the centre."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from flashferry.cli.command_line import App
from flashferry.cli.options.shared import JsonOption, ReasonOption, StateOption, asker, carried
from flashferry.cli.sites.following import RunArgument, SettingsOption, SiteOption, centre_of
from flashferry.cli.terminal.output import finish
from flashferry.core.value_description import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.store.control_requests import SteerKind
from flashferry.store.sites.runs import orders_to_send

if TYPE_CHECKING:
    from flashferry.sites.centre.centre import Centre

_PATIENCE_S = 10.0
"""How long to wait for the agents' confirmation; `sites follow` continues to send where there is none."""
_POLL_S = 0.25


def register(app: App) -> None:
    """Enter the commands of this module."""
    app.command("pause")(pause)
    app.command("continue")(continue_run)
    app.command("stop")(stop)
    app.command("approve")(approve)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringAsked:
    """What every verb that steers a run at its sites is given.

    Attributes:
        run: The run, as it was typed.
        site: This site alone; None: all that are not through.
        reason: Why.
        sites: The centre's settings, or None: in the state folder.
        state_dir: The state folder, or None: where the command line has it.
        json: Whether the result is for programs.
    """

    run: str
    site: str | None
    reason: str
    sites: Path | None
    state_dir: Path | None
    json: bool


def _options(
    run: RunArgument,
    site: SiteOption = None,
    reason: ReasonOption = "",
    sites: SettingsOption = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Carry the options that every one of these verbs has."""


def _steers(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options; it takes them together as its argument `asked`."""
    shared = inspect.signature(_options, eval_str=True).parameters
    return carried(verb, "asked", shared, lambda given, _own: SteeringAsked(**given))


@_steers
def pause(asked: SteeringAsked) -> None:
    """Start no further device at the sites; those under way run to their end."""
    _steer(asked, SteerKind.PAUSE, "to pause: running devices finish, no new ones start")


@_steers
def continue_run(asked: SteeringAsked) -> None:
    """Continue a run that is paused at the sites."""
    _steer(asked, SteerKind.CONTINUE, "to continue")


@_steers
def stop(asked: SteeringAsked) -> None:
    """End what is under way at the sites, restore every device and report."""
    _steer(asked, SteerKind.STOP, "to stop: what is under way is ended, every device is restored")


@_steers
def approve(
    asked: SteeringAsked,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", min=0, help="Up to this wave (default: the next after the approved)."),
    ] = None,
) -> None:
    """Approve the next wave of a run at the sites."""
    _steer(asked, SteerKind.APPROVE, "", wave)


def _steer(asked: SteeringAsked, what: SteerKind, words: str, wave: int | None = None) -> NoReturn:
    """Send an order about a run to its sites, wait a moment for their agents' confirmation, print that, and leave."""
    from flashferry.sites.centre.centre import wave_to_approve

    with centre_of(asked.sites, asked.state_dir) as centre:
        found = centre.run_named(asked.run)
        if what is SteerKind.APPROVE:
            wave = wave_to_approve(found, wave)
            words = f"that wave {wave} may start"
        sites = centre.steer(found, what, asker(asked.reason), site=asked.site, wave=wave)
        left = _unconfirmed(centre, found.run, what)
    more = f"; {counted(left, 'site')} did not confirm it yet: 'sites follow' sends it again" if left else ""
    result: dict[str, object] = {"run_id": found.run, "sites": sites, "wave": wave, "waiting": left}
    finish(
        "sites-control",
        ExitCode.OK,
        result,
        as_json=asked.json,
        human=lambda: _print(f"run {found.run}: asked {counted(len(sites), 'site')} {words}{more}"),
    )
    raise AssertionError("unreachable")


def _unconfirmed(centre: Centre, run: str, what: SteerKind) -> int:
    """Send orders, and wait a moment for the agents' confirmations; return how many are missing."""
    until_s, left = time.monotonic() + _PATIENCE_S, 1
    while left and time.monotonic() < until_s:
        centre.orders.tend(run)
        time.sleep(_POLL_S)
        with centre.ledger.reading() as database:
            left = len([one for one in orders_to_send(database, run) if one.job == what.value])
    return left


def _print(text: str) -> None:
    from flashferry.cli.view.layout import console

    console().print(text)
