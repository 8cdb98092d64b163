"""`flashferry stage --plan FILE --sites FILE`: each site is given its part of a plan, and the whole followed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from flashferry.cli.options.shared import asker
from flashferry.cli.sites.following import follow
from flashferry.cli.sites.options import centre_of
from flashferry.cli.terminal.output import say
from flashferry.core.safe_quote import counted
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.sites.centre.centre import read_plan_file
from flashferry.sites.centre.settings import CentreSettings, load_centre
from flashferry.sites.centre.sharing import left_out, owners_of, shares, staged_from_here

if TYPE_CHECKING:
    from flashferry.cli.result import Watching


def stage_at_sites(
    sites: Path, plan: Path, state_dir: Path | None, to: Watching, *, without: Collection[str], as_json: bool
) -> NoReturn:
    """Give each site its part of a plan, follow it, report, and leave with the exit code.

    Args:
        sites: The centre's settings.
        plan: The plan's file.
        state_dir: The state folder, or None: where the command line has it.
        to: Where events go.
        without: Sites and devices that are left out.
        as_json: Whether the result is for programs.

    Raises:
        ConfigInvalid: Something given is wrong, or a site cannot be given its part; nothing was sent then.
        BrokerUnreachable: The broker cannot be reached; nothing was sent.
    """
    read = read_plan_file(plan)
    # Refused before anything is opened and sent.
    settings = load_centre(sites)
    left = left_out(read.plan, settings, without)
    staged = frozenset(one.host for one in read.plan.of(Action.STAGE)) - {one.host for one in left}
    found = shares(read.plan, settings, only=staged, called=str(plan))
    say(f"plan {plan}: SHA-256 {read.plan.digest}, made at {read.plan.created_at}")
    with centre_of(sites, state_dir) as centre:
        run = centre.begin(read, found, asker(""), left_out=[one.host for one in left])
        devices = sum(len(share.devices) for share in found)
        say(f"run {run}: {counted(devices, 'device')} given to {counted(len(found), 'site')}")
        _print_left_out(read.plan, settings, left, str(plan))
        follow(centre, centre.run_named(run), events=to.events, metrics=to.metrics, stops=True, as_json=as_json)


def _print_left_out(plan: FleetPlan, settings: CentreSettings, left: Sequence[PlannedDevice], called: str) -> None:
    """Print which devices a run leaves out, and the command that stages those at no site."""
    from flashferry.cli.view.layout import names

    staged = [one for one in left if one.action is Action.STAGE]
    if staged:
        say(f"left out: {counted(len(staged), 'device')}: {names([one.host for one in staged])}")
    if here := [one.host for one in staged if not owners_of(one, settings)]:
        say(f"'{staged_from_here(plan, here, called)}' stages those at no site from here")
    if plan.canaries and plan.canaries <= {one.host for one in left}:
        say("the plan's canaries are among them: no site waits for them")
