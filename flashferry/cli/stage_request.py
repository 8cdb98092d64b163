"""What `stage` is to do, made from its options: one image for all, a plan, or a run to go on with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.cli.options.fleet import FleetOptions, fleet, opened, with_credentials
from flashferry.cli.options.waves import WaveOptions
from flashferry.cli.recover import check_any_restored, only_pending
from flashferry.cli.terminal.output import say
from flashferry.core.described import counted
from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.devices.errors import Interrupted
from flashferry.images.digests import Digests
from flashferry.images.files import checked_image
from flashferry.model.fleet_plan import TuneMode
from flashferry.model.plan_file import load_plan
from flashferry.model.retry import RetryPolicy
from flashferry.run.make_request import Manner, request_for_image, request_for_plan
from flashferry.run.options import RunOptions
from flashferry.run.recover import pending, recover
from flashferry.run.request import FleetRequest
from flashferry.run.resume import is_done, kept_request, resumed
from flashferry.store.reader import find_run
from flashferry.store.stored_run import read_run
from inventory.selection import Selection, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from nornir.core import Nornir

    from flashferry.monitor.events import Emit
    from flashferry.store.journal import Journal

INVENTORY = "inventory"
"""Key under which a run's request keeps where its inventory is."""

PLAN = "plan"
"""Key under which it keeps the path and the digest of the plan that it carries out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the operator gave about what is to be done.

    Attributes:
        image: The image for all devices, or None.
        plan: A plan, or None.
        resume: A run to go on with, or None.
        waves: Options about waves, limits and the end.
        tune: Which devices to tune, or None where nothing was said.
        retries: How often a device is tried again, or None likewise.
        remove_partial: What a broken copy of ours left may be removed.
    """

    image: Path | None
    plan: Path | None
    resume: str | None
    waves: WaveOptions
    tune: TuneMode | None
    retries: int | None
    remove_partial: bool

    def check(self) -> None:
        """Check that exactly one thing is to be done.

        Raises:
            ConfigInvalid: None is, or more than one.
        """
        given = [
            name
            for name, value in (("--image", self.image), ("--plan", self.plan), ("--resume", self.resume))
            if value is not None
        ]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ConfigInvalid(
                f"expected one of --image, --plan and --resume, found {found}",
                hint="Where rules say which device gets which image, make a plan: 'flashferry plan --output FILE'",
            )

    @property
    def retry(self) -> RetryPolicy:
        """Return how often a device is tried again."""
        return RetryPolicy() if self.retries is None else RetryPolicy(times=self.retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be done, with which devices and how."""

    nornir: Nornir
    request: FleetRequest
    options: RunOptions


def job_for_image(which: FleetOptions, wish: Wish, options: RunOptions, directory: Path) -> Job:
    """Return the job to give all devices an image.

    Raises:
        ConfigInvalid: Inventory, image or options are wrong.
    """
    assert wish.image is not None
    nornir = fleet(which)
    now = datetime.now().astimezone()
    manner = Manner(
        limits=wish.waves.limits(),
        policy=wish.waves.policy(),
        retry=wish.retry,
        tune=_tune(wish, options),
        until=wish.waves.deadline(now),
    )
    request = request_for_image(
        nornir,
        checked_image(wish.image),
        manner,
        state_directory=directory,
        folders=(_folder(which),),
    )
    return Job(nornir=nornir, request=_with_inventory(request, which), options=options)


def job_for_plan(which: FleetOptions, wish: Wish, options: RunOptions) -> Job:
    """Return the job to carry a plan out; what the operator says besides overrides it.

    Raises:
        ConfigInvalid: The plan is damaged, an image changed, or a device is not in the inventory any more.
    """
    assert wish.plan is not None
    plan = load_plan(wish.plan)
    say(f"plan {wish.plan}: SHA-256 {plan.digest}, made at {plan.created_at}")
    nornir = fleet(which)
    now = datetime.now().astimezone()
    until = wish.waves.deadline(now)
    if until is None and plan.ends_at is not None:
        until = datetime.fromisoformat(plan.ends_at)
        if until <= now:
            raise ConfigInvalid(
                f"plan {wish.plan}: it was to end at {plan.ends_at}, which is past",
                hint="Give another end with --until, or make the plan anew",
            )
    tune = wish.tune or plan.tune
    manner = Manner(
        limits=wish.waves.limits(plan.limits),
        policy=wish.waves.policy(plan.policy),
        retry=wish.retry,
        tune=tune,
        until=until,
    )
    is_rewaved = any(one is not None for one in (wish.waves.canary, wish.waves.wave_by, wish.waves.wave_size))
    request = request_for_plan(nornir, plan, manner, is_rewaved=is_rewaved)
    device = options.device
    insisted = replace(device, any_image=device.any_image or plan.any_image, uncapped=device.uncapped or plan.uncapped)
    options = replace(options, device=insisted)
    if tune is TuneMode.NEVER:
        options = replace(options, device=replace(options.device, tune=False))
    request = _with_inventory(request, which)
    kept = {"path": str(wish.plan.absolute()), "digest": plan.digest}
    return Job(nornir=nornir, request=replace(request, stored={**request.stored, PLAN: kept}), options=options)


def kept_as_begun(options: RunOptions, *, tune: TuneMode | None, dry_run: bool) -> None:
    """Check that nothing is given beside `--resume` that the run has settled when it began.

    Args:
        options: How the run would be done by the options given.
        tune: Which devices to tune, or None where nothing was said.
        dry_run: Whether nothing is to be changed.

    Raises:
        ConfigInvalid: Something is: it must not be left unheeded, least of all a wish to change nothing.
    """
    device = options.device
    given = {
        "--dry-run": dry_run,
        "--tune or --no-tune": tune is not None,
        "--window-bytes": device.window_bytes is not None,
        "--extra": bool(device.extras),
        "--verify-signature": device.verify_signature,
        "--md5 or --sha512": options.vendor != Digests(),
    }
    if found := next((name for name, is_given in given.items() if is_given), None):
        raise ConfigInvalid(
            f"{found} cannot be combined with --resume: a run goes on as it was begun",
            hint="Leave it out, or begin a new run: what is there already is not copied again",
        )


def job_for_resume(
    which: FleetOptions,
    wish: Wish,
    given: RunOptions,
    journal: Journal,
    emit: Emit,
    *,
    interrupted: Callable[[], bool] = lambda: False,
) -> Job:
    """Return the job to go on with a run, once its devices are restored.

    Args:
        which: The devices, and how they are logged in to.
        wish: What is to be done.
        given: Options of this command: where our server is reached may be another place than before.
        journal: The journal.
        emit: Takes the events of the recovery.
        interrupted: Whether the operator wants to stop.

    Raises:
        ConfigInvalid: The run is unknown, alive, or cannot be gone on with; nothing was touched.
        Interrupted: It was stopped during the recovery; the run can be gone on with.
        RestoreIncomplete: No device could be restored, and the operator named none to go on with.
    """
    assert wish.resume is not None
    run_id = find_run(journal.directory, wish.resume, verb=given.verb)
    kept = kept_request(journal, run_id)
    if not which.inventory:
        which = replace(which, inventory=str(kept.more.get(INVENTORY) or ""))
    everything = opened(which)
    left = _left_to_do(journal, run_id, kept.request)
    _check_known(run_id, left, everything)
    wanted = Selection(
        hosts=tuple(which.host or left),
        groups=tuple(which.group or ()),
        filters=tuple(which.filter or ()),
    )
    nornir = with_credentials(narrowed(everything, wanted), which)
    held = pending(journal, run_id)
    if held:
        they = "it is" if len(held) == 1 else "they are"
        say(f"run {run_id} left {counted(len(held), 'device')} in its hands; {they} restored first")
    unusable: dict[str, FlashferryError] = {}
    tuned = with_credentials(only_pending(everything, held), which, failed=unusable.setdefault) if held else nornir
    recovered = (
        recover(tuned, journal, emit=emit, interrupted=interrupted, unusable=unusable, only=run_id) if held else ()
    )
    if interrupted():
        raise Interrupted(
            f"stopped while the devices of run {run_id} were being restored, before it was gone on with",
            hint=f"'flashferry stage --resume {run_id}' begins there again",
        )
    if not (which.host or which.group or which.filter):
        check_any_restored(run_id, recovered)
    kept = resumed(journal, run_id, kept, recovered)
    chosen = set(nornir.inventory.hosts)
    request = replace(
        kept.request,
        images={host: path for host, path in kept.request.images.items() if host in chosen},
        limits=wish.waves.limits(kept.request.limits),
        policy=wish.waves.policy(kept.request.policy),
        retry=kept.request.retry if wish.retries is None else wish.retry,
        until=_until(kept.request, wish),
    )
    return Job(nornir=nornir, request=request, options=_gone_on_with(kept.options, wish, given))


def _gone_on_with(kept: RunOptions, wish: Wish, given: RunOptions) -> RunOptions:
    """Return how a run is gone on with: as it was begun, but for where our server is, and for more leave."""
    device = replace(
        kept.device,
        remove_partial=kept.device.remove_partial or wish.remove_partial,
        any_image=kept.device.any_image or given.device.any_image,
        uncapped=kept.device.uncapped or given.device.uncapped,
        server_address=given.device.server_address or kept.device.server_address,
    )
    return replace(kept, device=device, port=kept.port if given.port is None else given.port)


def _until(request: FleetRequest, wish: Wish) -> datetime | None:
    """Return the end that holds now: one that was given before and is past holds no more, it was another night's."""
    now = datetime.now().astimezone()
    given = wish.waves.deadline(now)
    if given is not None:
        return given
    return request.until if request.until is not None and request.until > now.astimezone(UTC) else None


def _left_to_do(journal: Journal, run_id: str, request: FleetRequest) -> tuple[str, ...]:
    """Return the devices that are not proven done; all where there is none: what is done may leave the inventory."""
    run = read_run(journal.directory, run_id, with_transfers=False)
    done = {device.host for device in run.devices if is_done(device)}
    return tuple(host for host in request.images if host not in done) or tuple(request.images)


def _check_known(run_id: str, hosts: tuple[str, ...], nornir: Nornir) -> None:
    missing = [host for host in hosts if host not in nornir.inventory.hosts]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ConfigInvalid(
            f"run {run_id} has {', '.join(missing[:5])}{more}, which the inventory has not",
            hint="Give the inventory that the run was begun with, or run 'flashferry recover' and begin a new run",
        )


def _tune(wish: Wish, options: RunOptions) -> TuneMode:
    """Return which devices to tune; whoever names a window or an extra wants them set."""
    if wish.tune is not None:
        return wish.tune
    asked = options.device.window_bytes is not None or bool(options.device.extras)
    return TuneMode.ALWAYS if asked else TuneMode.AUTO


def _with_inventory(request: FleetRequest, which: FleetOptions) -> FleetRequest:
    path = Path(which.inventory)
    return replace(request, stored={INVENTORY: str(path.absolute()) if path.exists() else which.inventory})


def _folder(which: FleetOptions) -> Path:
    path = Path(which.inventory)
    return path if path.is_dir() else path.parent
