"""Check each device of a plan, read-only, and choose its image. No server is started and no journal is written."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task
from nornir.plugins.runners import ThreadedRunner

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.devices.connection import session_of
from flashferry.devices.errors import Interrupted
from flashferry.devices.identity import identity_of
from flashferry.devices.session import DeviceSession
from flashferry.images.image_platform_match import ImageFit
from flashferry.model.doubts import Doubted
from flashferry.model.fleet_plan import Action, PlannedDevice
from flashferry.model.link_rates import LinkRate, LinkRates
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event
from flashferry.planning.image_hasher import ImageHasher
from flashferry.planning.inspection import CheckRecord, inspect_device, others_of
from flashferry.store.leases import Lease
from inventory.host_view import HostView, view
from inventory.image_rules import ImageChoice, ImageRules, Traits
from tasks.add import NOTHING_TO_ADD_TO, without_add
from tasks.check import CheckReport, TargetImage
from tasks.fetch_check import Ceiling, trusting
from tasks.software_state import Mode, mode_of
from templates.version import parse_version


class Found(Struct, frozen=True, kw_only=True):
    """Result of a device's check.

    Attributes:
        planned: Image, action and reason; no wave and no time yet.
        view: The device in the inventory.
        platform: Name of its platform; None if unreachable.
        target: Its image; None for none.
        link_rate: Rate of its link; None if unknown.
        fit: Match of image and device; None if unreachable.
        ceilings: Highest rate by each allowed transport; empty if unreachable.
        other_members: Number of other switches or supervisors.
        is_added: Whether `install add` follows, by its rule and boot mode.
    """

    planned: PlannedDevice
    view: HostView
    platform: str | None = None
    target: TargetImage | None = None
    link_rate: LinkRate | None = None
    fit: ImageFit | None = None
    ceilings: tuple[Ceiling, ...] = ()
    other_members: int = 0
    is_added: bool = False


class Inspection(Struct, frozen=True, kw_only=True):
    """What the checks of all devices share.

    Attributes:
        rules: The image rules.
        everyone: Image for all devices without an explicit one, instead of rules; or None.
        hasher: The image files.
        links: Rates of the links.
        held: Devices held by runs.
        doubted: Doubts about devices' own statements.
        logins: Concurrent logins.
        adds: Whether all devices add their image, not only those whose rule requests it.
        emit: Receives events.
        interrupted: Returns whether the operator stops the command.
    """

    rules: ImageRules
    everyone: ImageChoice | None
    hasher: ImageHasher
    links: LinkRates
    held: tuple[Lease, ...]
    doubted: Doubted
    logins: int
    adds: bool
    emit: Emit
    interrupted: Callable[[], bool]

    def choose(self, traits: Traits, explicit: str | None) -> ImageChoice:
        """Return the image of a device: its explicit one, else the one for all, else by the rules."""
        found = self.everyone if explicit is None else None
        found = found or self.rules.choose(traits, explicit=explicit)
        return replace(found, adds=found.adds or self.adds)

    def is_over(self) -> bool:
        """Return whether no further device needs a check."""
        return self.hasher.error is not None or self.interrupted()


def gather(nornir: Nornir, inspection: Inspection) -> tuple[Found, ...]:
    """Check every device; return the results in the order of the inventory. A device's error is in its result.

    Raises:
        ConfigInvalid: The inventory or an image is invalid.
    """
    views = {name: view(host) for name, host in nornir.inventory.hosts.items()}
    started = time.monotonic()

    def one(task: Task) -> Result:
        found = _found(task, views[task.host.name], inspection)
        task.host.close_connections()
        outcome = _ENDS.get(found.planned.action)
        inspection.emit(
            Event(
                host=found.planned.host,
                step="plan",
                status="failed" if outcome is not None else "done",
                text=found.planned.reason,
                at_s=time.monotonic() - started,
                outcome=outcome,
            )
        )
        return Result(host=task.host, result=found)

    results = nornir.with_runner(ThreadedRunner(num_workers=inspection.logins)).run(task=one, name="plan")
    if inspection.hasher.error is not None:
        raise inspection.hasher.error
    return tuple(results[name][0].result for name in views)


def _found(task: Task, device: HostView, inspection: Inspection) -> Found:
    base = PlannedDevice(
        host=device.name,
        address=device.address,
        site=device.site,
        group=device.groups[0] if device.groups else None,
        action=Action.UNREACHABLE,
    )
    traits: Traits | None = None
    try:
        if inspection.is_over():
            raise Interrupted("stopped by the operator before this device", host=device.name, step="check")
        session = session_of(task)
        traits = traits_of(session)
        choice = _chosen(inspection, traits, device)
        target = inspection.hasher.target(inspection.hasher.find(choice))
    except _NoImage as missing:
        return _without_image(base, device, traits, missing)
    except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' plan
        return Found(planned=_failed(base, failure_of("check", error)), view=device)
    its = replace(target, adds=choice.adds)
    seen = inspect_device(task, its, inspection.is_over, held=inspection.held, doubted=inspection.doubted)
    link = inspection.links.of(device, session.peer_address)
    planned = _planned(base, seen, target, choice)
    check = seen.check
    found = Found(
        planned=planned,
        view=device,
        platform=traits.platform,
        target=target,
        link_rate=link,
        fit=check.image if check is not None else None,
        ceilings=trusting(check.ceilings, check.trustpoints) if check is not None else (),
    )
    return _with_finish(found, session, check) if check is not None and planned.action is Action.STAGE else found


def _with_finish(found: Found, session: DeviceSession, check: CheckReport) -> Found:
    """Add what the device does after its restore; an error of that check is ignored."""
    planned, boots_packages = found.planned, mode_of(check.version) is Mode.INSTALL
    notes, others = planned.notes, 0
    try:
        others = others_of(session, check)
    except FlashferryError as error:
        notes = (*notes, f"whether the image goes to another supervisor, too, could not be checked: {error.message}")
    # The check reports an older train.
    older = without_add(check.version, f"{check.file_system}{planned.image}")
    if planned.adds and not boots_packages and older is None:
        notes = (*notes, NOTHING_TO_ADD_TO)
    return replace(
        found,
        planned=replace(planned, other_places=0 if boots_packages else others, notes=notes),
        other_members=others,
        is_added=planned.adds and boots_packages and older is None,
    )


class _NoImage(Exception):
    """No rule gives the device an image, or its rule keeps the present one."""

    def __init__(self, reason: ConfigInvalid, action: Action) -> None:
        super().__init__(reason)
        self.reason = reason
        self.action = action


def _chosen(inspection: Inspection, traits: Traits, device: HostView) -> ImageChoice:
    try:
        return inspection.choose(traits, device.image)
    except ConfigInvalid as error:
        action = Action.STAYS if _stays(inspection.rules, traits) else Action.REFUSED
        raise _NoImage(error, action) from None


def _stays(rules: ImageRules, traits: Traits) -> bool:
    """Return whether the rule for a device keeps its present image."""
    try:
        return next((rule.image is None for rule in rules.rules if rule.fits(traits)), False)
    except ConfigInvalid:
        return False


def traits_of(session: DeviceSession) -> Traits:
    """Return what image rules match on; sends `show version`."""
    version = parse_version(session.show_version())
    return Traits(platform=session.platform.name, model=session.facts().model, version=version.release)


def _without_image(base: PlannedDevice, device: HostView, traits: Traits | None, found: _NoImage) -> Found:
    planned = replace(
        base,
        action=found.action,
        reason=found.reason.message,
        hint=found.reason.hint,
        model=traits.model if traits else None,
        version=traits.version if traits else None,
    )
    return Found(planned=planned, view=device, platform=traits.platform if traits else None)


def _failed(base: PlannedDevice, failure: Failure) -> PlannedDevice:
    return replace(base, action=Action.UNREACHABLE, reason=failure.reason, hint=failure.hint, cause=failure.cause)


_ENDS = {Action.REFUSED: Outcome.REFUSED.value, Action.UNREACHABLE: Outcome.FAILED.value}
"""Outcome of a device that a plan cannot stage."""

_ACTIONS = {
    Outcome.DONE: Action.STAGE,
    Outcome.ALREADY_THERE: Action.ALREADY_THERE,
    Outcome.REFUSED: Action.REFUSED,
}


def _planned(base: PlannedDevice, seen: CheckRecord, target: TargetImage, choice: ImageChoice) -> PlannedDevice:
    check: CheckReport | None = seen.check
    named = replace(base, image=target.image.name, image_reason=choice.reason, adds=choice.adds)
    if check is None:
        assert seen.failure is not None, "a device that was not seen has a reason"
        return _failed(named, seen.failure)
    return replace(
        named,
        identity=identity_of(check.facts),
        model=check.facts.model,
        version=check.version.release,
        rtt_s=check.rtt_s,
        file_system=check.file_system,
        action=_ACTIONS.get(seen.outcome, Action.UNREACHABLE),
        reason=seen.failure.reason if seen.failure else "",
        hint=seen.failure.hint if seen.failure else None,
        notes=check.notes,
    )
