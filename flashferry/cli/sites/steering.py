"""`flashferry sites pause|continue|stop|approve`: sites told something about a run, from any terminal of the centre."""

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
from flashferry.cli.sites.options import RunArgument, SettingsOption, SiteOption, centre_of
from flashferry.cli.terminal.output import finish
from flashferry.core.safe_quote import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.store.control_requests import WishKind
from flashferry.store.sites.runs import orders_to_send

if TYPE_CHECKING:
    from flashferry.sites.centre.centre import Centre

_PATIENCE_S = 10.0
"""So long it is waited for that agents say that they have it; `sites follow` goes on sending where they do not."""
_LOOK_S = 0.25


def register(app: App) -> None:
    """Enter the commands of this module."""
    app.command("pause")(pause)
    app.command("continue")(continue_run)
    app.command("stop")(stop)
    app.command("approve")(approve)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What every verb is given that tells sites something about a run.

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


def _tells(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb these options; it takes them together as its argument `told`."""
    shared = inspect.signature(_options, eval_str=True).parameters
    return carried(verb, "told", shared, lambda given, _own: Told(**given))


@_tells
def pause(told: Told) -> None:
    """Let no further device begin at the sites; those under way go on to their end."""
    _steer(told, WishKind.PAUSE, "to pause: devices under way go on, no other begins")


@_tells
def continue_run(told: Told) -> None:
    """Go on with a run that is paused at the sites."""
    _steer(told, WishKind.CONTINUE, "to go on")


@_tells
def stop(told: Told) -> None:
    """End what is under way at the sites, restore every device and report."""
    _steer(told, WishKind.STOP, "to stop: what is under way is ended, every device is restored")


@_tells
def approve(
    told: Told,
    wave: Annotated[
        int | None,
        typer.Option("--wave", metavar="N", min=0, help="Up to this wave (default: the next behind the approved)."),
    ] = None,
) -> None:
    """Let the next wave of a run begin at the sites."""
    _steer(told, WishKind.APPROVE, "", wave)


def _steer(told: Told, what: WishKind, words: str, wave: int | None = None) -> NoReturn:
    """Have sites told something about a run, wait a moment for their agents to have it, print that, and leave."""
    from flashferry.sites.centre.centre import wave_to_approve

    with centre_of(told.sites, told.state_dir) as centre:
        found = centre.run_named(told.run)
        if what is WishKind.APPROVE:
            wave = wave_to_approve(found, wave)
            words = f"that wave {wave} may begin"
        sites = centre.steer(found, what, asker(told.reason), site=told.site, wave=wave)
        left = _unheard(centre, found.run, what)
    more = f"; {counted(left, 'site')} did not say yet that it has it: it is sent on by 'sites follow'" if left else ""
    result: dict[str, object] = {"run_id": found.run, "sites": sites, "wave": wave, "waiting": left}
    finish(
        "sites-control",
        ExitCode.OK,
        result,
        as_json=told.json,
        human=lambda: _print(f"run {found.run}: told {counted(len(sites), 'site')} {words}{more}"),
    )
    raise AssertionError("unreachable")


def _unheard(centre: Centre, run: str, what: WishKind) -> int:
    """Send orders, and wait a moment until their agents have them; return how many have not said so."""
    until_s, left = time.monotonic() + _PATIENCE_S, 1
    while left and time.monotonic() < until_s:
        centre.orders.tend(run)
        time.sleep(_LOOK_S)
        with centre.ledger.reading() as database:
            left = len([one for one in orders_to_send(database, run) if one.job == what.value])
    return left


def _print(text: str) -> None:
    from flashferry.cli.view.layout import console

    console().print(text)
