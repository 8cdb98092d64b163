"""Readiness to boot images, and the deletion of old ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.api.fleet import state_folder
from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import Digests
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.monitor.events import Emit, silent
from inventory.image_rules import ImageRules

if TYPE_CHECKING:
    from nornir.core import Nornir

    from flashferry.planning.readiness import ReadyRecord
    from flashferry.run.clean import CleanRecord, Confirm
    from tasks.check import TargetImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRequest:
    """What is asked of devices.

    Attributes:
        image: The image for all devices that have no explicit one, or None: by the rules.
        vendor: What the vendor published for it.
        rules: Which image for which device.
        folders: Where images written without a folder are looked for.
        plan: File of a plan whose devices are asked about, each for the plan's image; in place of the others.
        signature: Whether devices are to verify the vendor's signature too, where the image has one.
        at_a_time: Devices asked at the same time, >= 1; None: 100.
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
        ready: The answer for all of them together: whether each is ready, or runs its image already.
        devices: The answer of each, in the order of the inventory.
        plan: Digest of the plan that was asked about, or None.
        exit_code: OK: all are; REFUSED: some are not, or it is unknown; DEVICES_FAILED: some could not be looked at.
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
    """Ask devices whether they are ready to boot their images, and what changed since these were staged.

    Args:
        nornir: The devices, with credentials; of a plan those that the inventory has besides take no part.
        request: What is asked.
        state: Folder of journal and history, read only; None: where the command line has them.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: devices under way are ended, others not started.

    Returns:
        An answer per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory, an image, the rules or the plan are wrong, or the journal cannot be read.
    """
    from flashferry.planning.image_hasher import image_hasher
    from flashferry.planning.readiness import Asking, by_plan, by_rules, ready_fleet
    from flashferry.store.leases import leases
    from flashferry.store.staged import doubts, last_staged
    from flashferry.store.status import last_hash_speeds
    from inventory.image_rules import ImageChoice

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
                # A wrong file is reported at once, and not once per device.
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
    """Return the devices of a plan, the image of each, and the plan's digest."""
    from flashferry.model.plan_file import check_against, read_plan
    from flashferry.planning.readiness import planned_images

    plan = read_plan(path)
    images = planned_images(plan)
    if not images:
        raise ConfigInvalid(f"plan {path}: it stages nothing", hint="Give a plan that has devices to stage")
    check_against(plan, set(nornir.inventory.hosts))
    return nornir.filter(filter_func=lambda host: host.name in images), images, plan.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRequest:
    """What is asked for.

    Attributes:
        files: Names of the files that may go; empty: all that could.
        only_shown: Whether they are only shown.
        at_a_time: Devices at the same time, >= 1.
    """

    files: tuple[str, ...] = ()
    only_shown: bool = False
    at_a_time: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """What became of devices.

    Attributes:
        devices: Each, in the order of the inventory.
        exit_code: OK: all that was confirmed was done, or shown; UNFINISHED: some was not confirmed; REFUSED:
            some are unknown, or must not be touched; DEVICES_FAILED: some did not get to the end.
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
    """Delete images older than what runs, which nothing on the device names, and which this journal did not stage.

    Args:
        nornir: The devices, with credentials.
        request: What is asked for.
        confirm: Returns of a device whether all that was found there is to be deleted; called for one after the other.
        state: Folder of journal and history, read only; None: where the command line has them.
        emit: Takes events; called from several threads.
        interrupted: Whether the caller wants to stop: the file under way is ended, no other is started.

    Returns:
        What became of each device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory is wrong, or the journal cannot be read.
    """
    from flashferry.run.clean import Cleaning, clean_fleet
    from flashferry.store.leases import leases
    from flashferry.store.staged import last_staged

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
