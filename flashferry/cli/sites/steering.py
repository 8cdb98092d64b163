"""`flashferry sites pause|continue|stop|approve`: steer a run at its sites from any terminal of the centre."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from msgspec import Struct

from flashferry.cli.invocation import asker
from flashferry.cli.options.shared import JsonOption, ReasonOption, StateOption, carried
from flashferry.cli.sites.centre import RunArgument, SettingsOption, SiteOption, centre_of
from flashferry.cli.terminal.output import finish
from flashferry.cli.view.layout import console
from flashferry.core.units import counted
from flashferry.model.exit_codes import ExitCode
from flashferry.sites.centre.plans import wave_to_approve
from flashferry.store.control_requests import SteerKind
from flashferry.store.sites.runs import orders_to_send

if TYPE_CHECKING:
    from flashferry.sites.centre.centre import Centre

_PATIENCE_S = 10.0
"""Time to wait for confirmations; `sites follow` keeps sending unconfirmed orders."""
_POLL_S = 0.25


class SteeringAsked(Struct, frozen=True, kw_only=True):
    """Options of the verbs that steer a run at its sites.

    Attributes:
        run: The run, as typed.
        site: One site; None: all that are not finished.
        reason: The reason given.
        sites: File with the centre's settings; None: the one in the state folder.
        state_dir: The state folder; None: the default.
        json: Whether to print JSON.
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
    """Declare the options of these verbs."""


def _steers(verb: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a verb, passed together as its argument `asked`."""
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
    """Send an order to the run's sites, wait briefly for the agents' confirmations, print them, and exit."""
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
    """Send orders, wait briefly for the agents' confirmations, and return how many are missing."""
    until_s, left = time.monotonic() + _PATIENCE_S, 1
    while left and time.monotonic() < until_s:
        centre.orders.tend(run)
        time.sleep(_POLL_S)
        with centre.ledger.reading() as database:
            left = len([one for one in orders_to_send(database, run) if one.job == what.value])
    return left


def _print(text: str) -> None:
    console().print(text)
