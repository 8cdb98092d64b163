"""Make the site's part of an approved plan: fetch plan and images, and narrow the plan to the ordered devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from flashferry.core.state_folder import make_private_directory
from flashferry.core.values import replace
from flashferry.depot.sync.filling import Interrupted, SyncStopped
from flashferry.model.fleet_plan import Action, FleetPlan, limited_to
from flashferry.model.plan_file import plan_from, save_plan
from flashferry.sites.agent.bench import Bench
from flashferry.sites.agent.order_checks import OrderRefused, check_begins
from flashferry.sites.wire import Order

_MOST_NAMED = 5
_STOPS_EVERY_S = 1.0


def fetch_images(bench: Bench, order: Order) -> list[str]:
    """Fetch the images of a plan into the depot, and return their names.

    Raises:
        SyncStopped: The agent is to end.
        OrderRefused: The order has expired, or plan or image differ from the ordered ones.
        ConfigInvalid: The plan or an image is missing.
    """
    check_begins(order)
    interrupted = bench.ending.is_set
    return _fetched(bench, order, _plan(bench, order, interrupted), interrupted)


def write_part(bench: Bench, order: Order, path: Path, *, is_stopped: Callable[[], bool]) -> bool:
    """Fetch the images, and write the site's part of the plan; return False if it was stopped.

    Args:
        bench: What orders are carried out with.
        order: The plan's digest and the devices.
        path: The file to write.
        is_stopped: Returns whether the centre stopped the part.

    Raises:
        SyncStopped: The agent is to end.
        OrderRefused: The order has expired, or does not agree with the plan or the inventory.
        ConfigInvalid: The plan or an image is missing.
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
    """Return the plan narrowed to the ordered devices, with image paths of the depot.

    Args:
        plan: The whole approved plan.
        order: The devices.
        folder: The catalogue's folder.
        inventory: Names of all devices in the site's inventory.

    Raises:
        OrderRefused: A device is not in the plan or not in the inventory, or none is to be staged.
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
    """Whether the fetch for a part is to end; called many times a second, it reads the database once."""

    def __init__(self, ending: threading.Event, is_stopped: Callable[[], bool]) -> None:
        self._ending, self._is_stopped = ending, is_stopped
        self._asked_s, self._was_stopped = float("-inf"), False

    def __call__(self) -> bool:
        """Return whether the fetch is to end."""
        if time.monotonic() - self._asked_s > _STOPS_EVERY_S:
            self._was_stopped, self._asked_s = self._is_stopped(), time.monotonic()
        return self._was_stopped or self._ending.is_set()


def _plan(bench: Bench, order: Order, interrupted: Interrupted) -> FleetPlan:
    """Return the ordered plan; raises what `SiteDepot.plan` does.

    Raises:
        OrderRefused: The source's plan has another digest.
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
    """Fetch all images of a plan; return their names. Raises what `SiteDepot.fetch` does.

    Raises:
        OrderRefused: An image has another size than in the plan.
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
