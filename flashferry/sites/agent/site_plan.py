"""The part of an approved plan that a site carries out: the plan by its digest, its images proven at the depot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from flashferry.core.state_folder import make_private_directory
from flashferry.depot.sync.filling import Interrupted, SyncStopped
from flashferry.model.fleet_plan import Action, FleetPlan, limited_to
from flashferry.model.plan_file import plan_from, save_plan
from flashferry.sites.agent.bench import Bench
from flashferry.sites.agent.order_checks import OrderRefused, check_begins
from flashferry.sites.wire import Order

_MOST_NAMED = 5
_STOPS_EVERY_S = 1.0


def fetch_images(bench: Bench, order: Order) -> list[str]:
    """Fetch the images of a plan to the depot, proven, and return their names.

    Raises:
        SyncStopped: The agent is to end.
        OrderRefused: The order came too late, or the source or the depot has another plan or image.
        ConfigInvalid: The plan or an image cannot be had.
    """
    check_begins(order)
    interrupted = bench.ending.is_set
    return _fetched(bench, order, _plan(bench, order, interrupted), interrupted)


def write_part(bench: Bench, order: Order, path: Path, *, is_stopped: Callable[[], bool]) -> bool:
    """Write the site's part of a plan, once its images are proven at the depot; return False where it was stopped.

    Args:
        bench: The agent's.
        order: Which devices of which plan.
        path: The file of the part.
        is_stopped: Returns whether the centre had the part stopped.

    Raises:
        SyncStopped: The agent is to end.
        OrderRefused: The order came too late, or does not agree with the plan or the inventory.
        ConfigInvalid: The plan or an image cannot be had.
    """
    if is_stopped():
        return False
    unwanted = _Unwanted(bench.ending, is_stopped)
    check_begins(order)
    try:
        whole = _plan(bench, order, unwanted)
        plan = site_part(whole, order, folder=bench.depot.catalogue.path, inventory=bench.devices())
        _fetched(bench, order, plan, unwanted)
    except SyncStopped:
        if not is_stopped():
            raise
    # Images may have taken hours.
    check_begins(order)
    if is_stopped():
        return False
    make_private_directory(path.parent)
    save_plan(plan, path)
    return True


def site_part(plan: FleetPlan, order: Order, *, folder: Path, inventory: Collection[str]) -> FleetPlan:
    """Return what a site has to do of a plan: the devices ordered, with images as they lie at its depot.

    Args:
        plan: The whole plan, as it is approved.
        order: Which devices of it.
        folder: The catalogue's folder.
        inventory: Names of all devices of the site's own inventory.

    Raises:
        OrderRefused: A device is in no such plan, or not this site's, or none of them is to be staged.
    """
    hosts = set(order.devices)
    _check_known(order, hosts - {one.host for one in plan.devices}, f"the plan {plan.digest[:12]}")
    _check_known(order, hosts - set(inventory), f"the inventory of site {order.site}")
    part = limited_to(plan, hosts)
    names = {one.image for one in part.of(Action.STAGE)}
    if not names:
        raise OrderRefused(
            f"order {order.id}: expected a device that the plan stages, found that none of its {len(part.devices)} is: "
            "all are there already, refused or out of reach",
            hint="'flashferry plan' says why",
        )
    here = folder.resolve()
    images = tuple(replace(image, path=str(here / image.name)) for image in plan.images if image.name in names)
    return replace(
        part,
        sites=tuple(one for one in plan.sites if one.site in {device.site for device in part.devices}),
        images=images,
        image_folders=(str(here),),
    )


def _check_known(order: Order, unknown: Collection[str], where: str) -> None:
    if unknown:
        named = ", ".join(sorted(unknown)[:_MOST_NAMED])
        more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
        raise OrderRefused(
            f"order {order.id}: expected devices of {where}, found {named}{more}, which it has not",
            hint="Bring the inventories of centre and site to the same, and make the plan anew",
        )


class _Unwanted:
    """Check whether what is fetched for a part is no longer needed; asked many times a second, it reads once.

    Args:
        ending: Set when the agent is to end.
        is_stopped: Returns whether the centre had the part stopped.
    """

    def __init__(self, ending: threading.Event, is_stopped: Callable[[], bool]) -> None:
        self._ending, self._is_stopped = ending, is_stopped
        self._asked_s, self._was_stopped = float("-inf"), False

    def __call__(self) -> bool:
        """Return whether it is not."""
        if time.monotonic() - self._asked_s > _STOPS_EVERY_S:
            self._was_stopped, self._asked_s = self._is_stopped(), time.monotonic()
        return self._was_stopped or self._ending.is_set()


def _plan(bench: Bench, order: Order, interrupted: Interrupted) -> FleetPlan:
    """Return the plan that was ordered; raises what `SiteDepot.plan` does.

    Raises:
        OrderRefused: What the source has under that digest is another one.
        ConfigInvalid: It is no plan.
    """
    plan = plan_from(bench.depot.plan(order.plan, interrupted=interrupted), f"of order {order.id}")
    if plan.digest != order.plan:
        raise OrderRefused(
            f"order {order.id}: expected the plan with SHA-256 {order.plan}, the source gave one with {plan.digest}",
            hint="Have the centre offer the plan that it ordered",
        )
    return plan


def _fetched(bench: Bench, order: Order, plan: FleetPlan, interrupted: Interrupted) -> list[str]:
    """Have all images of a plan at the depot, proven; return their names. Raises what `SiteDepot.fetch` does.

    Raises:
        OrderRefused: The depot has proven another one than the plan has.
    """
    for image in plan.images:
        found = bench.depot.fetch(image, interrupted=interrupted)
        if found.size_bytes != image.size_bytes:
            raise OrderRefused(
                f"order {order.id}: expected {image.name} to have {image.size_bytes:,} bytes, as the plan has it, "
                f"found {found.size_bytes:,} of the same SHA-512",
                hint="Make the plan anew",
            )
    return [image.name for image in plan.images]
