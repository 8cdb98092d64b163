"""Readiness to boot images, and deletion of old images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet_options import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.plan_file import check_against, read_plan
from flashferry.monitor.events import Emit, silent
from flashferry.planning.image_hasher import image_hasher
from flashferry.planning.readiness import Asking, by_plan, by_rules, planned_images, ready_fleet
from flashferry.run.clean import Cleaning, clean_fleet
from flashferry.store.leases import leases
from flashferry.store.staged import doubts, last_staged
from flashferry.store.status import last_hash_speeds
from inventory.image_rules import ImageChoice, ImageRules

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.images.image import Digests
    from flashferry.planning.readiness import ReadyRecord
    from flashferry.run.clean import CleanRecord, Confirm
    from tasks.check import TargetImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRequest:
    """What readiness is checked for.

    Attributes:
        image: Image of all devices without one of their own; None: by the rules.
        vendor: Digests published by the vendor; None: not given.
        rules: Which image for which device.
        folders: Where images without a folder in their name are looked up.
        plan: File of a plan whose devices and images are checked, in place of the above; None: those above.
        signature: Whether devices verify the vendor's signature too, if the image has one.
        at_a_time: Devices checked at the same time, >= 1; None: 100.
    """

    image: Path | None = None
    vendor: Digests | None = None
    rules: ImageRules = field(default_factory=ImageRules)
    folders: tuple[Path, ...] = ()
    plan: Path | None = None
    signature: bool = True
    at_a_time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyResult:
    """Whether devices are ready.

    Attributes:
        ready: Whether every device is ready or already runs its image.
        devices: The answer of each, in inventory order.
        plan: Digest of the plan, or None.
        exit_code: OK: all are ready; REFUSED: some are not, or it is unknown; DEVICES_FAILED: some could not be
            checked.
    """

    ready: bool
    devices: tuple[ReadyRecord, ...]
    plan: str | None
    exit_code: ExitCode


def ready(
    nornir: Nornir,
    request: ReadyRequest,
    *,
    state: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> ReadyResult:
    """Check whether devices are ready to boot their images, and what changed since these were staged.

    Args:
        nornir: The devices, with credentials; devices that are not in the request's plan take no part.
        request: What to check.
        state: Folder of journal and history, read only; None: the default.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: running checks are ended, no further device is started.

    Returns:
        An answer per device, with its error if it failed.

    Raises:
        ConfigInvalid: Inventory, image, rules or plan are invalid, or the journal cannot be read.
    """
    folder = state_folder(state)
    digest: str | None = None
    with ExitStack() as stack:
        if request.plan is not None:
            nornir, images, digest = _of_plan(nornir, request.plan)
            choose = by_plan(images)
        else:
            own = (request.image.parent,) if request.image is not None else ()
            folders = (*own, *request.folders)
            hasher = stack.enter_context(image_hasher(folders, request.vendor, emit=emit, interrupted=interrupted))
            everyone = None
            if request.image is not None:
                everyone = ImageChoice(image=request.image.name, reason="given for all", path=request.image)
                # Report an invalid file once, not per device.
                hasher.begin(request.image).result()
            choose = by_rules(request.rules, everyone, hasher)
        asking = Asking(
            choose=choose,
            held=leases(folder),
            doubted=doubts(folder),
            staged=last_staged(folder, frozenset(nornir.inventory.hosts)),
            hash_speeds=last_hash_speeds(folder),
            signature=request.signature,
            at_a_time=request.at_a_time or 100,
        )
        records = ready_fleet(nornir, asking, emit=emit, interrupted=interrupted)
    code = exit_code((record.outcome for record in records), interrupted=interrupted())
    is_ready = bool(records) and all(one.readiness is not None and one.readiness.is_good for one in records)
    return ReadyResult(ready=is_ready, devices=records, plan=digest, exit_code=code)


def _of_plan(nornir: Nornir, path: Path) -> tuple[Nornir, dict[str, TargetImage], str]:
    """Return a plan's devices, the image of each, and the plan's digest."""
    plan = read_plan(path)
    images = planned_images(plan)
    if not images:
        raise ConfigInvalid(f"plan {path}: it stages nothing", hint="Give a plan that has devices to stage")
    check_against(plan, set(nornir.inventory.hosts))
    return nornir.filter(filter_func=lambda host: host.name in images), images, plan.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    """Which files to delete.

    Attributes:
        files: File names that may be deleted; empty: all that are eligible.
        only_shown: Whether to only list them.
        at_a_time: Devices at the same time, >= 1.
    """

    files: tuple[str, ...] = ()
    only_shown: bool = False
    at_a_time: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """Result of cleaning.

    Attributes:
        devices: Each, in inventory order.
        exit_code: OK: everything confirmed was done, or listed; UNFINISHED: some was not confirmed; REFUSED: some files
            are unknown or must not be deleted; DEVICES_FAILED: some devices failed.
    """

    devices: tuple[CleanRecord, ...]
    exit_code: ExitCode


def clean(
    nornir: Nornir,
    request: CleanRequest,
    confirm: Confirm,
    *,
    state: Path | str | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> CleanResult:
    """Delete images that are older than the running one, named nowhere on the device, and not staged by this journal.

    Args:
        nornir: The devices, with credentials.
        request: What to delete.
        confirm: Returns whether all files found on a device are to be deleted; called for one device at a time.
        state: Folder of journal and history, read only; None: the default.
        emit: Receives events; called from several threads.
        interrupted: Whether to stop: the deletion in progress is finished, no other is started.

    Returns:
        A result per device, with its error if it failed.

    Raises:
        ConfigInvalid: The inventory is invalid, or the journal cannot be read.
    """
    folder = state_folder(state)
    kept: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for host, image in last_staged(folder, frozenset(nornir.inventory.hosts)):
        kept[host] |= {image}
    cleaning = Cleaning(
        held=lambda: leases(folder),
        kept=kept,
        only=frozenset(request.files),
        only_shown=request.only_shown,
        at_a_time=request.at_a_time,
    )
    records = clean_fleet(nornir, cleaning, confirm, emit=emit, interrupted=interrupted)
    code = exit_code((record.outcome for record in records), interrupted=interrupted())
    return CleanResult(devices=records, exit_code=code)
