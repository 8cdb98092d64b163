"""Plans: which device gets which image, when, how long that takes, and whether it fits. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.depot.paths import AUTO
from flashferry.depot.status import find_depot
from flashferry.devices.platforms import NAMES
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, silent
from flashferry.planning.fleet_planner import plan_fleet
from flashferry.transports.transport_selection import NotServed, not_served_by
from inventory.image_rules import RULES_FILE, ImageRules, load_image_rules, rules_beside

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.planning.fleet_planner import PlanRequest

_OUTCOMES = {
    Action.STAGE: Outcome.DONE,
    Action.ALREADY_THERE: Outcome.ALREADY_THERE,
    Action.STAYS: Outcome.ALREADY_THERE,  # as asked for, nothing to do
    Action.REFUSED: Outcome.REFUSED,
    Action.UNREACHABLE: Outcome.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """Result of planning.

    Attributes:
        plan: The plan; `plan.fit` says whether it fits, and what would help.
        exit_code: From its devices; INTERRUPTED: some were not checked, so the plan is incomplete.
    """

    plan: FleetPlan
    exit_code: ExitCode

    @property
    def is_whole(self) -> bool:
        """Return whether all devices were checked, so that the plan can be saved (`save_plan`)."""
        return self.exit_code is not ExitCode.INTERRUPTED


def image_rules(
    folder: Path, rules: Path | None = None, *, has_image: bool = False
) -> tuple[ImageRules, tuple[Path, ...]]:
    """Return the rules that map devices to images, and the folders in which images are looked up.

    Args:
        folder: The inventory's folder; its rules file under the default name is used if no file is given.
        rules: A rules file.
        has_image: Whether one image is given for all; then only a given rules file is used.

    Raises:
        ConfigInvalid: The rules are invalid, or the file cannot be read.
    """
    if rules is not None:
        return load_image_rules(rules, NAMES), (rules.parent, folder)
    return (ImageRules() if has_image else rules_beside(folder, NAMES)), (folder,)


def plan(
    nornir: Nornir,
    request: PlanRequest,
    *,
    now: datetime | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> PlanResult:
    """Check every device and plan a run: images, waves, minutes, load on the links. Changes nothing.

    Args:
        nornir: The devices, with credentials.
        request: What to plan.
        now: Present time, in the time zone for display; None: now, in the local zone.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop; devices not checked by then are unreachable in the plan.

    Raises:
        ConfigInvalid: No image is given; inventory, image or rule is invalid; copies would have neither a rate limit
            nor
            a pace of their own; or a required depot does not report what it serves.
    """
    check_some_image(nornir, request)
    moment = now or datetime.now().astimezone()
    not_served, note = _not_served(request)
    found = plan_fleet(nornir, request, now=moment, not_served=not_served, emit=emit, interrupted=interrupted)
    if note:
        found = replace(found, assumptions=(*found.assumptions, note))
    code = exit_code((_OUTCOMES[device.action] for device in found.devices), interrupted=interrupted())
    return PlanResult(plan=found, exit_code=code)


def _not_served(request: PlanRequest) -> tuple[NotServed | None, str]:
    """Ask the depot that a run would use which images it does not serve.

    Returns:
        These, or None if the run would start its own server; and a notice.

    Raises:
        ConfigInvalid: The depot was required, and does not report what it serves.
    """
    depot = find_depot(request.state_directory, request.depot)
    if depot is None:
        return None, ""
    if depot.view is not None:
        return not_served_by(f"the depot {depot.socket}", depot.view.ports), ""
    if request.depot != AUTO:
        raise ConfigInvalid(f"--depot: {depot.trouble}", step="server", hint=depot.hint)
    return None, f"{depot.trouble}; planned as though the run brings its own file server"


def check_some_image(nornir: Nornir, request: PlanRequest) -> None:
    """Check that there is an image to plan, before logging in to any device.

    Raises:
        ConfigInvalid: There is none.
    """
    if request.image is not None or request.rules.source is not None:
        return
    if not any(host.get("image") for host in nornir.inventory.hosts.values()):
        raise ConfigInvalid(
            f"no image is given: neither --image nor --image-rules, no {RULES_FILE} in the inventory's folder, and no "
            "device has a data key 'image'",
            hint="--image FILE plans one for all devices",
        )
