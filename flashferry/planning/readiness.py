"""Check read-only whether each device of an inventory is ready to boot its image."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field
from nornir.core import Nornir
from nornir.core.task import Result, Task
from nornir.plugins.runners import ThreadedRunner

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.devices.connection import recent_of, session_of
from flashferry.devices.errors import Interrupted, Stopped
from flashferry.devices.identity import identity_of, member_serials
from flashferry.devices.session import DeviceSession
from flashferry.images.file_name import release_of_image
from flashferry.images.image import Image, PlannedImage
from flashferry.model.doubts import Doubted, doubts_about
from flashferry.model.fleet_plan import Action, FleetPlan
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.planning.gather import traits_of
from flashferry.planning.image_hasher import ImageHasher
from flashferry.planning.local_images import target_image
from flashferry.store.leases import Lease, lease_by_name, lease_on
from flashferry.store.staged import Staged
from inventory.host_view import HostView, view
from inventory.image_rules import ImageChoice, ImageRules
from tasks.check import TargetImage
from tasks.readiness.check import STEP, check_readiness
from tasks.readiness.values import Met, Readiness, Verdict

_AT_A_TIME = 100
"""Devices checked at the same time; nearly all of the time is waiting."""


class ReadyRecord(Struct, frozen=True, kw_only=True):
    """Readiness of one device.

    Attributes:
        site: Its site; None for none.
        outcome: DONE: ready; ALREADY_THERE: it runs the image; REFUSED: not ready, or unknown; FAILED, ERROR or
            INTERRUPTED: not checked.
        readiness: The result with all conditions; None if not checked.
        failure: Why it was not checked; None if it was.
        staged_by: The run that staged the image, by this journal; None for none.
        since: Changes since then, one sentence each.
        seconds: Duration of the check.
    """

    host: str
    site: str | None = None
    outcome: Outcome
    readiness: Readiness | None = None
    failure: Failure | None = None
    staged_by: str | None = None
    since: tuple[str, ...] = ()
    seconds: float = 0.0


Chooser = Callable[[HostView, DeviceSession], TargetImage]
"""Choose which image a device is to boot.

Raises ConfigInvalid where none is named for it.
"""


class Asking(Struct, frozen=True, kw_only=True):
    """What the checks of all devices share.

    Attributes:
        choose: Chooses each device's image.
        held: Devices held by runs.
        doubted: Doubts about devices' own statements.
        staged: State of devices when they were staged, by host and image.
        hash_speeds: Hashing speeds in bytes/s, by host.
        signature: Whether devices also verify the vendor's signature.
        at_a_time: Devices checked at the same time, >= 1.
    """

    choose: Chooser
    held: tuple[Lease, ...] = ()
    doubted: Doubted = field(default_factory=dict)
    staged: Mapping[tuple[str, str], Staged]
    hash_speeds: Mapping[str, float]
    signature: bool = True
    at_a_time: int = _AT_A_TIME


def ready_fleet(
    nornir: Nornir,
    asking: Asking,
    *,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[ReadyRecord, ...]:
    """Return a ReadyRecord per device, in the order of the inventory; a device's error is in its record.

    Args:
        nornir: The devices, with credentials.
        asking: What to check.
        emit: Receives events, from several threads.
        interrupted: Returns whether the operator stops the command.

    Raises:
        ConfigInvalid: The inventory is invalid.
    """
    views = {name: view(host) for name, host in nornir.inventory.hosts.items()}
    started = time.monotonic()
    emit = never_failing(emit)

    def one(task: Task) -> Result:
        began = time.monotonic()
        record = _looked(task, views[task.host.name], asking, interrupted, began)
        task.host.close_connections()
        text = record.failure.reason if record.failure else ""
        status = "failed" if record.failure else "done"
        at_s, outcome = time.monotonic() - started, record.outcome.value
        emit(Event(host=task.host.name, step=STEP, status=status, text=text, at_s=at_s, outcome=outcome))
        return Result(host=task.host, result=record)

    results = nornir.with_runner(ThreadedRunner(num_workers=asking.at_a_time)).run(task=one, name="ready")
    return tuple(results[name][0].result for name in views)


def _looked(
    task: Task, device: HostView, asking: Asking, interrupted: Callable[[], bool], began_s: float
) -> ReadyRecord:
    try:
        if interrupted():
            raise Interrupted("stopped by the operator before this device", host=device.name, step=STEP)
        session = session_of(task)
        target = asking.choose(device, session)
        staged = asking.staged.get((device.name, target.image.name))
        lease = lease_by_name(asking.held, device) or _lease_on(session, asking.held)
        image, facts = target.image.name, session.facts()
        doubts = doubts_about(asking.doubted, device.name, identity_of(facts), image)
        found = check_readiness(
            session,
            target,
            signature=asking.signature,
            owed=lease.refusal(device.name).message if lease is not None else None,
            false_copy=doubts.of_hash,
            failed_add=doubts.of_add,
            expected_members=staged.members if staged is not None and staged.members else None,
            known_bytes_per_s=asking.hash_speeds.get(device.name),
            interrupted=interrupted,
        )
        since = since_staging(staged, found, facts.serial_number) if staged is not None else ()
    except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' look
        outcome = Outcome.FAILED if isinstance(error, FlashferryError) else Outcome.ERROR
        if isinstance(error, Stopped):
            outcome = Outcome.INTERRUPTED
        failure = failure_of(STEP, error, recent_of(task).lines())
        return ReadyRecord(
            host=device.name, site=device.site, outcome=outcome, failure=failure, seconds=time.monotonic() - began_s
        )
    return ReadyRecord(
        host=device.name,
        site=device.site,
        outcome=_OUTCOMES[found.verdict],
        readiness=found,
        staged_by=staged.run_id if staged is not None else None,
        since=since,
        seconds=time.monotonic() - began_s,
    )


_FINE = frozenset({Met.MET.value, Met.DOES_NOT_APPLY.value})
"""Changes between these are none, for example if the run did not check the signature."""

_TAKES_PART = frozenset({Action.STAGE, Action.ALREADY_THERE})
"""Actions of devices that will have the plan's images."""

