"""What a run is to do, made from an image or a plan: ready to begin, with nothing sent or journaled yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.options import Overrides, state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.images.files import checked_image
from flashferry.model.fleet_plan import FleetPlan, TuneMode
from flashferry.model.links import LinkRates, told_pace
from flashferry.model.retry import RetryPolicy
from flashferry.run.make_request import RunPolicy, request_for_image, request_for_plan
from flashferry.run.options import RunOptions
from flashferry.run.recover import pending
from flashferry.run.request import FleetRequest
from inventory.transport_policy import AS_USUAL
from inventory.view import view

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.store.journal import Journal

INVENTORY = "inventory"
"""Key under which a run's request keeps where its inventory is."""

PLAN = "plan"
"""Key under which it keeps the path and the digest of the plan that it carries out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    """How a run goes about its devices, as far as somebody said so.

    Attributes:
        run: How devices are treated, where our server is, and what the vendor published for the image.
        overrides: What is said about waves, limits and the end.
        tune: Which devices to tune; None: as the plan says, else `auto`, and `always` where a window or an extra is
            asked for.
        retries: Tries after a failure that may pass, 0 to 10; None: two, or as the run that is resumed had it.
    """

    run: RunOptions = field(default_factory=RunOptions)
    overrides: Overrides = field(default_factory=Overrides)
    tune: TuneMode | None = None
    retries: int | None = None

    @property
    def retry(self) -> RetryPolicy:
        """Return how often a device is tried again."""
        return RetryPolicy() if self.retries is None else RetryPolicy(times=self.retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """A run that is ready to begin: nothing of it is sent or journaled yet.

    Attributes:
        nornir: The devices, with credentials.
        request: Which of them get which image, in which waves, under which limits.
        options: How it is done.
    """

    nornir: Nornir
    request: FleetRequest
    options: RunOptions

    @property
    def devices(self) -> Nornir:
        """Return the devices that take part."""
        return self.nornir.filter(filter_func=lambda host: host.name in self.request.images)

    @property
    def sizes_bytes(self) -> dict[str, int]:
        """Return the size of each device's image, where its file is there."""
        return {host: path.stat().st_size for host, path in self.request.images.items() if path.is_file()}


def job_for_image(
    nornir: Nornir,
    image: Path,
    options: StageOptions,
    *,
    inventory: Path | str | None = None,
    state: Path | str | None = None,
) -> StageJob:
    """Return the job to give all devices an image; one that names its own in the inventory gets that.

    Args:
        nornir: The devices, with credentials.
        image: The image of all others.
        options: How the run goes about it.
        inventory: Where the inventory is: kept for `resume`, and its folder may hold the images that devices name.
        state: Folder of the history, read only; None: where the command line has it.

    Raises:
        ConfigInvalid: Inventory, image or options are wrong.
    """
    policy = RunPolicy(
        limits=options.overrides.limits(),
        waves=options.overrides.policy(),
        retry=options.retry,
        tune=_tune(options),
        until=options.overrides.until,
        transport=options.run.device.transport,
    )
    request = request_for_image(
        nornir,
        checked_image(image),
        policy,
        state_directory=state_folder(state),
        folders=() if inventory is None else (_folder(inventory),),
    )
    return StageJob(nornir=nornir, request=_with_inventory(request, inventory), options=options.run)


def job_for_plan(
    nornir: Nornir,
    plan: FleetPlan,
    options: StageOptions,
    *,
    path: Path | None = None,
    inventory: Path | str | None = None,
) -> StageJob:
    """Return the job to carry a plan out; what the options say overrides it.

    Args:
        nornir: The devices, with credentials.
        plan: The plan.
        options: What overrides it.
        path: Where the plan's file is, which the run then keeps.
        inventory: Where the inventory is: kept for `resume`.

    Raises:
        ConfigInvalid: The plan's end is past, an image changed, or a device is not in the inventory any more.
    """
    now = datetime.now().astimezone()
    until = options.overrides.until
    if until is None and plan.ends_at is not None:
        until = datetime.fromisoformat(plan.ends_at)
        if until <= now:
            raise ConfigInvalid(
                f"plan {path or 'given'}: it was to end at {plan.ends_at}, which is past",
                hint="Give another end with --until, or make the plan anew",
            )
    tune = options.tune or plan.tune
    asked = options.run.device.transport
    transport = plan.transport if asked == AS_USUAL else asked
    policy = RunPolicy(
        limits=options.overrides.limits(plan.limits),
        waves=options.overrides.policy(plan.policy),
        retry=options.retry,
        tune=tune,
        until=until,
        transport=transport,
    )
    request = request_for_plan(nornir, plan, policy, is_rewaved=options.overrides.makes_waves)
    device = options.run.device
    insisted = replace(
        device,
        any_image=device.any_image or plan.any_image,
        uncapped=device.uncapped or plan.uncapped,
        tune=device.tune and tune is not TuneMode.NEVER,
        transport=transport,
    )
    request = _with_inventory(request, inventory)
    if path is not None:
        kept = {"path": str(path.absolute()), "digest": plan.digest}
        request = replace(request, stored={**request.stored, PLAN: kept})
    return StageJob(nornir=nornir, request=request, options=replace(options.run, device=insisted))


def pace_notices(job: StageJob, state: Path | str | None = None) -> tuple[str, ...]:
    """Return which links have no cap, in a sentence; refuse before any device is asked.

    Args:
        job: The run.
        state: Folder of learned link rates, read only; None: where the command line has it.

    Raises:
        ConfigInvalid: A link has no cap, its copies could not find a pace on this host either, and nobody insists.
    """
    devices = [view(job.nornir.inventory.hosts[name]) for name in job.request.images]
    told = told_pace(devices, LinkRates(state_folder(state)), uncapped=job.options.device.uncapped)
    return (told,) if told else ()


def dead_run_notices(journal: Journal) -> Iterator[str]:
    """Yield a warning where dead runs have devices in their hands, which no other run will touch."""
    if left := pending(journal):
        hosts = ", ".join(device.host for device in left)
        yield f"warning: a dead run had {hosts} in its hands; run 'flashferry recover'"


def _tune(options: StageOptions) -> TuneMode:
    """Return which devices to tune; whoever names a window or an extra wants them set."""
    if options.tune is not None:
        return options.tune
    device = options.run.device
    asked = device.window_bytes is not None or bool(device.extras)
    return TuneMode.ALWAYS if asked else TuneMode.AUTO


def _with_inventory(request: FleetRequest, inventory: Path | str | None) -> FleetRequest:
    if inventory is None:
        return request
    path = Path(inventory)
    return replace(request, stored={INVENTORY: str(path.absolute()) if path.exists() else str(inventory)})


def _folder(inventory: Path | str) -> Path:
    path = Path(inventory)
    return path if path.is_dir() else path.parent
