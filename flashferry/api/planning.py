"""Plans: which device gets which image, when, how long that takes, and whether it fits. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.paths import AUTO
from flashferry.depot.status import find_depot
from flashferry.devices.platforms import NAMES
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, silent
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
    """A plan that was made.

    Attributes:
        plan: The plan; `plan.fit` says whether it fits, and what would help.
        exit_code: What its devices come to. Of INTERRUPTED some devices were not looked at: half a fleet is no plan.
    """

    plan: FleetPlan
    exit_code: ExitCode

    @property
    def is_whole(self) -> bool:
        """Return whether all devices were looked at, so that it is worth keeping (`save_plan`)."""
        return self.exit_code is not ExitCode.INTERRUPTED


def image_rules(
    folder: Path, rules: Path | None = None, *, has_image: bool = False
) -> tuple[ImageRules, tuple[Path, ...]]:
    """Return the rules that give each device its image, and the folders in which their images are looked for.

    Args:
        folder: The inventory's folder; what lies in it under the usual name counts where no file is named.
        rules: A file of rules.
        has_image: Whether there is one image for all: what merely lies in the folder does not count then.

    Raises:
        ConfigInvalid: The rules are wrong, or the file cannot be read.
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
    """Look at every device and plan a run: images, waves, minutes, load on the links. Changes nothing.

    Args:
        nornir: The devices, with credentials.
        request: What is to be planned.
        now: The present, in the time zone of what is shown; None: this moment, in the local one.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop; devices not checked by then are unreachable in the plan.

    Raises:
        ConfigInvalid: No image is given anywhere; the inventory, an image or a rule is wrong; or copies would have
            neither a cap nor a pace; or a depot was insisted on and does not report what it serves.
    """
    from flashferry.planning.fleet_planner import plan_fleet

    check_some_image(nornir, request)
    moment = now or datetime.now().astimezone()
    not_served, note = _not_served(request)
    found = plan_fleet(nornir, request, now=moment, not_served=not_served, emit=emit, interrupted=interrupted)
    if note:
        found = replace(found, assumptions=(*found.assumptions, note))
    code = exit_code((_OUTCOMES[device.action] for device in found.devices), interrupted=interrupted())
    return PlanResult(plan=found, exit_code=code)


def _not_served(request: PlanRequest) -> tuple[NotServed | None, str]:
    """Ask the depot that a run would use what it does not serve.

    Returns:
        That, or None where a run would bring a server of its own; and a notice about it.

    Raises:
        ConfigInvalid: It was insisted on, and does not report what it serves.
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
    """Check that there is any image to plan: else every device would be logged in to for nothing.

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