_OUTCOMES = {
    Verdict.YES: Outcome.DONE,
    Verdict.RUNS_IT: Outcome.ALREADY_THERE,
    Verdict.NO: Outcome.REFUSED,
    Verdict.UNKNOWN: Outcome.REFUSED,
}


def _lease_on(session: DeviceSession, held: tuple[Lease, ...]) -> Lease | None:
    return lease_on(held, session.facts(), member_serials(session.show_version())) if held else None


def since_staging(staged: Staged, found: Readiness, serial_number: str) -> tuple[str, ...]:
    """Return what changed on a device since an image was staged, one sentence each.

    Args:
        staged: Its state then.
        found: Its state now.
        serial_number: Its serial number now.
    """
    changes = []
    if staged.serial_number and serial_number and staged.serial_number != serial_number:
        changes.append(f"another device answers: serial number {serial_number}, it was {staged.serial_number}")
    if staged.release and found.running and staged.release != found.running:
        changes.append(f"it runs {found.running}, it ran {staged.release}")
    if staged.members and found.members and staged.members != found.members:
        then, now = (", ".join(map(str, numbers)) for numbers in (staged.members, found.members))
        changes.append(f"its members are {now}, they were {then}")
    was = {(name, place): met for name, place, met in staged.conditions}
    for one in found.conditions:
        before = was.get((one.name.value, one.place))
        if before is not None and before != one.met.value and not {before, one.met.value} <= _FINE:
            at = f" ({one.place})" if one.place else ""
            changes.append(f"{one.name.value}{at}: {one.met.value} now, {before} then: {one.sentence}")
    return tuple(changes)


def by_rules(rules: ImageRules, everyone: ImageChoice | None, hasher: ImageHasher) -> Chooser:
    """Return a chooser by an image for all, the inventory's image of a device, or the rules.

    Args:
        rules: The image rules.
        everyone: Image for all devices without an explicit one, instead of rules; or None.
        hasher: The image files.
    """

    def choose(device: HostView, session: DeviceSession) -> TargetImage:
        choice = everyone
        if device.image is not None or choice is None:
            choice = rules.choose(traits_of(session), explicit=device.image)
        return hasher.target(hasher.find(choice))

    return choose


def by_plan(images: Mapping[str, TargetImage]) -> Chooser:
    """Return a chooser by the images of a plan, with the plan's own digests."""

    def choose(device: HostView, _: DeviceSession) -> TargetImage:
        target = images.get(device.name)
        if target is None:
            raise ConfigInvalid(f"the plan has no image for {device.name}", hint="Make a new plan")
        return target

    return choose


def planned_images(plan: FleetPlan) -> dict[str, TargetImage]:
    """Return the images of a plan by host."""
    known = {one.name: planned_image(one) for one in plan.images}
    return {
        device.host: image
        for device in plan.devices
        if device.action in _TAKES_PART and device.image and (image := known.get(device.image)) is not None
    }


def planned_image(planned: PlannedImage) -> TargetImage:
    """Return an image of a plan; if its name has no release, the release is read from the unchanged file."""
    image = Image(name=planned.name, size_bytes=planned.size_bytes, md5=planned.md5, sha512=planned.sha512)
    if release_of_image(image.name) is not None:
        return TargetImage(image=image)
    try:
        found = target_image(Path(planned.path))
    except ConfigInvalid:
        return TargetImage(image=image)
    return TargetImage(image=image, inside=found.inside if found.image.sha512 == image.sha512 else None)
