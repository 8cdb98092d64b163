"""A run before it starts, made from an image or a plan; nothing is sent or journaled yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.core.units import counted
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.images.safe_open import checked_image
from flashferry.model.fleet_plan import Action, FleetPlan, PlanWindow, Supply, WindowState, limited_to
from flashferry.model.link_rates import LinkRates, pace_notice
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.planning.deadline import first_opening
from flashferry.run.make_request import request_for_image, request_for_plan
from flashferry.run.recover import pending
from flashferry.run.request import FleetRequest, RunOptions
from inventory.host_view import view

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.store.journal import Journal

INVENTORY = "inventory"
"""Key in a run's request for the location of its inventory."""

PLAN = "plan"
"""Key in a run's request for path and digest of its plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """A run before it starts: nothing is sent or journaled yet.

    Attributes:
        nornir: The devices, with credentials.
        request: Which of them get which image, in which waves.
        options: How the run works.
        elsewhere: Sites for which the plan counts on a depot, but this run's images come from here.
        not_chosen: Devices that the plan stages and that were not selected for this run.
        has_no_canary: Whether the selection left out all of the plan's canaries.
    """

    nornir: Nornir
    request: FleetRequest
    options: RunOptions
    elsewhere: tuple[str, ...] = ()
    not_chosen: tuple[str, ...] = ()
    has_no_canary: bool = False

    @property
    def devices(self) -> Nornir:
        """Return the devices that take part."""
        return self.nornir.filter(filter_func=lambda host: host.name in self.request.images)

    @property
    def window(self) -> PlanWindow:
        """Return the time span in which devices may be worked on, from the plan and the sites' windows.

        A resumed run exists already: it waits by itself, as for a site that opens later than the first one.
        """
        if self.request.resumed is not None or not self.request.images:
            return PlanWindow()
        views = [view(self.nornir.inventory.hosts[name]) for name in self.request.images]
        now = datetime.now().astimezone()
        since = now if self.request.since is None else max(self.request.since, now)
        opens_at = first_opening(views, since)
        until = self.options.policy.until
        return PlanWindow(opens_at=self.request.since if opens_at == since else opens_at, ends_at=until)

    @property
    def sizes_bytes(self) -> dict[str, int]:
        """Return the image size by device, for images whose file exists."""
        return {host: path.stat().st_size for host, path in self.request.images.items() if path.is_file()}


def job_for_image(
    nornir: Nornir,
    image: Path,
    policy: StagePolicy | None = None,
    server: ServerPlace | None = None,
    *,
    inventory: Path | str | None = None,
    state: Path | str | None = None,
) -> StageJob:
    """Return a job that stages an image to all devices; a device with an image in the inventory gets that one.

    Args:
        nornir: The devices, with credentials.
        image: The image of all others.
        policy: Settings of the run; None: defaults.
        server: Where our server listens.
        inventory: Where the inventory is: stored for `resume`, and its folder may hold the images that devices name.
        state: Folder of the history, read only; None: the default.

    Raises:
        ConfigInvalid: Inventory, image or policy are invalid.
    """
    options = RunOptions(policy=policy or StagePolicy(), server=server or ServerPlace())
    request = request_for_image(
        nornir,
        checked_image(image),
        options.policy,
        state_directory=state_folder(state),
        folders=() if inventory is None else (_folder(inventory),),
    )
    return StageJob(nornir=nornir, request=_with_inventory(request, inventory), options=options)


def job_for_plan(
    nornir: Nornir,
    plan: FleetPlan,
    policy: StagePolicy | None = None,
    server: ServerPlace | None = None,
    *,
    path: Path | None = None,
    inventory: Path | str | None = None,
    is_part: bool = False,
) -> StageJob:
    """Return a job that carries out a plan.

    Args:
        nornir: The devices, with credentials.
        plan: The plan.
        policy: Settings of the run; None: the plan's. `plan.run_policy.changed` overrides single settings.
        server: Where our server listens.
        path: The plan's file, stored with the run.
        inventory: Where the inventory is: stored for `resume`.
        is_part: Whether the operator selected the devices, so that others of the plan are left alone; otherwise a
            missing
            device is refused.

    Raises:
        ConfigInvalid: The plan's window is over, an image changed, a device is no longer in the inventory, or no
            selected
            device is to be staged.
    """
    whole, plan = plan, _chosen_of(plan, nornir) if is_part else plan
    now = datetime.now().astimezone()
    policy = policy or plan.run_policy
    window = PlanWindow(opens_at=datetime.fromisoformat(plan.starts_at), ends_at=policy.until)
    if window.state(now) is WindowState.OVER:
        raise ConfigInvalid(
            f"plan {path or 'given'}: {window.why_closed(now)}",
            hint="Give another end with --until, or make a new plan",
        )
    request = request_for_plan(nornir, plan, policy)
    request = _with_inventory(request, inventory)
    if path is not None:
        kept = {"path": str(path.absolute()), "digest": plan.digest}
        request = replace(request, stored={**request.stored, PLAN: kept})
    return StageJob(
        nornir=nornir,
        request=request,
        options=RunOptions(policy=policy, server=server or ServerPlace()),
        elsewhere=_at_other_depots(plan, request),
        not_chosen=tuple(one.host for one in whole.of(Action.STAGE) if one.host not in request.images),
        has_no_canary=bool(whole.canaries) and not plan.canaries,
    )


def _chosen_of(plan: FleetPlan, nornir: Nornir) -> FleetPlan:
    """Return the plan limited to the selected devices. Raises `ConfigInvalid`: it stages none of them."""
    chosen = limited_to(plan, nornir.inventory.hosts)
    if plan.of(Action.STAGE) and not chosen.of(Action.STAGE):
        raise ConfigInvalid(
            f"expected a device that the plan stages among those chosen, found none of its "
            f"{counted(len(plan.of(Action.STAGE)), 'device')}",
            hint="Check --host, --group and --filter; without them the whole plan is carried out",
        )
    return chosen


def _at_other_depots(plan: FleetPlan, request: FleetRequest) -> tuple[str, ...]:
    """Return the sites for which the plan counts on a depot, but whose images come from here.

    A run at the depot itself has its images in the depot's catalogue.
    """
    counted = {one.host: one.site for one in plan.devices if one.pulls_from is Supply.DEPOT}
    other = {path for path in set(request.images.values()) if CatalogueFolder(path.parent).proven(path.name) is None}
    return tuple(
        sorted({counted[host] or host for host, path in request.images.items() if host in counted and path in other})
    )


def pace_notices(job: StageJob, state: Path | str | None = None) -> tuple[str, ...]:
    """Return a sentence for each link without a rate limit, and for each with more load than planned.

    Args:
        job: The run.
        state: Folder of learned link rates, read only; None: the default.

    Raises:
        ConfigInvalid: A link has no rate limit, copies cannot find their own pace on this host, and uncapped copies
            were
            not asked for.
    """
    devices = [view(job.nornir.inventory.hosts[name]) for name in job.request.images]
    notice = pace_notice(devices, LinkRates(state_folder(state)), uncapped=job.options.policy.uncapped)
    return (*((notice,) if notice else ()), *_more_than_planned(job))


def _more_than_planned(job: StageJob) -> Iterator[str]:
    if job.elsewhere:
        yield (
            f"the plan counts on depots ({', '.join(job.elsewhere)}), and this run serves their devices itself: each "
            "copy crosses the site's link, and takes longer than planned; by 'stage --plan FILE --sites FILE' their "
            "agents do it"
        )


def dead_run_notices(journal: Journal) -> Iterator[str]:
    """Yield a warning for devices still leased by dead runs; no other run touches them."""
    if left := pending(journal):
        hosts = ", ".join(device.host for device in left)
        yield f"warning: a dead run still holds {hosts}; run 'flashferry recover'"


def _with_inventory(request: FleetRequest, inventory: Path | str | None) -> FleetRequest:
    if inventory is None:
        return request
    path = Path(inventory)
    return replace(request, stored={INVENTORY: str(path.absolute()) if path.exists() else str(inventory)})


def _folder(inventory: Path | str) -> Path:
    path = Path(inventory)
    return path if path.is_dir() else path.parent
